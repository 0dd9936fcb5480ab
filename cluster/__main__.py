"""`python -m cluster up | install | load | down | status | prepare | …`: the test cluster by hand."""

import sys
import time
from pathlib import Path

import click

from cluster import built_images, keda, packages, runs
from cluster.cluster import OPERATOR_NAMESPACE, Cluster
from cluster.faults import ClusterError
from cluster.images import ROOT
from cluster.processes import Registry
from cluster.programs import HELM, KUBE
from cluster.sweep import sweep


@click.group()
def main() -> None:
    """A real Kubernetes with one node on this machine, for the demo, the tests and for trying things out."""


@main.command()
def prepare() -> None:
    """Install the packages and build the programs that are missing."""
    packages.install(packages.TESTS)
    KUBE.path()
    HELM.path()


@main.command("prepare-keda")
def prepare_keda() -> None:
    """Build KEDA, for tests that autoscale with it: a quarter of an hour, once."""
    keda.prepare()


@main.command("build-images")
def build_images() -> None:
    """Build the images of operator and Spark fleet by their Dockerfiles, for the tests that run in them."""
    built_images.build(built_images.OPERATOR)
    built_images.build(built_images.SPARK)


@main.command("packages")
def install_packages() -> None:
    """Install the Debian packages that are missing."""
    packages.install(packages.TESTS)


@main.command()
@click.option("--node/--no-node", default=True, help="With a node that runs pods, or the API server and its controllers only.")
def up(node: bool) -> None:
    """Start a cluster and leave it running."""
    began = time.monotonic()
    cluster = Cluster(node=node)
    cluster.up()
    if node:
        cluster.provide_volumes()
    cluster.keep()
    click.echo(f"ready after {time.monotonic() - began:.1f} s. To use it:\n  export KUBECONFIG={cluster.kubeconfig}")
    click.echo(f"  alias kubectl='{KUBE.path()} kubectl'")
    if HELM.place().exists():
        click.echo(f"  alias helm='{HELM.path()}'")
    if node:
        click.echo("To install Baton on it:\n  make cluster-install")
        click.echo("To load the images of the examples into it (ONLY=redis: that of the first guide):\n  make cluster-load")
    click.echo("To stop it:\n  make cluster-down")


@main.command()
def install() -> None:
    """Install the operator of this checkout on the cluster with a node that `up` left running, by the chart; or upgrade it."""
    cluster = _kept()
    values = cluster.folder / "baton-values.json"
    cluster.install_operator(values)
    click.echo(f"Baton runs in the namespace {OPERATOR_NAMESPACE}, with the values in {values}. Does anything look wrong:")
    click.echo(f"  kubectl --namespace {OPERATOR_NAMESPACE} logs deployment/baton --all-pods")


_FILE = click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path)


@main.command()
@click.option(
    "--only", multiple=True, type=click.Choice(list(built_images.EXAMPLES)), help="The image of this example; repeatable."
)
@click.option("--dockerfile", type=_FILE, help="An image of your own instead: its Dockerfile, whose PYTHON is the base image.")
@click.option("--tag", help="With --dockerfile: how manifests call it.")
@click.option("--context", type=_FOLDER, help="With --dockerfile: what it copies from, unless that is the top of the clone.")
def load(only: tuple[str, ...], dockerfile: Path | None, tag: str | None, context: Path | None) -> None:
    """Build the images of the examples by their Dockerfiles, and load them into the cluster that `up` left running."""
    if (dockerfile is None) != (tag is None) or (dockerfile is None and context is not None) or (dockerfile is not None and only):
        raise click.UsageError("An image of your own takes --dockerfile and --tag; --only is for those of the examples.")
    if dockerfile is not None and tag is not None:
        asked = [built_images.Image(built_images.complete(tag), dockerfile, context or ROOT)]
    else:
        asked = [built_images.EXAMPLES[name] for name in only or built_images.EXAMPLES]
    cluster = _kept()
    for image in asked:
        click.echo(f"loaded {cluster.load_built_image(image)}, built by {image.dockerfile}")


@main.command()
def down() -> None:
    """Stop what was left running and remove what was left lying. A cluster in use by a process that still runs stays."""
    with runs.exclusive():
        found = runs.folders()
        used = [folder for folder in found if runs.owner(folder) is not None]
        for folder in found:
            if folder not in used:
                said = "stopped" if runs.is_kept(folder) else "removed what was left of"
                sweep(folder, node=folder.name == runs.NODE)
                click.echo(f"{said} {folder.name}")
    for folder in used:
        click.echo(f"left alone: {runs.in_use(folder)}, and ends with it")
    if not found:
        click.echo("no cluster")


@main.command()
def status() -> None:
    """Show what runs, and which run uses it."""
    if not runs.folders():
        click.echo("no cluster")
    for folder in runs.folders():
        whose = "nobody's any more: `down` removes it" if runs.is_abandoned(folder) else runs.in_use(folder)
        click.echo(f"{folder}: {whose}\n  export KUBECONFIG={folder}/kubeconfig")
        registry = Registry(folder)
        for name in registry.names():
            process = registry.find(name)
            click.echo(f"  {name:26}{f'running, pid {process.pid}' if process and process.alive() else 'stopped'}")


def _kept() -> Cluster:
    """Raises ClusterError."""
    cluster = Cluster(node=True)
    if not runs.is_kept(cluster.folder):
        raise ClusterError("there is no cluster with a node that was left running: start one with: make cluster-up")
    return cluster


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
