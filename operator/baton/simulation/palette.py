"""The colours of charts and drawings: light enough for dark text on them, on light and on dark pages."""

OWNERS = ("#7aa6d6", "#f5a65b", "#7cc37a", "#c79bd9", "#eccb55", "#6fc7c1", "#f2929f", "#b8a389", "#a9c8ef", "#b5cf6b")
"""Colours of members, in the order of their first grants. They repeat if there are more members."""
SEVERAL = "#a8b0ba"
UNOWNED = "#e5484d"
STATES = {"Holddown": "#c3cad3", "Rebalancing": "#77828f", "Paused": "#9fb3c8", "operator down": "#e5484d"}
"""Greys, to distinguish states from owners."""


def of_owner(number: int) -> str:
    """Return the colour of an owner by its number."""
    return OWNERS[number % len(OWNERS)]
