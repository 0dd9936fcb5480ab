"""A fleet of PySpark executors that own the partitions of queues."""

from baton.model.extras import extra

with extra("spark"):
    from baton.spark.fleet import Fleet
    from baton.spark.frames import SCHEMA
    from baton.spark.settings import conf
    from baton.spark.statistics import Statistics
    from baton.spark.surroundings import Cluster, Directory


__all__ = ["SCHEMA", "Cluster", "Directory", "Fleet", "Statistics", "conf"]
