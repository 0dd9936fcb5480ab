"""Stopping the queries of a fleet."""

from baton.spark.active_queries import stop_queries


class Query:
    def __init__(self, why: str = "") -> None:
        self._why, self.stopped = why, False

    def stop(self) -> None:
        if self._why:
            raise RuntimeError(self._why)
        self.stopped = True


def test_a_query_that_cannot_be_stopped_does_not_keep_others_from_stopping() -> None:
    queries = {"a": Query("its thread does not end"), "b": Query(), "of another group": Query()}
    stop_queries(lambda: queries, ["a", "b", "ended already"])
    assert [queries[one].stopped for one in queries] == [False, True, False]
