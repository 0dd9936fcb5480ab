"""`baton completion`: the script by which a shell completes commands and options."""

import click
from click.shell_completion import get_completion_class

from baton.cli.printing import say

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
