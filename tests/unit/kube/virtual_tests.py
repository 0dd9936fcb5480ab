"""Tests that are played in virtual time."""

import inspect
from collections.abc import Awaitable, Callable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

World = TypeVar("World")
P = ParamSpec("P")

Test = Callable[P, None]
Story = Callable[Concatenate[World, P], Awaitable[None]]


def told_by(play: Callable[[Callable[[World], Awaitable[None]]], None]) -> Callable[[Story[World, P]], Test[P]]:
    """Decorate a test whose first argument is the world that `play` makes. The others are fixtures and parameters, as usual."""

    def decorate(story: Story[World, P]) -> Test[P]:
        def test(*arguments: P.args, **named: P.kwargs) -> None:
            play(lambda world: story(world, *arguments, **named))

        made: Any = update_wrapper(test, story)
        del made.__wrapped__  # whose signature pytest would read
        others = list(inspect.signature(story).parameters.values())[1:]
        made.__signature__ = inspect.Signature(others)
        return test

    return decorate
