"""Stopping the queries of a fleet."""

from collections.abc import Mapping

import pytest

from baton.spark.queries import stop_queries


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


def test_queries_of_a_jvm_that_has_gone_need_not_be_stopped(caplog: pytest.LogCaptureFixture) -> None:
    def gone() -> Mapping[str, Query]:
        raise ConnectionRefusedError("there is no JVM")

    stop_queries(gone, ["a"])
    assert "there is no JVM" in caplog.text
