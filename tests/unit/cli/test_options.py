"""Arguments and output of commands: names, URLs, JSON and YAML."""

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO

import click
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from baton.api.group import Approval
from baton.cli.main import main
from baton.cli.options import CONTEXT, GROUP, NAMESPACE, OBJECT, WORD, Form, say_object
from baton.cli.printing import agree, printable, say

NONE = {
    "empty": "",
    "blank": " ",
    "no UTF-8": "\udcff\udcfe",
    "a line more": "orders\n",
    "an escape": "\x1b[2J",
    "very long": "a" * 5000,
}
NO_OBJECT = {
    "a way up": "../secrets",
    "capitals": "Orders",
    "a question": "orders?watch=1",
    "another's digits": "a٣",
    "a dash": "-a-",
}
FREE = {
    ("simulate", "scenarios"),
    ("simulate", "changes"),
    ("operator", "metrics_address"),
    ("dev run", "command"),
    ("send", "value"),
    ("send", "key"),
}
"""Parameters that take any text."""
NEEDS = {
    "approve": ["orders"],
    "rebalance": ["orders"],
    "plan": ["--explain", "--group", "orders"],
    "dead-letters list": ["orders"],
    "dead-letters show": ["orders", "0/1-0"],
    "dead-letters redrive": ["orders", "0/1-0"],
    "dead-letters drop": ["orders", "0/1-0"],
    "peek": ["orders", "--partition", "0"],
    "send": ["orders", "value"],
    "tail": ["orders"],
}


def parameters() -> Iterator[tuple[str, click.Parameter]]:
    """Yield the parameters of all commands that take a text."""
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        inner = command.commands if isinstance(command, click.Group) else {}
        for words, one in ((name, command), *((f"{name} {sub}", each) for sub, each in inner.items())):
            for parameter in one.params:
                other = isinstance(parameter.type, click.Choice | click.File | click.Path)
                if not (other or getattr(parameter, "is_flag", False) or (words, parameter.name) in FREE):
                    yield words, parameter


def line(command: str, parameter: click.Parameter, value: str) -> list[str]:
    """Return a command line with this value, and with the other arguments that are needed to reach its check."""
    if isinstance(parameter, click.Argument):
        before = ["orders"] if parameter.name in ("proposal", "letter", "which") else []
        return [*command.split(), "--", *before, value]
    return [*command.split(), *NEEDS.get(command, []), parameter.opts[0], value]


@pytest.mark.parametrize("what", NONE)
@pytest.mark.parametrize(("command", "parameter"), [pytest.param(*one, id=f"{one[0]}-{one[1].name}") for one in parameters()])
def test_an_invalid_name_is_refused_in_one_line(command: str, parameter: click.Parameter, what: str) -> None:
    result = CliRunner(env={"KUBECONFIG": "/nowhere"}).invoke(main, line(command, parameter, NONE[what]))
    said = result.output.splitlines()[-1]
    assert (result.exit_code, type(result.exception)) == (2, SystemExit), result.output
    assert said.startswith("Error: Invalid value for ") and printable(said) == said and len(said) < 300


@pytest.mark.parametrize("value", ["abc", "nan", "inf", "-0.5", "3601", "9" * 5000])
def test_an_invalid_number_is_refused_with_its_bounds(value: str) -> None:
    said = CliRunner().invoke(main, ["dev", "--delay", value]).output.splitlines()[-1]
    assert said.startswith("Error: Invalid value for '--delay': '") and said.endswith(" is not a number from 0 to 3,600.")
    whole = CliRunner().invoke(main, ["peek", "orders", "--partition", value]).output.splitlines()[-1]
    assert whole.endswith(" is not a whole number from 0.") or value == "3601"


@pytest.mark.parametrize("kind", [GROUP, NAMESPACE, OBJECT])
@pytest.mark.parametrize("what", NO_OBJECT)
def test_names_follow_the_rules_of_the_api_server(kind: click.ParamType[str], what: str) -> None:
    with pytest.raises(click.BadParameter):
        kind.convert(NO_OBJECT[what], None, None)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (GROUP, "orders"),
        (GROUP, "shop/orders.v2"),
        (NAMESPACE, "shop-1"),
        (OBJECT, "a" * 100 + "." + "b" * 100),
        (CONTEXT, "arn:aws:eks:eu-west-1:1234:cluster/shop"),
        (CONTEXT, "my cluster"),
        (WORD, "example.com/own-assignor"),
    ],
)
def test_valid_names_are_accepted(kind: click.ParamType[str], name: str) -> None:
    assert kind.convert(name, None, None) == name


@pytest.mark.parametrize("name", ["shop/", "/orders", "a/b/c", "shop.eu/orders", "a" * 64 + "/orders"])
def test_a_group_has_one_namespace(name: str) -> None:
    with pytest.raises(click.BadParameter, match="NAME or NAMESPACE/NAME"):
        GROUP.convert(name, None, None)


ODD = {"name": "\x1b[31m\u202e", "none": None, "yes": "yes", "lone": "\ud800", "of": [{"a": 1.5}], "word": Approval.MANUAL}


def written(value: object, form: Form, capsys: pytest.CaptureFixture[str]) -> str:
    say_object(value, form)
    return capsys.readouterr().out


def test_yaml_and_json_have_the_same_content(capsys: pytest.CaptureFixture[str]) -> None:
    plain = {**ODD, "lone": ""}
    assert yaml.safe_load(written(plain, Form.YAML, capsys)) == json.loads(written(plain, Form.JSON, capsys))


@given(text=st.text())
def test_no_text_reaches_the_terminal_raw(text: str) -> None:

    for form in (Form.JSON, Form.YAML):
        with redirect_stdout(StringIO()) as out:
            say_object({"text": text, text: [text]}, form)
        assert all(printable(line) == line for line in out.getvalue().splitlines())


def test_a_lone_surrogate_can_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert "D800" in written(ODD, Form.YAML, capsys)


@pytest.mark.parametrize("answer", ["n\n", ""])
def test_a_declined_question_ends_the_command(answer: str) -> None:
    """A script without an answer used to get "Aborted!"."""

    @click.command()
    def drop() -> None:
        agree("Delete it?")
        say("deleted")

    done = CliRunner().invoke(drop, input=answer)
    assert (done.exit_code, "deleted" in done.stdout) == (1, False)
    assert done.stderr.endswith("nothing was changed; --yes skips this question\n")


def test_ctrl_c_ends_a_question(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """asyncio handled the first Ctrl-C, and the command went on waiting for the answer."""

    def interrupted(_: str) -> str:
        signal.raise_signal(signal.SIGINT)
        return "y"

    async def work() -> None:
        agree("Delete it?")

    monkeypatch.setattr("click.termui.visible_prompt_func", interrupted)
    with pytest.raises(SystemExit):
        click.command("drop")(lambda: asyncio.run(work())).main([], standalone_mode=False)
    assert capsys.readouterr().err.endswith("nothing was changed; --yes skips this question\n")
