from pathlib import Path
from subprocess import CompletedProcess, run
from typing import Any, Protocol

import pytest
import yaml

from charts import render
from cluster import helm_binary

Found = dict[tuple[str, str], Any]
"""Objects of Kubernetes, by (kind, name)."""


class Template(Protocol):
    """`helm template` of the chart with these further arguments; does not raise."""

    def __call__(self, *arguments: str) -> CompletedProcess[str]: ...


class Objects(Protocol):
    """What the chart renders with these further arguments."""

    def __call__(self, *arguments: str) -> Found: ...


@pytest.fixture(scope="session")
def helm() -> Path:
    return helm_binary()


@pytest.fixture(scope="session")
def template(helm: Path) -> Template:
    def call(*arguments: str) -> CompletedProcess[str]:
        return run(render.template(helm, "here", *arguments), capture_output=True, text=True, check=False)

    return call


@pytest.fixture(scope="session")
def objects(template: Template) -> Objects:
    def call(*arguments: str) -> Found:
        done = template(*arguments)
        assert done.returncode == 0, done.stderr
        found = [document for document in yaml.safe_load_all(done.stdout) if document]
        return {(document["kind"], document["metadata"]["name"]): document for document in found}

    return call
