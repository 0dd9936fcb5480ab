"""The virtual environment of `make try`, .venv-try: made from demo/requirements.lock, and made again when that or the Python
changes. It uses nothing but the standard library."""

import hashlib
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-try"
LOCK = ROOT / "demo" / "requirements.lock"
_FROM_LOCK = ("--requirement", str(LOCK), "--no-deps", "--require-hashes", "--only-binary=:all:")


class CannotMakeError(Exception):
    """The message is one sentence, with the cure."""


def main() -> int:
    """The exit code."""
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    ready, content = VENV / ".ready", f"{sys.version}\n{ROOT}\n{hashlib.sha256(LOCK.read_bytes()).hexdigest()}\n"
    try:
        if not ready.exists() or ready.read_text() != content:
            _make()
            ready.write_text(content)
    except KeyboardInterrupt:
        return 130
    except CannotMakeError as error:
        print(f"make try: {error}", file=sys.stderr)
        return 2
    return 0


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
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotMakeError(f"{VENV} cannot be made: {error}") from None
    made = time.monotonic()
    _pip("download", "--dest", str(wheels), *_FROM_LOCK)
    fetched = time.monotonic()
    _pip("install", "--no-index", "--find-links", str(wheels), *_FROM_LOCK)
    shutil.rmtree(wheels)
    for folder in VENV.glob("lib/python*/site-packages"):
        (folder / "baton.pth").write_text(f"{ROOT / 'operator'}\n{ROOT}\n")
    took, downloads = time.monotonic() - begun, fetched - made
    print(f"set-up: {took:.0f} s, of which {downloads:.0f} s were downloads; again only when the lock changes", file=sys.stderr)


def _pip(command: str, *arguments: str) -> None:
    options = ("--quiet", "--disable-pip-version-check", "--no-input")
    whole = [str(VENV / "bin" / "python"), "-m", "pip", command, *options, *arguments]
    run = subprocess.run(whole, check=False, stderr=subprocess.PIPE, text=True)
    if run.returncode:
        last = (run.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise CannotMakeError(f"pip {command} of what demo/requirements.lock names has failed: {last}")


if __name__ == "__main__":
    sys.exit(main())
