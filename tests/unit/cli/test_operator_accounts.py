"""Whose rights `baton doctor` asks for, where there are more operators than it asks of."""

from typing import Any

from baton.cli.cluster_facts import MOST_OPERATORS, accounts
from baton.cli.group import Leader


def deployment(namespace: str, *arguments: str) -> dict[str, Any]:
    spec = {"serviceAccountName": "baton", "containers": [{"args": list(arguments)}]}
    return {"metadata": {"namespace": namespace}, "spec": {"template": {"spec": spec}}}


def test_the_operator_of_most_groups_comes_first_whatever_others_call_theirs() -> None:
    fakes = [deployment(f"a-tenant-{number}") for number in range(MOST_OPERATORS)]
    leaders = [Leader("ops/baton"), Leader("ops/baton"), Leader("a-tenant-0/baton")]
    found = accounts([*fakes, deployment("ops", "--namespace=shop")], leaders)
    assert found[:2] == [("system:serviceaccount:ops:baton", ("shop",)), ("system:serviceaccount:a-tenant-0:baton", ())]
    assert len(found) == MOST_OPERATORS


def test_without_groups_they_come_by_name() -> None:
    found = accounts([deployment("b"), deployment("a"), deployment("a")], [])
    assert [account for account, _ in found] == ["system:serviceaccount:a:baton", "system:serviceaccount:b:baton"]
