"""The command `baton` (also `kubectl baton`).

A subcommand's module is imported only when it is called, so that `baton plan` starts fast, and help and a shell's completion do.
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
    """Its help has the first sentence of each subcommand, which click would cut."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.summary(ctx, name)) for name in self.list_commands(ctx)])

    def summary(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        words = " ".join(((command and command.help) or "").split())
        return words.partition(". ")[0].removesuffix(".")


class HintingGroup(WholeSummaries):
    """Options stand behind the command, and a slip in its name is told with the name that it is like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            option = quoted(error.option_name)
            command = next((one for one in given if one in self.list_commands(ctx)), "COMMAND")
            where = f"options stand behind the command: {ctx.command_path} {command} {error.option_name} …"
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
    """Print what SHELL needs to complete this command: source <(baton completion bash)."""
    kind = get_completion_class(shell)
    assert kind is not None
    main = click.get_current_context().find_root().command
    for line in kind(main, {}, "baton", "_BATON_COMPLETE").source().splitlines():
        say(line)


COMMANDS = {
    "approve": ("baton.cli.approve", "Show what is proposed to a ConsumerGroup, and approve it"),
    "bundle": ("baton.cli.bundle", "Collect what a report of a bug needs into one archive"),
    "check-order": ("baton.cli.check_order", "Check records of what was processed"),
    "completion": ("baton.cli.main", "Print what a shell needs to complete this command"),
    "console": ("baton.console.command", "Show ConsumerGroups in a browser"),
    "dead-letters": ("baton.cli.dead_letters", "List, send again or drop entries that were set aside"),
    "dev": ("baton.cli.dev", "Hand partitions off between processes of this machine"),
    "doctor": ("baton.cli.doctor", "Check installation, rights, queues, groups and pods"),
    "drain": ("baton.cli.drain", "Have a pod give its partitions to the others"),
    "explain": ("baton.cli.explain", "Explain one partition: its owners, its moves, its lag"),
    "lag": ("baton.cli.lag", "Show how much a ConsumerGroup has to do"),
    "offsets": ("baton.cli.offsets", "Show where a ConsumerGroup is in each partition, or set it"),
    "operator": ("baton.cli.operator", "Run the operator until it is told to stop"),
    "pause": ("baton.cli.pause", "Begin no more hand-offs in a ConsumerGroup"),
    "peek": ("baton.cli.entries", "Show the oldest entries of a partition, and take none"),
    "plan": ("baton.cli.plan", "Answer assignment requests, one in a line of JSON"),
    "rebalance": ("baton.cli.rebalance", "Ask for a rebalance of a ConsumerGroup"),
    "resume": ("baton.cli.pause", "Let hand-offs begin again in a ConsumerGroup"),
    "send": ("baton.cli.entries", "Send entries to a queue"),
    "simulate": ("baton.cli.simulate", "Simulate pods that join and leave, in virtual time"),
    "status": ("baton.cli.status", "Show a ConsumerGroup: its state, who owns what, what moves"),
    "tail": ("baton.cli.entries", "Show the entries that come to a queue, live"),
    "top": ("baton.cli.top", "Show all ConsumerGroups live"),
}
"""Where each is, and what it does in a few words."""


_ALIKE = "baton-alike"
_IN_ASCII = str.maketrans("─═▒░·⋮…→│╭┬", "-=%:.|.>|++")
"""What a chart tells apart stays so."""


def _alike(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(_IN_ASCII)
    return text.encode("ascii", "replace").decode(), error.end


class _Lazy(HintingGroup):
    def main(self, *args: Any, **extra: Any) -> Any:
        """An output that lacks a character shows one like it or a question mark, in any locale, for help, errors and logs too."""
        codecs.register_error(_ALIKE, _alike)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors=_ALIKE)
        if os.path.expanduser("~") == "~":  # noqa: PTH111 -- Path's raises, also in what is imported
            os.environ["HOME"] = "/"  # as in a container
        try:
            return super().main(*args, **extra)
        except OSError as error:
            if error.errno not in (ENOSPC, EDQUOT, EIO):
                raise
            sys.stdout = None  # which is not to be written once more at the end
            say(f"baton: the output cannot be written: {os.strerror(error.errno)}: direct it elsewhere", error=True)
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
    """Who of a fleet owns which partition of a queue, and how it changes hands."""
