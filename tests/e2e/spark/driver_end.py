"""The driver's pod is asked to stop while a batch runs: the batch is finished, and none of it is read again."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from tests.e2e.spark.files import Files
from tests.e2e.spark.shop import NAMESPACE, Shop

_TOLD, _ENDED = "told to stop", "the fleet has ended: "


def end_in_a_batch(shop: Shop, files: Files, *ask: str) -> None:
    """`ask`: the arguments of `kubectl` that stop the driver's pod. Returns when the pod is gone."""
    cluster, pod, driver = shop.cluster, shop.driver_pod(), shop.driver()
    grace = cluster.get("pod", pod, "-n", NAMESPACE)["spec"]["terminationGracePeriodSeconds"]
    with ThreadPoolExecutor(1) as pool:
        log = pool.submit(cluster.kubectl, "logs", "--follow", pod, "-n", NAMESPACE, check=False)
        try:
            with batch_held(shop):
                asked = time.monotonic()
                cluster.kubectl(*ask, "-n", NAMESPACE)
                cluster.wait(lambda: _TOLD in cluster.logs(pod, namespace=NAMESPACE), grace, "the driver is told to stop")
                assert shop.unfinished(), "a batch runs"
            cluster.wait(lambda: shop.driver() != driver, grace, "the group is given up")
            given_up = time.monotonic() - asked  # the next driver may have it, and no executors yet
            assert shop.unfinished() == [], "nothing is left that the next driver would be given again"
            assert files.open_batches() == [], "Spark has written down that it is done with the last batch"
            cluster.wait(lambda: not cluster.find("pod", pod, "-n", NAMESPACE), grace, "the driver's pod is gone")
            gone = time.monotonic() - asked
        except BaseException:  # else its log, which ends with it, is followed for ever
            cluster.kubectl("delete", "pod", pod, "-n", NAMESPACE, "--wait=false", check=False)
            print(f"unfinished: {shop.unfinished()}; the group is {shop.driver() or 'no driver'}'s; the driver's log:")
            print(log.result())
            raise
    print(f"the driver was asked to stop; its group was given up after {given_up:.1f} s, and its pod gone after {gone:.1f} s")
    assert gone < grace, "it was not killed"
    assert _ENDED in log.result()


@contextmanager
def batch_held(shop: Shop) -> Iterator[None]:
    """Keep a batch from ending meanwhile, by stopping an executor that has a part of it."""
    cluster = shop.cluster
    pids = cluster.container_pids(next(iter(shop.executors())), NAMESPACE)
    cluster.wait(lambda: not shop.unfinished(), 60, "a batch is done")
    _signal(pids, signal.SIGSTOP)
    try:
        cluster.wait(shop.unfinished, 60, "the next one runs")
        yield
    finally:
        _signal(pids, signal.SIGCONT)


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # a shell of the container's start may have ended since
            os.kill(pid, number)
