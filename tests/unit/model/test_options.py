"""What a program sets is looked at where it is set."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from baton.model.options import function


def one(entry: object) -> None: ...
def none() -> None: ...
def named(entry: object, *, database: object) -> None: ...
def many(*entries: object, **more: object) -> None: ...
def optional(entry: object, more: int = 5) -> None: ...


class Program:
    def handle(self, entry: object) -> None: ...
    def __call__(self, entry: object) -> None: ...


WITHOUT_SIGNATURE = (int, str, dict.fromkeys, b"".join)


@pytest.mark.parametrize(
    "given",
    [one, many, optional, partial(named, database=1), print, Program().handle, Program(), bytes.decode, *WITHOUT_SIGNATURE],
)
def test_what_takes_what_it_gets_may_be_given(given: Callable[..., object]) -> None:
    function("on_lost", given, "partitions")


@pytest.mark.parametrize("given", [none, named, Program.handle, Program, partial(one, 5), lambda first, second: None])
def test_what_takes_something_else_is_refused_with_its_name_and_with_what_it_gets(given: Any) -> None:
    with pytest.raises(TypeError, match=r"on_lost is .*, which takes \(.*\); it is called with \(partitions\): give a function"):
        function("on_lost", given, "partitions")


def test_a_function_without_arguments_and_one_of_two_are_told_apart() -> None:
    function("token", none)
    with pytest.raises(TypeError, match=r"token is .*, which takes \(entry\); it is called with \(\)"):
        function("token", one)
    with pytest.raises(TypeError, match=r"on_revoked is .*; it is called with \(partitions, time_left\)"):
        function("on_revoked", one, "partitions", "time_left")
