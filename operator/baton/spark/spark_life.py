"""Whether Spark goes on. A killed JVM reports nothing: it is asked."""

from collections.abc import Callable

from pyspark.sql import SparkSession

_UNANSWERED = 3
"""Questions in a row that are not answered: then the JVM has gone."""


class SparkLife:
    """One thread asks; any may read."""

    def __init__(self, stopped: Callable[[], bool]) -> None:
        """`stopped`: asks the JVM whether its Spark was stopped. Raises whatever py4j does where there is no JVM."""
        self._stopped = stopped
        self._unanswered = 0
        self.goes_on = True
        self.gone = ""
        """Why the JVM is taken for gone; empty: it is not."""

    def look(self) -> None:
        """Ask."""
        try:
            self.goes_on = not self._stopped()
        except Exception as error:  # a hiccup of py4j, or there is no JVM any more
            self._unanswered += 1
            if self._unanswered >= _UNANSWERED:
                self.goes_on, self.gone = False, f"Spark's JVM has gone ({error})"
        else:
            self._unanswered = 0


def stopped(spark: SparkSession) -> bool:
    """By the holder of the session, or by Spark itself. Asks the JVM."""
    context = spark.sparkContext._jsc
    return context is None or bool(context.sc().isStopped())
