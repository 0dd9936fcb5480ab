"""`python -m tests.cluster up | down | status | prepare`: the test cluster by hand."""

import sys
import time

import click

from tests.cluster import packages
from tests.cluster.cluster import RUNS, Cluster
from tests.cluster.faults import ClusterError
from tests.cluster.processes import Registry
from tests.cluster.programs import HELM, KUBE
from tests.cluster.sweep import sweep


@click.group()
def main() -> None:
    """A real Kubernetes with one node on this machine, for trying things out."""


@main.command()
def prepare() -> None:
    """Install the packages and build the programs that are missing."""
    packages.install(packages.TESTS)
    KUBE.path()
    HELM.path()


@main.command()
def up() -> None:
    """Start the cluster and leave it running."""
    began = time.monotonic()
    cluster = Cluster(node=True)
    cluster.up()
    (cluster.folder / "owner").write_text("nobody")
    click.echo(f"ready after {time.monotonic() - began:.1f} s. To use it:\n  export KUBECONFIG={cluster.kubeconfig}\n"
               f"  alias kubectl='{KUBE.path()} kubectl'\nTo stop it:\n  python -m tests.cluster down")  # fmt: skip


@main.command()
def down() -> None:
    """Stop every cluster of this kind on the machine and remove what it made."""
    for folder in RUNS.glob("*") if RUNS.is_dir() else ():
        sweep(folder, node=folder.name == "node")


@main.command()
def status() -> None:
    """Say what runs."""
    folders = sorted(RUNS.glob("*")) if RUNS.is_dir() else []
    if not folders:
        click.echo("no cluster")
    for folder in folders:
        registry = Registry(folder)
        click.echo(f"{folder}  KUBECONFIG={folder}/kubeconfig")
        for name in registry.names():
            process = registry.find(name)
            click.echo(f"  {name:26}{f'running, pid {process.pid}' if process and process.alive() else 'stopped'}")


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except ClusterError as error:
        sys.exit(f"cluster: {error}")
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
