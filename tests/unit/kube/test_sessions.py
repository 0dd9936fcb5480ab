"""Lapsed sessions, and the content of Leases."""

from dataclasses import replace

from baton.kube.leases import LeaseView, SessionClock, view
from baton.model.ids import Uid
from baton.model.session import parse_releases

LEASE = LeaseView("shop", "baton-a", "orders", Uid("u1"), duration=15, renewal="10:00:00")


def listed() -> SessionClock:
    """All Leases are listed all the time."""
    clock = SessionClock()
    clock.listed(None, float("inf"))
    return clock


def test_expiry_counts_from_the_last_renewal_seen() -> None:
    clock = listed()
    clock.renewed(LEASE, 100)
    clock.renewed(LEASE, 110)  # seen again, not renewed
    assert not clock.lapsed(LEASE, 114.9)
    assert clock.lapsed(LEASE, 115)
    clock.renewed(replace(LEASE, renewal="10:00:03"), 115)
    assert not clock.lapsed(LEASE, 129.9)


def test_after_an_own_outage_every_session_gets_a_full_term() -> None:
    clock = listed()
    clock.renewed(LEASE, 100)
    clock.outage(200)
    assert not clock.lapsed(LEASE, 214.9)
    assert clock.lapsed(LEASE, 215)


def test_another_holder_of_a_lease_is_another_session() -> None:
    clock = listed()
    clock.renewed(LEASE, 100)
    clock.renewed(replace(LEASE, holder=Uid("u2")), 114)
    assert clock.lapsed(LEASE, 115)
    assert not clock.lapsed(replace(LEASE, holder=Uid("u2")), 115)


def test_a_session_that_was_given_up_has_not_lapsed() -> None:
    clock = listed()
    clock.renewed(LEASE, 0)
    assert not clock.lapsed(replace(LEASE, holder=None), 1000)


def test_a_session_lapses_only_after_a_list_shows_no_renewal() -> None:
    clock = SessionClock()
    clock.renewed(LEASE, 100)
    assert (clock.overdue(LEASE, 1000), clock.lapsed(LEASE, 1000)) == (True, False)
    clock.listed("shop", 114.9)
    clock.listed("bank", 1000)
    assert not clock.lapsed(LEASE, 1000)
    clock.listed("shop", 115)
    assert clock.lapsed(LEASE, 1000)
    clock.renewed(replace(LEASE, renewal="10:00:03"), 1000)
    assert not clock.overdue(LEASE, 1000)


def test_an_outage_of_one_namespace_affects_no_other() -> None:
    clock = listed()
    clock.renewed(LEASE, 100)
    clock.outage(200, "bank")
    assert clock.lapsed(LEASE, 115)
    clock.outage(200, "shop")
    assert not clock.lapsed(LEASE, 214)


def test_a_forgotten_session_begins_again() -> None:
    clock = listed()
    clock.renewed(LEASE, 100)
    clock.forget(LEASE)
    clock.renewed(LEASE, 200)
    assert not clock.lapsed(LEASE, 214)


def manifest(**annotations: str) -> dict[str, object]:
    return {
        "metadata": {
            "namespace": "shop",
            "name": "orders-driver",
            "labels": {"baton.dev/group": "orders"},
            "annotations": annotations,
        },
        "spec": {"holderIdentity": "u1", "leaseDurationSeconds": 20, "renewTime": "10:00:00"},
    }


def test_a_lease_is_read() -> None:
    seen = view(
        manifest(
            **{
                "baton.dev/releases": '{"u1":{"orders":"5@12"}}',
                "baton.dev/executors": "1, 2",
                "baton.dev/spark-app": "app-1",
            }
        )
    )
    assert seen is not None
    assert seen.releases == parse_releases('{"u1":{"orders":"5@12"}}')
    assert (seen.executors, seen.spark_app, seen.duration) == (frozenset({"1", "2"}), "app-1", 20)


def test_unreadable_releases_are_a_problem_and_count_as_none() -> None:
    seen = view(manifest(**{"baton.dev/releases": '{"u1":"5@12"}'}))
    assert seen is not None
    assert seen.releases == {}
    assert "baton.dev/releases" in (seen.problem or "")


def test_a_renewal_alone_is_no_change() -> None:
    assert replace(LEASE, renewal="later") == LEASE


def test_a_lease_without_the_label_is_ignored() -> None:
    assert view({"metadata": {"namespace": "shop", "name": "l"}, "spec": {}}) is None


def test_a_pods_lease_is_about_that_pod_and_a_drivers_about_all() -> None:
    text = '{"u1":{"orders":"5@12"},"u2":{"orders":"6@12"},"u3":7}'
    lease = manifest(**{"baton.dev/releases": text.replace(',"u3":7', "")})
    drivers = view(lease)
    assert drivers is not None and set(drivers.releases) == {"u1", "u2"}
    own = manifest(**{"baton.dev/releases": text})
    own["metadata"]["name"] = "baton-a"  # type: ignore[index]
    seen = view(own)
    assert seen is not None and set(seen.releases) == {"u1"} and seen.problem is None
