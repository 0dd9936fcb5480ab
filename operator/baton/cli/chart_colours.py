"""How the styles of a chart look in a terminal."""

from baton.simulation import ChartStyle, palette


def terminal_style(style: ChartStyle) -> str:
    """A style in rich's words."""
    match style.kind:
        case "owner":
            return f"#101010 on {palette.of_owner(style.number)}"
        case "paused":
            return palette.of_owner(style.number)
        case "several":
            return f"#101010 on {palette.SEVERAL}"
        case "unowned":
            return f"bold {palette.UNOWNED}"
        case "state":
            return palette.STATES.get(style.state, "yellow")
        case "faint":
            return "bright_black"
        case _:
            return ""
