"""The command `baton` (also `kubectl baton`).

The module of a subcommand is imported only when the subcommand is called: `baton plan`, help and shell completion start fast.
"""

import codecs
import os
import sys
from difflib import get_close_matches
from errno import EDQUOT, EIO, ENOSPC
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

import baton
from baton.cli.printing import say
from baton.model.wording import quoted


class WholeSummaries(click.Group):
    """A group whose help shows the whole first sentence of each subcommand; click would truncate it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.summary(ctx, name)) for name in self.list_commands(ctx)])

    def summary(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        words = " ".join(((command and command.help) or "").split())
        return words.partition(". ")[0].removesuffix(".")


class HintingGroup(WholeSummaries):
    """A group that explains an option given before the command, and suggests a similar name for an unknown command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            option = quoted(error.option_name)
            command = next((one for one in given if one in self.list_commands(ctx)), "COMMAND")
            where = f"put options after the command: {ctx.command_path} {command} {error.option_name} …"
            raise click.UsageError(f"No such option {option} here: {where}", ctx) from None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            like = get_close_matches(name, self.list_commands(ctx), n=1)
            raise click.UsageError(f"No such command {quoted(name)}.{f' Did you mean {like[0]}?' if like else ''}", ctx)
        return super().resolve_command(ctx, args)


SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script for SHELL. To use it: source <(baton completion bash)."""
    kind = get_completion_class(shell)
    assert kind is not None
    main = click.get_current_context().find_root().command
    for line in kind(main, {}, "baton", "_BATON_COMPLETE").source().splitlines():
        say(line)


COMMANDS = {
    "approve": ("baton.cli.approve", "Show the proposal of a ConsumerGroup, and approve it"),
    "bundle": ("baton.cli.bundle", "Collect what a bug report needs into one archive"),
    "check-order": ("baton.cli.check_order", "Check records of processed messages for loss and order"),
    "completion": ("baton.cli.main", "Print the completion script for a shell"),
    "console": ("baton.console.command", "Show ConsumerGroups in a browser"),
    "dead-letters": ("baton.cli.dead_letters", "List, show, send again or drop dead letters"),
    "dev": ("baton.cli.dev", "Hand off partitions between processes on this machine"),
    "doctor": ("baton.cli.doctor", "Check the installation, rights, queues, groups and pods"),
    "drain": ("baton.cli.drain", "Hand off all partitions of a pod to other members"),
    "explain": ("baton.cli.explain", "Explain one partition: its owners, moves and lag"),
    "lag": ("baton.cli.lag", "Show the lag of a ConsumerGroup"),
    "offsets": ("baton.cli.offsets", "Show or set the committed offsets of a ConsumerGroup"),
    "operator": ("baton.cli.operator", "Run the operator until it is stopped"),
    "pause": ("baton.cli.pause", "Stop new hand-offs in a ConsumerGroup"),
    "peek": ("baton.cli.entries", "Show the oldest entries of a partition without taking them"),
    "plan": ("baton.cli.plan", "Answer assignment requests, one per line of JSON"),
    "rebalance": ("baton.cli.rebalance", "Request a rebalance of a ConsumerGroup"),
    "resume": ("baton.cli.pause", "Allow hand-offs in a ConsumerGroup again"),
    "send": ("baton.cli.entries", "Send entries to a queue"),
    "simulate": ("baton.cli.simulate", "Simulate pods that join and leave, in virtual time"),
    "status": ("baton.cli.status", "Show a ConsumerGroup: its state, owners and hand-offs"),
    "tail": ("baton.cli.entries", "Show new entries of a queue live"),
    "top": ("baton.cli.top", "Show all ConsumerGroups live"),
}
"""The module and the summary of each subcommand."""


_ALIKE = "baton-alike"
_IN_ASCII = str.maketrans("─═▒░·⋮…→│╭┬", "-=%:.|.>|++")
"""Characters that look different in a chart look different in ASCII, too."""


def _alike(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(_IN_ASCII)
    return text.encode("ascii", "replace").decode(), error.end


class _Lazy(HintingGroup):
    def main(self, *args: Any, **extra: Any) -> Any:
        """Replace characters that the output's encoding lacks by similar ones or `?`, also in help, errors and logs."""
        codecs.register_error(_ALIKE, _alike)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors=_ALIKE)
        if os.path.expanduser("~") == "~":  # noqa: PTH111 -- Path.home() raises then, also in imported libraries
            os.environ["HOME"] = "/"  # as in a container
        try:
            return super().main(*args, **extra)
        except OSError as error:
            if error.errno not in (ENOSPC, EDQUOT, EIO):
                raise
            sys.stdout = None  # Python would try to flush it once more at exit
            say(f"baton: cannot write the output: {os.strerror(error.errno)}: redirect it elsewhere", error=True)
            sys.exit(1)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command = getattr(import_module(module), cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def summary(self, ctx: click.Context, name: str) -> str:
        return COMMANDS[name][1]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        named = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(name, help=COMMANDS[name][1]) for name in named] + options


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(baton.__version__, prog_name="baton")
def main() -> None:
    """Show and control which pod of a fleet owns which partition of a queue."""
