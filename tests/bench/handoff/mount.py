"""A ledger as pods have it: the kubelet brings it to them a while after it was written."""

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue

from tests.load.ledger_watch import LedgerWatch

KUBELET_TAKES = 0.4
"""Seconds from the ledger to the file in the pod: the median on a real node (docs/development/benchmarks.md)."""


class LateLedger(LedgerWatch):
    """`LedgerWatch` whose directory follows as late as a kubelet brings it."""

    def __init__(self, kubeconfig: Path, namespace: str, group: str, mount: Path) -> None:
        super().__init__(kubeconfig, namespace, group, mount)
        self._versions: SimpleQueue[tuple[float, Mapping[str, str]]] = SimpleQueue()
        self._bringing = threading.Thread(target=self._bring, name="kubelet", daemon=True)
        self._bringing.start()

    def _show(self, data: Mapping[str, str]) -> None:
        self._versions.put((time.monotonic() + KUBELET_TAKES, data))

    def _bring(self) -> None:
        while True:
            at, data = self._versions.get()
            time.sleep(max(0.0, at - time.monotonic()))
            super()._show(data)
