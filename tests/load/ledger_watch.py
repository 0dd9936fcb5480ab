"""Watches the ledger at the API server: checks every version of it, and keeps the directory that pods would have mounted."""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kubernetes import client, config, watch

from baton.engine import load
from baton.model.ids import Partition
from baton.model.ledger import LedgerError, MemberEntry, flat
from baton.model.names import LEDGER_GROUP_KEY, ledger_name

Json = dict[str, Any]


class LedgerWatch:
    """`with LedgerWatch(…) as ledger:` follows the ledger until the end of the block, from a thread.

    As a mount does, the directory stays as it is while the API server is away.
    """

    def __init__(self, kubeconfig: Path, namespace: str, group: str, mount: Path) -> None:
        self._api = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        self._namespace, self._named = namespace, f"metadata.name={ledger_name(group)}"
        self._mount = mount
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger-watch", daemon=True)
        self._forged: set[str] = set()
        self._forgeries: list[Mapping[str, str]] = []
        self._forged_grants: set[tuple[Partition, int, str]] = set()
        self._epochs: dict[Partition, tuple[int, str]] = {}
        """The highest epoch of each partition, and whose."""
        self._seen: list[tuple[str, Mapping[str, str]]] = []
        """Versions that are not yet checked: whether one is forged, a test may say a little after it is seen."""
        self._found: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._api.close()

    @property
    def broken(self) -> list[str]:
        """What was wrong with versions that the operator wrote. It claims a forged one by writing it again as it stands, and what
        that says of grants stands there until the operator has granted everything again."""
        seen, self._seen = self._seen, []
        for version, data in seen:
            if version in self._forged:
                self._forgeries.append(data)
                self._forged_grants.update(_grants(data))
            elif data not in self._forgeries:
                self._found += [f"version {version}: {what}" for what in self._check(data)]
        return self._found

    def forged(self, version: str) -> None:
        """This resourceVersion is a test's own and proves nothing."""
        self._forged.add(version)

    def _run(self) -> None:
        listing = client.CoreV1Api(self._api).list_namespaced_config_map
        while not self._over.is_set():
            with contextlib.suppress(Exception):  # the API server comes and goes; a watch that ends is begun again
                found = self._api.sanitize_for_serialization(
                    listing(self._namespace, field_selector=self._named, _request_timeout=(1, 5))
                )
                for item in found["items"]:
                    self._see(item)
                since = found["metadata"]["resourceVersion"]
                stream = watch.Watch().stream(  # type: ignore[no-untyped-call]
                    listing, self._namespace, field_selector=self._named, resource_version=since, _request_timeout=(1, 60)
                )
                for event in stream:
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self._see(event["raw_object"])
            self._over.wait(0.1)

    def _see(self, item: Json) -> None:
        data = item.get("data") or {}
        self._show(data)
        self._seen.append((item["metadata"]["resourceVersion"], data))

    def _show(self, data: Mapping[str, str]) -> None:
        for file in self._mount.iterdir():
            if file.name not in data:
                file.unlink()
        for key, text in data.items():
            file = self._mount / key
            if not file.exists() or file.read_text() != text:
                fresh = self._mount.parent / f"{key}.new"
                fresh.write_text(text)
                fresh.replace(file)

    def _check(self, data: Mapping[str, str]) -> Iterator[str]:
        if not data:
            return
        try:
            load(data)
            entries = {key: MemberEntry.from_json(text) for key, text in data.items() if key != LEDGER_GROUP_KEY}
        except LedgerError as error:
            yield f"does not read as a ledger: {error}"
            return
        holders: dict[Partition, str] = {}
        for member, entry in entries.items():
            for partition, epoch in chain(flat(entry.owned), flat(entry.revoking)):
                if partition in holders:
                    yield f"{partition} is at {holders[partition]} and at {member}"
                holders[partition] = member
                yield from self._grew(partition, epoch, entry.uid)

    def _grew(self, partition: Partition, epoch: int, uid: str) -> Iterator[str]:
        before, whose = self._epochs.get(partition, (0, uid))
        if (epoch < before or (epoch == before and uid != whose)) and (partition, epoch, uid) not in self._forged_grants:
            yield f"{partition} is at {uid} under epoch {epoch}, and was at {whose} under {before}"
        if epoch >= before:
            self._epochs[partition] = (epoch, uid)


def _grants(data: Mapping[str, str]) -> Iterator[tuple[Partition, int, str]]:
    """All that can be read of a ledger: partition, epoch, and whose."""
    for key, text in data.items():
        if key != LEDGER_GROUP_KEY:
            with contextlib.suppress(LedgerError):
                entry = MemberEntry.from_json(text)
                yield from ((*grant, entry.uid) for grant in chain(flat(entry.owned), flat(entry.revoking)))
