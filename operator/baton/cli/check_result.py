"""What a check of `baton doctor` answers: what is wrong, and its cure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Of one finding. Only Failed makes the command end with 1."""

    OK = "OK"
    UNKNOWN = "Unknown"
    WARNING = "Warning"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One answer of a check."""

    verdict: Verdict
    about: str
    says: str
    cure: str = ""

    def to_json(self) -> Mapping[str, str]:
        """For programs."""
        return {"verdict": self.verdict.value, "about": self.about, "says": self.says, "cure": self.cure}


def unread(why: str, about: str, what: str) -> CheckResult:
    """Of what whoever asks may not read."""
    says = f"{what}{' of all namespaces ' if what else ''}may not be read: {why}"
    return CheckResult(Verdict.UNKNOWN, about, says, "ask somebody who may, to run this command")
