"""What is generated is what stands in the repository."""

from pathlib import Path

import yaml

from charts.render import ROOT, install_manifest, rendered, stale_files


def test_generated_files_are_up_to_date(helm: Path) -> None:
    stale = [
        str(path.relative_to(ROOT)) for path, text in rendered(helm).items() if not path.exists() or path.read_text() != text
    ]
    stale += [str(path.relative_to(ROOT)) for path in stale_files()]
    assert stale == [], "run `make generate`"


def test_the_install_manifest_brings_its_namespace_and_the_crds_before_what_needs_them(helm: Path) -> None:
    found = list(yaml.safe_load_all(install_manifest(helm)))
    kinds = [document["kind"] for document in found]
    assert kinds[0] == "Namespace"
    assert kinds.count("CustomResourceDefinition") == 2
    assert kinds.index("Deployment") > max(index for index, kind in enumerate(kinds) if kind == "CustomResourceDefinition")


def test_the_install_manifest_does_not_claim_that_helm_manages_it(helm: Path) -> None:
    assert "Helm" not in install_manifest(helm)
