"""A fleet's life in virtual time: the engine that the operator runs, in a world without a wall clock.

The same scenario gives the same lines, byte for byte.
"""

from baton.simulation.expectations import failures
from baton.simulation.picture import picture
from baton.simulation.run import Result, simulate
from baton.simulation.scenario import Scenario, ScenarioError, read_scenario

__all__ = ["Result", "Scenario", "ScenarioError", "failures", "picture", "read_scenario", "simulate"]
