"""Whether the JVM has gone: by several questions in a row."""

from collections.abc import Iterator

from baton.spark.running_fleet import SparkLife


def life(answers: Iterator[bool | None]) -> SparkLife:
    """None: no answer."""

    def stopped() -> bool:
        answer = next(answers)
        if answer is None:
            raise ConnectionRefusedError("no JVM listens")
        return answer

    return SparkLife(stopped)


def test_a_jvm_that_answers_again_was_not_gone() -> None:
    asked = life(iter([None, None, False, None, None, False]))
    for _ in range(6):
        asked.look()
        assert asked.goes_on
        assert not asked.gone


def test_a_jvm_that_does_not_answer_any_more_has_gone() -> None:
    asked = life(iter([None, None, None]))
    for _ in range(3):
        assert asked.goes_on
        asked.look()
    assert not asked.goes_on
    assert asked.gone == "Spark's JVM has gone (no JVM listens)"


def test_spark_that_was_stopped_is_not_gone() -> None:
    asked = life(iter([True]))
    asked.look()
    assert (asked.goes_on, asked.gone) == (False, "")
