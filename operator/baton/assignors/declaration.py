"""The declaration of an assignor: its name, function, source, options, and the traits that the engine relies on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from baton.assignors.building_blocks.queue_by_queue import Deal
from baton.assignors.request import Assignor, Request


@dataclass(frozen=True, slots=True)
class Traits:
    """The properties that the engine relies on. It asks for a trait and never for a name. An installed assignor has none.

    `docs/concepts/assignors.md` has a row for each field, with its source.
    """

    balances: bool = False
    """An answer is a balance: even totals first, then each queue. So the engine can tell by counting whether partitions must
    move. Source: Solace checks the balance before it hands off."""
    gives_up_highest: bool = False
    """A member gives up its highest numbers first. So the engine numbers the partitions last that already change hands, and they
    go on. Source: Baton, for Solace names no order."""
    leaves_out: Callable[[Mapping[str, object], frozenset[str]], bool] | None = None
    """Whether a partition with replicas in these zones goes to nobody, with these options. So the engine waits for no owner of
    it. None: every partition goes to somebody. Source: RocketMQ's AllocateMessageQueueByMachineRoom."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of an assignor."""

    kind: Any
    """The type of its value, for pydantic, which reads it as the function takes it."""
    missing: str = ""
    """Why a request without it is refused. Empty: it may be left out."""


def _no_options(_: object) -> Mapping[str, Option]:
    return {}


def _no_needs(_: Request) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One assignor. Its module holds the declaration, and the registry lists it."""

    name: str
    """As in `spec.assignors`."""
    assign: Assignor
    source: str
    """Whose algorithm it is."""
    good_at: str
    costs: str = ""
    """Both are Markdown, for `docs/concepts/assignors.md`."""
    traits: Traits = Traits()
    deal: Callable[[Request], Deal] | None = None
    """How it deals out one queue, by the request's options and zones. None: it looks at all queues together."""
    options: Callable[[Mapping[str, object]], Mapping[str, Option]] = _no_options
    """The options that there are, by name, given those of the request. Raises RequestError."""
    check: Callable[[Request], None] = _no_needs
    """Refuses a request that lacks what the assignor must know. Raises RequestError."""
