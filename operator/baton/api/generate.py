"""`python -m baton.api.generate`, in the repository's root: writes the CRDs and their reference page."""

from pathlib import Path

import yaml

from baton.api.crd import Document, crds
from baton.api.reference import reference
from baton.model.names import API_GROUP

HEADING = "# Generated from operator/baton/api by `make generate`. Do not edit.\n"


def file_name(document: Document) -> str:
    """`baton.dev_consumergroups.yaml`, as controller-gen names them."""
    return f"{API_GROUP}_{document['spec']['names']['plural']}.yaml"


def text(document: Document) -> str:
    """The file's content; the same models give the same text."""
    return HEADING + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=140)


def files(root: Path) -> dict[Path, str]:
    """All that is generated below the repository's root, with its content."""
    made = {root / "crds" / file_name(document): text(document) for document in crds()}
    return {**made, root / "docs" / "reference" / "resources.md": reference()}


def main() -> None:
    """Writes the files below the working directory."""
    for path, content in files(Path()).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
