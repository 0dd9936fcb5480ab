"""`python -m cluster up | install | load | down | status | prepare | …`: control the test cluster by hand."""

import sys
import time
from pathlib import Path

import click

from cluster import built_images, packages, runs
from cluster.cluster import OPERATOR_NAMESPACE, Cluster
from cluster.faults import ClusterError
from cluster.images import ROOT
from cluster.processes import Process, Registry
from cluster.programs import HELM, KUBE, PROGRAMS


@click.group()
def main() -> None:
    """A real Kubernetes with one node on this machine, for the demo, the tests and experiments."""


@main.command()
def prepare() -> None:
    """Install missing packages, build missing programs, and print where they are."""
    packages.install(*packages.PACKAGES)
    count = len(set(packages.PACKAGES.values()))
    click.echo(f"machine: the {count} Debian packages are installed; {KUBE.path()} and {HELM.path()} are built")


@main.command("packages")
@click.argument("programs", nargs=-1, type=click.Choice(list(packages.PACKAGES)))
def install_packages(programs: tuple[str, ...]) -> None:
    """Install the missing Debian packages of these programs; without a name: all packages that tests need."""
    packages.install(*(programs or packages.PACKAGES))


@main.command("programs")
@click.argument("names", nargs=-1, required=True, type=click.Choice(list(PROGRAMS)))
def build_programs(names: tuple[str, ...]) -> None:
    """Build these programs into the cache, if they are missing."""
    for program in (program for name in names for program in PROGRAMS[name]):
        program.path()


@main.command("build-images")
def build_images() -> None:
    """Build the images of tests from their Dockerfiles."""
    built_images.each(built_images.TESTED)


@main.command(hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("pid", type=int)
@click.argument("started", type=int)
def guard(folder: Path, pid: int, started: int) -> None:
    """Watch a cluster, and remove it if its owner ends without doing so: killed or crashed."""
    runs.guard(folder, Process(pid, started))


@main.command()
@click.option("--node/--no-node", default=True, help="With a node that runs pods, or only the API server and its controllers.")
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
        click.echo("To install Baton on it (not needed with make cluster-up cluster-install):\n  make cluster-install")
        click.echo("To load the images of the examples (ONLY=redis: the image of the tutorial):\n  make cluster-load")
    click.echo("To stop it:\n  make cluster-down")


@main.command()
def install() -> None:
    """Install or upgrade the operator of this checkout by the chart, on the cluster with a node that `up` left running."""
    cluster = _kept()
    values = cluster.folder / "baton-values.json"
    cluster.install_operator(values)
    click.echo(f"Baton runs in the namespace {OPERATOR_NAMESPACE}, with the values in {values}. To see its log:")
    click.echo(f"  kubectl --namespace {OPERATOR_NAMESPACE} logs deployment/baton --all-pods")


_FILE = click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path)


@main.command()
@click.option(
    "--only", multiple=True, type=click.Choice(list(built_images.EXAMPLES)), help="The image of this example; repeatable."
)
@click.option("--dockerfile", type=_FILE, help="The Dockerfile of your own image; its argument PYTHON is the base image.")
@click.option("--tag", help="With --dockerfile: the image's name in manifests.")
@click.option("--context", type=_FOLDER, help="With --dockerfile: the build context. Default: the root of the clone.")
def load(only: tuple[str, ...], dockerfile: Path | None, tag: str | None, context: Path | None) -> None:
    """Build the images of the examples from their Dockerfiles, and load them into the cluster that `up` left running. If one
    fails, the others are still loaded."""
    if (dockerfile is None) != (tag is None) or (dockerfile is None and context is not None) or (dockerfile is not None and only):
        raise click.UsageError("Your own image needs --dockerfile and --tag; --only is for the images of the examples.")
    if dockerfile is not None and tag is not None:
        asked = [built_images.Image(built_images.complete(tag), dockerfile, context or ROOT)]
    else:
        asked = [built_images.EXAMPLES[name] for name in only or built_images.EXAMPLES]
    cluster = _kept()

    def load_one(image: built_images.Image) -> None:
        click.echo(f"loaded {cluster.load_built_image(image)}, built by {image.dockerfile}")

    built_images.each(asked, load_one)


@main.command()
@click.option("--all", "everything", is_flag=True, help="Also stop the clusters that other clones left running.")
def down(everything: bool) -> None:
    """Stop the clusters that this clone left running, and remove abandoned ones. Clusters in use and those of other clones
    stay."""
    line = None
    for line in runs.down(everything=everything):
        click.echo(line)
    if line is None:
        click.echo("no cluster")


@main.command()
def status() -> None:
    """List the clusters, their owners and their processes."""
    if not runs.folders():
        click.echo("no cluster")
    for folder in runs.folders():
        click.echo(f"{runs.whose(folder)}\n  export KUBECONFIG={folder}/kubeconfig")
        registry = Registry(folder)
        for name in registry.names():
            process = registry.find(name)
            click.echo(f"  {name:26}{f'running, pid {process.pid}' if process and process.alive() else 'stopped'}")


def _kept() -> Cluster:
    """The cluster with a node that this clone left running. Raises ClusterError."""
    cluster = Cluster(node=True)
    if not runs.is_kept(cluster.folder):
        raise ClusterError("no cluster with a node was left running: start one with: make cluster-up")
    if not runs.is_ours(cluster.folder):
        raise ClusterError(f"the cluster {runs.whose(cluster.folder)}")
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
