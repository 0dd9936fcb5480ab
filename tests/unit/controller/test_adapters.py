"""From a PartitionedQueue to its adapter."""

import base64
import socket
import subprocess
import sys
from typing import Any

import pytest

from baton.controller.adapters import open_queue
from baton.kube.api import core_path
from baton.kube.objects import queue_view
from baton.model.ids import Epoch
from baton.queues.protocol import Claimant, QueueUnreachable
from baton.queues.redis import RedisProducer, RedisReader
from tests.unit.kube.memory_api import ShopApi

SECRET = {"type": "Redis", "redis": {"urlSecretRef": {"name": "redis", "key": "url"}}}


def queue(source: dict[str, Any], **spec: Any) -> Any:
    metadata = {"namespace": "shop", "name": "orders", "uid": "q-1", "generation": 1, "resourceVersion": "1"}
    return queue_view({"metadata": metadata, "spec": {"source": source, **spec}})


OPENING = """
import asyncio, sys, threading
from importlib import import_module
from types import SimpleNamespace
from baton.queues.opening import QueueToOpen
from baton.queues.protocol import Claimant

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name in ("redis", "aiokafka"):
            seen.append(threading.current_thread() is threading.main_thread())

async def main():
    source = SimpleNamespace(
        url="redis://127.0.0.1:1", bootstrap_servers="127.0.0.1:1", topic="orders",
        start_from=None, group_id=None, dead_letter_topic=None, sasl=None, tls=None,
    )
    queue = QueueToOpen("shop", "orders", source, 1, 0, None, None)
    adapter = await import_module(f"baton.queues.{sys.argv[1]}.operator_side").open_queue(queue, Claimant("shop/orders", "uid"))
    await adapter.close()

seen = []
sys.meta_path.insert(0, Finder())
asyncio.run(main())
assert set(seen) == {False}, seen
"""


@pytest.mark.parametrize("kind", ["redis", "kafka"])
def test_a_client_library_is_imported_off_the_event_loops_thread(kind: str) -> None:
    subprocess.run([sys.executable, "-c", OPENING, kind], check=True)


async def test_an_external_queue_is_not_fenced() -> None:
    adapter = await open_queue(ShopApi(), queue({"type": "External"}, partitions=4), Claimant("shop/orders", "uid"))
    assert not adapter.fenced


async def test_the_url_comes_from_the_secret() -> None:
    api = ShopApi()
    api.put(
        core_path("shop", "secrets", "redis"), {"data": {"url": base64.b64encode(b"redis://:secret@redis:6379/0\n").decode()}}
    )
    adapter = await open_queue(api, queue(SECRET, partitions=4), Claimant("shop/orders", "uid"))
    assert adapter.fenced
    await adapter.close()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "does not exist: create it with the key url"),
        ({}, "has no key url: add it"),
        ({"url": "no base64!"}, "has no valid URL under url"),
        ({"url": base64.b64encode(b"http://redis:6379").decode()}, "has no Redis URL under url: write one such as redis://"),
    ],
)
async def test_an_unusable_secret_is_named_with_the_cure(data: dict[str, str] | None, said: str) -> None:
    api = ShopApi()
    if data is not None:
        api.put(core_path("shop", "secrets", "redis"), {"data": data})
    with pytest.raises(QueueUnreachable, match=rf"Secret shop/redis \(.*urlSecretRef of queue orders\) .*{said}"):
        await open_queue(api, queue(SECRET, partitions=4), Claimant("shop/orders", "uid"))


@pytest.mark.parametrize(
    ("source", "where"),
    [
        (SECRET, "the Secret shop/redis under the key url"),
        ({"type": "Redis", "redis": {"url": "redis://redis:6379"}}, "spec.source.redis.url of PartitionedQueue shop/orders"),
    ],
)
async def test_an_unresolvable_host_is_named_with_its_place_and_the_cure(
    source: dict[str, Any], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = ShopApi()
    api.put(core_path("shop", "secrets", "redis"), {"data": {"url": base64.b64encode(b"redis://:hunter2@redis").decode()}})
    adapter = await open_queue(api, queue(source, partitions=4), Claimant("shop/orders", "uid"))
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(QueueUnreachable) as refused:
        await adapter.ensure(4)
    said = (
        f"The operator cannot resolve 'redis', the host of shop/orders: write redis.<namespace> in {where}, such as redis.shop."
    )
    assert str(refused.value).startswith(said)
    assert "hunter2" not in str(refused.value)
    await adapter.close()


def unknown(*_: object, **__: object) -> None:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def test_consumers_and_producers_name_an_unresolvable_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with RedisReader("redis://redis", "shop/orders", "a") as reader, pytest.raises(QueueUnreachable, match=r"redis\.<names"):
        reader.read(0, Epoch(1))
    qualified = RedisProducer("redis://redis.shop", "shop/orders", patience=0.1)
    with qualified as producer, pytest.raises(QueueUnreachable, match=r"cannot resolve 'redis\.shop', .*: correct it in the URL"):
        producer.send("key", "value")


async def test_a_misplaced_password_is_not_repeated() -> None:
    api = ShopApi()
    url = "http://:hunter2@redis:6379"
    api.put(core_path("shop", "secrets", "redis"), {"data": {"url": base64.b64encode(url.encode()).decode()}})
    with pytest.raises(QueueUnreachable) as refused:
        await open_queue(api, queue(SECRET, partitions=4), Claimant("shop/orders", "uid"))
    assert "hunter2" not in str(refused.value)
    in_the_spec = queue({"type": "Redis", "redis": {"url": "redis://:hunter2@redis:6379"}}, partitions=4)
    with pytest.raises(QueueUnreachable, match="put the URL into a Secret") as refused:
        await open_queue(api, in_the_spec, Claimant("shop/orders", "uid"))
    assert "hunter2" not in str(refused.value)
