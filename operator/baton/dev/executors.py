"""The executors of a Spark driver, as pods would be: known by what the driver's Lease says of them."""

from collections.abc import Callable, Iterator
from uuid import NAMESPACE_URL, uuid5

from baton.kube.leases import LeaseView
from baton.kube.members import EXECUTOR
from baton.kube.pods import PodView
from baton.model.ids import MemberId, Uid


def executors(driver: LeaseView, ready_since: Callable[[Uid], float]) -> Iterator[PodView]:
    """Nobody, once the driver has given its Lease up. Without a kubelet an executor is ready when the driver has registered it.

    Their names are those that `baton.spark` takes for executors of a local cluster, whose pods have none. `ready_since`: unix
    seconds.
    """
    if driver.holder is None or driver.spark_app is None:
        return
    for number in sorted(driver.executors):
        name = f"{driver.spark_app}-exec-{number}"
        uid = Uid(str(uuid5(NAMESPACE_URL, f"{driver.holder}/{name}")))
        yield PodView(
            driver.namespace,
            MemberId(name),
            uid,
            driver.group,
            ready_since=ready_since(uid),
            running=True,
            spark_role=EXECUTOR,
            spark_app=driver.spark_app,
            executor_id=number,
        )
