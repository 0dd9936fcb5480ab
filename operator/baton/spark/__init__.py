"""PySpark fleets: Spark executors that own the partitions of queues."""

from baton.model.extras import extra

with extra("spark"):
    from baton.spark.environment import Cluster, Directory
    from baton.spark.fleet import Fleet
    from baton.spark.jar_file import path as jar
    from baton.spark.settings import conf
    from baton.spark.statistics import FleetView, Statistics


__all__ = ["Cluster", "Directory", "Fleet", "FleetView", "Statistics", "conf", "jar"]
