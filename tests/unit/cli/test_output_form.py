"""`-o`: the same fields in either form for programs, and nothing in them that a terminal would obey."""

import json
from contextlib import redirect_stdout
from io import StringIO

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from baton.api.enums import Approval
from baton.cli.options import Form, say_object
from baton.cli.printing import printable

ODD = {"name": "\x1b[31m\u202e", "none": None, "yes": "yes", "lone": "\ud800", "of": [{"a": 1.5}], "word": Approval.MANUAL}


def written(value: object, form: Form, capsys: pytest.CaptureFixture[str]) -> str:
    say_object(value, form)
    return capsys.readouterr().out


def test_yaml_has_what_json_has(capsys: pytest.CaptureFixture[str]) -> None:
    plain = {**ODD, "lone": ""}
    assert yaml.safe_load(written(plain, Form.YAML, capsys)) == json.loads(written(plain, Form.JSON, capsys))


@given(text=st.text())
def test_no_text_reaches_the_terminal_raw(text: str) -> None:

    for form in (Form.JSON, Form.YAML):
        with redirect_stdout(StringIO()) as out:
            say_object({"text": text, text: [text]}, form)
        assert all(printable(line) == line for line in out.getvalue().splitlines())


def test_a_lone_surrogate_is_written_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert "D800" in written(ODD, Form.YAML, capsys)
