"""The labels, annotations and object names by which pods, executors and the operator find each other."""

from baton.model.ids import MemberId

API_GROUP = "baton.dev"
API_VERSION = "v1alpha1"

GROUP_LABEL = "baton.dev/group"
"""On a pod: it belongs to this ConsumerGroup. On a Lease: it is a session for this group."""

SUBSCRIBED_ANNOTATION = "baton.dev/subscribed"
"""On a pod: the queues it reads, separated by commas. Without it: all of the group's."""

ASSIGNORS_ANNOTATION = "baton.dev/assignors"
"""On a pod: the assignors it supports, separated by commas. Without it: all."""

CAPACITY_ANNOTATION = "baton.dev/capacity"
"""On a pod: how much it can carry compared with the others, such as 2 or 0.5. Without it: 1."""

DRAIN_ANNOTATION = "baton.dev/drain"
"""On a pod, `true`: it gives its partitions to others, and gets none until the annotation is gone."""

TAKE_OVER_ANNOTATION = "baton.dev/take-over"
"""On a ConsumerGroup: the UIDs of permanently deleted groups, separated by commas, whose queues it takes over."""

LEDGER_KEY_ANNOTATION = "baton.dev/ledger"
"""On a pod, written by the operator: changes when the pod's key in the ledger did, which makes the kubelet refresh the mount."""

RELEASES_ANNOTATION = "baton.dev/releases"
"""On a session's Lease: the partitions that its processes have released (`baton.model.session`)."""

EXECUTORS_ANNOTATION = "baton.dev/executors"
"""On a driver's Lease: the Spark executor ids that are registered with it, separated by commas."""

SPARK_APP_ANNOTATION = "baton.dev/spark-app"
"""On a driver's Lease: the application id, which Spark also puts on its executors as the label `spark-app-selector`."""

STATISTICS_ANNOTATION = "baton.dev/statistics"
"""On a driver's Lease: the driver's statistics, as JSON (`baton.spark.Statistics`)."""

TROUBLE_ANNOTATION = "baton.dev/trouble"
"""On a pod's Lease: why the consumer cannot use its queues, as the consumer reports it; empty: it can."""

QUERY_FAILURE_ANNOTATION = "baton.dev/query-failure"
"""On a driver's Lease: why its query fails repeatedly; empty: it does not."""

MISSING_RIGHTS_ANNOTATION = "baton.dev/missing-rights"
"""On a driver's Lease: what its account may not do any more that a fleet needs; empty: nothing."""

SPARK_ROLE_LABEL = "spark-role"
SPARK_EXECUTOR_ID_LABEL = "spark-exec-id"
SPARK_APP_LABEL = "spark-app-selector"

OPERATOR_SELECTOR = "app.kubernetes.io/part-of=baton,app.kubernetes.io/component=operator"
"""The operator's Deployment and pods, whatever the chart's values call them."""

LEDGER_GROUP_KEY = "group"


def ledger_name(group: str) -> str:
    """The ConfigMap with the group's assignment."""
    return f"{group}-assignments"


def session_lease_name(pod: MemberId) -> str:
    """The Lease of a pod that reports for itself. Its holderIdentity is the pod's UID."""
    return f"baton-{pod}"


def driver_lease_name(group: str) -> str:
    """The Lease of a group's only driver, which reports for its executors. Its holderIdentity is the driver pod's UID."""
    return f"{group}-driver"


DEV_QUEUE_VARIABLE = "BATON_DEV_QUEUE"
"""In the environment of programs that `baton dev run` starts: the queue, namespace/name."""
