"""What a part of Baton needs, and is not installed, is said with the extra by which it comes."""

import subprocess
import sys

import pytest

from baton.model.extras import MissingExtraError, extra

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
def test_what_to_install_is_named_by_packages_that_are_on_an_index(absent: str, use: str, names: str) -> None:
    program = f"import sys\nsys.modules[{absent!r}] = None\n{use}"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr.splitlines()[-1]
    assert f": pip install {names}" in said and said.count("pip install") == 1
    assert "install 'baton" not in said and "(baton-consumer itself came from file:///" in said


def test_what_is_too_old_is_said_likewise() -> None:
    with pytest.raises(MissingExtraError, match=r"cannot import name .*: pip install 'redis<"), extra("redis"):
        from redis import something_that_comes_later  # type: ignore[attr-defined] # noqa: F401


def test_a_fault_of_our_own_is_no_missing_extra() -> None:
    with pytest.raises(ImportError) as raised, extra("redis"):
        from baton.consumer import something_that_is_not_there  # type: ignore[attr-defined] # noqa: F401
    assert "pip install" not in str(raised.value)
