"""What a fleet sees of Spark and of its JVM, played by a test: the JVM may be killed."""

from types import SimpleNamespace
from typing import Any


class PlayedSession(SimpleNamespace):
    @property
    def readStream(self) -> Any:  # noqa: N802 - Spark's name
        return self.reader()


class PlayedJvm:
    """Spark runs no query there until a test says so."""

    def __init__(self) -> None:
        self.killed = self.stopped = False
        self.queries: dict[str, Any] = {}
        self.groups: set[str] = set()
        """That are claimed."""

    def session(self) -> Any:
        """Of Spark, as far as a fleet asks it."""
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
        """`dev.baton.spark`."""
        groups = SimpleNamespace(
            claim=self._claim,
            release=self._release,
            register=lambda group, decisions: None,
            stopBeforeSpark=lambda group, seconds: self._answer(None),
        )
        return SimpleNamespace(Group=groups)

    def registered(self) -> Any:
        """Executors: none."""
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
