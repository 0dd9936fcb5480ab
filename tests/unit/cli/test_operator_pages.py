"""Why what only the operator's leader knows is not known, and what to do then."""

import pytest

from baton.cli.group import Leader
from baton.cli.lag import lag_of
from baton.kube.api import Api


@pytest.mark.parametrize(
    ("leader", "said"),
    [
        (None, "no operator has written its ledger yet"),
        (Leader("ops/baton", readable=False), "you may not read the Lease ops/baton: forward its port 8080"),
        (Leader("ops/baton"), "the Lease ops/baton names none: see `baton doctor`"),
        (
            Leader("ops/baton", holder="laptop"),
            "laptop says no address, for it runs outside of the cluster: give --operator http://",
        ),
    ],
)
async def test_why_nobody_tells_the_lag_is_said_with_the_cure(leader: Leader | None, said: str) -> None:
    assert said in ((await lag_of(Api(None), "shop", "orders", leader, None)).problem or "")
