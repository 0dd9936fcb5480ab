"""The state directory of `baton dev`: its address, and the ledger as the kubelet would mount it."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from socket import gethostname
from uuid import NAMESPACE_URL, uuid5


class DevError(Exception):
    """An error of `baton dev`. The message is one line, with a cure."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a running `baton dev`, and the settings of its processes."""

    api: str
    token: str
    namespace: str
    group: str
    variable: str
    """The environment variable in which processes expect the queue's URL."""
    url: str
    """The queue's URL."""


class DevFolder:
    """The state directory. Only its owner may read it: the address contains a token, and perhaps a password."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = path / "lock"
        """The lock file; its presence marks the directory as one of `baton dev`."""
        self._address = path / "address.json"
        self.ledger = path / "ledger"
        self.uid = f"baton-dev-{uuid5(NAMESPACE_URL, f'{gethostname()}:{os.getuid()}:{path.absolute()}')}"
        """The group's UID: different for groups of one name at one Redis, the same after a restart."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the directory for one `baton dev`, with an empty ledger. Raises DevError."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._lock.exists() and any(self.path.iterdir()):
                raise DevError(f"{self.path} has other files: choose an empty directory with --folder")
            self.path.chmod(0o700)
            lock = self._lock.open("w", encoding="utf-8")
        except OSError as error:
            raise DevError(f"{self.path} cannot be used: {error.strerror}: choose another with --folder") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise DevError(f"another `baton dev` uses {self.path}: stop it, or choose another with --folder") from None
            self.ledger.mkdir(exist_ok=True)
            self.write({})
            try:
                yield
            finally:
                self._address.unlink(missing_ok=True)

    def announce(self, address: Address) -> None:
        fresh = self._address.with_suffix(".fresh")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(asdict(address), file)
        fresh.rename(self._address)

    def address(self) -> Address:
        """The address of the running `baton dev`. Raises DevError if none runs."""
        try:
            return Address(**json.loads(self._address.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise DevError(f"no `baton dev` uses {self.path}: start one in another terminal first") from None

    def write(self, ledger: Mapping[str, str]) -> None:
        """Write each key of the ledger to a file, replaced atomically."""
        for path in self.ledger.iterdir():
            if path.name not in ledger:
                path.unlink()
        for key, text in ledger.items():
            path = self.ledger / key
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                fresh = self.path / "fresh"
                fresh.write_text(text, encoding="utf-8")
                fresh.rename(path)
