"""What can be wrong with a group or a queue: a reason for machines, and a sentence with the cure for people. Pure."""

import re
from dataclasses import dataclass
from enum import StrEnum

from baton.engine.step import TooLarge
from baton.kube.errors import ApiError, ConflictError, TooLargeError, UnavailableError
from baton.kube.ledger_configmap import ForeignConfigMap, LedgerOwner
from baton.model.wording import one_line


class Reason(StrEnum):
    """Reasons of the conditions, the most telling problem first: the Ready condition has room for one.
    docs/reference/conditions.md explains each of them."""

    DELETING = "Deleting"
    LEDGER_NAME_TAKEN = "LedgerNameTaken"
    LEDGER_REFUSED = "LedgerRefused"
    API_REFUSED = "ApiRefused"
    UNEXPECTED_ERROR = "UnexpectedError"
    PLAN_OVERDUE = "PlanOverdue"
    INVALID_SPEC = "InvalidSpec"
    NOT_SEEN = "NotSeen"
    QUEUE_NOT_FOUND = "QueueNotFound"
    CONFLICT = "Conflict"
    UNKNOWN_ASSIGNOR = "UnknownAssignor"
    INVALID_ASSIGNMENT = "InvalidAssignment"
    QUEUE_UNREACHABLE = "QueueUnreachable"
    SIZE_LIMIT = "SizeLimit"
    OPERATOR_FULL = "OperatorFull"
    SCALE_FAILED = "ScaleFailed"
    INVALID_ATTRIBUTES = "InvalidAttributes"
    MISSING_RIGHTS = "MissingRights"
    NO_MEMBERS = "NoMembers"
    MEMBER_CUT_OFF = "MemberCutOff"
    QUERY_FAILED = "QueryFailed"
    NO_SESSION = "NoSession"
    BAD_ANNOTATION = "BadAnnotation"
    NO_IDENTITY = "NoIdentity"
    PROBLEM = "Problem"
    WAITING_FOR_QUEUE = "WaitingForQueue"
    READY = "Ready"
    REACHABLE = "Reachable"
    UNUSED = "Unused"
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


class EventReason(StrEnum):
    """Reasons of events; besides these, a group has events with the reasons of its Ready condition. docs/reference/events.md says
    of each what it means."""

    HOLDDOWN = "Holddown"
    READY = "Ready"
    PAUSED = "Paused"
    REVOKING = "Revoking"
    REDIRECTED = "Redirected"
    RELEASED = "Released"
    GONE = "Gone"
    DEADLINE_MISSED = "DeadlineMissed"
    GRANTED = "Granted"
    STANDS_BY = "StandsBy"
    FENCED = "Fenced"
    PROPOSED = "Proposed"
    APPROVED = "Approved"
    APPROVAL_REFUSED = "ApprovalRefused"
    WITHDRAWN = "Withdrawn"
    SCALED = "Scaled"
    REPLICAS_SET = "ReplicasSet"
    RESIZING = "Resizing"
    RESIZED = "Resized"
    RECOVERED = "Recovered"
    LEDGER_RESTORED = "LedgerRestored"
    LEDGER_REBUILT = "LedgerRebuilt"
    OWNERS_RESTORED = "OwnersRestored"
    NOT_RELEASED = "NotReleased"
    SERVED_ELSEWHERE = "ServedElsewhere"
    NO_SUCH_GROUP = "NoSuchGroup"
    NAME_TAKEN = "NameTaken"
    BAD_ANNOTATION = "BadAnnotation"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    reason: Reason
    message: str
    expected: bool = False
    """It goes away by itself where all is well, as of pods that start: an event of it is no warning."""


def worst(problems: list[Problem]) -> Problem | None:
    """The most telling problem, with the sentences of all of its kind."""
    if not problems:
        return None
    first = min(problems, key=lambda problem: list(Reason).index(problem.reason))
    alike = [problem for problem in problems if problem.reason is first.reason]
    sentences = sorted({problem.message for problem in alike})
    return Problem(first.reason, "; ".join(sentences), all(problem.expected for problem in alike))


PASSING = 5.0
"""Seconds for which something may fail that usually works again in a moment, before it is said."""

LONGEST_WORDS = 500
"""Characters of what a server or an exception says."""


class Stuck(Exception):  # noqa: N818 -- how the group is, in the user's words
    """The group cannot go on before something that was refused is done. It was raised from that refusal."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


_CURES = {
    "exceeded quota": "raise the ResourceQuota that it names, or delete what uses it up",
    "being terminated": "there is nothing to be done: the namespace is being deleted",
    "denied (the )?request": "let the webhook or policy that it names pass ConfigMap {name}",
    "webhook": "start what the webhook calls, or let it pass ConfigMap {name}",
    r"User .* cannot": "give the operator the right that it names (the chart's RBAC has it)",
    "field is immutable": "delete ConfigMap {name}, which was made immutable: it is written again at once, with all that it "
    "says; then replace the group's pods, for no kubelet reads it again for pods that have mounted an immutable one",
    "too large|larger than max|Too long": "use fewer partitions or members per group, take off what others put on ConfigMap "
    "{name} (finalizers), or raise the limit (etcd's --max-request-bytes, or that of a proxy before the API server)",
}
"""By the words that match; the first that does."""

_ELSE = "see what the API server says there, and its log"


def is_gone(error: Exception) -> bool:
    """Nothing can be created in the namespace any more."""
    return isinstance(error, ApiError) and ("NamespaceTerminating" in error.causes or error.status == 404)


def may_pass(error: Exception) -> bool:
    """True if a retry may succeed without any change."""
    cause = error.__cause__ if isinstance(error, Stuck) else error
    return isinstance(cause, UnavailableError | ConflictError)


def ledger_refused(owner: LedgerOwner, error: Exception) -> Problem:
    """The ledger cannot be written."""
    if isinstance(error, ForeignConfigMap):
        return Problem(Reason.LEDGER_NAME_TAKEN, f"{error}. Until then nothing is moved")
    what = f"ConfigMap {owner.namespace}/{owner.name}, the group's ledger, cannot be written"
    return Problem(
        Reason.SIZE_LIMIT if isinstance(error, TooLargeError) else Reason.LEDGER_REFUSED,
        f"{what} ({one_line(str(error), LONGEST_WORDS)}): {_cure(error, owner.name)}. Until then nothing is moved, and who owns "
        "what stays as it is; it is tried again every few seconds",
    )


def ledger_problems(
    owner: LedgerOwner, refusal: Exception | None, lasted: float, held_back: TooLarge | None, *, at_once: bool = False
) -> list[Problem]:
    """What is wrong with the ledger. `refusal`: why it was not written, for `lasted` seconds; `held_back`: why plans wait.
    `at_once`: also what may well pass in a moment."""
    passes = not at_once and refusal is not None and may_pass(refusal) and lasted < PASSING
    problems = [] if refusal is None or passes else [ledger_refused(owner, refusal)]
    return problems if held_back is None else [*problems, too_large(held_back)]


def request_refused(what: str, error: Exception) -> Problem:
    """Something else that the API server is asked for: `what`, such as "the finalizer x cannot be put on the group"."""
    return Problem(
        Reason.API_REFUSED,
        f"{what} ({one_line(str(error), LONGEST_WORDS)}): {_cure(error, 'and group')}. Until then nothing is moved; it is tried "
        "again every few seconds",
    )


def failed(error: BaseException) -> Problem:
    """An unexpected exception. Its words stay in the log, since they may be a secret."""
    return Problem(
        Reason.UNEXPECTED_ERROR,
        f"the operator failed at this group ({one_line(type(error).__name__, LONGEST_WORDS)}; its log has the traceback): it is "
        "a mistake in Baton, or in an assignor of your own. Undo what was changed last of the group, its queues or its pods, and "
        "report it. Until then nothing is moved, and who owns what stays as it is; it is tried again every half minute",
    )


def too_large(error: TooLarge) -> Problem:
    """The ledger would not fit into a ConfigMap."""
    return Problem(
        Reason.SIZE_LIMIT,
        f"{error}: no plan is made until it fits, what is in flight comes to its end, and the rest stays as it is; use fewer "
        "partitions or members per group, or an assignor that keeps a member's partitions together (range, contiguous)",
    )


def problem_of(error: BaseException) -> Problem:
    """Of whatever a group's loop met."""
    match error:
        case Stuck():
            return error.problem
        case ApiError() | UnavailableError():
            return request_refused("the API server does not do what the operator needs for this group", error)
        case _:
            return failed(error)


def _cure(error: Exception, name: str) -> str:
    words = str(error)[: 8 * LONGEST_WORDS]
    found = (cure for pattern, cure in _CURES.items() if re.search(pattern, words, re.IGNORECASE))
    return next(found, _ELSE).format(name=name)
