"""Two distributions of one source tree: each package of it is in one of them, and all have one version."""

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

import baton

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "operator" / "baton"


def project(folder: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())


def test_each_file_of_the_tree_is_in_one_distribution() -> None:
    parts = [
        Path(part).relative_to("baton")
        for folder in ("consumer", "operator")
        for part in project(folder)["tool"]["hatch"]["build"]["only-include"]
    ]
    files = [path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    owners = {file: [part for part in parts if file == part or part in file.parents] for file in files}
    assert {str(file): owner for file, owner in owners.items() if len(owner) != 1} == {}


def test_there_is_one_version() -> None:
    operator = project("operator")["project"]
    pins = [operator["dependencies"], *operator["optional-dependencies"].values()]
    pinned = re.findall(r"baton-consumer(?:\[\w+\])?==([\w.]+)", str(pins))
    chart = yaml.safe_load((ROOT / "charts" / "baton" / "Chart.yaml").read_text())
    versions = [project(folder)["project"]["version"] for folder in (".", "consumer", "operator")]
    assert len(pinned) == 2
    assert {*versions, *pinned, chart["version"], chart["appVersion"]} == {baton.__version__}


def test_the_operators_folder_is_no_package() -> None:
    """Or it would shadow Python's own module `operator`."""
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_each_has_the_license() -> None:
    for folder in ("consumer", "operator"):
        assert (ROOT / folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
