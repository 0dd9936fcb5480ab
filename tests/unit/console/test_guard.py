"""Which requests are answered."""

import pytest

from baton.console.guard import LOOPBACK, RefusedRequestError, bearer, check_source, check_token


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:1", "LOCALHOST", "[::1]:8080", "[::1]"])
def test_loopback_answers_by_its_names(host: str) -> None:
    check_source(host, None, None, LOOPBACK)
    check_source(host, f"http://{host}", "same-origin", LOOPBACK)


@pytest.mark.parametrize(
    "host", ["", "evil.example.org", "localhost.evil.example.org:80", "127.0.0.1.nip.example:80", ":80", "[::2]:80"]
)
def test_another_name_is_refused(host: str) -> None:
    with pytest.raises(RefusedRequestError) as refused:
        check_source(host, None, None, LOOPBACK)
    assert refused.value.status == 421


@pytest.mark.parametrize(
    ("origin", "site"),
    [
        ("http://evil.example.org", None),
        ("http://[", None),
        ("null", None),
        ("http://localhost:81", None),
        (None, "cross-site"),
        (None, "same-site"),
    ],
)
def test_another_page_is_refused(origin: str | None, site: str | None) -> None:
    with pytest.raises(RefusedRequestError):
        check_source("localhost:80", origin, site, LOOPBACK)


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic abc", "Bearer a b", "Bearer a\r\nHost: x", f"Bearer {'a' * 16385}"]
)
def test_what_is_no_token_is_refused(header: str) -> None:
    with pytest.raises(RefusedRequestError):
        bearer(header)


def test_a_token_is_the_known_one() -> None:
    check_token(bearer("Bearer abc"), "abc")
    for given in ("abd", "", "ä"):
        with pytest.raises(RefusedRequestError):
            check_token(given, "abc")
