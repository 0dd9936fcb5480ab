"""A real Prometheus scrapes a fleet under load and its operator: each panel has something to show, and alerts fire."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from charts.dashboard import ROWS
from charts.render import ROOT
from tests.integration.operator.under_load.conftest import GROUP, PODS, Busy
from tests.integration.operator.world import Operator
from tests.prometheus_server import PrometheusServer, alerts_at_once
from tests.waiting import eventually

Start = Callable[..., Operator]

MOST_HANDOFFS = 20

SCRAPED = yaml.safe_load((ROOT / "manifests" / "examples" / "prometheus" / "scrape.yaml").read_text())


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[PrometheusServer]:
    with PrometheusServer(alerts_at_once(tmp_path), honor_labels=SCRAPED["honor_labels"]) as running:
        yield running


async def test_every_panel_has_data_and_alerts_fire(busy: Busy, start: Start, prometheus: PrometheusServer) -> None:
    operator = await start(busy.world).leads()
    assert operator.port is not None
    prometheus.scrape([f"127.0.0.1:{port}" for port in (operator.port, *busy.fleet.metrics.values())])
    await busy.world.change("partitionedqueues", GROUP, {"spec": {"rebalance": {"delaySeconds": 1}}})
    await busy.settled()

    shown: set[tuple[str, str]] = set()
    questions = {(panel.title, _asked(question)) for _, panels in ROWS for panel in panels for question, _ in panel.queries}
    for _, pod in zip(range(MOST_HANDOFFS), itertools.cycle(PODS), strict=False):  # a rate is of what happens again and again
        for ready, members in ((False, set(PODS) - {pod}), (True, set(PODS))):
            await busy.world.set_ready(pod, ready)
            await busy.settled(*members)
            shown.update(asked for asked in questions - shown if prometheus.values(asked[1]))
        if shown == questions:
            break
    assert sorted(questions - shown) == []

    async def fires(alert: str) -> None:
        async def so() -> bool:
            return alert in prometheus.firing()

        async def firing() -> object:
            return prometheus.firing()

        await eventually(so, f"{alert} fires", shown=firing)

    assert not prometheus.firing() & {"BatonLedgerEdited", "BatonPodsWithoutGroup", "BatonHasNoLeader"}
    await busy.world.api.merge(busy.world.ledger_path(GROUP), {"data": {PODS[0]: json.dumps({"nonsense": True})}})
    await fires("BatonLedgerEdited")
    await busy.world.pod("astray", "ordres")
    await fires("BatonPodsWithoutGroup")
    operator.kill()
    await fires("BatonHasNoLeader")


def _asked(question: str) -> str:
    """As Grafana asks it of all groups."""
    return question.replace("$__rate_interval", "30s").replace("$namespace", ".*").replace("$group", ".*")
