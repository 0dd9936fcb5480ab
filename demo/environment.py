"""The virtual environment of `make try`, .venv-try: made from demo/requirements.lock, and made again when that or the Python
changes. It uses nothing but the standard library."""

import fcntl
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-try"
TURN = ROOT / ".venv-try.lock"
"""The file locked by the process that makes VENV."""
READY = VENV / ".ready"
LOCK = ROOT / "demo" / "requirements.lock"
_FROM_LOCK = ("--requirement", str(LOCK), "--no-deps", "--require-hashes", "--only-binary=:all:")


class CannotMakeError(Exception):
    """An error that the user can fix. The message is one sentence, with a cure."""


def main() -> int:
    """Run the demo in the environment, and return the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    content = os.fsencode(f"{sys.version}\n{ROOT}\n{hashlib.sha256(LOCK.read_bytes()).hexdigest()}\n")
    try:
        if not _is_ready(content):
            with TURN.open("w") as turn:
                _take(turn.fileno())
                if not _is_ready(content):
                    READY.unlink(missing_ok=True)
                    _make()
                    READY.write_bytes(content)
    except KeyboardInterrupt:
        return 130
    except CannotMakeError as error:
        print(f"make try: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        cure = f"run it in a clone of your own, where you may write to {ROOT} and {VENV}"
        print(f"make try: {error}: {cure}", file=sys.stderr)
        return 2
    return 0


def _is_ready(content: bytes) -> bool:
    return READY.exists() and READY.read_bytes() == content


def _take(turn: int) -> None:
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("set-up: another `make try` is setting up: waiting for it", file=sys.stderr)
        fcntl.flock(turn, fcntl.LOCK_EX)


def _make() -> None:
    try:
        import ensurepip  # noqa: F401 - on Debian another package has it
        import venv
    except ImportError:
        cure = "apt-get install python3-venv, or name another Python with PYTHON=python3.13"
        raise CannotMakeError(f"{sys.executable} has no venv: {cure}") from None
    print(f"set-up: Python {platform.python_version()} and what demo/requirements.lock names, into {VENV.name}", file=sys.stderr)
    begun = time.monotonic()
    wheels = VENV / "wheels"
    try:
        venv.EnvBuilder(clear=True, symlinks=True, with_pip=True).create(VENV)
    except subprocess.CalledProcessError as error:
        raise CannotMakeError(f"{VENV} cannot be made: {error}") from None
    made = time.monotonic()
    _pip("download", "--dest", str(wheels), *_FROM_LOCK)
    fetched = time.monotonic()
    _pip("install", "--no-index", "--find-links", str(wheels), *_FROM_LOCK)
    shutil.rmtree(wheels)
    for folder in VENV.glob("lib/python*/site-packages"):
        (folder / "baton.pth").write_text("../../../../operator\n../../../..\n")  # a path need not be ASCII, and this file must
    took, downloads = time.monotonic() - begun, fetched - made
    print(f"set-up: {took:.0f} s, of which {downloads:.0f} s were downloads; again only when the lock changes", file=sys.stderr)


def _pip(command: str, *arguments: str) -> None:
    # If the environment breaks meanwhile, pip must not install into the system's Python or the user's packages.
    options = ("--quiet", "--disable-pip-version-check", "--no-input", "--require-virtualenv")
    whole = [str(VENV / "bin" / "python"), "-m", "pip", command, *options, *arguments]
    run = subprocess.run(whole, check=False, stderr=subprocess.PIPE, text=True, env={**os.environ, "PIP_USER": "0"})
    if run.returncode:
        last = (run.stderr.strip().splitlines() or ["it says nothing"])[-1]
        cure = ": is there a network? PIP_INDEX_URL names a mirror" if command == "download" else ""
        raise CannotMakeError(f"pip {command} of what demo/requirements.lock names has failed: {last}{cure}")


if __name__ == "__main__":
    sys.exit(main())
