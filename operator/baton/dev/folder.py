"""What `baton dev` leaves on the disk: where it is to be found, and the ledger, as the kubelet would mount it."""

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
    """The message is one line, with the cure."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a `baton dev` that runs is to be found, and what its processes need."""

    api: str
    token: str
    namespace: str
    group: str
    variable: str
    """In which its processes look for the address of the queue,"""
    url: str
    """and the address."""


class DevFolder:
    """Readable by its owner only: the address has a token, and perhaps a password."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = path / "lock"
        """There from the first time on: by it the folder is known for one of `baton dev`."""
        self._address = path / "address.json"
        self.ledger = path / "ledger"
        self.uid = f"baton-dev-{uuid5(NAMESPACE_URL, f'{gethostname()}:{os.getuid()}:{path.absolute()}')}"
        """Of its group: two of one name at one Redis are not the same, and one that is started again is."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """By one `baton dev` at a time. Begins with an empty ledger. Raises DevError."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._lock.exists() and any(self.path.iterdir()):
                raise DevError(f"{self.path} has other files, which are left alone: name a folder of its own with --folder")
            self.path.chmod(0o700)
            lock = self._lock.open("w", encoding="utf-8")
        except OSError as error:
            raise DevError(f"{self.path} cannot be used: {error.strerror}: name another with --folder") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise DevError(f"another `baton dev` runs with {self.path}: stop it, or name another with --folder") from None
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
        """Raises DevError where no `baton dev` runs."""
        try:
            return Address(**json.loads(self._address.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise DevError(f"no `baton dev` runs with {self.path}: start one in another terminal first") from None

    def write(self, ledger: Mapping[str, str]) -> None:
        """A key is a file; each is the old one or the new one, never a part."""
        for path in self.ledger.iterdir():
            if path.name not in ledger:
                path.unlink()
        for key, text in ledger.items():
            path = self.ledger / key
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                fresh = self.path / "fresh"
                fresh.write_text(text, encoding="utf-8")
                fresh.rename(path)
