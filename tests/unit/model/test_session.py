"""Releases in a session's Lease, and Leases that are free or held."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from baton.model import Epoch, QueueName, Uid
from baton.model.lease import LONGEST_DURATION, Manifest, Vacancy, held
from baton.model.session import LONGEST, Release, Releases, format_releases, parse_releases
from tests.in_memory_lease import releases_in

releases = st.frozensets(
    st.builds(
        Release,
        st.sampled_from(["u1", "u2"]).map(Uid),
        st.sampled_from(["orders", "payments"]).map(QueueName),
        st.integers(0, 20),
        st.integers(1, 3).map(Epoch),
    )
)


def released(partition: int, epoch: int) -> Release:
    return Release(Uid("u"), QueueName("orders"), partition, Epoch(epoch))


@given(releases, releases)
def test_written_releases_are_found(given_up: frozenset[Release], others: frozenset[Release]) -> None:
    told = dict.fromkeys(one[:3] for one in sorted(given_up))  # of one partition the last epoch is written
    written = {max(one for one in given_up if one[:3] == key) for key in told}
    read = Releases(parse_releases(format_releases(given_up)))
    assert {one for one in given_up | others if one in read} == written
    assert releases_in(format_releases(given_up)) == written


def test_releases_of_one_uid_are_written_together() -> None:
    text = format_releases([released(5, 12), released(6, 12)])
    assert text == '{"u":{"orders":"5-6@12"}}'


@given(releases, st.integers(2, 200))
def test_releases_that_do_not_fit_are_left_out(given_up: frozenset[Release], longest: int) -> None:
    text = format_releases(given_up, longest)
    assert len(text) <= longest
    assert releases_in(text) <= given_up


def test_a_partition_may_be_released_at_several_epochs() -> None:
    said = Releases(parse_releases('{"u":{"orders":"7@17,0-3@12,2-5@12,2@1,7@17"}}'))
    found = {(n, epoch) for n in range(10) for epoch in (1, 12, 17) if released(n, epoch) in said}
    assert found == {(2, 1), (7, 17), *((n, 12) for n in range(6))}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "it is not an object"),
        ("{", "it is not JSON"),
        ("[" * 1000, "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ('{"u":1}', "the value of 'u' is not an object"),
        ('{"u":{"orders":"x"}}', "the value of 'u', 'orders' is not a list of grants"),
        ('{"u":{"orders":5}}', "is not a list of grants"),
        ('{"u":{"orders":{"a":1}}}', "is not a list of grants"),
        ('{"%s":{}}' % ("u" * 100), "is not a UID"),
        ("{" + ",".join(f'"{n}":{{}}' for n in range(8_001)) + "}", "names more than 8,000 pods and queues"),
        ("1" * 5000, "it is not JSON"),
        (" " * LONGEST + "{}", "has 262,146 characters, and at most 262,144 are read"),
    ],
)
def test_malformed_releases_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refusal:
        parse_releases(text)
    assert len(str(refusal.value)) < 400 and str(refusal.value).isprintable()


@pytest.mark.parametrize("text", ["9-3@5", "3", "5@", "0-1000001@1", "1@" + "9" * 30, "-", "@"])
def test_a_malformed_grant_releases_nothing_and_is_reported(text: str) -> None:
    said = parse_releases(f'{{"u":{{"orders":"4@5,{text}"}}}}')[Uid("u")]
    assert not said.names(QueueName("orders"), 4, Epoch(5))
    assert list(said.refused) == ["orders"]


@example({"\U00010000" * 41: None})
@given(
    st.recursive(
        st.none() | st.integers() | st.floats() | st.text(), lambda part: st.lists(part) | st.dictionaries(st.text(), part)
    )
)
def test_any_json_is_read_or_refused(raw: object) -> None:
    for text in (json.dumps(raw), json.dumps({"u": raw}), json.dumps({"u": {"orders": raw}})):
        try:
            said = parse_releases(text)
        except ValueError as refusal:
            told = [str(refusal)]
        else:
            asked = released(1, 1) in Releases(said)
            assert asked is (raw == "1@1" or raw == {"orders": "1@1"} or raw == {"u": {"orders": "1@1"}})
            told = [why for one in said.values() for why in one.refused.values()]
        assert all(len(why) < 400 and why.isprintable() for why in told)


# -- Leases: when one is free, and the spec that its holder writes.


NOW = datetime(2026, 11, 21, 9, 48, tzinfo=UTC)


def lease(before: Manifest | None, holder: str, now: datetime = NOW) -> Manifest:
    return {"spec": held(before, holder, 15, now)}


def test_a_lease_is_free_after_its_length_without_a_renewal() -> None:
    vacancy = Vacancy()
    taken = lease(None, "other")
    assert not vacancy.free(taken, "me", 100.0)
    assert not vacancy.free(taken, "me", 114.9)
    taken = lease(taken, "other", NOW + timedelta(seconds=3))
    assert not vacancy.free(taken, "me", 115.1)
    assert vacancy.free(taken, "me", 130.1)


@pytest.mark.parametrize(
    "found", [None, {"metadata": {}}, {"spec": {"holderIdentity": None}}, lease(None, ""), lease(None, "me")]
)
def test_an_unheld_lease_is_free(found: Manifest | None) -> None:
    assert Vacancy().free(found, "me", 0.0)


def test_a_lease_with_an_excessive_duration_is_free_after_the_longest() -> None:
    vacancy = Vacancy()
    taken = {"spec": {"holderIdentity": "other", "leaseDurationSeconds": 2**31 - 1}}
    assert not vacancy.free(taken, "me", 0.0)
    assert not vacancy.free(taken, "me", LONGEST_DURATION - 0.1)
    assert vacancy.free(taken, "me", LONGEST_DURATION)


def test_transitions_of_a_lease_are_counted() -> None:
    first = lease(None, "one")
    renewed = lease(first, "one", NOW + timedelta(seconds=3))
    given_up = lease(renewed, "")
    second = lease(given_up, "two")
    assert [one["spec"]["leaseTransitions"] for one in (first, renewed, given_up, second)] == [0, 0, 0, 1]


def test_a_renewal_keeps_the_acquire_time_and_foreign_fields() -> None:
    before = {"spec": {**held(None, "me", 15, NOW), "strategy": "OldestEmulationVersion"}}
    renewed = held(before, "me", 15, NOW + timedelta(seconds=3))
    assert renewed["acquireTime"] == before["spec"]["acquireTime"] != renewed["renewTime"]
    assert renewed["strategy"] == "OldestEmulationVersion"


def test_times_have_microseconds() -> None:
    assert held(None, "me", 15, NOW)["renewTime"] == "2026-11-21T09:48:00.000000Z"
