from baton.spark.session import Word
from tests.unit.spark.builders import grant


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
