"""The alerts, as promtool plays them: each fires for what it is for, after its time, and not without."""

import subprocess
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import yaml
from prometheus_client import CollectorRegistry, start_http_server

from baton.consumer import Backoff, Entry
from baton.consumer.metrics import ConsumerMetrics
from baton.testing import TestQueue
from charts.render import CHART
from cluster.ports import free_ports
from tests.prometheus_server import PrometheusServer, alerts_at_once
from tests.waiting import until

RULES = CHART / "files" / "alerts.yaml"
OF = 'namespace="shop", group="orders"'
RELEASE = 'release="baton-system/baton"'
QUEUE = f'{OF}, queue="orders"'
CONSUMER = 'namespace="shop", queue="orders"'


class Case(NamedTuple):
    """Series with a sample a minute, in promtool's short form: `1x30` is a 1, and 30 more of them; `_` is none."""

    series: dict[str, str]
    minute: int
    fires: bool


CASES: dict[str, tuple[Case, ...]] = {
    "BatonHasNoLeader": (
        Case({f'baton_leader{{{RELEASE}, instance="a"}}': "0x10"}, 2, True),
        Case({f'baton_leader{{{RELEASE}, instance="a"}}': "1x10", f'baton_leader{{{RELEASE}, instance="b"}}': "1x10"}, 2, True),
        Case({}, 2, True),
        Case({f'baton_leader{{{RELEASE}, instance="a"}}': "1x10", f'baton_leader{{{RELEASE}, instance="b"}}': "0x10"}, 2, False),
        Case({f'baton_leader{{{RELEASE}, instance="a", job="{job}"}}': "1x10" for job in ("pods", "service")}, 2, False),
    ),
    "BatonReleaseVanished": (
        Case({f"baton_leader{{{RELEASE}}}": "1x10", 'baton_leader{release="b"}': "1x60"}, 40, True),
        Case({f"baton_leader{{{RELEASE}}}": "1x60"}, 40, False),
    ),
    "BatonReleasesOverlap": (
        Case({f'baton_groups_served_elsewhere{{{RELEASE}, by="b"}}': "2x20"}, 6, True),
        Case({f'baton_groups_served_elsewhere{{{RELEASE}, by="b"}}': "0x20"}, 6, False),
    ),
    "BatonIsFull": (
        Case({f'baton_groups_without_room{{{RELEASE}, namespace="shop"}}': "1x20"}, 6, True),
        Case({f'baton_groups_without_room{{{RELEASE}, namespace="shop"}}': "1x3 0x20"}, 6, False),
    ),
    "BatonDoesNotReconcile": (
        Case({f"baton_reconcile_age_seconds{{{OF}}}": "0+60x20"}, 4, True),
        Case({f"baton_reconcile_age_seconds{{{OF}}}": "30x20"}, 4, False),
    ),
    "BatonCannotList": (
        Case({'baton_list_failing_seconds{namespace="shop", resource="pods"}': "0+60x20"}, 4, True),
        Case({'baton_list_failing_seconds{namespace="shop", resource="pods"}': "0x20"}, 4, False),
    ),
    "BatonTaskFails": (
        Case({'baton_task_failures_total{task="events"}': "0x5 1x20"}, 8, True),
        Case({'baton_task_failures_total{task="events"}': "0x20"}, 8, False),
        Case({'baton_task_failures_total{task="events"}': "1x20"}, 8, False),
    ),
    "BatonStalls": (
        Case({"baton_loop_stall_seconds": "2x20"}, 11, True),
        Case({"baton_loop_stall_seconds": "0.2x20"}, 11, False),
    ),
    "BatonGroupNotReady": (
        Case({f'baton_group_ready{{{OF}, reason="QueueUnreachable"}}': "0x20"}, 6, True),
        Case({f'baton_group_ready{{{OF}, reason="Ready"}}': "1x20"}, 6, False),
        Case(
            {
                f'baton_group_ready{{{OF}, reason="QueueUnreachable"}}': "0x3 stale",
                f'baton_group_ready{{{OF}, reason="NoMembers"}}': "_x3 0x20",
            },
            6,
            True,
        ),
    ),
    "BatonPartitionsWithoutOwner": (
        Case({f'baton_partitions{{{QUEUE}, state="Unassigned"}}': "3x20"}, 6, True),
        Case(
            {
                f'baton_partitions{{{QUEUE}, state="Unassigned"}}': "3x20",
                f'baton_group_ready{{{OF}, reason="ScaledToZero"}}': "1x20",
            },
            6,
            False,
        ),
    ),
    "BatonWorkStandsStill": (
        Case({f"baton_group_waiting_seconds{{{OF}}}": "60+60x40"}, 31, True),
        Case({f"baton_group_waiting_seconds{{{OF}}}": "60x20 stale"}, 31, False),
        Case(
            {f"baton_group_waiting_seconds{{{OF}}}": "60+60x40", f'baton_group_ready{{{OF}, reason="ScaledToZero"}}': "1x40"},
            31,
            False,
        ),
    ),
    "BatonDeadlinesMissed": (
        Case({f"baton_deadline_misses_total{{{OF}}}": "0+1x30"}, 15, True),
        Case({f"baton_deadline_misses_total{{{OF}}}": "0 1x30"}, 15, False),
    ),
    "BatonMovesToAndFro": (
        Case({f"baton_moves_total{{{OF}}}": "0+1x90", f'baton_partitions{{{QUEUE}, state="Ready"}}': "8x90"}, 60, True),
        Case({f"baton_moves_total{{{OF}}}": "0x30 8x60", f'baton_partitions{{{QUEUE}, state="Ready"}}': "8x90"}, 60, False),
    ),
    "BatonProposalWaits": (
        Case({f"baton_proposed_moves{{{OF}}}": "4x40"}, 31, True),
        Case({f"baton_proposed_moves{{{OF}}}": "4x20 0x20"}, 31, False),
    ),
    "BatonDeadLetters": (
        Case({f"baton_dead_letters_total{{{QUEUE}}}": "0x5 1x20"}, 8, True),
        Case({f"baton_dead_letters_total{{{QUEUE}}}": "7x20"}, 8, False),
        Case({f'baton_dead_letters_total{{{QUEUE}, pod="new-leader"}}': "_x4 7x20"}, 8, False),
    ),
    "BatonConsumerDeadLetters": (
        Case({f'baton_consumer_dead_letters_total{{{CONSUMER}, pod="a"}}': "0x5 1x20"}, 8, True),
        Case({f'baton_consumer_dead_letters_total{{{CONSUMER}, pod="a"}}': "7x20"}, 8, False),
        Case(
            {
                f'baton_consumer_dead_letters_total{{{CONSUMER}, pod="a"}}': "0x5 1x20",
                f"baton_dead_letters_total{{{QUEUE}}}": "0x5 1x20",
            },
            8,
            False,  # for BatonDeadLetters does
        ),
    ),
    "BatonConsumerStuck": (
        Case({f"baton_consumer_oldest_entry_seconds{{{CONSUMER}}}": "0+60x20"}, 12, True),
        Case({f"baton_consumer_oldest_entry_seconds{{{CONSUMER}}}": "0+60x8 0+60x8"}, 16, False),
    ),
    "BatonRetryStorm": (
        Case(
            {
                f'baton_consumer_failed_total{{{CONSUMER}, pod="a"}}': "0+1x40",
                f'baton_consumer_failed_total{{{CONSUMER}, pod="b"}}': "0+2x40",
                f'baton_consumer_handled_total{{{CONSUMER}, pod="a"}}': "0+2x40",
                f'baton_consumer_handled_total{{{CONSUMER}, pod="b"}}': "0x40",
            },
            30,
            True,
        ),
        Case(
            {
                f'baton_consumer_failed_total{{{CONSUMER}, pod="a"}}': "0+2x40",
                f'baton_consumer_handled_total{{{CONSUMER}, pod="a"}}': "0+2x40",
            },
            30,
            False,
        ),
        Case(
            {
                f'baton_consumer_failed_total{{{CONSUMER}, pod="a"}}': "0x5 9x40",
                f'baton_consumer_handled_total{{{CONSUMER}, pod="a"}}': "0x45",
            },
            16,
            False,  # one burst, which is over
        ),
    ),
    "BatonLagGrows": (
        Case({f"baton_group_lag{{{OF}}}": "0+100x90", f"baton_group_lag_seconds{{{OF}}}": "0+60x90"}, 60, True),
        Case({f"baton_group_lag{{{OF}}}": "9000-100x90", f"baton_group_lag_seconds{{{OF}}}": "3600x90"}, 60, False),
        Case({f"baton_group_lag{{{OF}}}": "0+1x90", f"baton_group_lag_seconds{{{OF}}}": "5x90"}, 60, False),
    ),
    "BatonEntriesVanished": (
        Case({f"baton_vanished_total{{{QUEUE}}}": "0x5 390x20"}, 8, True),
        Case({f"baton_vanished_total{{{QUEUE}}}": "390x20"}, 8, False),
        Case({f'baton_vanished_total{{{QUEUE}, pod="new-leader"}}': "_x4 390x20"}, 8, False),
    ),
    "BatonLedgerEdited": (
        Case({f"baton_ledger_restored_total{{{OF}}}": "0x5 1x20"}, 8, True),
        Case({f"baton_ledger_restored_total{{{OF}}}": "1x20"}, 8, False),
    ),
    "BatonLedgerRefused": (
        Case({f"baton_ledger_failing_seconds{{{OF}}}": "0+30x20"}, 4, True),
        Case({f"baton_ledger_failing_seconds{{{OF}}}": "0x20"}, 4, False),
    ),
    "BatonLedgerNearlyFull": (
        Case({f"baton_ledger_bytes{{{OF}}}": "800000x5"}, 1, True),
        Case({f"baton_ledger_bytes{{{OF}}}": "600000x5"}, 1, False),
    ),
    "BatonPodsWithoutGroup": (
        Case({f"baton_pods_without_group{{{OF}}}": "2x20"}, 6, True),
        Case({f"baton_pods_without_group{{{OF}}}": "2x2 0x20"}, 6, False),
    ),
}


def test_promtool_finds_nothing_wrong() -> None:
    done = promtool("check", "rules", "--lint=all", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_cases_of_both_kinds() -> None:
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    assert {rule["alert"] for rule in rules} == set(CASES)
    assert [name for name, cases in CASES.items() if {case.fires for case in cases} != {True, False}] == []


def test_each_alert_fires_only_for_its_cause(tmp_path: Path) -> None:
    played = tmp_path / "alerts_test.yaml"
    tests = [_played(name, case) for name, cases in CASES.items() for case in cases]
    played.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}))
    done = promtool("test", "rules", str(played))
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_of_consumers_fire_at_a_real_prometheus(tmp_path: Path) -> None:
    """With ten minutes for an entry cut down to one second."""
    rules = alerts_at_once(tmp_path)
    written = rules.read_text()
    assert "oldest_entry_seconds) > 600" in written
    rules.write_text(written.replace("oldest_entry_seconds) > 600", "oldest_entry_seconds) > 1"))
    registry, go_on, port = CollectorRegistry(), Event(), next(free_ports("127.0.0.1"))
    server, serving = start_http_server(port, "127.0.0.1", registry)

    def handle(entry: Entry) -> None:
        if entry.value == b"hangs":
            go_on.wait()
        raise ValueError("no")

    with TestQueue(partitions=2) as queue, PrometheusServer(rules, honor_labels=True) as prometheus:
        metrics = ConsumerMetrics(registry)
        queue.start(
            handle, consumer=queue.consumer(metrics=metrics), concurrency=2, retry=Backoff(first=0.1, factor=1, attempts=9)
        )
        prometheus.scrape([f"127.0.0.1:{port}"])
        until(lambda: prometheus.values("baton_consumer_failed_total"), "it is scraped")
        queue.send("k", "hangs", partition=0)
        for _ in range(99):
            queue.send("k", "bad", partition=1)
        alerts = {"BatonConsumerStuck", "BatonRetryStorm", "BatonConsumerDeadLetters"}
        until(lambda: not alerts - prometheus.firing(), f"{alerts} fire")
        assert "BatonLagGrows" not in prometheus.firing()
        go_on.set()
    server.shutdown()
    serving.join()


def _played(name: str, case: Case) -> dict[str, Any]:
    """promtool compares labels and texts, too: so the alert's own expression says how often it fires."""
    count = f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) or vector(0)'
    fired = {
        "expr": f"clamp_max({count}, 1)",
        "eval_time": f"{case.minute}m",
        "exp_samples": [{"labels": "{}", "value": int(case.fires)}],
    }
    series = [{"series": one, "values": values} for one, values in case.series.items()]
    return {"name": f"{name} at {case.minute} m", "interval": "1m", "input_series": series, "promql_expr_test": [fired]}


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
