"""The driver's side of queues that do not answer."""

import pytest

from baton.model.ids import QueueName
from baton.queues.protocol import QueueUnreachable
from baton.spark import queues
from baton.spark.queues import FleetQueues
from baton.spark.reading import QueueAddress
from cluster.ports import free_ports
from tests.unit.spark.builders import grant

ORDERS, PARCELS = QueueName("orders"), QueueName("parcels")


def test_a_queue_that_stays_away_is_told_of_while_the_driver_asks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = f"redis://127.0.0.1:{next(free_ports('127.0.0.1'))}"
    both = FleetQueues({ORDERS: QueueAddress(nobody, "shop/orders"), PARCELS: QueueAddress(nobody, "shop/parcels")})
    orders = [grant("exec-1", number, 1) for number in (0, 1)]
    parcels = [grant("exec-1", 0, 1, queue="parcels")]
    assert both.plan([*orders, *parcels], lambda _: 1) == ([], [])
    assert both.trouble() == "", "it may be over in a moment"
    monkeypatch.setattr(queues, "TOLD_AFTER", 0.0)
    assert "Work on shop/orders goes on when it is back" in both.trouble()
    assert "Work on shop/parcels goes on when it is back" in both.trouble()
    both.let_go(frozenset(parcels))
    assert "orders" not in both.trouble()
    both.let_go(frozenset())
    assert both.trouble() == ""
    both.close()


def test_an_address_of_no_kind_of_queue_is_refused_with_those_that_there_are_and_not_repeated() -> None:
    with pytest.raises(QueueUnreachable, match=r"The address of shop/orders is that of no .*redis://, rediss://") as refused:
        FleetQueues({ORDERS: QueueAddress("http://:hunter2@redis", "shop/orders")})
    assert "hunter2" not in str(refused.value)
