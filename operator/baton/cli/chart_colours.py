"""What the inks of a chart look like in a terminal."""

from baton.simulation import Ink, palette


def style(ink: Ink) -> str:
    """A style in rich's words."""
    match ink.kind:
        case "owner":
            return f"#101010 on {palette.of_owner(ink.number)}"
        case "paused":
            return palette.of_owner(ink.number)
        case "several":
            return f"#101010 on {palette.SEVERAL}"
        case "unowned":
            return f"bold {palette.UNOWNED}"
        case "state":
            return palette.STATES.get(ink.state, "yellow")
        case "faint":
            return "bright_black"
        case _:
            return ""
