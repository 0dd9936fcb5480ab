"""A fake of Spark and its JVM, which tests can kill."""

from types import SimpleNamespace
from typing import Any


class PlayedSession(SimpleNamespace):
    @property
    def readStream(self) -> Any:  # noqa: N802 - Spark's name
        return self.reader()


class PlayedJvm:
    """A session in which no query runs until a test sets one."""

    def __init__(self) -> None:
        self.killed = self.stopped = False
        self.queries: dict[str, Any] = {}
        self.groups: set[str] = set()
        """Claimed groups."""

    def session(self) -> Any:
        """Return the part of a Spark session that a fleet uses."""
        context = SimpleNamespace(
            _jvm=SimpleNamespace(dev=SimpleNamespace(baton=SimpleNamespace(spark=self.classes()))),
            _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: self._answer(self.stopped))),
            _gateway=None,
            applicationId="spark-1",
            getLocalProperty=lambda name: self._answer(""),
        )
        active = SimpleNamespace(values=lambda: self._answer(list(self.queries.values())))
        state = SimpleNamespace(activeStreamingQueries=lambda: self._answer(active))
        java = SimpleNamespace(sharedState=lambda: self._answer(state))
        return PlayedSession(sparkContext=context, _jsparkSession=java, reader=lambda: self._answer(None))

    def classes(self) -> Any:
        """Return the package `dev.baton.spark`."""
        groups = SimpleNamespace(
            claim=self._claim,
            release=self._release,
            register=lambda group, decisions: None,
            stopBeforeSpark=lambda group, seconds: self._answer(None),
        )
        return SimpleNamespace(Group=groups)

    def registered(self) -> Any:
        """No executors."""
        return self._answer(())

    def _claim(self, group: str) -> bool:
        self.groups.add(group)
        return True

    def _release(self, group: str) -> None:
        self._answer(None)
        self.groups.discard(group)

    def _answer(self, what: Any) -> Any:
        if self.killed:
            raise ConnectionRefusedError("no JVM listens")
        return what
