"""What `baton pause` says, and what `baton doctor` and `baton rebalance` say of a paused group."""

import pytest

from baton.api.group import ConsumerGroupSpec
from baton.cli import rebalance
from baton.cli.doctor import ClusterFacts, Verdict, groups
from baton.cli.group import look
from baton.cli.pause import follows


def test_pausing_warns_that_partitions_of_ended_pods_wait() -> None:
    assert "partitions of pods that end wait without an owner" in follows("orders", "shop", paused=True)
    assert "owner" not in follows("orders", "shop", paused=False)


@pytest.mark.parametrize(("paused", "unowned", "warned"), [(True, 2, True), (True, 0, False), (False, 2, False)])
def test_the_doctor_warns_of_partitions_without_an_owner_in_a_paused_group(paused: bool, unowned: int, warned: bool) -> None:
    manifest = {
        "metadata": {"namespace": "shop", "name": "orders", "uid": "u", "resourceVersion": "1", "generation": 1},
        "spec": {"queues": [{"name": "orders"}], "paused": paused},
        "status": {"observedGeneration": 1, "lastChangeTime": "1970-01-01T00:00:00Z", "state": "Paused", "unowned": unowned},
    }
    found = [one for one in groups(ClusterFacts(5.0, groups=[look(manifest, {}, (), now=5.0)])) if "without an owner" in one.says]
    assert [(one.verdict, one.cure) for one in found] == [(Verdict.WARNING, "baton resume orders -n shop")] * warned


@pytest.mark.parametrize("paused", [True, False])
def test_rebalancing_a_paused_group_warns_that_nothing_moves(paused: bool) -> None:
    spec = ConsumerGroupSpec.model_validate({"queues": [{"name": "orders"}], "paused": paused})
    assert ("nothing moves until `baton resume orders -n shop`" in rebalance.follows("orders", "shop", spec)) == paused
