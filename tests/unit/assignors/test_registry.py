"""The modules, the registry, the CRD, the documentation and the comparison with the originals name the same assignors."""

import ast
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from baton.assignors import BUILT_IN, DEFAULT, Traits, traits_of
from baton.assignors.registry import DECLARED
from baton.assignors.rocketmq import NEARBY

ROOT = Path(__file__).parents[3]
ROOM = ROOT / "operator" / "baton" / "assignors"
PAGE = (ROOT / "docs" / "concepts" / "assignors.md").read_text()
CRD = yaml.safe_load((ROOT / "crds" / "baton.dev_consumergroups.yaml").read_text())
SPEC: dict[str, Any] = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
OPTIONS: dict[str, Any] = SPEC["assignorOptions"]["properties"]
INSIDE = [name for name in BUILT_IN if name != "machine-room-nearby"]


def the_names_of_a_rule(schema: dict[str, Any]) -> list[str]:
    (rule,) = schema["x-kubernetes-validations"]
    found = re.search(r"self in (\[.*?\])", rule["rule"])
    assert found is not None
    names: list[str] = ast.literal_eval(found[1])
    return names


def test_the_registry_lists_every_assignor_that_a_module_declares() -> None:
    modules = [path.read_text() for path in sorted(ROOM.rglob("*.py"))]
    declared = [name for text in modules for name in re.findall(r'\bDeclaration\(\s*name=("[a-z-]+"|NEARBY)', text)]
    assert sorted(ast.literal_eval(name) if name != "NEARBY" else NEARBY for name in declared) == list(BUILT_IN)


def test_the_crd_knows_the_same_assignors() -> None:
    assert the_names_of_a_rule(SPEC["assignors"]["items"]) == list(BUILT_IN)
    assert the_names_of_a_rule(OPTIONS["within"]) == [*INSIDE]
    assert SPEC["assignors"]["default"] == [DEFAULT]


def test_the_crd_has_every_option() -> None:
    inside = [DECLARED["machine-room-nearby"].options({"within": name}) for name in INSIDE]
    assert {option for options in inside for option in options} == {*OPTIONS}


def test_the_documentation_has_a_row_for_each() -> None:
    assert re.findall(r"^\| `([a-z-]+)`", PAGE, re.MULTILINE)[: len(BUILT_IN)] == [*DECLARED]


def test_the_documentation_has_a_row_for_each_trait() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \|.*\|.*\| (\S.*) \|$", PAGE, re.MULTILINE)
    assert {name for name, _ in rows} >= {field.name for field in fields(Traits)}


def test_each_of_kafkas_and_rocketmqs_is_compared_with_the_original() -> None:
    compared = {*re.findall(r'case "([a-z-]+)"', (ROOT / "tests" / "peers" / "Peers.java").read_text())}
    assert compared - {*BUILT_IN} == {"uniform"}, "that is Kafka's server-side assignor, which minimal is compared with"
    assert {name for name, one in DECLARED.items() if one.source.startswith(("Kafka", "RocketMQ"))} == compared - {"uniform"}


@pytest.mark.parametrize("path", sorted((ROOM.parent / "engine").glob("*.py")), ids=lambda path: path.name)
def test_the_engine_names_no_assignor_and_no_option(path: Path) -> None:
    words = {*re.findall(r"[\"'`]([A-Za-z-]+)[\"'`]", path.read_text())}
    assert words & {*BUILT_IN, *OPTIONS} == set()


def test_an_installed_assignor_has_no_traits() -> None:
    assert traits_of("example.com/by-load") == Traits()


@pytest.mark.parametrize(
    ("within", "left_out"), [("machine-room", True), ("average", False), (None, False), ("example.com/by-load", False)]
)
def test_machine_room_nearby_leaves_out_what_the_assignor_inside_leaves_out(within: str | None, left_out: bool) -> None:
    leaves_out = traits_of("machine-room-nearby").leaves_out
    options: dict[str, object] = {"rooms": frozenset({"east"}), **({"within": within} if within else {})}
    assert leaves_out is not None
    assert leaves_out(options, frozenset({"west"})) is left_out
    assert leaves_out(options, frozenset({"east", "west"})) is False
