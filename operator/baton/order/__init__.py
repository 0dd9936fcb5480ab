"""Whether every message of a key was processed, once and in order: from records of what was processed, and nothing else."""

from baton.order.checker import OrderChecker
from baton.order.finding import Finding, KeyCounts, OrderViolation, Report
from baton.order.lines import RecordError, in_order_of_time, processings, produced
from baton.order.processing import Processing

__all__ = [
    "Finding",
    "KeyCounts",
    "OrderChecker",
    "OrderViolation",
    "Processing",
    "RecordError",
    "Report",
    "in_order_of_time",
    "processings",
    "produced",
]
