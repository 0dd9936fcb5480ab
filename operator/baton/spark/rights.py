"""Checks the rights of the driver's account at the API server, before the fleet starts and while it runs.

Without these rights Spark or the driver would wait forever, with different warnings.
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
"""Seconds, because a Role may be applied right after the driver."""
_AGAIN = 1.0


class MissingRights(Exception):  # noqa: N818 -- what is missing, for the user
    """The driver's account lacks rights that a fleet needs. The text is one line, with the fix."""


class Right(NamedTuple):
    """One verb on a resource of the driver's namespace. An empty `name` means any object."""

    group: str
    resource: str
    verb: str
    name: str = ""


def needed(group: str) -> tuple[Right, ...]:
    """Rights on executors' pods and the ConfigMap that they mount (for Spark), on the ledger, and on the driver's Lease."""
    ledger, lease = ledger_name(group), driver_lease_name(group)
    return (
        *(Right("", "pods", verb) for verb in ("get", "list", "watch", "create", "delete")),
        Right("", "configmaps", "create"),
        *(Right("", "configmaps", verb, ledger) for verb in ("list", "watch")),
        Right("coordination.k8s.io", "leases", "create"),
        *(Right("coordination.k8s.io", "leases", verb, lease) for verb in ("get", "update")),
    )


def require(api: ApiConnection, namespace: str, group: str, patience: float = _PATIENCE) -> None:
    """Return once the account has all rights. Raises MissingRights if it still lacks some after `patience` seconds. Also returns
    if the API server does not answer: the fleet waits for it elsewhere.
    """
    until = time.monotonic() + patience
    while True:
        try:
            found = lacking(api, namespace, group)
        except Exception as error:  # any error of the connection to the API server
            log.info("the rights of the driver's account were not checked: %s", error)
            return
        if not found:
            return
        if time.monotonic() >= until:
            raise MissingRights(found)
        time.sleep(_AGAIN)


def require_in_pod(namespace: str, group: str, environment: Mapping[str, str]) -> None:
    """Call `require` for the account of this pod. Without a token, do nothing: the fleet reports that."""
    try:
        api = ApiConnection.in_pod(environment=environment)
    except ValueError:
        return
    require(api, namespace, group, _PATIENCE)


def lacking(api: ApiConnection, namespace: str, group: str) -> str:
    """Describe the missing rights in one line for the user; empty if none is missing."""
    refused = [right for right in needed(group) if not _allowed(api, namespace, right)]
    return sentence(_account(api), namespace, refused) if refused else ""


def sentence(account: str, namespace: str, rights: Iterable[Right]) -> str:
    """Name the missing rights and the fix, in one line."""
    verbs: dict[str, list[str]] = defaultdict(list)
    for right in rights:
        verbs[f"{right.resource}.{right.group}" if right.group else right.resource].append(right.verb)
    what = "; ".join(f"{resource}: {', '.join(dict.fromkeys(those))}" for resource, those in verbs.items())
    return (
        f"the account {account} lacks rights in namespace {namespace} ({what}): bind a Role with these rights to it, as "
        "rbac.yaml of manifests/examples/spark does"
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
    """Name of the driver's account at the API server."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = api.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "of the driver")


# -- while it runs

_EVERY = 30.0
"""Seconds."""


class WatchedRights:
    """Checks the rights while the fleet runs, because a Role may be changed, for the report in the driver's Lease. Without this,
    only Spark's log would show it, such as by executors that cannot be created."""

    def __init__(self, api: ApiConnection, namespace: str, group: str, every: float = _EVERY) -> None:
        """`every`: seconds between checks."""
        self._api, self._namespace, self._group, self._every = api, namespace, group, every
        self._missing = ""
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="baton-rights", daemon=True).start()

    def missing(self) -> str:
        """Return a sentence about missing rights; empty if none is missing or nothing was checked yet."""
        return self._missing

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(self._every):
            try:
                self._look()
            except Exception as error:  # an API server that does not answer says nothing about rights
                log.debug("the rights of the driver's account were not checked: %s", error)

    def _look(self) -> None:
        found = lacking(self._api, self._namespace, self._group)
        if found and found != self._missing:
            log.error("%s", found)
        self._missing = found
