"""What each target of the Makefile needs is made by its prerequisites, on the machine, before anything runs in a pod, a container
or a build of an image: there the cache is read-only, and Java may trust other certificates."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

MAKEFILE = (Path(__file__).parents[2] / "Makefile").read_text()

MADE_BY: Mapping[str, tuple[str, ...]] = {
    "environment": ("setup",),
    "packages": ("machine",),
    "redis-server": ("package-redis-server", "machine"),
    "ps": ("package-ps", "machine"),
    "kube": ("program-kube", "machine"),
    "helm": ("program-helm", "machine"),
    "keda": ("program-keda",),
    "actionlint": ("program-actionlint",),
    "jar": ("jar",),
    "broker": ("broker",),
    "peers": ("peers",),
    "connector": ("connector",),
    "spark-classes": ("spark-classes",),
    "images": ("images-built",),
}
"""Something that a target needs -> the targets of which one has to be among its prerequisites, or theirs."""

_CLUSTER = ("packages", "kube", "helm")
_JARS = ("jar", "broker", "peers", "connector", "spark-classes")

NEEDS: Mapping[str, Iterable[str]] = {
    "help": (),
    "setup": ("environment",),
    "machine": _CLUSTER,
    "cluster-up": _CLUSTER,
    "cluster-up NODE=0": ("environment", "kube"),
    "cluster-install": _CLUSTER,
    "cluster-load": (*_CLUSTER, "jar"),
    "cluster-down": ("environment",),
    "demo": (*_CLUSTER, "jar"),
    "try": (),
    "check": ("environment",),
    "docs": ("environment",),
    "quick": ("environment", "helm"),
    "test": (*_CLUSTER, *_JARS),
    "test-cluster": (*_CLUSTER, "jar", "broker", "images"),
    "test-long": (*_CLUSTER, *_JARS, "images", "keda"),
    "simulate-long": ("environment",),
    "soak": _CLUSTER,
    "soak-spark": ("redis-server", "ps", "jar", "spark-classes"),
    "mutate": ("redis-server", "broker"),
    "pictures": _CLUSTER,
    "dist": ("jar",),
    "release-check": ("helm", "jar", "images", "actionlint"),
    "images": (),
    "bench-assignors": ("peers",),
    "bench-engine": _CLUSTER,
    "bench-consumer": ("redis-server",),
    "bench-spark": ("redis-server", "jar", "broker", "connector"),
    "bench-handoff": ("redis-server", "kube", "broker"),
    "bench-scale": ("redis-server", "kube"),
    "bench-throughput": ("broker",),
    "generate": ("environment", "helm"),
    "lock": ("environment",),
    "clean": (),
}
"""By target that `make help` lists."""

WORKFLOW = (Path(__file__).parents[2] / ".github" / "workflows" / "release.yaml").read_text()
FOR_USERS = re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE)


def rule(target: str) -> tuple[str, str] | None:
    """Its prerequisites and its recipe."""
    name = re.sub(r"^(package|program)-.+", r"\1-%", target)
    found = re.search(rf"^{re.escape(name)}:([^#\n]*)[^\n]*\n((?:\t.*\n)*)", MAKEFILE, re.MULTILINE)
    return (found[1], found[2]) if found else None


def prerequisites(target: str) -> set[str]:
    """What is made before it or as the first part of it, directly or not. A condition of the Makefile counts with the branch for
    root and a node, unless the target says NODE=0."""
    name, _, setting = target.partition(" ")
    named, recipe = rule(name) or ("", "")
    chosen = r"\1" if setting == "NODE=0" or "id -u" in named else r"\2"
    named = re.sub(r"\$\(if \$\(filter 0,.*\),([a-z-]+),([a-z-]+)\)", chosen, named)
    called = re.findall(r"\$\(MAKE\) --no-print-directory ([a-z -]+)", recipe)
    direct = {word for text in (named, *called) for word in text.split()}
    return direct.union(*map(prerequisites, direct))


@pytest.mark.parametrize("target", NEEDS)
def test_every_need_of_a_target_is_a_prerequisite(target: str) -> None:
    made = prerequisites(target) | {target}
    assert [need for need in NEEDS[target] if not made.intersection(MADE_BY[need])] == []


def test_every_target_for_users_is_in_the_table() -> None:
    assert {target.partition(" ")[0] for target in NEEDS} == set(FOR_USERS)


def test_the_release_calls_existing_targets() -> None:
    called = re.findall(r"\bmake ([a-z-]+)$", WORKFLOW, re.MULTILINE)
    assert called == ["release-check", "docs"] and set(called) <= set(FOR_USERS)
    [dockerfile] = re.findall(r"file: (\S+Dockerfile)", WORKFLOW)
    assert (Path(__file__).parents[2] / dockerfile).is_file()


def test_every_target_of_the_table_is_in_the_makefile() -> None:
    assert [target for targets in MADE_BY.values() for target in targets if rule(target) is None] == []


def test_all_other_targets_need_the_environment() -> None:
    assert {target for target in FOR_USERS if "setup" not in prerequisites(target) | {target}} == {
        "help",
        "try",
        "images",
        "clean",
    }
