"""A real Kubernetes on this machine, for the demo and the tests: built from Go modules, with or without a node to run pods."""

from tests.cluster.cluster import Cluster
from tests.cluster.faults import ClusterError
from tests.cluster.programs import helm_binary

__all__ = ["Cluster", "ClusterError", "helm_binary"]
