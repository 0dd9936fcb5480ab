"""A certificate that a client shows, for Python's TLS, which reads it from a file only."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile


def show(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Both are PEM. Raises ssl.SSLError, ValueError or OSError where they are none, or do not belong together."""
    with _file(f"{certificate.rstrip()}\n{key}".encode()) as path:
        context.load_cert_chain(path, password=_no_password)


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """In memory where there is such a thing: a container's file system may be read-only, and the key should not be in it."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("baton-certificate")
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{number}"
    else:
        with NamedTemporaryFile(prefix="baton-") as file:
            file.write(content)
            file.flush()
            yield file.name


def _no_password() -> str:
    """Else a terminal would be asked."""
    return ""
