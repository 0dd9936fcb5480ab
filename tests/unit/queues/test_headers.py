"""Headers are packed into one field, and whatever else stands there is none."""

import pytest

from baton.queues.redis.headers import pack, unpack


def test_every_byte_and_every_name_comes_back() -> None:
    headers = {"traceparent": b"00-4bf9", "Grüße": bytes(range(256)), "": b""}
    assert unpack(pack(headers)) == headers
    assert unpack(pack({"text": "Grüße"})) == {"text": "Grüße".encode()}


def test_none_cost_nothing() -> None:
    assert pack(None) == pack({}) == b""
    assert unpack(b"") == unpack(None) == {}


@pytest.mark.parametrize("packed", [b"[1", b"[1]", b"7", b'{"a": 1}', b'{"a": "\\u0100"}', b"\xff", b"[" * 100_000])
def test_what_no_producer_of_batons_wrote_has_no_headers(packed: bytes) -> None:
    assert unpack(packed) == {}


@pytest.mark.parametrize("headers", [{1: "a"}, {"a": 1}, {"a": None}])
def test_what_is_no_header_is_refused(headers: dict[str, bytes]) -> None:
    with pytest.raises(TypeError, match=r"a header's (name is str|value is bytes or str), not"):
        pack(headers)


def test_headers_in_pairs_as_others_have_them_are_refused() -> None:
    with pytest.raises(TypeError, match="headers are a mapping of names to values, such as a dict, not list"):
        pack([("traceparent", b"00-4bf9")])  # type: ignore[arg-type]


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="a header's name has characters that are no text"):
        pack({"\ud800": b"1"})
