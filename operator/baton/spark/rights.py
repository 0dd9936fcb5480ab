"""What the driver's account has to be allowed, asked of the API server before the fleet starts, and while it runs.

Without these rights Spark or the driver would wait for ever, each with its own warning.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from baton.consumer.api_server import ApiConnection
from baton.model.names import driver_lease_name, ledger_name

log = logging.getLogger("baton.spark")

_PATIENCE = 10.0
"""Seconds: a Role may be applied right after the driver."""
_AGAIN = 1.0


class MissingRights(Exception):  # noqa: N818 -- what is missing, for the user
    """The driver's account may not do what a fleet needs: one line, with the cure."""


class Right(NamedTuple):
    """One verb on a resource of the driver's namespace. An empty `name` means any object."""

    group: str
    resource: str
    verb: str
    name: str = ""


def needed(group: str) -> tuple[Right, ...]:
    """Spark's own rights (executors, and the ConfigMap that they mount), the ledger's, and those of the driver's Lease."""
    ledger, lease = ledger_name(group), driver_lease_name(group)
    return (
        *(Right("", "pods", verb) for verb in ("get", "list", "watch", "create", "delete")),
        Right("", "configmaps", "create"),
        *(Right("", "configmaps", verb, ledger) for verb in ("list", "watch")),
        Right("coordination.k8s.io", "leases", "create"),
        *(Right("coordination.k8s.io", "leases", verb, lease) for verb in ("get", "update")),
    )


def require(api: ApiConnection, namespace: str, group: str, patience: float = _PATIENCE) -> None:
    """Return once the account has all rights. Raises MissingRights where it has not after `patience` seconds. An API server that
    does not answer is no refusal: the fleet waits for it elsewhere.
    """
    until = time.monotonic() + patience
    while True:
        try:
            found = lacking(api, namespace, group)
        except Exception as error:  # whatever the way to the API server raises
            log.info("the rights of the driver's account were not looked at: %s", error)
            return
        if not found:
            return
        if time.monotonic() >= until:
            raise MissingRights(found)
        time.sleep(_AGAIN)


def require_in_pod(namespace: str, group: str, environment: Mapping[str, str]) -> None:
    """`require` for the account of this pod. A pod without a token is the fleet's to report."""
    try:
        api = ApiConnection.in_pod(environment=environment)
    except ValueError:
        return
    require(api, namespace, group, _PATIENCE)


def lacking(api: ApiConnection, namespace: str, group: str) -> str:
    """What a fleet needs and the account may not do, in one line for the user; empty: nothing."""
    refused = [right for right in needed(group) if not _allowed(api, namespace, right)]
    return sentence(_account(api), namespace, refused) if refused else ""


def sentence(account: str, namespace: str, rights: Iterable[Right]) -> str:
    """One line for the user."""
    verbs: dict[str, list[str]] = defaultdict(list)
    for right in rights:
        verbs[f"{right.resource}.{right.group}" if right.group else right.resource].append(right.verb)
    what = "; ".join(f"{resource}: {', '.join(dict.fromkeys(those))}" for resource, those in verbs.items())
    return (
        f"the account {account} lacks rights in namespace {namespace} ({what}): bind a Role with them to it, as rbac.yaml of "
        "manifests/examples/spark does"
    )


def _allowed(api: ApiConnection, namespace: str, right: Right) -> bool:
    attributes = {"namespace": namespace, **right._asdict()}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {name: value for name, value in attributes.items() if value}},
    }
    answer = api.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    return bool((answer.get("status") or {}).get("allowed"))


def _account(api: ApiConnection) -> str:
    """The name of the driver's account, as the API server knows it."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = api.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "of the driver")


# -- while it runs

_EVERY = 30.0
"""Seconds."""


class WatchedRights:
    """Asks again while the fleet runs, for a Role may be changed. Without it only Spark's log would tell, as of an executor that
    cannot be made: the driver's Lease does."""

    def __init__(self, api: ApiConnection, namespace: str, group: str, every: float = _EVERY) -> None:
        """`every`: seconds between two looks."""
        self._api, self._namespace, self._group, self._every = api, namespace, group, every
        self._missing = ""
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="baton-rights", daemon=True).start()

    def missing(self) -> str:
        """A sentence for people; empty: nothing, as far as is known."""
        return self._missing

    def close(self) -> None:
        """Look no more."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(self._every):
            try:
                self._look()
            except Exception as error:  # an API server that does not answer is no refusal
                log.debug("the rights of the driver's account were not looked at: %s", error)

    def _look(self) -> None:
        found = lacking(self._api, self._namespace, self._group)
        if found and found != self._missing:
            log.error("%s", found)
        self._missing = found
