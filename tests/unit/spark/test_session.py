from baton.spark.session import Held, Word


def held(holder="driver-1", seen=100.0) -> Held:
    return Held(holder, "2026-01-01T00:00:00.000000Z", 15.0, seen)


def test_a_lease_is_free_once_its_holder_was_silent_for_its_whole_length():
    assert not held().lapsed(114.9)
    assert held().lapsed(115.0)


def test_a_lease_that_was_given_up_is_free_at_once():
    assert held(holder="").lapsed(100.0)


def test_the_driver_s_word_names_its_executors_and_application(grant):
    word = Word("spark-1", ("1", "12"), frozenset({grant("exec-1", 5, 12).released()}), "{}")
    assert word.annotations() == {
        "baton.dev/spark-app": "spark-1",
        "baton.dev/executors": "1,12",
        "baton.dev/releases": '{"uid-exec-1":{"orders":"5@12"}}',
        "baton.dev/statistics": "{}",
    }
