"""The chart as a release has it."""

import tarfile
from pathlib import Path

import baton
from charts.package import package
from cluster import helm_binary


def test_the_chart_has_no_fault_and_is_one_archive_with_its_crds(tmp_path: Path) -> None:
    archive = package(helm_binary(), tmp_path)
    assert archive.name == f"baton-{baton.__version__}.tgz"
    with tarfile.open(archive) as packed:
        names = packed.getnames()
    assert {"baton/Chart.yaml", "baton/values.schema.json", "baton/crds/baton.dev_consumergroups.yaml"} <= set(names)
