"""What may become of a request on its way."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refuse:
    """The server (or what stands before it) refuses: 403, 404, 409, 410, 422, 429, 5xx."""

    status: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Hang:
    """It never arrives, and there is no answer."""


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """It is carried out; the connection breaks before the answer, or never brings one (`hang`)."""

    hang: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """The request arrives some seconds later, and the answer some seconds after that."""

    there: float = 0.0
    back: float = 0.0


Fault = Refuse | Hang | LoseAnswer | Delay
Trouble = Callable[[str, str], Fault | None]
"""Of a verb (as rules of access name it) and a path."""


def no_trouble(verb: str, path: str) -> None:
    """All goes well."""
    return
