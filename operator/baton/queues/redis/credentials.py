"""User and password, said to a server when a connection is made and at no other time: the library keeps and prints options."""

from pathlib import Path

from redis.credentials import CredentialProvider
from redis.exceptions import ConnectionError  # noqa: A004 - the library's name

from baton.queues.redis.url import RedisUrl

LONGEST = 4096
"""Bytes of a user or a password in a file."""


class CredentialFileError(ConnectionError):
    """A file says no user or password. The message is the user's."""


class Credentials(CredentialProvider):
    """Of a URL, or of the files that it names: these are read each time, so what is written there counts from the next
    connection on."""

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
        """The operator's, which has no files here."""
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
                f"can read (one line, {LONGEST} bytes at most; in a pod, mount the Secret), or correct the option."
            )
        return text
