"""What `baton.queues.redis` offers is loaded by name when it is first asked for; and what it takes of redis-py is public."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

redis = import_module("baton.queues.redis")


@pytest.mark.parametrize("name", redis.__all__)
def test_each_name_that_is_offered_is_there(name: str) -> None:
    assert getattr(redis, name).__name__ == name


def test_what_is_not_offered_is_refused_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match=r"'baton.queues.redis' has no attribute 'RedisConsumer'"):
        _ = redis.RedisConsumer


def test_nothing_private_of_redis_py_is_imported() -> None:
    found = []
    for path in Path(str(redis.__file__)).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "redis":
                words = [*node.module.split("."), *(one.name for one in node.names)]
                found += [f"{path.name}: {word}" for word in words if word.startswith("_")]
    assert found == []
