"""Who may take a Lease, and what its holder writes."""

from datetime import UTC, datetime, timedelta

import pytest

from baton.model.lease import LONGEST_DURATION, Manifest, Vacancy, held

NOW = datetime(2026, 11, 21, 9, 48, tzinfo=UTC)


def lease(before: Manifest | None, holder: str, now: datetime = NOW) -> Manifest:
    return {"spec": held(before, holder, 15, now)}


def test_a_lease_is_free_only_after_its_whole_length_without_a_renewal_that_was_seen() -> None:
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
def test_a_lease_that_nobody_else_holds_is_free(found: Manifest | None) -> None:
    assert Vacancy().free(found, "me", 0.0)


def test_a_lease_that_says_longer_than_it_may_last_is_free_after_the_longest_duration() -> None:
    vacancy = Vacancy()
    taken = {"spec": {"holderIdentity": "other", "leaseDurationSeconds": 2**31 - 1}}
    assert not vacancy.free(taken, "me", 0.0)
    assert not vacancy.free(taken, "me", LONGEST_DURATION - 0.1)
    assert vacancy.free(taken, "me", LONGEST_DURATION)


def test_it_is_counted_how_often_a_lease_changes_hands() -> None:
    first = lease(None, "one")
    renewed = lease(first, "one", NOW + timedelta(seconds=3))
    given_up = lease(renewed, "")
    second = lease(given_up, "two")
    assert [one["spec"]["leaseTransitions"] for one in (first, renewed, given_up, second)] == [0, 0, 0, 1]


def test_a_renewal_keeps_when_the_lease_was_taken_and_what_others_wrote() -> None:
    before = {"spec": {**held(None, "me", 15, NOW), "strategy": "OldestEmulationVersion"}}
    renewed = held(before, "me", 15, NOW + timedelta(seconds=3))
    assert renewed["acquireTime"] == before["spec"]["acquireTime"] != renewed["renewTime"]
    assert renewed["strategy"] == "OldestEmulationVersion"


def test_times_have_the_six_digits_that_the_api_server_wants() -> None:
    assert held(None, "me", 15, NOW)["renewTime"] == "2026-11-21T09:48:00.000000Z"
