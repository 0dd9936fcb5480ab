"""What `helm uninstall` runs first: says which groups are left, whose queues nobody would release without their operator."""

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

FINALIZER = "baton.dev/release"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
NAMED = 5
"""As many groups are named."""
PAGE = 10
"""Objects of a list at a time: those of others are as large as they like, and this has little memory."""
GONE = (403, 404)
"""The answers where a namespace with the operator's Role, or the CRDs, are not there any more."""


def main(server: str, account: Path, namespaces: list[str]) -> str | None:
    """What is to be done first; None: nothing (status 0, which an empty text is not). `namespaces`: empty for all."""
    left = sorted(group for namespace in namespaces or [""] for group in held(server, account, namespace))
    if not left:
        return None
    named = ", ".join(left[:NAMED]) + (f" and {len(left) - NAMED} more" if len(left) > NAMED else "")
    return (
        f"Groups are left: {named}. Delete them first, while this operator is there to release their queues: "
        "kubectl delete consumergroups NAME -n NAMESPACE. Then uninstall. "
        "(Or leave them without an operator, by helm uninstall --no-hooks: consumers go on with what they own, nothing is moved "
        "any more, and a group that is deleted hangs until an operator is there again.)"
    )


def held(server: str, account: Path, namespace: str) -> list[str]:
    """Groups that an operator is to release before they go, as namespace/name."""
    place = f"namespaces/{namespace}/" if namespace else ""
    url = f"{server}/apis/baton.dev/v1alpha1/{place}consumergroups?limit={PAGE}"
    found: list[str] = []
    following: str | None = ""
    while following is not None:
        page = answer(f"{url}&continue={quote(following, safe='')}", account)
        metadata = [one["metadata"] for one in page["items"] or ()]  # null, where there is none
        found += [f"{one['namespace']}/{one['name']}" for one in metadata if FINALIZER in one.get("finalizers", ())]
        following = page.get("metadata", {}).get("continue") or None
    return found


def answer(url: str, account: Path) -> Any:
    """Of the API server."""
    trusted = ssl.create_default_context(cafile=str(account / "ca.crt"))
    headers = {"Authorization": f"Bearer {(account / 'token').read_text()}", "Accept": METADATA}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30, context=trusted) as page:
            return json.load(page)
    except urllib.error.HTTPError as error:
        if error.code not in GONE:
            raise
        return {"items": []}


if __name__ == "__main__":
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    sys.exit(main(f"https://{f'[{host}]' if ':' in host else host}:{port}", ACCOUNT, sys.argv[1:]))
