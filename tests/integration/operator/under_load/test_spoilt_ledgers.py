"""The ledger is edited by hand, under load: it is restored with an event, and no pod acts on the edited one."""

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

from baton.kube.leases import leases_path
from baton.model.ids import MemberId
from baton.model.names import RELEASES_ANNOTATION, session_lease_name
from tests.integration.operator.under_load.conftest import GROUP, Busy
from tests.integration.operator.world import Operator
from tests.mostly_long import mostly_long
from tests.waiting import eventually

Start = Callable[..., Operator]
Data = dict[str, str]
Edit = Callable[[Data], Data]


@pytest.fixture
async def served(busy: Busy, start: Start) -> Operator:
    """An operator that has the ledger in hand; what b owns it owns at a second epoch at least."""
    operator = await start(busy.world).leads()
    await busy.world.set_ready("b", False)
    await busy.settled("a", "c", "d")
    await busy.world.set_ready("b", True)
    await busy.settled()
    return operator


def garbage(data: Data) -> Data:
    return data | {"group": "{garbage"}


def with_all_at_epoch(data: Data, epoch: int) -> Data:
    """One member's partitions."""
    entry = json.loads(data["b"])
    entry["owned"] = {GROUP: ",".join(f"{part.partition('@')[0]}@{epoch}" for part in entry["owned"][GROUP].split(","))}
    return data | {"b": json.dumps(entry)}


def lowered(data: Data) -> Data:
    return with_all_at_epoch(data, 1)


def raised(data: Data) -> Data:
    return with_all_at_epoch(data, 999_999)


def without_a_member(data: Data) -> Data:
    return {key: text for key, text in data.items() if key != "c"}


def with_all_at_one(data: Data) -> Data:
    """All partitions, at their present epochs, owned by one member as well."""
    entry = json.loads(data["b"])
    held = [json.loads(text)["owned"][GROUP] for key, text in data.items() if key != "group"]
    entry["owned"] = {GROUP: ",".join(held)}
    return data | {"b": json.dumps(entry)}


def called_back(data: Data) -> Data:
    """One member is to release all that it has."""
    entry = json.loads(data["b"])
    return data | {"b": json.dumps({**entry, "owned": {}, "revoking": entry["owned"]})}


EDITS = [garbage, lowered, raised, without_a_member, with_all_at_one]


@pytest.mark.parametrize("edit", mostly_long(EDITS, always={raised}))
async def test_an_edited_ledger_is_restored(busy: Busy, served: Operator, edit: Edit) -> None:
    before = await busy.world.ledger_data(GROUP) or {}
    told = await said(busy, "LedgerRestored")
    await forge(busy, edit(before))
    await busy.world.ledger_is(GROUP, before)
    await eventually(lambda: more(busy, "LedgerRestored", told), "an event says so")
    await busy.proven()


@pytest.mark.parametrize("edit", mostly_long(EDITS, always={lowered, with_all_at_one}))
async def test_a_ledger_edited_without_an_operator_is_checked_against_the_queue(
    busy: Busy, served: Operator, start: Start, edit: Edit
) -> None:
    told = await said(busy, "LedgerRebuilt")
    served.kill()
    await forge(busy, edit(await busy.world.ledger_data(GROUP) or {}))
    await start(busy.world).leads()
    await eventually(lambda: more(busy, "LedgerRebuilt", told), "an event says so")
    await busy.proven()


@pytest.mark.long
async def test_a_deleted_ledger_is_recreated(busy: Busy, served: Operator) -> None:
    before = await busy.world.ledger_data(GROUP) or {}
    told = await said(busy, "LedgerRestored")
    await busy.world.api.delete(busy.world.ledger_path(GROUP))
    await busy.world.ledger_is(GROUP, before)
    await eventually(lambda: more(busy, "LedgerRestored", told), "an event says so")
    await busy.proven()


async def test_a_ledger_deleted_without_an_operator_is_recreated_above_the_queues_epochs(
    busy: Busy, served: Operator, start: Start
) -> None:
    before = (await busy.queue.check()).owners
    served.kill()
    await busy.world.api.delete(busy.world.ledger_path(GROUP))
    await start(busy.world).leads()
    await busy.proven()
    after = (await busy.queue.check()).owners
    assert all(after[number].epoch > owner.epoch for number, owner in before.items())


@pytest.mark.long
async def test_a_ledger_with_another_owner_is_replaced(busy: Busy, served: Operator) -> None:
    before = await busy.world.ledger_data(GROUP) or {}
    found = await busy.world.api.get(busy.world.ledger_path(GROUP))
    found["metadata"]["ownerReferences"][0]["uid"] = "another"
    found["data"] = with_all_at_one(before)
    busy.fleet.ledger.forged((await busy.world.api.replace(busy.world.ledger_path(GROUP), found))["metadata"]["resourceVersion"])
    await busy.world.ledger_is(GROUP, before)

    async def ours() -> bool:
        owner = (await busy.world.api.get(busy.world.ledger_path(GROUP)))["metadata"]["ownerReferences"][0]
        return bool(owner["uid"] == ((await busy.world.get_group(GROUP)) or {})["metadata"]["uid"])

    await eventually(ours, "the group owns it again")
    await busy.proven()


async def test_partitions_released_because_of_an_edited_ledger_are_granted_again(busy: Busy, served: Operator) -> None:
    """A released epoch stays released: with the former ledger the partitions would not be served."""
    before = await busy.world.ledger_data(GROUP) or {}
    served.process.send_signal(signal.SIGSTOP)
    await forge(busy, called_back(before))
    await eventually(lambda: released(busy, "b", before), "b has released all that it had")
    served.process.send_signal(signal.SIGCONT)
    await busy.proven()


@pytest.mark.long
async def test_partitions_released_before_an_older_ledger_was_restored_are_granted_again(
    busy: Busy, served: Operator, start: Start
) -> None:
    before = await busy.world.ledger_data(GROUP) or {}
    served.kill()
    await forge(busy, called_back(before))
    await eventually(lambda: released(busy, "b", before), "b has released all that it had")
    await forge(busy, before)
    await start(busy.world).leads()
    await busy.proven()


async def forge(busy: Busy, data: Data) -> None:
    """As `kubectl edit` does: a replace of what stands there."""
    found = await busy.world.api.get(busy.world.ledger_path(GROUP))
    written: dict[str, Any] = await busy.world.api.replace(busy.world.ledger_path(GROUP), {**found, "data": data})
    busy.fleet.ledger.forged(written["metadata"]["resourceVersion"])


async def released(busy: Busy, pod: str, data: Data) -> bool:
    """Whether the pod's session releases all that it owns by this ledger."""
    entry = json.loads(data[pod])
    lease = await busy.world.api.get(leases_path(busy.world.namespace, session_lease_name(MemberId(pod))))
    said = json.loads(lease["metadata"]["annotations"][RELEASES_ANNOTATION])
    return bool(said.get(entry["uid"]) == entry["owned"])


async def said(busy: Busy, reason: str) -> int:
    return len(await busy.world.events(reason))


async def more(busy: Busy, reason: str, before: int) -> bool:
    return await said(busy, reason) > before
