"""`-o`: the form in which a command answers. One option for all that show something."""

import json
from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeVar

import click

from baton.cli.printing import say_json, say_text

F = TypeVar("F", bound=Callable[..., object])


class Form(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    """For people, as much as fits on a screen."""
    WIDE = "wide"
    """For people, all of it."""
    JSON = "json"
    YAML = "yaml"

    @property
    def for_programs(self) -> bool:
        return self in (Form.JSON, Form.YAML)

    @property
    def wide(self) -> bool:
        return self is Form.WIDE


def output_option(*, wide: str | None = None, programs: str = "one object") -> Callable[[F], F]:
    """-o, which reaches the command as `form`. `wide`: what people see with it; None: there is nothing more to see. `programs`:
    what json and yaml have."""
    forms = [Form.JSON, Form.YAML, *([Form.WIDE] if wide else [])]
    said = f"For programs: json or yaml, {programs}." + (f" For people: wide, {wide}." if wide else "")

    def read(context: click.Context, parameter: click.Parameter, value: str | None) -> Form:
        return Form.TABLE if value is None else Form(value)

    choice = click.Choice([form.value for form in forms])
    return click.option("--output", "-o", "form", type=choice, callback=read, help=said)


def say_object(value: Any, form: Form) -> None:
    """One object (or list) for programs. Both forms escape what a terminal would obey."""
    if form is Form.JSON:
        say_json(value)
        return
    import yaml

    plain = json.loads(json.dumps(value))
    say_text(yaml.safe_dump(plain, sort_keys=False, width=10_000).rstrip("\n"))
