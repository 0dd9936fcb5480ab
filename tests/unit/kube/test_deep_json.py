"""Objects of any depth are read, together with the others of their list."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.kube.api import DEEPEST, Api, parsed, shallow
from baton.kube.errors import UnavailableError
from baton.kube.following import follow

LEVELS = 9_000
"""Levels: an API server accepts ten thousand, which Python's parser cannot read."""

DEEP = b'{"f:a}":[' * LEVELS + b'"\\"]"' + b"]}" * LEVELS


def pod(name: str, fields: bytes = b"{}") -> bytes:
    metadata = b'{"namespace":"shop","name":"%s","resourceVersion":"7","managedFields":%s}' % (name.encode(), fields)
    return b'{"metadata":%s,"status":{"phase":"Run\\"ni[ng"}}' % metadata


LIST = b'{"metadata":{"resourceVersion":"7"},"items":[%s]}' % b",".join([pod("a"), pod("deep", DEEP), pod("b")])


def names(those: list[dict[str, Any]]) -> list[str]:
    assert {one["status"]["phase"] for one in those} == {'Run"ni[ng'}
    return [one["metadata"]["name"] for one in those]


class Answers:
    """An API server with the same answer to every request."""

    def __init__(self, status: int, body: bytes, events: bytes = b"") -> None:
        self._status, self._body, self._events = status, body, events

    async def param_serialize(self, *_: Any, query_params: list[tuple[str, str]], **__: Any) -> tuple[Mapping[str, str]]:
        return (dict(query_params),)

    async def call_api(self, query: Mapping[str, str], *, _request_timeout: object) -> Any:
        if "watch" in query:
            return SimpleNamespace(response=self._watch())
        content = SimpleNamespace(iter_any=self._pieces)
        return SimpleNamespace(status=self._status, headers={}, read=self._read, response=SimpleNamespace(content=content))

    @asynccontextmanager
    async def _watch(self) -> AsyncIterator[Any]:
        yield SimpleNamespace(status=200, content=SimpleNamespace(iter_any=self._told))

    async def _told(self) -> AsyncIterator[bytes]:
        yield self._events
        await asyncio.Event().wait()

    async def _read(self) -> bytes:
        return self._body

    async def _pieces(self) -> AsyncIterator[bytes]:
        yield self._body


async def test_a_list_with_an_object_that_is_too_deep_is_read_completely() -> None:
    connection: Any = Answers(200, LIST)
    page, _ = await Api(connection).page("/api/v1/pods", {})
    assert names(page["items"]) == ["a", "deep", "b"]
    assert names((await Api(connection).get("/api/v1/pods"))["items"]) == ["a", "deep", "b"]


async def test_a_refusal_that_is_too_deep_is_a_refusal() -> None:
    connection: Any = Answers(503, b'{"message":"no","details":%s}' % DEEP)
    with pytest.raises(UnavailableError, match="503 : no"):
        await Api(connection).get("/api/v1/pods")


async def test_a_followed_object_may_be_too_deep() -> None:
    connection: Any = Answers(200, LIST, b'{"type":"ADDED","object":%s}\n' % pod("deeper", DEEP))
    seen = follow(Api(connection), "/api/v1/pods")
    assert len(await anext(seen)) == 3
    assert ("shop", "deeper") in await anext(seen)


@pytest.mark.parametrize("text", [LIST[:-1], LIST + b"]", LIST[: len(LIST) // 2], DEEP + b","])
async def test_text_that_is_no_json_stays_invalid(text: bytes) -> None:
    with pytest.raises(json.JSONDecodeError):
        await parsed(text)


@given(st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_shallow_text_is_not_changed(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False).encode(errors="replace")
    assert shallow(text) == text


def test_values_that_are_too_deep_become_null() -> None:
    text = b"[" * (DEEPEST + 1) + b"]," + b"7" + b"]" * DEEPEST
    assert shallow(text) == b"[" * DEEPEST + b"null,7" + b"]" * DEEPEST
