"""A Kubernetes API server in memory, its clients with all their troubles, and a watch: for a controller in virtual time."""

from tests.simulation.api_server.faults import Delay, Fault, Hang, LoseAnswer, Refuse, Trouble
from tests.simulation.api_server.memory_api import MemoryApi
from tests.simulation.api_server.server import ApiServer
from tests.simulation.api_server.watch_feed import WatchFeed

__all__ = ["ApiServer", "Delay", "Fault", "Hang", "LoseAnswer", "MemoryApi", "Refuse", "Trouble", "WatchFeed"]
