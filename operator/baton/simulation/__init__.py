"""`baton simulate`: the operator's engine with a simulated fleet and simulated queues, in virtual time.

The same scenario gives the same lines, byte for byte.
"""

from baton.simulation.chart import chart
from baton.simulation.history import history
from baton.simulation.report import Setting, failures, log_lines, read_setting, table, variants, verdict
from baton.simulation.run import Result, simulate
from baton.simulation.scenario import Scenario, ScenarioError, TooMuchWork
from baton.simulation.scenario_reading import parse_scenario, read_raw, read_scenario
from baton.simulation.svg import svg

__all__ = [
    "Result",
    "Scenario",
    "ScenarioError",
    "Setting",
    "TooMuchWork",
    "chart",
    "failures",
    "history",
    "log_lines",
    "parse_scenario",
    "read_raw",
    "read_scenario",
    "read_setting",
    "simulate",
    "svg",
    "table",
    "variants",
    "verdict",
]
