"""The registry of kinds: code outside a kind's package names none."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import baton
from baton.model.ids import Epoch, Uid
from baton.producers import QueueUnreachable, RedisProducer, producer_from_environment
from baton.queues.external.operator_side import ExternalQueue
from baton.queues.kinds import KINDS
from baton.queues.protocol import Ownership, QueueAdapter, QueueCheck

ROOMS = ("consumer", "controller", "engine", "kube", "spark")


def said(module: Path) -> Iterator[str]:
    """Yield the texts of a module, without docstrings."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    about = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in about:
            yield node.value


@pytest.mark.parametrize("room", ROOMS)
def test_kind_independent_packages_name_no_kind_in_their_messages(room: str) -> None:
    named = re.compile(rf"\b({'|'.join(kind.name for kind in KINDS)})\b")
    modules = sorted((Path(baton.__file__).parent / room).glob("*.py"))
    texts = [(module.name, text) for module in modules for text in said(module)]
    assert texts
    assert [(module, text) for module, text in texts if named.search(text)] == []


# -- External queues are only numbers.


async def test_an_external_queue_has_no_fence() -> None:
    queue: QueueAdapter = ExternalQueue()
    assert not queue.fenced
    await queue.ensure(None)
    assert await queue.check() == QueueCheck()
    await queue.ensure(4)
    await queue.ensure(6)
    await queue.ensure(None)
    assert await queue.check() == QueueCheck(partitions=6), "it knows nothing else"
    assert await queue.grant(3, Uid("a"), Epoch(7)) == Ownership(Uid("a"), Epoch(7))
    assert await queue.pause(3, Epoch(7)) is None
    assert await queue.outstanding(3) is None


# -- Public names are imported when they are first used.


@pytest.mark.parametrize("package", ["baton.queues.redis", "baton.producers"])
def test_a_package_offers_exactly_its_public_names(package: str) -> None:
    module = import_module(package)
    assert all(getattr(module, name) is not None for name in module.__all__)
    with pytest.raises(AttributeError, match=f"'{package}' has no attribute 'NoSuchProducer'"):
        _ = module.NoSuchProducer


def test_nothing_private_of_redis_py_is_imported() -> None:
    found = []
    for path in (Path(baton.__file__).parent / "queues" / "redis").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "redis":
                words = [*node.module.split("."), *(one.name for one in node.names)]
                found += [f"{path.name}: {word}" for word in words if word.startswith("_")]
    assert found == []


# -- The producer that the environment selects.


def test_the_environment_variable_selects_a_redis_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BATON_KAFKA_URL", raising=False)
    monkeypatch.setenv("BATON_REDIS_URL", "redis://127.0.0.1:1/0")
    with producer_from_environment("shop/orders", patience=0.01) as producer:
        assert isinstance(producer, RedisProducer)
        with pytest.raises(QueueUnreachable, match=r"127\.0\.0\.1:1"):
            producer.send("k", "v")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "set BATON_REDIS_URL or BATON_KAFKA_URL"),
        ({"BATON_REDIS_URL": "redis://r:1", "BATON_KAFKA_URL": "kafka://k:1"}, "keep the one"),
    ],
)
def test_zero_or_two_addresses_are_refused(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], said: str) -> None:
    for name in ("BATON_REDIS_URL", "BATON_KAFKA_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=said):
        producer_from_environment("shop/orders")
