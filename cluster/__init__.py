"""A real Kubernetes on this machine, for the demo and the tests: built from Go modules, with or without a node to run pods."""

from cluster.cluster import Cluster
from cluster.faults import ClusterError
from cluster.programs import helm_binary

__all__ = ["Cluster", "ClusterError", "helm_binary"]
