"""Colours, for terminals and drawings alike: light enough for dark words on them, on a light page and on a dark one."""

OWNERS = ("#7aa6d6", "#f5a65b", "#7cc37a", "#c79bd9", "#eccb55", "#6fc7c1", "#f2929f", "#b8a389", "#a9c8ef", "#b5cf6b")
"""Of members, in the order of their first grants. Where there are more, colours come again; letters and names tell them apart."""
SEVERAL = "#a8b0ba"
UNOWNED = "#e5484d"
STATES = {"Holddown": "#c3cad3", "Rebalancing": "#77828f", "Paused": "#9fb3c8", "operator down": "#e5484d"}
"""Greys, so that they are not taken for owners."""


def of_owner(number: int) -> str:
    """The colour of an owner, by its number; colours come again where there are many."""
    return OWNERS[number % len(OWNERS)]
