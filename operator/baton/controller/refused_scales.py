"""What is said where a workload's size can be neither read nor written."""

from baton.controller.problems import Problem, Reason
from baton.kube.errors import FORBIDDEN
from baton.kube.scale import ScaleError


def refused_scale(error: Exception, what: str) -> Problem:
    """`what`: the sentence about what could not be done, unless the error says it."""
    if isinstance(error, ScaleError):
        return Problem(Reason.SCALE_FAILED, str(error))
    cure = "; is its kind among the chart's value rbac.scaleTargets?" if getattr(error, "status", None) == FORBIDDEN else ""
    return Problem(Reason.SCALE_FAILED, f"spec.scale: {what}: {error}{cure}")
