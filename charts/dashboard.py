"""The dashboard of Grafana that the chart can bring: made here, so that each panel is one line of what it asks."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

_SOURCE = {"type": "prometheus", "uid": "${source}"}
_OF = '{namespace=~"$namespace", group=~"$group"}'
"""The groups that are chosen at the top."""
_LATELY = "[$__rate_interval]"
_COLUMNS, _HEIGHT = 3, 8
_WIDTH = 24 // _COLUMNS
"""Grafana's grid has 24 columns."""


class Panel(NamedTuple):
    title: str
    about: str
    queries: tuple[tuple[str, str], ...]
    """PromQL, and how its series are named."""
    unit: str = "short"


def _quantiles(metric: str, of: str = _OF) -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket{of}{_LATELY})))", name)
        for share, name in ((0.5, "half within"), (0.99, "99 of 100 within"))
    )


def _by_group(expression: str) -> tuple[tuple[str, str], ...]:
    return ((f"sum by (namespace, group) ({expression})", "{{namespace}}/{{group}}"),)


def _since(metric: str) -> str:
    return f"increase({metric}{_OF}{_LATELY})"


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Groups",
        (
            Panel(
                "Not Ready",
                "Groups whose condition Ready is not True, by its reason: docs/reference/conditions.md.",
                ((f"sum by (reason) (1 - baton_group_ready{_OF})", "{{reason}}"),),
            ),
            Panel("Lag", "Entries that are not done yet.", _by_group(f"baton_group_lag{_OF}")),
            Panel(
                "Time to work it off",
                "At the rate of the last minute. If none was processed, the age of the oldest entry.",
                _by_group(f"baton_group_lag_seconds{_OF}"),
                "s",
            ),
            Panel(
                "Members",
                "Pods that may own partitions.",
                ((f"sum by (namespace, group, role) (baton_members{_OF})", "{{namespace}}/{{group}} {{role}}"),),
            ),
            Panel(
                "Partitions by state",
                "Unassigned partitions have no owner.",
                ((f"sum by (state) (baton_partitions{_OF})", "{{state}}"),),
            ),
            Panel(
                "Partitions with the most to do",
                "A single growing partition has a slow owner, or most of the keys.",
                ((f"topk(10, baton_queue_lag{_OF})", "{{group}} {{queue}}/{{partition}}"),),
            ),
        ),
    ),
    (
        "Hand-offs",
        (
            Panel("Moving partitions", "Hand-offs in progress.", _by_group(f"baton_moving_partitions{_OF}")),
            Panel(
                "Moves",
                "Moves, and the fewest that were possible. Ideally the two lines are equal.",
                (
                    (f"sum({_since('baton_moves_total')})", "moves"),
                    (f"sum({_since('baton_moves_lower_bound_total')})", "the least"),
                ),
            ),
            Panel("Pause of a moved partition", "From revoking to granting.", _quantiles("baton_pause_seconds"), "s"),
            Panel("Hold-down", "How long changes waited for the fleet to settle.", _quantiles("baton_holddown_seconds"), "s"),
            Panel(
                "From a ready pod to the ledger",
                "The operator's own share of the time.",
                _quantiles("baton_ready_to_ledger_seconds"),
                "s",
            ),
            Panel(
                "Deadlines missed",
                "Owners that did not release in time and were fenced off. Their unfinished entries are redelivered.",
                _by_group(_since("baton_deadline_misses_total")),
            ),
        ),
    ),
    (
        "Queues",
        (
            Panel(
                "Answers",
                "1 if the queue answers.",
                ((f"min by (namespace, queue) (baton_queue_reachable{_OF})", "{{namespace}}/{{queue}}"),),
            ),
            Panel(
                "Stale owners refused",
                "Requests of former owners that the queue rejected. An occasional one comes from a missed deadline.",
                _by_group(_since("baton_stale_refused_total")),
            ),
            Panel("Dead letters of Redis", "Entries that became dead letters.", _by_group(_since("baton_dead_letters_total"))),
        ),
    ),
    (
        "Consumers that are scraped (docs/reference/metrics.md)",
        (
            Panel(
                "Entries done",
                "Per second.",
                ((f"sum by (queue) (rate(baton_consumer_handled_total{_LATELY}))", "{{queue}}"),),
            ),
            Panel(
                "Partitions of each consumer",
                "Includes partitions being released.",
                (("sum by (instance, queue) (baton_consumer_partitions)", "{{instance}} {{queue}}"),),
            ),
            Panel(
                "Failed and repeated entries",
                "Per second.",
                (
                    (f"sum(rate(baton_consumer_failed_total{_LATELY}))", "failed"),
                    (f"sum(rate(baton_consumer_redelivered_total{_LATELY}))", "came again"),
                    (f"sum(rate(baton_consumer_dead_letters_total{_LATELY}))", "set aside"),
                ),
            ),
            Panel(
                "Handling time",
                "Duration of a handler call, for an entry or a batch.",
                _quantiles("baton_consumer_handling_seconds", ""),
                "s",
            ),
            Panel(
                "Outcomes of attempts",
                "Per second.",
                ((f"sum by (outcome) (rate(baton_consumer_handling_seconds_count{_LATELY}))", "{{outcome}}"),),
            ),
            Panel(
                "Attempts",
                "Attempts that an entry took until it was done or a dead letter.",
                _quantiles("baton_consumer_attempts", ""),
            ),
            Panel(
                "The oldest entry in hand",
                "Steady growth means a handler that does not return.",
                (("max by (queue) (baton_consumer_oldest_entry_seconds)", "{{queue}}"),),
                "s",
            ),
            Panel(
                "Handlers over handler_timeout",
                "Per second.",
                ((f"sum by (queue) (rate(baton_consumer_handler_timeouts_total{_LATELY}))", "{{queue}}"),),
            ),
            Panel(
                "Lag of their partitions",
                "Entries that are not acknowledged.",
                (("sum by (queue) (baton_consumer_lag)", "{{queue}}"),),
            ),
        ),
    ),
    (
        "The operator",
        (
            Panel("Leader", "1: one replica of the release leads.", (("sum by (release) (baton_leader)", "{{release}}"),)),
            Panel(
                "The oldest round",
                "Age of the oldest reconciliation of any group; about 30 seconds is normal.",
                ((f"max(baton_reconcile_age_seconds{_OF})", "seconds"),),
                "s",
            ),
            Panel("Stalls", "How long the event loop was blocked.", (("max(baton_loop_stall_seconds)", "seconds"),), "s"),
            Panel(
                "Ledgers written",
                "Per second, and failures.",
                (
                    (f"sum(rate(baton_ledger_writes_total{_OF}{_LATELY}))", "written"),
                    (f"sum(rate(baton_ledger_failures_total{_OF}{_LATELY}))", "failed"),
                ),
            ),
            Panel("Largest ledger", "The limit is about 900 KiB.", ((f"max(baton_ledger_bytes{_OF})", "bytes"),), "bytes"),
            Panel(
                "Room",
                "Booked partitions, and the limit.",
                (("sum(baton_booked_partitions)", "booked"), ("max(baton_most_partitions)", "at most")),
            ),
        ),
    ),
)


def dashboard() -> str:
    """Its JSON: https://grafana.com/docs/grafana/latest/visualizations/dashboards/build-dashboards/view-dashboard-json-model/"""
    made = {
        "uid": "baton",
        "title": "Baton",
        "tags": ["baton"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [_source(), _choice("namespace", "baton_group_state"), _choice("group", _chosen("baton_group_state"))]
        },
        "panels": list(_panels()),
    }
    return json.dumps(made, indent=1) + "\n"


def _chosen(metric: str) -> str:
    return f'{metric}{{namespace=~"$namespace"}}'


def _source() -> dict[str, Any]:
    return {"type": "datasource", "name": "source", "label": "Prometheus", "query": "prometheus"}


def _choice(label: str, metric: str) -> dict[str, Any]:
    question = f"label_values({metric}, {label})"
    return {
        "type": "query",
        "name": label,
        "label": label,
        "datasource": _SOURCE,
        "definition": question,
        "query": {"query": question, "refId": label},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> Iterator[dict[str, Any]]:
    y, number = 0, 0
    for title, panels in ROWS:
        number += 1
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": _place(0, y, 24, 1)}
        y += 1
        for nth, panel in enumerate(panels):
            number += 1
            yield _drawn(panel, number, _place(nth % _COLUMNS * _WIDTH, y + nth // _COLUMNS * _HEIGHT, _WIDTH, _HEIGHT))
        y += -(-len(panels) // _COLUMNS) * _HEIGHT


def _drawn(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + nth), "datasource": _SOURCE, "expr": question, "legendFormat": name}
            for nth, (question, name) in enumerate(panel.queries)
        ],
    }


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}
