"""Groups of commands that say what was meant. Imported by commands that must start fast."""

import click

from baton.model.wording import quoted


class HintingGroup(click.Group):
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
            from difflib import get_close_matches

            like = get_close_matches(name, self.list_commands(ctx), n=1)
            raise click.UsageError(f"No such command {quoted(name)}.{f' Did you mean {like[0]}?' if like else ''}", ctx)
        return super().resolve_command(ctx, args)
