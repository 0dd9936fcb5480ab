"""Check from records of processed messages whether each message of a key was processed, once and in order."""

from baton.order.checker import OrderChecker, OrderViolation, Processing, Report
from baton.order.lines import RecordError, in_order_of_time, processings, produced

__all__ = [
    "OrderChecker",
    "OrderViolation",
    "Processing",
    "RecordError",
    "Report",
    "in_order_of_time",
    "processings",
    "produced",
]
