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
    ("redis", "from baton.queues.redis import RedisProducer", "redis"),
    ("redis", OPENED, "redis"),
    ("prometheus_client", "import baton.consumer.metrics", "metrics"),
    ("opentelemetry", "import baton.consumer.tracing", "opentelemetry"),
    ("pyspark", "import baton.spark", "spark"),
]


@pytest.mark.parametrize(("absent", "use", "name"), PARTS)
def test_the_extra_to_install_is_named(absent: str, use: str, name: str) -> None:
    program = f"import sys\nsys.modules[{absent!r}] = None\n{use}"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr.splitlines()[-1]
    assert said.endswith(f": pip install 'baton-consumer[{name}]'") and said.count("pip install") == 1


def test_what_is_too_old_is_said_likewise() -> None:
    with pytest.raises(MissingExtraError, match=r"cannot import name .*: pip install 'baton-consumer\[redis\]'"), extra("redis"):
        from redis import something_that_comes_later  # type: ignore[attr-defined] # noqa: F401


def test_a_fault_of_our_own_is_no_missing_extra() -> None:
    with pytest.raises(ImportError) as raised, extra("redis"):
        from baton.consumer import something_that_is_not_there  # type: ignore[attr-defined] # noqa: F401
    assert "pip install" not in str(raised.value)
