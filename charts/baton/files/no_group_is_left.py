"""What `helm uninstall` runs first: names the groups that are left, whose queues only this operator would release."""

import json
import os
import re
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

FINALIZER = "baton.dev/release"
GROUP_LABEL = "baton.dev/group"
RELEASE_ANNOTATION = "baton.dev/release"
A_RELEASE = re.compile(r"[a-z0-9-]{1,63}/[a-z0-9.-]{1,253}")
"""As the ledger of a group names the one that serves it; other texts name none."""
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
NAMED = 5
"""As many groups are named."""
PAGE = 10
"""Objects of a list at a time: those of others are as large as they like, and this has little memory."""
GONE = (403, 404)
"""The answers where a namespace with the operator's Role, or the CRDs, are not there any more."""


def main(server: str, account: Path, release: str, namespaces: list[str]) -> str | None:
    """What is to be done first; None: nothing (status 0, which an empty text is not). `release`: this operator's, as ledgers
    name it. `namespaces`: empty for all."""
    left: list[str] = []
    for namespace in namespaces or [""]:
        groups = held(server, account, namespace)
        left += groups - served_elsewhere(server, account, namespace, release) if groups else ()
    left.sort()
    if not left:
        return None
    named = ", ".join(left[:NAMED]) + (f" and {len(left) - NAMED} more" if len(left) > NAMED else "")
    return (
        f"Groups are left: {named}. Delete them first, while this operator is there to release their queues: "
        "kubectl delete consumergroups NAME -n NAMESPACE. Then uninstall. "
        "(Or leave them without an operator, by helm uninstall --no-hooks: consumers go on with what they own, nothing is moved "
        "any more, and a group that is deleted hangs until an operator is there again.)"
    )


def held(server: str, account: Path, namespace: str) -> set[str]:
    """Groups that an operator is to release before they go, as namespace/name."""
    groups = listed(server, account, "apis/baton.dev/v1alpha1", namespace, "consumergroups")
    return {f"{one['namespace']}/{one['name']}" for one in groups if FINALIZER in one.get("finalizers", ())}


def served_elsewhere(server: str, account: Path, namespace: str, release: str) -> set[str]:
    """Groups that another release of the operator serves, by their ledgers, likewise: it goes on to. A group without a ledger
    is served by no other release."""
    found: set[str] = set()
    for ledger in listed(server, account, "api/v1", namespace, "configmaps", f"&labelSelector={quote(GROUP_LABEL, safe='')}"):
        group, by = ledger["labels"][GROUP_LABEL], ledger.get("annotations", {}).get(RELEASE_ANNOTATION, "")
        if ledger["name"] == f"{group}-assignments" and by != release and A_RELEASE.fullmatch(by):
            found.add(f"{ledger['namespace']}/{group}")
    return found


def listed(server: str, account: Path, api: str, namespace: str, plural: str, query: str = "") -> Iterator[Any]:
    """The metadata of each."""
    place = f"namespaces/{namespace}/" if namespace else ""
    url = f"{server}/{api}/{place}{plural}?limit={PAGE}{query}"
    following: str | None = ""
    while following is not None:
        page = answer(f"{url}&continue={quote(following, safe='')}", account)
        for one in page["items"] or ():  # null, where there is none
            yield one["metadata"]
        following = page.get("metadata", {}).get("continue") or None


def answer(url: str, account: Path) -> Any:
    """Of the API server."""
    trusted = ssl.create_default_context(cafile=str(account / "ca.crt"))
    headers = {"Authorization": f"Bearer {(account / 'token').read_text()}", "Accept": METADATA}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30, context=trusted) as page:
            return parsed(page.read())
    except urllib.error.HTTPError as error:
        if error.code not in GONE:
            raise
        return {"items": []}


def parsed(text: bytes) -> Any:
    """Parse JSON, which may be nested too deep for Python's parser."""
    try:
        return json.loads(text)
    except RecursionError:
        from baton.kube.api import shallow  # here: an older image does not have it

        return json.loads(shallow(text))


if __name__ == "__main__":
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    sys.exit(main(f"https://{f'[{host}]' if ':' in host else host}:{port}", ACCOUNT, sys.argv[1], sys.argv[2:]))
