"""How much there is to do in queues, and for how long."""

from baton.controller.backlog import FRESH, Backlog, Work, work
from baton.queues.protocol import QueueCheck


def look(at: float, lag: dict[int, int], finished: int | None = None, oldest: float | None = None) -> tuple[QueueCheck, float]:
    return QueueCheck(lag=lag, finished=finished, oldest=oldest), at


def backlog(*looks: tuple[QueueCheck, float]) -> Backlog:
    found = Backlog()
    for check, at in looks:
        found.saw(check, at)
    return found


def test_lag_is_as_of_the_last_look_and_time_follows_from_throughput() -> None:
    queue = backlog(look(0, {0: 50}, 0), look(20, {0: 30, 1: 10}, 40))
    assert work([queue], now=21) == Work(lag=40, seconds=20.0, partitions=2)


def test_the_work_of_several_queues_is_their_sum() -> None:
    fast, slow = backlog(look(0, {0: 9}, 0), look(10, {0: 80}, 90)), backlog(look(0, {0: 20}, 5), look(10, {0: 20}, 15))
    assert work([fast, slow], now=10) == Work(lag=100, seconds=10.0, partitions=2)


def test_stale_lag_is_not_reported() -> None:
    queue = backlog(look(0, {0: 4}, 0))
    assert work([queue], now=FRESH) == Work(4, 15.0, 15.0, 1)
    assert work([queue], now=FRESH + 0.1) is None
    assert work([queue, Backlog()], now=1) is None, "nothing is known of one of them"
    queue.lost()
    assert work([queue], now=1) is None
    assert work([], now=1) is None


def test_a_kind_that_cannot_count_reports_nothing() -> None:
    assert work([backlog(look(0, {}, None))], now=1) is None


def test_empty_queues_take_no_time_and_idle_ones_count_the_oldest_entrys_wait() -> None:
    assert work([backlog(look(0, {0: 0}, 9))], now=1) == Work(0, 0.0)
    assert work([backlog(look(0, {0: 4}, 9), look(30, {0: 6}, 9))], now=31) == Work(6, 31.0, 31.0, 1)
    assert work([backlog(look(0, {0: 4}, 9, 100.0), look(30, {0: 6}, 9, 130.0))], now=31) == Work(6, 131.0, 131.0, 1)
    assert work([backlog(look(0, {0: 4}, 9, 0.0))], now=0) == Work(4, 1.0, 1.0, 1), "0 would be no lag"
    idle, waits = backlog(look(0, {0: 0}, 9)), backlog(look(0, {0: 4}, 9, 20.0))
    assert work([idle, waits], now=1) == Work(4, 21.0, 21.0, 1)


def test_the_rate_is_that_of_the_last_minute() -> None:
    busy_then_idle = [look(at, {0: 10}, min(at, 60)) for at in range(0, 181, 5)]
    assert work([backlog(*busy_then_idle)], now=180) == Work(10, 120.0, 120.0, 1), "since the last progress was seen"


def test_an_idle_queue_is_not_slow_when_many_entries_arrive_at_once() -> None:
    trickle = [look(at, {0: 0}, at // 20) for at in range(0, 60, 5)]
    burst = [look(60, {0: 2997}, 3), look(65, {0: 2497}, 503), look(70, {0: 1997}, 1003)]
    assert work([backlog(*trickle, burst[0])], now=60) == Work(2997, 1.0, 1.0, 1)
    assert work([backlog(*trickle, *burst[:2])], now=65) == Work(2497, 1.0, 1.0, 1)
    assert work([backlog(*trickle, *burst)], now=70) == Work(1997, 19.97, None, 1)


def test_a_recreated_queue_counts_from_the_beginning() -> None:
    queue = backlog(look(0, {0: 1}, 1000), look(30, {0: 1}, 2), look(50, {0: 1}, 22))
    assert work([queue], now=50) == Work(1, 1.0, None, 1)
