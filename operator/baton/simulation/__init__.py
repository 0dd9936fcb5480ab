"""`baton simulate`: the operator's engine with a simulated fleet and simulated queues, in virtual time.

The same scenario gives the same lines, byte for byte.
"""

from baton.simulation.chart import Text, chart
from baton.simulation.history import History, history
from baton.simulation.report import Setting, failures, log_lines, read_setting, table, variants, verdict
from baton.simulation.run import Result, simulate
from baton.simulation.scenario import Scenario, ScenarioError, TooMuchWork
from baton.simulation.scenario_reading import parse_scenario, read_raw, read_scenario
from baton.simulation.svg import svg

__all__ = [
    "History",
    "Result",
    "Scenario",
    "ScenarioError",
    "Setting",
    "Text",
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
