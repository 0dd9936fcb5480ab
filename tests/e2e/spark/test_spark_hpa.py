"""A HorizontalPodAutoscaler scales a Spark fleet by its lag, without KEDA: to twice its size and back under load."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.render import ROOT
from tests.e2e.lag_adapter import external_lag
from tests.e2e.spark.shop import NAMESPACE, Shop, checked
from tests.e2e.spark.sizes import sizes_told
from tests.waiting import until

MOST, LEAST = 4, 2
"""Executors."""
ROWS = {"WORK_SECONDS": "0.05", "MOST_ROWS": "240"}
"""An executor processes 20 rows per second, and a batch is so large that two executors need six seconds for it."""
LONG = 300
"""Seconds for an autoscaler to reach a size."""


@pytest.mark.long
def test_a_spark_fleet_follows_its_lag_and_nothing_is_read_again(shop: Shop, tmp_path: Path) -> None:
    with external_lag(shop.cluster, tmp_path / "pki"):
        shop.apply_example(executors=LEAST, delay=5, handoff=30, **ROWS)
        until(lambda: shop.balanced(LEAST), "two executors own all partitions", LONG)
        shop.cluster.kubectl("-n", NAMESPACE, "apply", "-f", "-", text=json.dumps(autoscaler()))
        with sizes_told(shop):
            shop.start_producing(rate=75)
            until(lambda: shop.balanced(MOST), "the lag has brought all the executors that there may be", LONG)
            sent = shop.stop_producing()
            until(lambda: shop.balanced(LEAST) and len(shop.executors()) == LEAST, "the others have gone", LONG)
            until(lambda: shop.processed() == sent, "all is done", LONG)
        status, results = shop.group()["status"], shop.results()
    assert checked(results, sent).clean
    assert len(results) == sent, "nothing was read again"
    assert not any(one.redelivered for one in results)
    assert status["moves"] == status["lowerBound"], "each partition moves once for each size that it settles at"
    assert status["deadlineMisses"] == 0


def autoscaler() -> dict[str, Any]:
    """The example's autoscaler, but faster, for at least two executors."""
    shipped: dict[str, Any] = yaml.safe_load((ROOT / "manifests" / "examples" / "autoscaling" / "hpa.yaml").read_text())
    spec = shipped["spec"]
    spec |= {"minReplicas": LEAST, "maxReplicas": MOST}
    [metric] = spec["metrics"]
    metric["external"]["target"]["averageValue"] = "50"
    spec["behavior"]["scaleDown"] = {"stabilizationWindowSeconds": 5}
    return shipped
