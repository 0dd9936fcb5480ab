"""Keys and values as the program wants them, instead of bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from baton.consumer.held import HeldEntry
from baton.consumer.outcome import DeadLetter, Outcome, bounded, said

Deserializer = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class Deserializers:
    """Functions of bytes; None: bytes stay bytes."""

    key: Deserializer | None = None
    value: Deserializer | None = None

    def apply(self, entries: Sequence[HeldEntry]) -> tuple[Sequence[HeldEntry], list[tuple[HeldEntry, Outcome]]]:
        """What can be read, in order; and what cannot, which no other try would make readable."""
        if self.key is None and self.value is None:
            return entries, []
        readable: list[HeldEntry] = []
        hopeless: list[tuple[HeldEntry, Outcome]] = []
        for entry in entries:
            try:
                readable.append(self._applied(entry))
            except Exception as error:
                hopeless.append((entry, DeadLetter(bounded(f"it cannot be read: {said(error)}"))))
        return readable, hopeless

    def _applied(self, entry: HeldEntry) -> HeldEntry:
        key = entry.key if self.key is None else self.key(entry.key)
        value = entry.value if self.value is None else self.value(entry.value)
        return replace(entry, key=key, value=value)
