import pytest

import baton.spark
from baton.spark import settings
from baton.spark.jar_file import SOURCES


def test_another_spark_is_refused_in_one_line_that_says_the_cure() -> None:
    settings.check_spark("4.3.1")
    for other in ("4.2.0", "4.30.0", "5.0.0"):
        with pytest.raises(RuntimeError, match=rf"is for Spark 4\.3\.x, and this is Spark {other}: install pyspark 4\.3\.x"):
            settings.check_spark(other)


def test_the_settings_are_not_given_for_another_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "SPARK", "4.2.")
    with pytest.raises(RuntimeError, match=r"is for Spark 4\.2\.x"):
        baton.spark.conf("orders", image="orders", template="executor.yaml", namespace="shop")


def test_the_driver_s_jvm_checks_for_the_same() -> None:
    source = (SOURCES / "dev" / "baton" / "spark" / "BatonSource.java").read_text(encoding="utf-8")
    assert f'SPARK = "{settings.SPARK}"' in source
