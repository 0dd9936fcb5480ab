"""Takes the pictures of the guide to the console: `make pictures`. A group of 64 partitions while an eighth pod joins."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from baton.model.ledger import flat
from baton.queues.redis import RedisProducer, RedisReader
from tests.browser import Browser, browser
from tests.integration.operator.conftest import namespace
from tests.integration.operator.console_client import Console
from tests.integration.operator.world import Cluster, Operator
from tests.redis_server import RedisServer

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
PODS = [f"orders-6d5f9c7b8-{end}" for end in ("4kq2x", "7dwzt", "9vbnm", "c2xhl", "f8jrp", "k5tgs", "q6mzd", "w3nyc")]


async def test_pictures(api: Cluster, start: Callable[..., Operator], kubeconfig: Path, tmp_path: Path) -> None:
    world = await namespace(api, "fleet")
    with RedisServer(fsync="always") as server:
        await world.redis("orders", server.url, 64, rebalance={"delaySeconds": 0, "maxHandoffSeconds": 120})
        await world.group("orders")
        for pod in PODS[:-1]:
            await world.pod(pod, "orders")
        operator = await start(world, "pictured").leads()
        await world.spread("orders", 9, 9, 9, 9, 9, 9, 10)
        producer = RedisProducer(server.url, "fleet/orders")
        for number in range(512):
            producer.send(f"order-{number}", f"customer-{number}")
        producer.close()
        for entry in (await world.entries("orders")).values():
            with closing(RedisReader(server.url, "fleet/orders", entry.uid)) as reader:
                for (_, partition), epoch in flat(entry.owned):
                    reader.read(partition, epoch, 1)  # what is in hand keeps a hand-off open
        await world.pod(PODS[-1], "orders")
        url = f"http://127.0.0.1:{operator.port}"
        console = Console(tmp_path, "fleet/orders", "--kubeconfig", str(kubeconfig), "--operator", url)
        try:
            async with browser(tmp_path) as tab:
                await tab.open(console.url)
                await tab.shows("/, 8 moving/.test(document.getElementById('summary')?.innerText)")
                await tab.shows(r"/Lag\s+512 entries/.test(document.getElementById('summary').innerText)")
                await shown(tab)
        finally:
            console.stop()


async def shown(tab: Browser) -> None:
    """The group by day, what another number of pods would do by night."""
    await tab.size(1100, 900)
    await tab.value("document.getElementById('grid').focus()")
    for key in ["Home", *["ArrowRight"] * 57]:
        await tab.key(key)
    await tab.value("scrollTo(0, 0)")
    (PICTURES / "console.png").write_bytes(await tab.picture())
    await tab.value("document.getElementById('pods').focus()")
    for _ in range(4):
        await tab.key("ArrowRight")
    await tab.shows("document.getElementById('supposed').innerText.includes('8 pods → 12')")
    await tab.dark(True)
    await tab.size(1100, 700)
    await tab.value("document.getElementById('pods').closest('section').scrollIntoView()")
    (PICTURES / "console-what-if.png").write_bytes(await tab.picture())
