"""Files that a Redis URL names: for TLS, and with user and password.

OpenSSL reads a file to its end, and a pipe or a device has none. In the operator the name comes from a tenant, who could block
the operator for all, learn which files it has, or present another tenant's certificate to a server. So the operator reads files
of one folder only: `<folder>/<namespace>/…` for queues of that namespace, and files in the folder itself as CAs that all
namespaces may trust. The error is the same for a missing file, something other than a file, and another tenant's file.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os import R_OK, access
from os.path import realpath
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

from redis.credentials import CredentialProvider
from redis.exceptions import ConnectionError  # noqa: A004 - the library's name

from baton.queues.redis.url import RedisUrl

LONGEST = 4096
"""Bytes of a user or a password in a file."""


class CredentialFileError(ConnectionError):
    """A file has no valid user or password. The message is for the user."""


class Credentials(CredentialProvider):
    """User and password of a URL, or of the files that it names. Files are read for each connection, so that new contents apply
    from the next connection on."""

    def __init__(self, url: RedisUrl) -> None:
        self._url = url

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        user, password = self._url.user, self._url.password or ""
        if "password_file" in self._url.files:
            password = self._in_file("password_file")
            self._url.conceal(password)
        if "username_file" in self._url.files:
            user = self._in_file("username_file")
        return (password,) if user is None else (user, password)

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        """For the operator, whose URLs have no such files."""
        return self.get_credentials()

    def _in_file(self, option: str) -> str:
        path = Path(self._url.files[option])
        try:
            if not path.is_file():  # a pipe has no end
                raise OSError
            with path.open(encoding="utf-8") as file:
                text = file.read(LONGEST + 1).rstrip("\r\n")
        except (OSError, UnicodeDecodeError, ValueError):
            text = ""
        if not 0 < len(text) <= LONGEST:
            raise CredentialFileError(
                f"The queue's URL has the option {option}, which names no file with one: put one there that this process "
                f"can read (one line, at most {LONGEST} bytes; in a pod, mount the Secret), or correct the option."
            )
        return text


TRUSTED = ("ssl_ca_certs", "ssl_ca_path")
"""Options for CAs: a file, and a folder."""
SHOWN = ("ssl_certfile", "ssl_keyfile")
"""Options for the client's certificate and key: files."""
LARGEST = 1 << 20
"""Bytes of a file."""
READ_WITHIN = 5.0
"""Seconds for all files of a connection."""

_AT_ONCE = threading.BoundedSemaphore(4)
"""Limits the threads that may hang while reading, for example if the folder is on an unreachable file server."""


class TlsFileError(ConnectionError):
    """A file for TLS may not be read. The message is for the user."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The TLS files that a process may read."""

    folder: Path | None = None
    """The operator's folder. None: any regular file, because the URL is the process' own."""
    namespace: str = ""
    """The namespace of the queue."""

    def check(self, options: Mapping[str, Any]) -> None:
        """Check the files of a URL's options; may block on the file system. Raises TlsFileError, which names the option and the
        cure."""
        for option in (*TRUSTED, *SHOWN):
            if option in options and not self._may_be_read(option, Path(options[option])):
                raise TlsFileError(f"The queue's URL has the option {option}, which names no {self._cure(option)}")

    def _may_be_read(self, option: str, path: Path) -> bool:
        if self.folder is not None and not self._is_for_us(option, path):
            return False
        try:
            found = path.stat()
            if not access(path, R_OK):
                return False
        except OSError:
            return False
        if option == "ssl_ca_path":
            return S_ISDIR(found.st_mode)
        return S_ISREG(found.st_mode) and 0 < found.st_size <= LARGEST  # files of /proc have size 0 and may never end

    def _is_for_us(self, option: str, path: Path) -> bool:
        assert self.folder is not None
        if not path.is_relative_to(self.folder) or ".." in path.parts:
            return False
        steps = path.relative_to(self.folder).parts
        if steps[:1] == (self.namespace,):
            root = self.folder / self.namespace
        elif option in TRUSTED and len(steps) == (0 if option == "ssl_ca_path" else 1):
            root = self.folder
        else:
            return False
        return Path(realpath(path)).is_relative_to(realpath(root))

    def _cure(self, option: str) -> str:
        what = "folder" if option == "ssl_ca_path" else "file"
        if self.folder is None:
            return f"{what} that this process can read (a file has 1 MiB at most): mount it there, or correct the option."
        own = self.folder / self.namespace
        to_trust = f" (or {self.folder}, for all namespaces)" if option in TRUSTED else ""
        else_ = ", or write the certificates themselves as ssl_ca_data" if option in TRUSTED else ""
        return (
            f"{what} that the operator may read for namespace {self.namespace}: mount it in the operator's pod below {own}"
            f"{to_trust}, by the chart's values extraVolumes and extraVolumeMounts{else_}. A file has 1 MiB at most."
        )


async def on_own_thread(read: Callable[[], object]) -> None:
    """Run `read` on a separate daemon thread: it may hang, and must block neither a shared thread pool nor the end of the
    process. Raises what `read` raises."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def end(error: Exception | None) -> None:
        if not done.done():
            done.set_result(None) if error is None else done.set_exception(error)

    def work() -> None:
        if not _AT_ONCE.acquire(timeout=READ_WITHIN):
            return
        error: Exception | None = None
        try:
            if not done.done():
                read()
        except Exception as failed:
            error = failed
        finally:
            _AT_ONCE.release()
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(end, error)

    threading.Thread(target=work, name="tls-files", daemon=True).start()
    try:
        async with asyncio.timeout(READ_WITHIN):
            await done
    except TimeoutError:
        raise TlsFileError(
            f"The TLS files of the queue's URL could not be read within {READ_WITHIN:.0f} s: check where they are mounted."
        ) from None
