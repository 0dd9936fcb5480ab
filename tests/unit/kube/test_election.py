"""Which candidate leads, and what happens to the Lease."""

from math import inf, nan

import pytest
from click.testing import CliRunner

from baton.cli.operator import operator
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Elector, Terms, still_leads
from tests.unit.kube.memory_api import ShopApi

TERMS = Terms(duration=10, renew_deadline=6, retry=1)
PATH = "/apis/coordination.k8s.io/v1/namespaces/baton/leases/operator"


@pytest.mark.parametrize(("renewed", "now", "leads"), [(None, 0, False), (0, 5.9, True), (0, 6, False)])
def test_a_leader_stops_before_others_may_start(renewed: float | None, now: float, leads: bool) -> None:
    assert still_leads(renewed, now, TERMS) is leads


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ((5, 5, 1), "they are 5, 5 and 1 s"),
        ((5, 6, 1), "they are 5, 6 and 1 s"),
        ((5, 3, 3), "they are 5, 3 and 3 s"),
        ((5, nan, 1), "they are 5, nan and 1 s"),
        ((5, 3, 0), r"retry period must be 0\.1 s or more: it is 0"),
        ((5, 3, nan), r"retry period must be 0\.1 s or more: it is nan"),
        ((2.4, 1.5, 0.3), r"must be whole seconds from 1 to 300, .* it is 2\.4"),
        ((301, 3, 1), "it is 301"),
        ((inf, 3, 1), "it is inf"),
        ((nan, 3, 1), "it is nan"),
        ((-inf, 3, 1), "it is -inf"),
    ],
)
def test_terms_that_would_let_two_lead_or_do_not_fit_into_a_lease_are_refused(
    terms: tuple[float, float, float], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        Terms(*terms)


def test_the_command_says_which_duration_is_refused() -> None:
    said = CliRunner().invoke(operator, ["--lease-duration", "2.4", "--renew-deadline", "1.5", "--retry-period", "0.3"])
    assert said.exit_code == 2
    assert "the lease duration must be whole seconds" in said.output
    assert "Traceback" not in said.output


def elector(api: ShopApi, identity: str) -> Elector:
    return Elector(api, "baton", "operator", identity, TERMS, ApiServerClock(), lambda: None)


async def test_the_first_makes_the_lease_and_the_second_waits() -> None:
    api = ShopApi()
    first, second = elector(api, "one"), elector(api, "two")
    await first.attempt()
    await second.attempt()
    assert (first.leading, second.leading) == (True, False)
    assert api.objects[PATH]["spec"]["holderIdentity"] == "one"


async def test_a_lease_that_was_given_up_is_taken_at_once_in_a_later_term() -> None:
    api = ShopApi()
    first, second = elector(api, "one"), elector(api, "two")
    await first.attempt()
    await first.resign()
    await second.attempt()
    assert (first.leading, second.leading) == (False, True)
    assert (first.term, second.term) == (0, 1)


async def test_a_container_that_was_restarted_in_its_pod_takes_its_lease_back_at_once() -> None:
    api = ShopApi()
    await elector(api, "pod").attempt()
    successor = elector(api, "pod")
    await successor.attempt()
    assert successor.leading


async def test_who_finds_another_in_its_lease_does_not_lead_any_more() -> None:
    api = ShopApi()
    first = elector(api, "one")
    await first.attempt()
    api.put(PATH, {**api.objects[PATH], "spec": {**api.objects[PATH]["spec"], "holderIdentity": "two"}})
    assert not await first.confirm()


async def test_an_outage_is_remembered_when_it_is_over() -> None:
    api = ShopApi()
    one = elector(api, "one")
    await one.attempt()
    api.away = True
    await one.attempt()
    assert one.outage_ended_at is None
    api.away = False
    await one.attempt()
    assert one.outage_ended_at is not None
