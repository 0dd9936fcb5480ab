"""`baton doctor -A` and `baton bundle -A` hold only one ledger in memory at a time."""

import subprocess
import tarfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from baton.cli.bundle import Bundle, archive, groups_of, read_bundle
from baton.cli.doctor import findings, read_facts
from baton.engine import dump
from baton.kube.api import Api, Json
from baton.kube.ledger_configmap import MANAGED_BY, MANAGED_BY_LABEL
from baton.kube.objects import GROUP_VERSION, groups_path
from baton.kube.releases import RELEASE_ANNOTATION
from baton.model.names import GROUP_LABEL, ledger_name
from tests.unit.cli.test_status import MANIFEST
from tests.unit.engine.group import Group

GROUPS = [f"orders-{number}" for number in range(5)]


class Held(dict[str, Any]):
    """A ledger that can be referenced weakly."""


def manifest(group: str, data: Held) -> Json:
    owner = {"apiVersion": GROUP_VERSION, "kind": "ConsumerGroup", "name": group, "uid": "u"}
    metadata = {
        "namespace": "shop",
        "name": ledger_name(group),
        "uid": group,
        "resourceVersion": "1",
        "labels": {GROUP_LABEL: group, MANAGED_BY_LABEL: MANAGED_BY},
        "annotations": {RELEASE_ANNOTATION: "baton-system/baton"},
        "ownerReferences": [owner],
    }
    return {"metadata": metadata, "data": data}


class Cluster(Api):
    """Many groups, each with a ledger."""

    def __init__(self, ledger: Mapping[str, str], asked: Callable[[str], object]) -> None:
        super().__init__(None)
        self._ledger, self._asked = ledger, asked
        self._made: list[weakref.ref[Held]] = []
        self.most_held = 0

    async def get(self, path: str, **query: str) -> Json:
        if path == groups_path(None):
            return {"items": [{**MANIFEST, "metadata": {**MANIFEST["metadata"], "name": name}} for name in GROUPS]}
        return {"items": []} if path.endswith("s") else {"metadata": {}, "spec": {}}

    async def find(self, path: str) -> Json | None:
        for name in GROUPS:
            if path.endswith(f"/configmaps/{ledger_name(name)}"):
                self._asked(name)
                held = Held(self._ledger)
                self._made.append(weakref.ref(held))
                self.most_held = max(self.most_held, sum(one() is not None for one in self._made))
                return manifest(name, held)
        return None

    async def create(self, path: str, body: Json) -> Json:
        return {}


async def test_the_doctor_holds_one_ledger_at_a_time() -> None:
    cluster = Cluster(dump(Group(1000).start("a", "b").state), lambda name: None)
    facts = await read_facts(cluster, None)
    assert [look.group.name for look in facts.groups] == GROUPS and cluster.most_held == 1
    assert all(look.state is None and not look.members for look in facts.groups)
    assert min(facts.sizes.values()) > 100 and len(facts.sizes) == len(GROUPS)
    assert findings(facts)


async def test_a_bundle_writes_each_group_before_reading_the_next(tmp_path: Path) -> None:
    told: list[str] = []
    cluster = Cluster(dump(Group(1000).start("a", "b").state), lambda name: told.append(f"asked for {name}"))
    with archive(tmp_path / "all.tar.gz") as write:

        def heard(path: str, text: str) -> None:
            told.append(path)
            write(path, text)

        made = Bundle(heard)
        await read_bundle(made, cluster, None, await groups_of(cluster, None, None), everything=True)
    assert cluster.most_held == 1
    of_ledgers = [one for one in told if one.endswith("ledger.json") or one.startswith("asked for")]
    read = of_ledgers[-2 * len(GROUPS) :]  # the doctor has asked before
    assert read == [said for name in GROUPS for said in (f"asked for {name}", f"shop/groups/{name}/ledger.json")]
    with tarfile.open(tmp_path / "all.tar.gz") as packed:
        names = packed.getnames()
    assert names == [f"all/{path}" for path in told if not path.startswith("asked for")] and len(names) == made.written
    assert len(set(names)) == len(names), "the Lease that all of them name is in it once"


@pytest.mark.parametrize("name", ["report.tar.gz", "report.tgz", "report.tar", "report.zip", "report"])
def test_an_archive_can_be_unpacked_beside_itself(tmp_path: Path, name: str) -> None:
    with archive(tmp_path / name) as write:
        write("shop/group.json", "{}")
    subprocess.run(["tar", "-xzf", name], cwd=tmp_path, check=True)
    (unpacked,) = (one for one in tmp_path.iterdir() if one.is_dir())
    assert (unpacked / "shop/group.json").read_text(encoding="utf-8") == "{}"
    assert unpacked.name == ("report" if name in ("report.tar.gz", "report.tgz", "report.tar") else f"{name}-files")


def test_an_unfinished_archive_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "half.tar.gz"

    def fails() -> None:
        with archive(file) as write:
            write("first.json", "{}")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert not file.exists()
    file.write_text("mine")
    with pytest.raises(FileExistsError), archive(file):
        pass
    assert file.read_text() == "mine"
