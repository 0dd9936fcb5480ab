"""Problems of a group or a queue: a reason for programs, and a sentence with the cure for people. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from baton.engine.step import TooLarge
from baton.kube.errors import ApiError, ConflictError, TooLargeError, UnavailableError
from baton.kube.ledger_configmap import ForeignConfigMap, LedgerOwner
from baton.model.wording import one_line


class Reason(StrEnum):
    """Reasons of the conditions, the most informative problem first, because the condition Ready has only one reason.
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
    DEADLINE_MISSED = "DeadlineMissed"
    HOLDDOWN = "Holddown"
    WAITING_FOR_APPROVAL = "WaitingForApproval"
    NOTHING_PROPOSED = "NothingProposed"
    ENFORCED = "Enforced"
    NOT_ENFORCED = "NotEnforced"
    PERSISTENT = "Persistent"
    AT_RISK = "AtRisk"
    RESIZED = "Resized"
    RESIZING = "Resizing"


JOINED = "; and "
"""Between the sentences of one event."""


class EventReason(StrEnum):
    """Reasons of events. A group also has events with the reasons of its Ready condition. docs/reference/events.md explains each
    of them."""

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
    """One problem."""

    reason: Reason
    message: str
    expected: bool = False
    """The problem usually goes away by itself, as while pods start. Its event is not a warning."""


def worst(problems: list[Problem]) -> Problem | None:
    """Return the most informative problem, with the sentences of all problems of its kind."""
    if not problems:
        return None
    first = min(problems, key=lambda problem: list(Reason).index(problem.reason))
    alike = [problem for problem in problems if problem.reason is first.reason]
    sentences = sorted({problem.message for problem in alike})
    return Problem(first.reason, "; ".join(sentences), all(problem.expected for problem in alike))


PASSING = 5.0
"""Seconds for which a failure that usually passes is not reported."""

LONGEST_WORDS = 500
"""Most characters of a server's or an exception's message."""


class Stuck(Exception):  # noqa: N818 -- how the group is, in the user's words
    """The group cannot go on until a refused request succeeds. Raised from the refusal."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


_TOO_LARGE = "too large|larger than max|Too long"
_RAISE_LIMIT = "raise the limit (etcd's --max-request-bytes, or that of a proxy before the API server)"
_CURES = {
    "exceeded quota": "raise the ResourceQuota that it names, or delete what uses it up",
    "being terminated": "nothing can be done: the namespace is being deleted",
    "denied (the )?request": "let the webhook or policy that it names pass {what}",
    "webhook": "start what the webhook calls, or let it pass {what}",
    r"User .* cannot": "give the operator the right that it names (the chart's RBAC has it)",
    _TOO_LARGE: f"make the object smaller, or {_RAISE_LIMIT}",
}
"""The cure by a pattern of the API server's message; the first that matches."""

_LEDGER_CURES = {
    **_CURES,
    "field is immutable": "delete {what}, which was made immutable: it is written again at once, with the same content; then "
    "replace the group's pods, because a kubelet never reads an immutable ConfigMap again",
    _TOO_LARGE: "use fewer partitions or members per group, remove what others added to {what} (finalizers), or "
    f"{_RAISE_LIMIT}",
}

_ELSE = "see this message and the API server's log"


def is_gone(error: Exception) -> bool:
    """True if nothing can be created in the namespace any more."""
    return isinstance(error, ApiError) and ("NamespaceTerminating" in error.causes or error.status == 404)


def may_pass(error: Exception) -> bool:
    """True if a retry may succeed without any change."""
    cause = error.__cause__ if isinstance(error, Stuck) else error
    return isinstance(cause, UnavailableError | ConflictError)


def ledger_refused(owner: LedgerOwner, error: Exception) -> Problem:
    """Return the problem of a ledger that cannot be written."""
    if isinstance(error, ForeignConfigMap):
        return Problem(Reason.LEDGER_NAME_TAKEN, f"{error}. Until then no partition moves")
    what = f"ConfigMap {owner.namespace}/{owner.name}, the group's ledger, cannot be written"
    cure = _cure(error, _LEDGER_CURES, f"ConfigMap {owner.name}")
    return Problem(
        Reason.SIZE_LIMIT if isinstance(error, TooLargeError) else Reason.LEDGER_REFUSED,
        f"{what} ({one_line(str(error), LONGEST_WORDS)}): {cure}. Until then no partition moves, and owners keep their "
        "partitions; the operator tries again every few seconds",
    )


def ledger_problems(
    owner: LedgerOwner, refusal: Exception | None, lasted: float, held_back: TooLarge | None, *, at_once: bool = False
) -> list[Problem]:
    """Return the problems of the ledger. `refusal`: why it has not been written for `lasted` seconds; `held_back`: why plans
    wait. `at_once`: include a refusal that may pass in a moment."""
    passes = not at_once and refusal is not None and may_pass(refusal) and lasted < PASSING
    problems = [] if refusal is None or passes else [ledger_refused(owner, refusal)]
    return problems if held_back is None else [*problems, too_large(held_back)]


def request_refused(what: str, error: Exception) -> Problem:
    """Return the problem of any other refused request. `what`: such as "the finalizer x cannot be put on the group"."""
    return Problem(
        Reason.API_REFUSED,
        f"{what} ({one_line(str(error), LONGEST_WORDS)}): {_cure(error, _CURES, 'the request')}. Until then no partition "
        "moves; the operator tries again every few seconds",
    )


def failed(error: BaseException) -> Problem:
    """Return the problem of an unexpected exception, without its message, which may have a secret."""
    return Problem(
        Reason.UNEXPECTED_ERROR,
        f"the operator failed at this group ({one_line(type(error).__name__, LONGEST_WORDS)}; its log has the traceback): this "
        "is a bug in Baton or in a custom assignor. Undo the last change of the group, its queues or its pods, and report the "
        "bug. Until then no partition moves, and owners keep their partitions; the operator tries again every half minute",
    )


def too_large(error: TooLarge) -> Problem:
    """Return the problem of a ledger that would not fit into a ConfigMap."""
    return Problem(
        Reason.SIZE_LIMIT,
        f"{error}: no plan is made until it fits; hand-offs in flight end, and everything else stays as it is. Use fewer "
        "partitions or members per group, or an assignor that keeps a member's partitions together (range, contiguous)",
    )


def problem_of(error: BaseException) -> Problem:
    """Return the problem of any exception of a group's loop."""
    match error:
        case Stuck():
            return error.problem
        case ApiError() | UnavailableError():
            return request_refused("the API server does not do what the operator needs for this group", error)
        case _:
            return failed(error)


def _cure(error: Exception, cures: Mapping[str, str], what: str) -> str:
    words = str(error)[: 8 * LONGEST_WORDS]
    found = (cure for pattern, cure in cures.items() if re.search(pattern, words, re.IGNORECASE))
    return next(found, _ELSE).format(what=what)
