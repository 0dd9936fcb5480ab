from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess, run
from typing import Any

import pytest
import yaml
from charts.render import CHART, KUBE_VERSION
from tests.cluster import helm_binary

Template = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="session")
def helm() -> Path:
    return helm_binary()


@pytest.fixture(scope="session")
def template(helm: Path) -> Template:
    """`helm template` of the chart with these further arguments; does not raise."""

    def call(*arguments: str) -> CompletedProcess[str]:
        command = [helm, "template", "baton", CHART, "--namespace", "here", "--kube-version", KUBE_VERSION, *arguments]
        return run(command, capture_output=True, text=True, check=False)

    return call


@pytest.fixture(scope="session")
def objects(template: Template) -> Callable[..., dict[tuple[str, str], Any]]:
    """What the chart renders with these further arguments, by (kind, name)."""

    def call(*arguments: str) -> dict[tuple[str, str], Any]:
        done = template(*arguments)
        assert done.returncode == 0, done.stderr
        found = [document for document in yaml.safe_load_all(done.stdout) if document]
        return {(document["kind"], document["metadata"]["name"]): document for document in found}

    return call
