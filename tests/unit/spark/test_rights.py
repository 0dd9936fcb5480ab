"""What is told of rights that a driver lacks."""

from baton.spark.rights import needed, sentence


def test_what_is_missing_is_one_line_with_the_account_and_the_cure() -> None:
    lacking = [right for right in needed("orders") if right.resource == "leases" or right.verb == "create"]
    assert sentence("system:serviceaccount:shop:default", "shop", lacking) == (
        "the account system:serviceaccount:shop:default lacks rights in namespace shop (pods: create; configmaps: create; "
        "leases.coordination.k8s.io: create, get, update): bind a Role with them to it, as rbac.yaml of manifests/examples/spark "
        "does"
    )


def test_the_ledger_and_the_lease_are_asked_for_by_their_names() -> None:
    assert {right.name for right in needed("orders")} == {"", "orders-assignments", "orders-driver"}
