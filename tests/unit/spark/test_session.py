from baton.model.names import STATISTICS_ANNOTATION
from baton.spark.session import DriverSession, Word
from tests.in_memory_lease import InMemoryLease
from tests.unit.spark.builders import grant
from tests.waiting import HOUR, until


def test_the_driver_s_word_names_its_executors_and_application() -> None:
    word = Word("spark-1", ("1", "12"), frozenset({grant("exec-1", 5, 12).released()}), "{}")
    assert word.annotations() == {
        "baton.dev/spark-app": "spark-1",
        "baton.dev/executors": "1,12",
        "baton.dev/releases": '{"uid-exec-1":{"orders":"5@12"}}',
        "baton.dev/statistics": "{}",
        "baton.dev/trouble": "",
        "baton.dev/query-failure": "",
        "baton.dev/missing-rights": "",
    }


def test_the_lease_is_renewed_at_once_for_news_and_not_for_counts() -> None:
    store = InMemoryLease()
    session = DriverSession(store, "orders", "uid-of-the-driver", duration=HOUR, every=HOUR)
    session.acquire()
    first, second = (frozenset({grant("exec-1", number, 12).released()}) for number in range(2))
    session.say(releases=first)
    until(lambda: store.lease is not None and store.releases() == first, "news is told")
    writes = len(store.writes)
    for rows in range(3):
        session.say(statistics=f'{{"rows":{rows}}}')
    session.say(releases=second)
    until(lambda: store.releases() == second, "other news is told")
    assert len(store.writes) == writes + 1, "counts go with what is written anyway"
    assert store.lease is not None
    assert store.lease["metadata"]["annotations"][STATISTICS_ANNOTATION] == '{"rows":2}'
    session.close()
