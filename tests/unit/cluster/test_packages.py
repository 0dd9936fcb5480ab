"""Every program that cluster, tests and demo call is on a Debian machine: in its base system, or brought by `make machine`."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from cluster import ClusterError, images
from cluster.packages import PACKAGES

ROOT = Path(__file__).parents[3]

BASE = {"apt-get", "bash", "cat", "chown", "mount", "nsenter", "sh", "sleep", "tar", "umount"}
"""In Debian's base system."""
ASKED_FOR = {"git", "go", "make"}
"""What README and CONTRIBUTING ask for before anything else."""
BESIDE = {"iptables": "iptables-save"}
"""Program -> one of PACKAGES that is in the same package."""
BY_OTHERS = {
    "bridge": "containerd, which is told the folder of the network's plugins",
    "runc": "containerd",
    "conntrack": "kube-proxy",
    "openssl": "the shell of docs/guides/redis-users-and-tls.md, which a test runs",
}
"""Program of PACKAGES that no line of Python names -> who calls it."""
NO_PROGRAMS = {"bank", "shop", "logs"}
"""Namespaces of the simulation, and a word of kubectl's."""

COMMANDS = {"run", "Popen", "ChildProcess", "create_subprocess_exec", "start", "_run"}
"""Functions that are given a command as one argument."""
WORDS = {"which", "create_subprocess_exec", "_run", "_output"}
"""… or word by word."""


def first_word(node: ast.expr) -> Iterator[str]:
    """Of a command that is written as a list, a tuple or the sum of such."""
    if isinstance(node, ast.BinOp):
        yield from first_word(node.left)
    elif isinstance(node, ast.List | ast.Tuple) and node.elts:
        yield from first_word(node.elts[0])
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def programs(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and node.args:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            lists = [argument for argument in node.args if not isinstance(argument, ast.Constant)]
            for argument in (*(lists if name in COMMANDS else ()), *(node.args[:1] if name in WORDS else ())):
                yield from first_word(argument)
        elif isinstance(node, ast.Assign) and [getattr(one, "id", "") for one in node.targets] == ["command"]:
            yield from first_word(node.value)


@cache
def called() -> dict[str, str]:
    """Program -> a file that calls it."""
    files = [path for top in ("cluster", "demo", "tests") for path in sorted((ROOT / top).rglob("*.py"))]
    found = {program: str(path.relative_to(ROOT)) for path in files for program in programs(path.read_text())}
    return {program: path for program, path in found.items() if re.fullmatch(r"[a-z][a-z0-9-]+", program)}


def test_every_program_that_is_called_is_installed() -> None:
    known = {*BASE, *ASKED_FOR, *BESIDE, *NO_PROGRAMS, *PACKAGES}
    assert {program: path for program, path in called().items() if program not in known} == {}
    assert set(BESIDE.values()) <= set(PACKAGES)


def test_every_package_is_needed() -> None:
    assert set(PACKAGES) - set(called()) == set(BY_OTHERS)


# -- What pods take from the machine.


def test_a_cache_unreadable_for_pods_is_reported_with_the_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATON_CACHE", str(tmp_path))
    tmp_path.chmod(0o755)
    volumes, _ = images.host_volumes()
    assert str(tmp_path) in [volume["hostPath"]["path"] for volume in volumes]
    tmp_path.chmod(0o700)
    with pytest.raises(ClusterError, match=f"chmod o.rx {tmp_path}"):
        images.host_volumes()
