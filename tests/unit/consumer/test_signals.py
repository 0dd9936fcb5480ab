"""A signal ends all consumers of the process, also nested ones."""

import os
import signal

import pytest

from baton.consumer.ending import ending


def test_a_signal_ends_each_of_two_that_run_within_one_another() -> None:
    told: list[str] = []
    with ending(lambda: told.append("stop a"), lambda: told.append("leave a")):
        with ending(lambda: told.append("stop b"), lambda: told.append("leave b")):
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            assert told == ["stop b", "stop a", "leave b", "leave a"]
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_what_stood_before_stands_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with ending(lambda: None, lambda: None), ending(lambda: None, lambda: None):
        pass
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_handler_that_python_could_not_put_back_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler set by a program in another language that embeds Python; `signal.getsignal` returns None for it."""
    before, getsignal = signal.getsignal(signal.SIGTERM), signal.getsignal
    monkeypatch.setattr(signal, "getsignal", lambda number: None if number == signal.SIGTERM else getsignal(number))
    with ending(lambda: None, lambda: None):
        assert getsignal(signal.SIGTERM) == before
        assert getsignal(signal.SIGINT) != signal.default_int_handler
    assert getsignal(signal.SIGTERM) == before
