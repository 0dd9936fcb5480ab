"""What `baton.queues.redis` offers is loaded by name when it is first asked for."""

from importlib import import_module

import pytest

redis = import_module("baton.queues.redis")


@pytest.mark.parametrize("name", redis.__all__)
def test_each_name_that_is_offered_is_there(name: str) -> None:
    assert getattr(redis, name).__name__ == name


def test_what_is_not_offered_is_refused_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match=r"'baton.queues.redis' has no attribute 'RedisConsumer'"):
        _ = redis.RedisConsumer
