"""Numbers, lists and foreign texts in messages, and errors of missing packages."""

import subprocess
import sys

import pytest

from baton.model.extras import MissingExtraError, extra
from baton.model.wording import counted, first_of, quoted


def test_one_is_singular_and_thousands_have_a_comma() -> None:
    assert [counted(count, "partition") for count in (0, 1, 2000)] == ["0 partitions", "1 partition", "2,000 partitions"]
    assert [counted(count, "entry is", "entries are") for count in (0, 1, 2)] == ["0 entries are", "1 entry is", "2 entries are"]


def test_omitted_items_of_a_list_are_counted() -> None:
    assert [first_of("abcd"[:length], 3) for length in range(5)] == ["", "a", "a, b", "a, b, c", "a, b, c and 1 more"]


def test_foreign_text_is_quoted_on_one_short_line() -> None:
    assert quoted("a\x1b[31m\nb") == "'a\\x1b[31m\\nb'"
    assert quoted("x" * 100) == f"'{'x' * 80}' and 20 more characters"
    assert quoted("\U00010000" * 41) == "'" + "\\U00010000" * 8 + "' and 33 more characters"


# -- A missing package is named with the command that installs it.


OPENED = """
from baton.queues.consumer_side import opened
from baton.queues.kinds import kind
opened(kind("Redis"), "redis://redis.shop", "shop/orders", "uid")
"""

PARTS = [
    ("redis", "from baton.queues.redis import RedisProducer", "'redis<"),
    ("redis", OPENED, "'redis<"),
    ("aiokafka", "import baton.queues.kafka.consumer_side", "'aiokafka<0.15,>=0.13' 'confluent-kafka>="),
    ("redis", "from baton.cli.main import main\nmain(['dead-letters', 'list', 'shop/orders'])", "'redis<"),
    ("prometheus_client", "import baton.consumer.metrics", "'prometheus-client>="),
    ("opentelemetry", "import baton.consumer.tracing", "'opentelemetry-api>="),
    ("pyspark", "import baton.spark", "'pandas<3,>=2.2' "),
]


@pytest.mark.parametrize(("absent", "use", "names"), PARTS)
def test_missing_packages_are_named_as_on_an_index(absent: str, use: str, names: str) -> None:
    program = f"import sys\nsys.modules[{absent!r}] = None\n{use}"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr.splitlines()[-1]
    assert f": pip install {names}" in said and said.count("pip install") == 1
    assert "install 'baton" not in said and "(baton-consumer itself came from file:///" in said


def test_an_outdated_package_is_named() -> None:
    with pytest.raises(MissingExtraError, match=r"cannot import name .*: pip install 'redis<"), extra("redis"):
        from redis import something_that_comes_later  # type: ignore[attr-defined] # noqa: F401


def test_an_import_error_in_baton_is_no_missing_extra() -> None:
    with pytest.raises(ImportError) as raised, extra("redis"):
        from baton.consumer import something_that_is_not_there  # type: ignore[attr-defined] # noqa: F401
    assert "pip install" not in str(raised.value)
