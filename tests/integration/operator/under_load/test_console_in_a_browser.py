"""The console in Chromium, against an operator and a fleet under load: what a person sees is what the ledger says."""

import time
from collections.abc import Callable
from pathlib import Path

from baton.kube.api import group_path
from baton.kube.events import EVENTS
from baton.kube.objects import GROUP_VERSION
from baton.model.times import to_micro_text
from tests.browser import Browser, browser
from tests.integration.operator.console_client import Console
from tests.integration.operator.under_load.conftest import GROUP, PARTITIONS, Busy
from tests.integration.operator.world import Operator
from tests.waiting import eventually

HOSTILE = "<img src=x onerror=alert(1)>\u202eevil"


async def shown_owners(tab: Browser) -> dict[str, set[int]]:
    """Walk over the grid with the keyboard, and read who owns what."""
    await tab.value("document.getElementById('grid').focus()")
    await tab.key("Home")
    owners: dict[str, set[int]] = {}
    for number in range(PARTITIONS):
        words = await tab.value("document.getElementById('grid').getAttribute('aria-valuetext')")
        partition, _, rest = str(words).partition(": owned by ")
        if partition == f"{GROUP} {number}" and rest:
            owners.setdefault(rest.partition(",")[0], set()).add(number)
        await tab.key("ArrowRight")
    return owners


async def test_the_console_shows_owners_and_what_another_size_would_do(
    busy: Busy, start: Callable[..., Operator], kubeconfig: Path, tmp_path: Path
) -> None:
    world = busy.world
    operator = await start(world, "browsed").leads()
    await busy.settled()
    await hostile(busy)
    url = f"http://127.0.0.1:{operator.port}"
    console = Console(tmp_path, f"{world.namespace}/{GROUP}", "--kubeconfig", str(kubeconfig), "--operator", url)
    try:
        async with browser(tmp_path) as tab:
            await seen(tab, busy, console)
            assert tab.complaints == []
    finally:
        console.stop()


async def hostile(busy: Busy) -> None:
    """An account that may post events in the namespace may write anything about the group."""
    now = to_micro_text(time.time())
    regarding = {"apiVersion": GROUP_VERSION, "kind": "ConsumerGroup", "namespace": busy.world.namespace, "name": GROUP}
    event = {
        "apiVersion": EVENTS,
        "kind": "Event",
        "metadata": {"name": "hostile"},
        "eventTime": now,
        "regarding": regarding,
        "reason": HOSTILE[:16],
        "note": HOSTILE,
        "type": "Normal",
        "action": "x",
        "reportingController": "example.org/x",
        "reportingInstance": "x",
    }
    await busy.world.api.create(group_path(EVENTS, busy.world.namespace, "events"), event)


async def seen(tab: Browser, busy: Busy, console: Console) -> None:
    async def as_the_ledger_says() -> bool:
        return await shown_owners(tab) == {name: {*of} for name, of in (await busy.world.owned(GROUP)).items()}

    await tab.size(1100, 900)
    await tab.open(console.url)
    await tab.shows("document.querySelector('.state.Ready')")
    assert console.token is not None and console.token not in await tab.value("location.href")
    await eventually(as_the_ledger_says, "the grid is as the ledger", shown=lambda: shown_owners(tab))
    await tab.shows(r"/Lag\s+[\d,]+ entr(y|ies)/.test(document.getElementById('summary').innerText)")

    await tab.shows("document.getElementById('timeline').innerText.includes('<img src=x onerror=alert(1)> evil')")
    assert await tab.value("document.images.length") == 0

    await busy.world.set_ready("d", False)
    await busy.settled("a", "b", "c")
    await eventually(as_the_ledger_says, "the grid follows", shown=lambda: shown_owners(tab))
    await tab.shows("/Moved .*d → /.test(document.getElementById('timeline').innerText)")

    await tab.value("document.getElementById('pods').focus()")
    await tab.key("ArrowRight")
    await tab.shows("document.getElementById('supposed').innerText.includes('3 pods → 4')")
    await tab.shows("/Balanced: 2 each/.test(document.getElementById('supposed').innerText)")

    light = await tab.value("getComputedStyle(document.body).backgroundColor")
    await tab.dark(True)
    assert await tab.value("getComputedStyle(document.body).backgroundColor") != light
    await tab.size(360, 740, phone=True)
    await tab.shows("innerWidth === 360 && document.documentElement.scrollWidth <= 360")
    await tab.value("(location.hash = '#/')")
    await tab.shows(f"document.querySelector('.list table')?.innerText.includes('{busy.world.namespace}/{GROUP}')")
    await tab.shows("document.documentElement.scrollWidth <= 360")
    await busy.world.set_ready("d", True)
    await busy.settled()
