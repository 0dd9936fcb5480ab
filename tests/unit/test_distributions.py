"""Two distributions of one source tree: each package of it is in one of them, and all have one version."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from pathspec import GitIgnoreSpec

import baton

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "operator" / "baton"
DOCKERFILES = ("manifests/operator/Dockerfile", "manifests/examples/spark/Dockerfile")


@pytest.mark.parametrize("file", sorted((ROOT / "manifests").rglob("Dockerfile")), ids=lambda path: path.parent.name)
def test_an_image_of_python_is_built_from_the_base_that_a_user_names(file: Path) -> None:
    """As docs/reference/chart.md promises."""
    bases = re.findall(r"^FROM (\S+)", file.read_text(), flags=re.MULTILINE)
    assert [base for base in bases if base.startswith("python")] == []
    assert "${PYTHON}" not in bases or "\nARG PYTHON=python:3.11-slim-bookworm\n" in file.read_text()


def test_process_1_of_an_image_is_an_init() -> None:
    """A program that is process 1 loses a SIGTERM that comes before its handler does."""
    for file in (ROOT / "manifests").rglob("Dockerfile"):
        for entrypoint in re.findall(r"^ENTRYPOINT (.*)", file.read_text(), flags=re.MULTILINE):
            assert entrypoint.startswith('["tini", "--", '), file


def test_no_manifest_overrides_the_init_of_its_image() -> None:
    """`args` go to the entry point, `command` takes its place."""
    files = (ROOT / "manifests").rglob("*.yaml")
    assert [file for file in files if re.search(r"^ +(- )?command: ", file.read_text(), flags=re.MULTILINE)] == []


def project(folder: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())


def built(folder: str) -> set[Path]:
    """What is in the distribution of the tree."""
    build = project(folder)["tool"]["hatch"]["build"]
    left_out = GitIgnoreSpec.from_lines(build.get("exclude", ()))
    parts = [ROOT / "operator" / part for part in build["only-include"]]
    files = [path for part in parts for path in ([part] if part.is_file() else part.rglob("*"))]
    of_tree = [path.relative_to(ROOT / "operator") for path in files if path.is_file() and "__pycache__" not in path.parts]
    return {path for path in of_tree if not left_out.match_file(path)}


def test_each_file_of_the_tree_is_in_one_distribution() -> None:
    tree = {
        path.relative_to(ROOT / "operator") for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }
    consumer, operator = built("consumer"), built("operator")
    assert (consumer & operator, tree - consumer - operator) == (set(), set())


def test_the_operators_part_of_a_kind_of_queue_is_not_in_a_consumers_image() -> None:
    parts = {path.name for path in built("operator") if path.is_relative_to("baton/queues")}
    assert parts == {"resource.py", "operator_side.py"}


def test_all_distributions_have_one_version() -> None:
    operator = project("operator")["project"]
    pins = [operator["dependencies"], *operator["optional-dependencies"].values()]
    pinned = re.findall(r"baton-consumer(?:\[\w+\])?==([\w.]+)", str(pins))
    chart = yaml.safe_load((ROOT / "charts" / "baton" / "Chart.yaml").read_text())
    versions = [project(folder)["project"]["version"] for folder in (".", "consumer", "operator")]
    assert len(pinned) == 3
    labels = [re.findall(r'image\.version="(.*?)"', (ROOT / file).read_text()) for file in DOCKERFILES]
    assert {*versions, *pinned, chart["version"], chart["appVersion"]} == {baton.__version__}
    assert labels == [[baton.__version__]] * len(DOCKERFILES)


def test_every_mention_of_the_operators_image_has_that_version() -> None:
    named = re.compile(r"baton-operator:(\d[\w.]*)")
    texts = [
        ROOT / "README.md",
        *(path for folder in ("docs", "manifests", "cluster", "charts") for path in (ROOT / folder).rglob("*")),
    ]
    found = {str(path.relative_to(ROOT)): {*named.findall(path.read_text(errors="ignore"))} for path in texts if path.is_file()}
    assert len([versions for versions in found.values() if versions]) > 3
    assert {file: versions for file, versions in found.items() if versions - {baton.__version__}} == {}


@pytest.mark.parametrize("file", [Path(file).with_name("requirements.lock") for file in DOCKERFILES], ids=str)
def test_an_image_has_the_tested_dependencies(file: Path) -> None:
    pin = re.compile(r"^([\w.-]+==\S+)", re.MULTILINE)
    assert set(pin.findall((ROOT / file).read_text())) <= set(pin.findall((ROOT / "requirements.lock").read_text()))


def test_the_operators_folder_is_no_package() -> None:
    """Or it would shadow Python's own module `operator`."""
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_each_has_the_license() -> None:
    for folder in ("consumer", "operator"):
        assert (ROOT / folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_no_text_installs_baton_from_a_public_index() -> None:
    """Its distributions are on no public index."""
    tree = [ROOT / folder / "README.md" for folder in (".", "operator", "consumer")]
    for folder, files in (("docs", "*.md"), ("operator/baton", "*.py"), ("demo", "*.py"), ("manifests", "Dockerfile")):
        tree += (ROOT / folder).rglob(files)
    pattern = re.compile(r".*pip install[^`\n]* '?baton-.*")
    found = {str(path): line for path in tree for line in pattern.findall(path.read_text(errors="replace"))}
    assert found == {}
