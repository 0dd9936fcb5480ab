"""The command `baton` (also `kubectl baton`).

A subcommand's module is imported only when it is called, so that `baton plan` starts fast.
"""

from importlib import import_module

import click

import baton
from baton.cli.hinting import HintingGroup

_COMMANDS = {
    "approve": "baton.cli.approve",
    "bundle": "baton.cli.bundle",
    "check-order": "baton.cli.check_order",
    "completion": "baton.cli.completion",
    "console": "baton.console.command",
    "dead-letters": "baton.cli.dead_letters",
    "dev": "baton.cli.dev",
    "doctor": "baton.cli.doctor",
    "drain": "baton.cli.drain",
    "explain": "baton.cli.explain",
    "lag": "baton.cli.lag",
    "offsets": "baton.cli.offsets",
    "operator": "baton.cli.operator",
    "pause": "baton.cli.pause",
    "plan": "baton.cli.plan",
    "rebalance": "baton.cli.rebalance",
    "resume": "baton.cli.pause",
    "simulate": "baton.cli.simulate",
    "status": "baton.cli.status",
    "top": "baton.cli.top",
}


class _Lazy(HintingGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(import_module(_COMMANDS[cmd_name]), cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(baton.__version__, prog_name="baton")
def main() -> None:
    """Who of a fleet owns which partition of a queue, and how it changes hands."""
