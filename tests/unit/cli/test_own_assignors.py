"""Assignors of installed packages: the example of the guide, and broken packages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "manifests" / "examples" / "own-assignor"
BIN = Path(sys.executable).parent
GROUP = {"queues": {"orders": 4}, "members": {"a": {"subscribed": ["orders"]}, "b": {"subscribed": ["orders"]}}}


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the example, and return the directory."""
    target = tmp_path_factory.mktemp("site")
    subprocess.run([BIN / "uv", "pip", "install", "--quiet", "--no-deps", "--target", target, EXAMPLE], check=True)
    return target


def package(folder: Path, name: str, entry_points: str, code: str = "") -> None:
    """Write the files that an installer would leave."""
    module, info = folder / f"{name}.py", folder / f"{name}-1.0.dist-info"
    info.mkdir()
    module.write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[baton.assignors]\n{entry_points}\n")


def run(command: list[str | Path], *sites: Path, **options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sites))}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, **options)  # type: ignore[call-overload,no-any-return]


def plan(assignor: str, *sites: Path, **request: object) -> dict[str, object]:
    done = run([BIN / "baton", "plan"], *sites, input=json.dumps({"assignor": assignor, **GROUP, **request}))
    assert done.stderr == ""
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_an_installed_assignor_answers_by_its_name(example: Path) -> None:
    answer = plan("example.com/by-load", example, weights={"orders": [3, 1, 1, 1]})
    assert answer["assignment"] == {"a": {"orders": [0]}, "b": {"orders": [1, 2, 3]}}


def test_an_installed_assignor_works_in_rooms_and_simulation(example: Path, tmp_path: Path) -> None:
    members = {name: {"subscribed": ["orders"], "zone": zone} for name, zone in (("a", "east"), ("b", "west"))}
    rooms = {"zones": {"orders": [["west"], ["east"], ["west"], ["west"]]}, "options": {"within": "example.com/by-load"}}
    answer = plan("machine-room-nearby", example, members=members, **rooms)
    assert answer["assignment"] == {"a": {"orders": [1]}, "b": {"orders": [0, 2, 3]}}
    scenario = tmp_path / "own.yaml"
    scenario.write_text(
        "{queues: {orders: 4}, group: {assignors: [example.com/by-load]}, events: [{at: 0, join: [a, b]}], until: 10, "
        "expect: {assignment: {a: {orders: [0, 2]}, b: {orders: [1, 3]}}}}"
    )
    assert run([BIN / "baton", "simulate", "--check", scenario], example).stderr == ""


def test_the_example_assignors_tests_pass(example: Path) -> None:
    done = run([BIN / "pytest", "-q", "-p", "no:cacheprovider", EXAMPLE], example)
    assert done.returncode == 0, done.stdout


def test_a_broken_package_is_named_and_affects_no_other(example: Path, tmp_path: Path) -> None:
    package(tmp_path, "torn", "example.com/torn = torn:assign", "import does_not_exist")
    answer = plan("example.com/torn", example, tmp_path)
    assert answer == {
        "error": "assignor: the assignor example.com/torn cannot be used: its entry point torn:assign of torn 1.0 cannot be "
        "loaded (ModuleNotFoundError: No module named 'does_not_exist'): fix or reinstall that package"
    }
    assert "assignment" in plan("example.com/by-load", example, tmp_path)
    assert "assignment" in plan("sticky", example, tmp_path)


def test_a_name_without_a_domain_is_refused_with_the_cure(tmp_path: Path) -> None:
    package(tmp_path, "plain", "plain = plain:assign", "def assign(request): ...")
    assert "'plain' of plain 1.0 is not named <domain>/<name>: rename it" in str(plan("plain", tmp_path)["error"])
    assert "plain" not in str(plan("best", tmp_path)["error"])


def test_a_built_in_name_is_not_taken_over(tmp_path: Path) -> None:
    package(tmp_path, "thief", "sticky = thief:assign", "raise SystemExit('never imported')")
    assert "assignment" in plan("sticky", tmp_path)


def test_two_packages_with_one_name_are_both_named(tmp_path: Path) -> None:
    for name in ("one", "two"):
        package(tmp_path, name, f"example.com/same = {name}:assign")
    assert "one 1.0 and two 1.0 both declare it: uninstall one of them" in str(plan("example.com/same", tmp_path)["error"])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("assign = 3", "its entry point bad:assign of bad 1.0 is not a function"),
        ("def assign(request, more): ...", "which takes (request, more); it is called with (request): pass a function"),
        ("assigned = 3", "cannot be loaded (AttributeError: "),
        ("raise SystemExit(3)", "cannot be loaded (SystemExit: 3)"),
    ],
    ids=["no function", "other arguments", "no such name", "exits"],
)
def test_a_faulty_assignor_is_reported_in_one_line(tmp_path: Path, code: str, said: str) -> None:
    package(tmp_path, "bad", "example.com/bad = bad:assign", code)
    error = str(plan("example.com/bad", tmp_path)["error"])
    assert error.startswith("assignor: the assignor example.com/bad ") and said in error


def test_the_guides_first_assignor_keeps_the_contract(tmp_path: Path) -> None:
    page = (EXAMPLE.parents[2] / "docs" / "guides" / "own-assignor.md").read_text()
    code = page.partition("```python\n")[2].partition("```")[0]
    package(tmp_path, "guides", "example.com/guides = guides:assign", code)
    assert plan("example.com/guides", tmp_path)["assignment"] == {"a": {"orders": [0, 2]}, "b": {"orders": [1, 3]}}
