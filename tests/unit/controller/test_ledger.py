"""The ledger at the API server: claimed, replaced, restored, and left to a later leader."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from baton.controller.ledger import LedgerWriter, contradicted, contradiction_event
from baton.controller.retrying import Deposed
from baton.engine.ledger import MOST_PARTITIONS
from baton.engine.observation import ObservedQueue
from baton.engine.state import PartitionRecord, in_doubt
from baton.engine.step import size, step
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Elector, Terms
from baton.kube.errors import ApiError, ConflictError, UnavailableError
from baton.kube.leases import leases_path
from baton.kube.ledger_configmap import PARTITIONS_ANNOTATION, ForeignConfigMap, LedgerOwner, stored
from baton.kube.releases import OperatorReleases
from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.protocol import Ownership
from tests.simulation.api_server import Refuse
from tests.simulation.api_server.faults import no_trouble
from tests.unit.engine.group import Group, grants, partition
from tests.unit.kube.memory_api import ShopApi

OWNER = LedgerOwner("shop", "orders", "uid-1")
LEASE = leases_path("baton", "operator")


class Desk:
    """An operator that leads in one term, and its writer of the ledger."""

    def __init__(self, api: ShopApi, identity: str = "one", owner: LedgerOwner = OWNER) -> None:
        self.api = api
        self.elector = Elector(api, "baton", "operator", identity, Terms(), ApiServerClock(), lambda: None)
        self._owner = owner
        self.booked = 0

    async def open(self) -> LedgerWriter:
        await self.elector.attempt()
        clock = ApiServerClock()
        return LedgerWriter(self.api, self._owner, self.elector, OperatorReleases(self.api, clock), clock, lambda: self.booked)

    async def written(self) -> LedgerWriter:
        """A writer that has claimed the ledger and written it once."""
        writer = await self.open()
        await writer.claim()
        await writer.write({"group": "1"})
        return writer


@pytest.fixture
def api() -> ShopApi:
    return ShopApi()


@pytest.fixture
async def opened(api: ShopApi) -> LedgerWriter:
    """The writer of a leader that has not claimed the ledger yet."""
    return await Desk(api).open()


@pytest.fixture
async def writer(api: ShopApi) -> LedgerWriter:
    """A writer that has claimed the ledger and written it once."""
    return await Desk(api).written()


def data(api: ShopApi) -> Any:
    return api.objects[OWNER.path].get("data", {})


def version_of(api: ShopApi) -> str:
    found: str = api.objects[OWNER.path]["metadata"]["resourceVersion"]
    return found


def give_up_lead(api: ShopApi) -> None:
    """Edit the Lease as its holder does when it resigns, without telling the elector."""
    api.put(LEASE, {**api.objects[LEASE], "spec": {**api.objects[LEASE]["spec"], "holderIdentity": ""}})


def edit(api: ShopApi, **change: str) -> None:
    api.put(OWNER.path, {**api.objects[OWNER.path], "data": change})


@contextmanager
def unanswered(api: ShopApi) -> Iterator[None]:
    """Writes are carried out and get no answer."""
    api.mute = True
    with pytest.raises(UnavailableError):
        yield
    api.mute = False


@contextmanager
def in_vain(api: ShopApi) -> Iterator[None]:
    """Writes are not carried out and get no answer."""
    api.read_only = True
    with pytest.raises(UnavailableError):
        yield
    api.read_only = False


def refuse_updates(api: ShopApi, refusal: Refuse) -> None:
    api.trouble = lambda verb, path: refusal if (verb, path) == ("update", OWNER.path) else None


async def test_an_empty_ledger_is_made_and_owned_by_the_group(api: ShopApi, opened: LedgerWriter) -> None:
    assert await opened.claim() is None
    made = api.objects[OWNER.path]
    assert data(api) == {}
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
    assert made["metadata"]["labels"]["baton.dev/group"] == "orders"


async def test_a_ledger_is_carried_on_by_the_next_leader(api: ShopApi) -> None:
    first = Desk(api)
    await first.written()
    await first.elector.resign()
    assert await (await Desk(api, "two").open()).claim() == {"group": "1"}


def between(api: ShopApi, happens: Callable[[], None]) -> list[str]:
    """Let this happen just before the first create of a ledger arrives; returns the verbs of requests about ledgers."""
    verbs: list[str] = []

    def trouble(verb: str, path: str) -> None:
        if "/configmaps" in path:
            verbs.append(verb)
            if verbs == ["create"]:
                happens()

    api.trouble = trouble
    return verbs


async def test_a_ledger_that_a_list_of_this_term_did_not_show_is_created_without_a_look(
    api: ShopApi, opened: LedgerWriter
) -> None:
    verbs = between(api, lambda: None)
    assert await opened.claim(absent=True) is None
    assert (verbs, data(api)) == (["create"], {})
    assert not await opened.write({"group": "1"})
    assert (verbs, data(api)) == (["create", "update"], {"group": "1"})


async def test_a_ledger_that_a_former_leader_created_after_the_list_is_carried_on(api: ShopApi) -> None:
    first = Desk(api)
    await first.written()
    left = api.remove(OWNER.path)
    await first.elector.resign()
    two = Desk(api, "two")
    ledger_writer = await two.open()
    verbs = between(api, lambda: api.put(OWNER.path, left))
    assert await ledger_writer.claim(absent=True) == {"group": "1"}
    assert verbs == ["create", "get", "update"]
    assert stored(api.objects[OWNER.path]).term == two.elector.term


async def test_a_former_leaders_create_after_the_claim_fails_and_the_former_leader_overwrites_nothing(api: ShopApi) -> None:
    first = Desk(api)
    former = await first.open()
    verbs = between(api, lambda: None)
    give_up_lead(api)
    successor = await Desk(api, "two").open()
    assert await successor.claim(absent=True) is None
    await successor.write({"group": "new"})
    with pytest.raises(Deposed):
        await former.claim(absent=True)
    assert verbs == ["create", "update", "create", "get"]
    assert data(api) == {"group": "new"}


async def test_a_ledger_that_is_deleted_between_a_create_that_failed_and_the_look_is_created(api: ShopApi) -> None:
    await Desk(api).written()
    ledger_writer = await Desk(api).open()

    def trouble(verb: str, path: str) -> None:
        if (verb, path) == ("get", OWNER.path):
            api.remove(OWNER.path)

    api.trouble = trouble
    assert await ledger_writer.claim(absent=True) is None
    assert data(api) == {}


async def test_a_create_whose_answer_was_lost_is_claimed_by_the_next_attempt(api: ShopApi, opened: LedgerWriter) -> None:
    with unanswered(api):
        await opened.claim(absent=True)
    assert data(api) == {}
    assert not await opened.claim(absent=True)
    assert not await opened.write({"group": "1"})
    assert data(api) == {"group": "1"}


async def test_a_ledger_that_was_found_and_is_deleted_before_it_could_be_claimed_is_written_again(api: ShopApi) -> None:
    await Desk(api).written()
    ledger_writer = await Desk(api).open()
    refuse_updates(api, Refuse(503, "ServiceUnavailable", "away"))
    with pytest.raises(UnavailableError):
        await ledger_writer.claim(absent=True)
    api.trouble = no_trouble
    api.remove(OWNER.path)
    assert await ledger_writer.claim(absent=True) == {"group": "1"}
    assert data(api) == {"group": "1"}


async def test_a_foreign_config_map_that_no_list_of_ledgers_shows_is_left_alone(api: ShopApi) -> None:
    api.put(OWNER.path, {"metadata": {"name": "orders-assignments"}, "data": {"mine": "1"}})
    with pytest.raises(ForeignConfigMap):
        await (await Desk(api).open()).claim(absent=True)
    assert data(api) == {"mine": "1"}


async def test_after_a_name_was_found_taken_claims_look_and_create_nothing(api: ShopApi) -> None:
    api.put(OWNER.path, {"metadata": {"name": "orders-assignments"}, "data": {"mine": "1"}})
    ledger_writer = await Desk(api).open()
    verbs = between(api, lambda: None)
    for _ in range(2):
        with pytest.raises(ForeignConfigMap):
            await ledger_writer.claim(absent=True)
    assert verbs == ["create", "get", "get"]
    api.remove(OWNER.path)
    assert await ledger_writer.claim(absent=True) is None
    assert (verbs, data(api)) == (["create", "get", "get", "get", "create"], {})


QUOTA = Refuse(403, "Forbidden", "exceeded quota: maps")


def full(api: ShopApi) -> list[str]:
    """Refuse creates because of a quota, before the name is looked for; returns the verbs of requests about ledgers."""
    verbs: list[str] = []

    def trouble(verb: str, path: str) -> Refuse | None:
        verbs.extend([verb] if "/configmaps" in path else [])
        return QUOTA if "/configmaps" in path and verb == "create" else None

    api.trouble = trouble
    return verbs


async def test_a_foreign_config_map_is_named_although_the_quota_is_full(api: ShopApi) -> None:
    api.put(OWNER.path, {"metadata": {"name": "orders-assignments"}, "data": {"mine": "1"}})
    ledger_writer = await Desk(api).open()
    verbs = full(api)
    for _ in range(2):
        with pytest.raises(ForeignConfigMap):
            await ledger_writer.claim(absent=True)
    assert verbs == ["create", "get", "get"]


async def test_a_ledger_that_no_list_showed_is_claimed_although_the_quota_is_full(api: ShopApi) -> None:
    await Desk(api).written()
    ledger_writer = await Desk(api).open()
    verbs = full(api)
    assert await ledger_writer.claim(absent=True) == {"group": "1"}
    assert verbs == ["create", "get", "update"]


async def test_a_create_that_a_quota_refuses_is_tried_again_by_each_claim(api: ShopApi, opened: LedgerWriter) -> None:
    verbs = full(api)
    for _ in range(2):
        with pytest.raises(ApiError, match="exceeded quota"):
            await opened.claim(absent=True)
    assert verbs == ["create", "get"] * 2
    api.trouble = no_trouble
    assert await opened.claim(absent=True) is None
    assert data(api) == {}


async def test_the_lead_is_confirmed_only_after_a_create_that_failed(api: ShopApi, monkeypatch: pytest.MonkeyPatch) -> None:
    await Desk(api).written()
    desk = Desk(api)
    ledger_writer = await desk.open()
    confirmed: list[bool] = []
    confirm = desk.elector.confirm

    async def counted() -> bool:
        confirmed.append(await confirm())
        return confirmed[-1]

    monkeypatch.setattr(desk.elector, "confirm", counted)
    refuse_updates(api, Refuse(503, "ServiceUnavailable", "away"))
    with pytest.raises(UnavailableError):
        await ledger_writer.claim(absent=True)
    api.trouble = no_trouble
    assert confirmed == [True]
    assert await ledger_writer.claim(absent=True) == {"group": "1"}
    assert confirmed == [True], "the second claim looked first"


async def test_a_ledger_of_another_uid_is_replaced_and_not_trusted(api: ShopApi) -> None:
    desk = Desk(api)
    ledger_writer = await desk.open()
    await ledger_writer.claim()
    await ledger_writer.write({"group": "1"})
    successor = await Desk(api, "one", LedgerOwner("shop", "orders", "uid-2")).open()
    assert await successor.claim() is None
    assert data(api) == {}


async def test_a_ledger_has_the_booked_partitions_and_a_claim_keeps_them(api: ShopApi) -> None:
    first = Desk(api)
    ledger_writer = await first.open()
    await ledger_writer.claim()
    first.booked = 12
    await ledger_writer.write({"group": "1"})
    assert stored(api.objects[OWNER.path]).partitions == 12
    await first.elector.resign()
    second = await Desk(api, "two").open()
    await second.claim()
    assert stored(api.objects[OWNER.path]).partitions == 12
    await second.write({"group": "2"})
    assert stored(api.objects[OWNER.path]).partitions == 0


@pytest.mark.parametrize("text", ["", "-1", "1e9", "٣", "9" * 1000, "[" * 1000])
def test_an_invalid_number_of_booked_partitions_counts_as_none(text: str) -> None:
    metadata = {"namespace": "shop", "name": "orders-assignments", "resourceVersion": "1", "uid": "u"}
    assert stored({"metadata": {**metadata, "annotations": {PARTITIONS_ANNOTATION: text}}}).partitions == 0
    assert stored({"metadata": {**metadata, "annotations": {PARTITIONS_ANNOTATION: "9" * 9}}}).partitions == MOST_PARTITIONS
    assert stored({"metadata": metadata}).partitions == 0


async def test_unchanged_data_is_not_written_again(api: ShopApi, writer: LedgerWriter) -> None:
    version = version_of(api)
    assert not await writer.write({"group": "1"})
    assert version_of(api) == version
    assert writer.tally.writes == 1


async def test_an_edit_is_overruled_by_the_next_write(api: ShopApi, writer: LedgerWriter) -> None:
    edit(api, group="mine")
    assert await writer.write({"group": "2"})
    assert data(api) == {"group": "2"}
    assert writer.tally.restored == 1


async def test_a_change_of_labels_alone_is_no_edit(api: ShopApi, writer: LedgerWriter) -> None:
    edit(api, group="1")
    assert not await writer.write({"group": "2"})
    assert data(api) == {"group": "2"}


async def test_an_edit_or_a_deletion_that_a_list_shows_is_put_right(api: ShopApi, writer: LedgerWriter) -> None:
    written = version_of(api)
    for version in (written, str(int(written) - 1)):
        writer.listed(version)
        assert not writer.doubtful, "an old story"
    edit(api, group="mine")
    writer.listed(version_of(api))
    assert await writer.check()
    assert data(api) == {"group": "1"}
    api.remove(OWNER.path)
    writer.listed(None)
    assert await writer.check()
    assert data(api) == {"group": "1"}
    assert writer.tally.restored == 2


async def test_an_edit_that_could_not_be_put_right_at_once_is_put_right_later(api: ShopApi, writer: LedgerWriter) -> None:
    edit(api, group="mine")
    writer.listed(version_of(api))
    with in_vain(api):
        await writer.check()
    assert await writer.check()
    assert data(api) == {"group": "1"}


async def test_an_edit_that_a_write_met_and_could_not_replace_is_put_right_also_without_that_write(
    api: ShopApi, writer: LedgerWriter
) -> None:
    edit(api, group="mine")
    refuse_updates(api, Refuse(409, "Conflict", "the object has been modified"))
    with pytest.raises(ConflictError):
        await writer.write({"group": "2"})
    api.trouble = no_trouble
    writer.listed(version_of(api))
    assert await writer.check()
    assert not await writer.write({"group": "1"})
    assert data(api) == {"group": "1"}


async def test_a_write_whose_answer_was_lost_is_found_to_stand_there(api: ShopApi, writer: LedgerWriter) -> None:
    with unanswered(api):
        await writer.write({"group": "2"})
    assert writer.doubtful
    version = version_of(api)
    assert not await writer.check()
    assert version_of(api) == version, "nothing was written"
    assert writer.written == {"group": "2"}
    assert not await writer.write({"group": "3"})
    assert data(api) == {"group": "3"}
    assert writer.tally.restored == 0


@pytest.mark.parametrize("edited", [True, False], ids=["edited", "deleted"])
async def test_a_write_whose_answer_was_lost_and_that_others_replaced_is_written_again(
    api: ShopApi, writer: LedgerWriter, edited: bool
) -> None:
    """Pods may have seen it."""
    with unanswered(api):
        await writer.write({"group": "2"})
    if edited:
        edit(api, group="mine")
    else:
        await api.delete(OWNER.path)
    with in_vain(api):
        await writer.check()
    assert await writer.check()
    assert data(api) == writer.written == {"group": "2"}
    assert writer.tally.restored == 1


async def test_a_ledger_restored_to_what_it_was_before_an_unanswered_write_is_overruled(
    api: ShopApi, writer: LedgerWriter
) -> None:
    """Pods may have seen that write, although the ledger looks as if it had not been carried out."""
    backup = deepcopy(api.objects[OWNER.path])
    with unanswered(api):
        await writer.write({"group": "2"})
    api.put(OWNER.path, backup)
    await writer.check()
    assert data(api) == writer.written == {"group": "2"}


async def test_an_unanswered_write_over_an_edit_is_dropped_if_the_edit_still_stands(api: ShopApi, writer: LedgerWriter) -> None:
    edit(api, group="mine")
    answers = iter([None, Refuse(503, "ServiceUnavailable", "come again")])  # the edit is met, and not replaced
    api.trouble = lambda verb, path: next(answers, None) if (verb, path) == ("update", OWNER.path) else None
    with pytest.raises(UnavailableError):
        await writer.write({"group": "2"})
    assert await writer.check()
    assert data(api) == writer.written == {"group": "1"}


async def test_an_unanswered_write_stays_excluded_if_the_answer_to_that_was_lost_too(api: ShopApi, writer: LedgerWriter) -> None:
    with in_vain(api):
        await writer.write({"group": "2"})
    with unanswered(api):
        await writer.check()
    version = version_of(api)
    assert not await writer.check()
    assert data(api) == writer.written == {"group": "1"}
    assert version_of(api) == version, "nothing else was written"


async def test_a_write_that_was_not_carried_out_can_arrive_no_more(api: ShopApi, writer: LedgerWriter) -> None:
    late = {**api.objects[OWNER.path], "data": {"group": "2"}}
    with in_vain(api):
        await writer.write({"group": "2"})
    with in_vain(api):
        await writer.check()
    assert not await writer.check()
    with pytest.raises(ConflictError):
        await api.replace(OWNER.path, late)
    assert data(api) == writer.written == {"group": "1"}
    assert not await writer.write({"group": "3"})
    edit(api, group="2")
    assert await writer.write({"group": "4"}), "an edit by others"


async def test_a_write_that_arrives_while_it_is_looked_for_is_found(api: ShopApi, writer: LedgerWriter) -> None:
    late = {**api.objects[OWNER.path], "data": {"group": "2"}}
    with in_vain(api):
        await writer.write({"group": "2"})
    arrivals = iter([late])

    def arrive(verb: str, path: str) -> None:
        if (verb, path) == ("update", OWNER.path) and (body := next(arrivals, None)) is not None:
            api.put(OWNER.path, body)

    api.trouble = arrive
    with pytest.raises(ConflictError):
        await writer.check()
    assert not await writer.check()
    assert data(api) == writer.written == {"group": "2"}


async def test_a_deposed_leader_does_not_touch_what_its_successor_wrote(api: ShopApi) -> None:
    first = Desk(api)
    ledger_writer = await first.open()
    await ledger_writer.claim()
    give_up_lead(api)
    successor = await Desk(api, "two").open()
    await successor.claim()
    await successor.write({"group": "new"})
    with pytest.raises(Deposed):
        await ledger_writer.write({"group": "old"})
    ledger_writer.listed("1000")
    with pytest.raises(Deposed):
        await ledger_writer.check()
    assert data(api) == {"group": "new"}


async def test_a_replica_that_does_not_lead_does_not_write(api: ShopApi) -> None:
    desk = Desk(api)
    ledger_writer = await desk.open()
    await ledger_writer.claim()
    await desk.elector.resign()
    with pytest.raises(Deposed):
        await ledger_writer.write({"group": "1"})


async def succeeded() -> tuple[ShopApi, Desk, LedgerWriter]:
    """A writer of the ledger after another leader led, wrote it and gave the lead up."""
    api = ShopApi()
    first = Desk(api)
    ledger_writer = await first.written()
    give_up_lead(api)
    second = Desk(api, "two")
    successor = await second.open()
    await successor.claim()
    await successor.write({"group": "new"})
    await second.elector.resign()
    return api, first, ledger_writer


async def test_a_leader_that_lost_and_regained_the_lead_does_not_write_its_earlier_state() -> None:
    api, first, ledger_writer = await succeeded()
    await first.elector.attempt()
    assert first.elector.leading
    with pytest.raises(Deposed):
        await ledger_writer.write({"group": "old"})
    ledger_writer.listed("999999")
    with pytest.raises(Deposed):
        await ledger_writer.check()
    assert data(api) == {"group": "new"}


async def test_a_lead_that_is_won_again_only_when_it_is_confirmed_does_not_count_either() -> None:
    api, _, ledger_writer = await succeeded()
    with pytest.raises(Deposed):
        await ledger_writer.write({"group": "old"})
    assert data(api) == {"group": "new"}


async def test_a_ledger_claimed_by_a_successor_is_not_the_writers_own_even_if_unchanged(api: ShopApi) -> None:
    first = Desk(api)
    ledger_writer = await first.written()
    give_up_lead(api)
    await (await Desk(api, "two").open()).claim()
    ledger_writer.listed("999999")
    with pytest.raises(Deposed):
        await ledger_writer.check()


LEDGER = {"baton.dev/group": "orders", "app.kubernetes.io/managed-by": "baton"}
OWNED = {"apiVersion": "baton.dev/v1alpha1", "kind": "ConsumerGroup", "name": "orders", "uid": "uid-0"}


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"labels": LEDGER},
        {"ownerReferences": [OWNED]},
        {"labels": LEDGER | {"baton.dev/group": "others"}, "ownerReferences": [OWNED]},
        {"labels": LEDGER | {"app.kubernetes.io/managed-by": "Helm"}, "ownerReferences": [OWNED]},
        {"labels": LEDGER, "ownerReferences": [{**OWNED, "kind": "PartitionedQueue"}]},
        {"labels": LEDGER, "ownerReferences": [{**OWNED, "apiVersion": "example.com/v1"}]},
        {"labels": LEDGER, "ownerReferences": [{**OWNED, "name": "others"}]},
    ],
)
async def test_a_config_map_that_is_no_ledger_of_the_group_is_left_alone(api: ShopApi, metadata: dict[str, Any]) -> None:
    api.put(OWNER.path, {"metadata": {"name": "orders-assignments", **metadata}, "data": {"mine": "1"}})
    ledger_writer = await Desk(api).open()
    with pytest.raises(ForeignConfigMap, match=r"ConfigMap shop/orders-assignments .* Delete it or give it another name"):
        await ledger_writer.claim()
    assert data(api) == {"mine": "1"}


async def test_the_operators_own_ledger_is_restored_without_its_labels_and_owner(api: ShopApi, writer: LedgerWriter) -> None:
    metadata = {key: api.objects[OWNER.path]["metadata"][key] for key in ("name", "uid")}
    api.put(OWNER.path, {"metadata": metadata, "data": {"mine": "1"}})
    assert await writer.write({"group": "2"})
    assert data(api) == {"group": "2"}
    assert api.objects[OWNER.path]["metadata"]["labels"] == LEDGER


async def test_finalizers_of_others_stay_on_the_ledger(api: ShopApi, opened: LedgerWriter) -> None:
    await opened.claim()
    before = api.objects[OWNER.path]
    api.put(OWNER.path, {**before, "metadata": {**before["metadata"], "finalizers": ["example.com/backup"]}})
    await opened.write({"group": "1"})
    await opened.write({"group": "2"})
    assert api.objects[OWNER.path]["metadata"]["finalizers"] == ["example.com/backup"]


def test_size_is_in_bytes_of_keys_and_values() -> None:
    assert size({"a": "ü"}) == 3


ORDERS = QueueName("orders")


def found() -> tuple[Group, dict[int, Ownership]]:
    """A group at rest, and its owner records."""
    group = Group(4, incarnation="run").start("a", "b")
    return group, {p.number: Ownership(*record) for p, record in group.records.items()}


def test_records_that_agree_leave_the_ledger_as_it_is() -> None:
    group, records = found()
    assert not contradicted(group.state, ORDERS, records)


def test_a_grant_under_way_is_no_contradiction() -> None:
    group, records = found()
    group.join("c", "d")
    group.step(10)
    group.step(100)
    moving = next(iter(group.state.moves))
    records[moving.number] = Ownership(Uid("uid-c"), group.state.moves[moving].epoch)
    assert not contradicted(group.state, ORDERS, records)


@pytest.mark.parametrize(
    "record",
    [
        Ownership(Uid("uid-a"), Epoch(9)),
        Ownership(Uid("uid-b"), Epoch(1)),
        Ownership(Uid("uid-a"), Epoch(1), paused=True),
        Ownership(None, Epoch(0)),
    ],
)
def test_another_epoch_another_owner_none_or_a_pause_is_a_contradiction(record: Ownership) -> None:
    group, records = found()
    assert contradicted(group.state, ORDERS, {**records, 0: record}) == [0]


def test_a_higher_epoch_of_an_unowned_partition_is_a_contradiction_and_a_lower_one_is_none() -> None:
    group, records = found()
    record = group.state.records[partition(0)]
    group.state = replace(
        group.state, records={**group.state.records, partition(0): PartitionRecord(record.epoch, None, record.owner)}
    )
    assert contradicted(group.state, ORDERS, records) == []
    assert contradicted(group.state, ORDERS, {**records, 0: Ownership(Uid("elsewhere"), Epoch(9))}) == [0]


@pytest.mark.parametrize("forged", [0, 900])
def test_everything_is_granted_again_above_ledger_and_queue(forged: int) -> None:
    group, records = found()
    record = group.state.records[partition(0)]
    group.state = replace(
        group.state, records={**group.state.records, partition(0): PartitionRecord(Epoch(forged), record.owner, record.last)}
    )
    assert contradicted(group.state, ORDERS, records)
    group.state = in_doubt(group.state, ORDERS)
    owners = {number: Ownership(one.uid, one.epoch) for number, one in records.items()}
    group.queues[ORDERS] = ObservedQueue(4, incarnation="run", owners=owners)
    granted = {number: (owner, epoch) for number, owner, epoch in grants(group.step(60))}
    assert granted == {0: ("a", max(forged, 1) + 1), 1: ("b", 2), 2: ("a", 2), 3: ("b", 2)}


def test_everything_is_granted_again_if_no_record_is_left_and_the_observation_is_unchanged() -> None:
    group, _ = found()
    seen = group.observe(frozenset())
    rest = step(group.state, seen, 60)
    assert not grants(step(rest.state, seen, 60))
    assert [epoch for *_, epoch in grants(step(in_doubt(rest.state, ORDERS), seen, 60))] == [2] * 4


def test_in_doubt_partitions_of_a_queue_that_records_nothing_are_granted_again_once() -> None:
    group = Group(4, fenced=False).start("a", "b")
    group.state = in_doubt(group.state, ORDERS)
    assert {epoch for *_, epoch in grants(group.step(60))} == {2}
    group.settle(61)
    assert not grants(group.step(70))


ANOTHER = "another client wrote at the queue orders"
OLDER = "the queue orders came back with older data"
EMPTY = "the queue orders came back empty"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({0: Ownership(Uid("elsewhere"), Epoch(9))}, ANOTHER),
        ({0: Ownership(Uid("uid-a"), Epoch(3), paused=True)}, ANOTHER),
        ({0: Ownership(Uid("uid-a"), Epoch(2)), 1: Ownership(Uid("elsewhere"), Epoch(9))}, ANOTHER),
        ({0: Ownership(Uid("uid-a"), Epoch(2)), 1: None}, OLDER),
        (dict.fromkeys(range(4)), EMPTY),
    ],
)
def test_the_event_names_the_cause_of_contradicting_records(changed: dict[int, Ownership | None], said: str) -> None:
    group, _ = found()
    third = Epoch(3)
    records = {p: PartitionRecord(third, record.owner, record.last) for p, record in group.state.records.items()}
    group.state = replace(group.state, records=records)
    before = {p.number: Ownership(Uid(f"uid-{record.owner}"), third) for p, record in records.items()}
    owners = {number: one for number, one in {**before, **changed}.items() if one is not None}
    wrong = contradicted(group.state, ORDERS, owners)
    assert wrong == list(changed)
    reason, note = contradiction_event(group.state, ORDERS, owners, wrong, first=False)
    assert reason == "OwnersRestored" and note.startswith(said) and f"{len(wrong)} partition" in note


def test_a_new_operator_also_reports_a_queue_that_lost_its_data() -> None:
    group, records = found()
    assert contradiction_event(group.state, ORDERS, {}, [0, 1, 2, 3], first=True)[1].startswith(EMPTY)
    changed = {**records, 0: Ownership(Uid("uid-b"), Epoch(1))}
    assert contradiction_event(group.state, ORDERS, changed, [0], first=True)[0] == "LedgerRebuilt"
