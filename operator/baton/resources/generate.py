"""`python -m baton.resources.generate [DIRECTORY] [--check]` writes the CRDs, or says which are not what the models say."""

import sys
from pathlib import Path

import click
import yaml

from baton.model.names import API_GROUP
from baton.resources.crd import Document, crds

HEADING = "# Generated from operator/baton/resources by `make generate`. Do not edit.\n"


def file_name(document: Document) -> str:
    """`baton.dev_consumergroups.yaml`, as controller-gen names them."""
    return f"{API_GROUP}_{document['spec']['names']['plural']}.yaml"


def text(document: Document) -> str:
    """The file's content; the same models give the same text."""
    return HEADING + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=140)


def drifted(directory: Path) -> list[str]:
    """The names of the files in `directory` that differ from what the models say, or are missing."""
    return [
        name
        for document in crds()
        if not (path := directory / (name := file_name(document))).is_file() or path.read_text() != text(document)
    ]


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), default=Path("crds"))
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if a file is not up to date.")
def generate(directory: Path, check: bool) -> None:
    """Write the CustomResourceDefinitions into DIRECTORY."""
    if check:
        for name in drifted(directory):
            click.echo(f"{directory / name} is not what the models say: run `make generate`", err=True)
            sys.exit(1)
        return
    directory.mkdir(parents=True, exist_ok=True)
    for document in crds():
        (directory / file_name(document)).write_text(text(document))


if __name__ == "__main__":
    generate()
