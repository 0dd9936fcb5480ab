"""`baton console`: its viewers, their rights, and the changes that they see."""

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from baton.kube.api import core_path, group_path
from tests.browser import Browser, browser
from tests.integration.operator.accounts import HOME, RBAC, grant, service_account, token_of
from tests.integration.operator.console_client import BATON, Console, Page, owners
from tests.integration.operator.test_approval import with_proposal
from tests.integration.operator.world import SHOP, Cluster, World
from tests.redis_server import RedisServer
from tests.waiting import eventually


@pytest.fixture(scope="module")
def own(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """That of one person, which may approve."""
    made = Console(tmp_path_factory.mktemp("own"), "--kubeconfig", str(kubeconfig), "-n", SHOP, "--allow-approve")
    yield made
    assert made.stop() == 0


@pytest.fixture(scope="module")
def shared(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """As in a Deployment: viewers have tokens, and the console has none."""
    arguments = ("--kubeconfig", str(kubeconfig), "--viewer-tokens", "--host", "baton.example.org")
    made = Console(tmp_path_factory.mktemp("shared"), *arguments)
    yield made
    made.stop()


async def token(api: Cluster, name: str, *roles: str, home: str = HOME) -> str:
    """Of a new account with these roles in the namespace SHOP."""
    await api.create(core_path(home, "serviceaccounts"), {"metadata": {"name": name}})
    for role in roles:
        verbs = ["*"] if role == "edit" else ["get", "list", "watch"]
        rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}]
        await grant(api, SHOP, f"{name}-{role}", rules, service_account(home, name))
    return await token_of(api, home, name)


async def test_a_port_in_use_is_reported_with_the_cure(kubeconfig: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [str(BATON), "console", "--kubeconfig", str(kubeconfig), "-n", SHOP, "--port", str(port)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    said = f"baton console: cannot serve on port {port} of 127.0.0.1: Address already in use: choose another --port\n"
    assert (done.returncode, done.stderr) == (1, said)


async def test_a_page_shows_the_ledger_and_its_changes(shop: World, own: Console) -> None:
    await shop.fleet("watched", "watched-a", "watched-b")
    async with own.stream(f"/api/group?namespace={SHOP}&name=watched") as stream:
        page = await stream.page(lambda page: len(owners(page)) == 2 and page["state"] == "Ready")
        assert owners(page) == {name: {*grants} for name, grants in (await shop.owned("watched")).items()}
        assert [member["role"] for member in page["members"]] == ["member", "member"]
        await shop.delete_pod("watched-b")
        page = await stream.page(lambda page: owners(page) == {"watched-a": set(range(6))})
        assert page["timeline"][0]["at"] >= page["timeline"][-1]["at"]
        moved = [entry["text"] for entry in page["timeline"] if entry["kind"] == "Moved"]
        assert any("watched-b → " in text for text in moved), page["timeline"]
        await stream.page(lambda page: any(entry["kind"] == "Granted" for entry in page["timeline"]))


async def test_the_list_of_groups_is_updated(shop: World, own: Console) -> None:
    async with own.stream(f"/api/groups?namespace={SHOP}") as stream:
        await stream.page(lambda page: "newcomer" not in [group["name"] for group in page["groups"]])
        await shop.external("newcomer")
        await shop.group("newcomer")
        await stream.page(lambda page: any(group["name"] == "newcomer" and group["state"] for group in page["groups"]))


async def test_requests_without_the_urls_token_are_refused(shop: World, own: Console) -> None:
    assert own.url.startswith("http://127.0.0.1:")
    for path in ("/api/groups", f"/api/group?namespace={SHOP}&name=x", f"/api/what-if?namespace={SHOP}&name=x&pods=1"):
        status, said = await own.ask(path, "another")
        assert (status, "token" in said["error"]) == (401, True)
    with socket.socket() as other, pytest.raises(OSError, match="refused"):
        other.connect(("127.0.0.2", int(own.address.rpartition(":")[2])))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example.org"}, 421),
        ({"Host": "127.0.0.1.evil.example.org:80"}, 421),
        ({"Origin": "http://evil.example.org"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
async def test_other_sites_and_host_names_are_refused(own: Console, headers: dict[str, str], status: int) -> None:
    for path in ("/", "/api/groups"):
        assert (await own.ask(path, headers=headers))[0] == status
    assert (await own.ask("/api/approve", method="POST", json={}, headers=headers))[0] == status


@pytest.mark.parametrize(("path", "host"), [("/", "baton.example.org"), ("/healthz", "10.0.0.1:8080")])
async def test_the_given_host_name_and_probes_are_answered(shared: Console, path: str, host: str) -> None:
    assert (await shared.ask(path, "x", headers={"Host": host}))[0] == 200


async def test_every_answer_has_its_security_headers(own: Console) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ("/", "/console.js", "/nothing", "/api/settings", "/api/groups"):
            async with session.get(own.address + path) as answer:
                assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
                assert "unsafe" not in answer.headers["Content-Security-Policy"]
                assert answer.headers["Cache-Control"] == "no-store"
                assert own.token is not None and own.token not in await answer.text()
    async with own.stream(f"/api/groups?namespace={SHOP}") as stream:
        assert "default-src 'none'" in stream.headers["Content-Security-Policy"]
    assert own.log.read_text().count(own.token or "") == 1, "only in the URL that is printed"


async def test_names_are_checked_before_the_api_server_is_asked(own: Console) -> None:
    for query in (
        f"namespace={SHOP}&name=../../secrets",
        "namespace=a/b&name=x",
        f"namespace={SHOP}",
        f"namespace={SHOP}&name=X",
    ):
        assert (await own.ask(f"/api/group?{query}"))[0] == 400
    assert (await own.ask(f"/api/what-if?namespace={SHOP}&name=x&pods=1e9"))[0] == 400


async def test_viewers_see_what_their_own_tokens_allow(shop: World, api: Cluster, shared: Console) -> None:
    assert shared.token is None
    await shop.external("guarded")
    await shop.group("guarded")
    reads, rightless = await token(api, "reads", "view"), await token(api, "without-rights")
    async with shared.stream(f"/api/group?namespace={SHOP}&name=guarded", reads) as stream:
        await stream.page(lambda page: page["name"] == "guarded")
    async with shared.stream("/api/groups", reads) as stream:
        assert (await stream.message())[1]["status"] == 403
    for path in (f"/api/group?namespace={SHOP}&name=guarded", f"/api/groups?namespace={SHOP}"):
        async with shared.stream(path, rightless) as stream:
            kind, said = await stream.message()
            assert (kind, said["status"]) == ("refused", 403)
            assert "without-rights" in said["error"]
        async with shared.stream(path, "a-token-of-nobodys") as stream:
            assert (await stream.message())[1]["status"] == 401
    assert (await shared.ask(f"/api/what-if?namespace={SHOP}&name=guarded&pods=2", rightless))[0] == 403
    assert reads not in shared.log.read_text()


async def test_the_commands_namespace_is_shown_first_and_all_on_request(shop: World, own: Console, tmp_path: Path) -> None:
    async with browser(tmp_path) as tab:
        await tab.open(own.url)
        await tab.shows(f"document.querySelector('#namespace')?.value === '{SHOP}' && location.hash === ''")
        await tab.value("(document.querySelector('#namespace').value = '', document.querySelector('form button').click(), 0)")
        await tab.shows("location.hash === '#/' && document.querySelector('#namespace')?.value === ''")
        assert tab.complaints == []


async def test_a_viewer_with_rights_in_one_namespace_is_offered_it(
    shop: World, api: Cluster, shared: Console, tmp_path: Path
) -> None:
    await shop.fleet("offered", "offered-a", "offered-b", partitions=12)
    looks = await token(api, "at-home", "view", home=SHOP)
    assert await shared.ask("/api/namespaces", looks) == (200, {"namespaces": [SHOP]})
    async with browser(tmp_path) as tab:
        await tab.size(1440, 900)
        await tab.open(shared.address)
        await tab.shows("document.querySelector('form input#token')")
        await tab.value(f"(document.querySelector('#token').value = '{looks}', document.querySelector('form button').click(), 0)")
        await tab.shows(f"document.querySelector('.list a[href=\"#/{SHOP}\"]')")
        await tab.value("document.querySelector('.list a').click()")
        await tab.shows(f"document.querySelector('a[href=\"#/{SHOP}/offered\"]')")
        await tab.shows("[...document.querySelectorAll('tbody tr')].every(row => row.lastChild.innerText === 'current')")
        await tab.value(f"document.querySelector('a[href=\"#/{SHOP}/offered\"]').click()")
        await tab.shows("document.querySelector('#grid') && document.querySelector('#conditions table')")
        lines = "(range => (range.selectNodeContents(one), range.getClientRects().length))(document.createRange())"
        broken = f"[...document.querySelectorAll('thead th, .state, .words td:nth-child(2)')].filter(one => {lines} > 1)"
        assert await tab.value(f"{broken}.map(one => one.innerText)") == [], "each is a word on one line"
        owned = "getComputedStyle(document.querySelector('#grid')).getPropertyValue('--owned').trim()"
        pixels = "grid.getContext('2d').getImageData(0, grid.height * 3 / 4 | 0, grid.width, 1).data"
        last = (
            "(() => { const grid = document.querySelector('#grid'), data = "
            f"{pixels}, wanted = {owned}.match(/\\w\\w/g).map(one => parseInt(one, 16)); let at = 0;"
            "for (let x = 0; x < grid.width; x += 1) if (wanted.every((one, n) => data[4 * x + n] === one)) at = x;"
            "return at / grid.width; })()"
        )
        await eventually(lambda: wide(tab, last), "twelve partitions use the width")


async def wide(tab: Browser, last: str) -> bool:
    return float(await tab.value(last)) > 0.9


async def test_a_viewer_without_rights_is_told_why(api: Cluster, shared: Console, tmp_path: Path) -> None:
    rightless = await token(api, "rightless")
    async with browser(tmp_path) as tab:
        await tab.open(f"{shared.address}/#/{SHOP}/orders")
        for given, said in (("a-token-of-nobodys", "create another: kubectl create token"), (rightless, "you lack a right: ")):
            await tab.shows("document.querySelector('form input#token')")
            await tab.value(
                f"(document.querySelector('#token').value = '{given}', document.querySelector('form button').click(), 0)"
            )
            await tab.shows(f"document.querySelector('main .error')?.innerText.includes('{said}')")
            signed_in = given == rightless
            assert await tab.value("document.querySelector('#sign-out').hidden") is not signed_in
        assert await tab.value("document.querySelector('#grid')") is None


async def test_no_link_signs_a_viewer_in(shop: World, api: Cluster, own: Console, shared: Console, tmp_path: Path) -> None:
    """It could be another's token. Only the URL that the own console prints has one that counts."""
    theirs = await token(api, "theirs", "view")
    kept = "sessionStorage.getItem('baton-console-token')"
    async with browser(tmp_path) as tab:
        await tab.open(f"{shared.address}/#token={theirs}&at=/{SHOP}")
        await tab.shows("document.querySelector('form input#token')")
        assert (await tab.value(kept), await tab.value("location.hash")) == (None, f"#/{SHOP}")
        await tab.value(f"(location.hash = '#token={theirs}&at=/{SHOP}/orders')")
        await tab.shows(f"location.hash === '#/{SHOP}/orders' && document.querySelector('form input#token')")
        assert await tab.value(kept) is None
        await tab.open(own.url)
        await tab.shows(f"{kept} === '{own.token}'")
        assert own.token is not None and own.token not in await tab.value("location.href")


async def test_a_tab_too_many_says_why_it_waits(shop: World, own: Console, tmp_path: Path) -> None:
    how = f"{{cache: 'no-store', headers: {{Authorization: 'Bearer {own.token}'}}, signal: others.signal}}"
    other = f"fetch('/api/groups?namespace={SHOP}', {how}).catch(() => 0)"
    async with browser(tmp_path) as tab:
        await tab.open(own.url)
        await tab.shows("document.querySelector('.list')")
        await tab.value(f"globalThis.others = new AbortController(), Array.from({{length: 6}}, () => {other}), 0")
        await tab.value(f"(location.hash = '#/{SHOP}')")
        await tab.shows("document.body.innerText.includes('six connections')")
        await tab.value("others.abort()")
        await tab.shows("!document.body.innerText.includes('six connections') && document.querySelector('.list').innerText")


async def test_a_page_works_without_access_to_the_ledger(shop: World, api: Cluster, shared: Console) -> None:
    await shop.external("half")
    await shop.group("half")
    half = await token(api, "half", "view")
    rules = [{"apiGroups": ["baton.dev"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    await api.merge(group_path(RBAC, SHOP, "roles", "half-view"), {"rules": rules})

    async def refused() -> bool:
        return (await shared.ask(f"/api/what-if?namespace={SHOP}&name=half&pods=1", half))[0] == 403

    await eventually(refused, "the role is in force")
    async with shared.stream(f"/api/group?namespace={SHOP}&name=half", half) as stream:
        page = await stream.page(lambda page: len(page["notes"]) >= 2)
        assert any("half-assignments" in note and "cannot be read" in note for note in page["notes"])


async def test_what_if_uses_the_operators_own_plan(shop: World, own: Console) -> None:
    await shop.fleet("supposing", "supposing-a", "supposing-b")

    async def suppose(pods: int) -> Page:
        status, said = await own.ask(f"/api/what-if?namespace={SHOP}&name=supposing&pods={pods}")
        assert status == 200, said
        return said

    three = await suppose(3)
    assert (three["podsNow"], three["moves"], three["lowerBound"]) == (2, 2, 2)
    assert {change["member"]: change["after"] for change in three["changes"]}["new-1"] == 2
    one = await suppose(1)
    assert sorted((change["after"] is None, change["before"]) for change in one["changes"]) == [(False, 3), (True, 3)]
    assert (await suppose(2))["moves"] == 0
    assert (await own.ask(f"/api/what-if?namespace={SHOP}&name=supposing&pods=10001"))[0] == 400


async def test_a_proposal_is_approved_only_if_the_console_allows_it(
    shop: World, api: Cluster, own: Console, shared: Console, redis_server: RedisServer
) -> None:
    proposal = await with_proposal(shop, "seen-by-all", redis_server.url)
    wanted = {"namespace": SHOP, "name": "seen-by-all", "proposal": proposal["id"]}
    where = f"/api/rights?namespace={SHOP}&name=seen-by-all"
    edits = await token(api, "edits", "edit")
    assert (await shared.ask("/api/approve", edits, "POST", json=wanted))[0] == 403, "it only shows"
    assert (await shared.ask(where, edits))[1] == {"approve": False}
    assert (await own.ask(where))[1] == {"approve": True}
    status, said = await own.ask("/api/approve", method="POST", json={**wanted, "proposal": "another"})
    assert (status, "not another" in said["error"]) == (400, True)
    async with own.stream(f"/api/group?namespace={SHOP}&name=seen-by-all") as stream:
        page = await stream.page(lambda page: page["proposal"])
        assert page["proposal"]["id"] == proposal["id"]
        assert (await own.ask("/api/approve", method="POST", json=wanted))[0] == 200
        await stream.page(lambda page: not page["proposal"])


@pytest.fixture
async def approving(kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Console]:
    """For viewers, and it approves."""
    made = await asyncio.to_thread(Console, tmp_path, "--kubeconfig", str(kubeconfig), "--viewer-tokens", "--allow-approve")
    yield made
    made.stop()


async def test_rights_to_approve_are_the_api_servers(
    shop: World, api: Cluster, approving: Console, redis_server: RedisServer
) -> None:
    proposal = await with_proposal(shop, "by-rights", redis_server.url)
    wanted = {"namespace": SHOP, "name": "by-rights", "proposal": proposal["id"]}
    looks, may = await token(api, "looks", "view"), await token(api, "may", "edit")
    where = f"/api/rights?namespace={SHOP}&name=by-rights"
    assert [(await approving.ask(where, one))[1]["approve"] for one in (looks, may)] == [False, True]
    assert (await approving.ask("/api/approve", looks, "POST", json=wanted))[0] == 403
    assert (await approving.ask("/api/approve", may, "POST", json=wanted))[0] == 200
