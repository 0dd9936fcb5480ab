"""What can be wrong with a group or a queue: a reason for machines, and a sentence with the cure for people."""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Reasons of the conditions. docs/reference/conditions.md says of each what it means and what to do."""

    READY = "Ready"
    REACHABLE = "Reachable"
    INVALID_SPEC = "InvalidSpec"
    QUEUE_NOT_FOUND = "QueueNotFound"
    QUEUE_UNREACHABLE = "QueueUnreachable"
    WAITING_FOR_QUEUE = "WaitingForQueue"
    CONFLICT = "Conflict"
    UNKNOWN_ASSIGNOR = "UnknownAssignor"
    INVALID_ASSIGNMENT = "InvalidAssignment"
    INVALID_ATTRIBUTES = "InvalidAttributes"
    SIZE_LIMIT = "SizeLimit"
    OPERATOR_FULL = "OperatorFull"
    LEDGER_REFUSED = "LedgerRefused"
    LEDGER_NAME_TAKEN = "LedgerNameTaken"
    API_REFUSED = "ApiRefused"
    UNEXPECTED_ERROR = "UnexpectedError"
    PLAN_OVERDUE = "PlanOverdue"
    BAD_ANNOTATION = "BadAnnotation"
    NO_IDENTITY = "NoIdentity"
    NO_SESSION = "NoSession"
    NO_MEMBERS = "NoMembers"
    MEMBER_CUT_OFF = "MemberCutOff"
    QUERY_FAILED = "QueryFailed"
    MISSING_RIGHTS = "MissingRights"
    NOT_SEEN = "NotSeen"
    SCALE_FAILED = "ScaleFailed"
    DELETING = "Deleting"
    UNUSED = "Unused"
    PROBLEM = "Problem"
    NOT_READY = "NotReady"
    SCALED_TO_ZERO = "ScaledToZero"
    SCALING = "Scaling"
    SETTLED = "Settled"
    PAUSED = "Paused"
    BALANCED = "Balanced"
    UNBALANCED = "Unbalanced"
    STABLE = "Stable"
    HANDING_OFF = "HandingOff"
    HOLDDOWN = "Holddown"
    WAITING_FOR_APPROVAL = "WaitingForApproval"
    NOTHING_PROPOSED = "NothingProposed"
    ENFORCED = "Enforced"
    NOT_ENFORCED = "NotEnforced"
    PERSISTENT = "Persistent"
    AT_RISK = "AtRisk"
    RESIZED = "Resized"
    RESIZING = "Resizing"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    reason: Reason
    message: str

    @property
    def rank(self) -> int:
        """The most telling comes first: the Ready condition has room for one reason."""
        return _RANK.index(self.reason) if self.reason in _RANK else len(_RANK)


_RANK = (
    Reason.DELETING,
    Reason.LEDGER_NAME_TAKEN,
    Reason.LEDGER_REFUSED,
    Reason.API_REFUSED,
    Reason.UNEXPECTED_ERROR,
    Reason.PLAN_OVERDUE,
    Reason.INVALID_SPEC,
    Reason.NOT_SEEN,
    Reason.QUEUE_NOT_FOUND,
    Reason.CONFLICT,
    Reason.UNKNOWN_ASSIGNOR,
    Reason.INVALID_ASSIGNMENT,
    Reason.QUEUE_UNREACHABLE,
    Reason.SIZE_LIMIT,
    Reason.OPERATOR_FULL,
    Reason.SCALE_FAILED,
    Reason.INVALID_ATTRIBUTES,
    Reason.MISSING_RIGHTS,
    Reason.NO_MEMBERS,
    Reason.MEMBER_CUT_OFF,
    Reason.QUERY_FAILED,
    Reason.NO_SESSION,
    Reason.BAD_ANNOTATION,
    Reason.NO_IDENTITY,
    Reason.PROBLEM,
    Reason.WAITING_FOR_QUEUE,
)


def worst(problems: list[Problem]) -> Problem | None:
    """The most telling problem, with the sentences of all of its kind."""
    if not problems:
        return None
    first = min(problems, key=lambda problem: problem.rank)
    sentences = sorted({problem.message for problem in problems if problem.reason is first.reason})
    return Problem(first.reason, "; ".join(sentences))
