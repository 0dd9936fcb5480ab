"""Check where a request comes from by its headers, and its token; response headers that protect the page. Pure."""

import hmac
from collections.abc import Collection
from re import ASCII, fullmatch
from urllib.parse import urlsplit

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})

LONGEST_TOKEN = 16 * 1024
"""The most characters of a token."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""The headers of every response."""


class RefusedRequestError(Exception):
    """The request is refused. The message is one line."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def check_source(host: str, origin: str | None, site: str | None, hosts: Collection[str]) -> None:
    """Raise RefusedRequestError for a request from another page, or to a host name that is not this server's (DNS rebinding).

    `hosts`: the server's names, without ports. `site`: the header Sec-Fetch-Site.
    """
    if _name(host) not in hosts:
        raise RefusedRequestError(421, "unknown host name: start the console with --host NAME")
    if site not in (None, "same-origin", "none"):
        raise RefusedRequestError(403, "the request comes from another site")
    if origin is not None and _place(origin) != host.lower():
        raise RefusedRequestError(403, "the request comes from another origin")


def bearer(authorization: str) -> str:
    """Return the token of an Authorization header. Raises RefusedRequestError if it is missing."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or len(token) > LONGEST_TOKEN or not fullmatch(r"[!-~]+", token, ASCII):
        raise RefusedRequestError(401, "the request has no token")
    return token


def check_token(given: str, known: str) -> None:
    """Raise RefusedRequestError if the tokens differ."""
    if not hmac.compare_digest(given.encode(), known.encode()):
        raise RefusedRequestError(401, "this is not the token of this console: open the URL that `baton console` printed last")


def _name(host: str) -> str:
    """The host name without the port."""
    return host.lower() if host.endswith("]") else host.lower().rpartition(":")[0] or host.lower()


def _place(origin: str) -> str:
    """The host and port of an origin; empty: it has none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
