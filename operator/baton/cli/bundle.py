"""`baton bundle`: what a report of a bug needs, in one archive without secrets."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from baton.cli.cluster import NoAnswerError, ask, cluster
from baton.cli.cluster_target import ClusterTarget, all_namespaces_option, cluster_options, refuse_group_of_all_namespaces
from baton.cli.names import GROUP
from baton.cli.printing import say
from baton.model.wording import counted

if TYPE_CHECKING:
    from baton.cli.bundle_reading import Bundle


@click.command()
@click.argument("group", type=GROUP, required=False)
@cluster_options
@all_namespaces_option()
@click.option(
    "--file",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write it. Default: baton-bundle-TIME.tar.gz here.",
)
def bundle(group: str | None, all_namespaces: bool, file: Path | None, target: ClusterTarget) -> None:
    """Collect into one archive what a report of a bug needs: of GROUP, or of all groups of the namespace.

    Versions, resources, ledgers, Leases, pods, events, the operator's logs, and what `baton doctor` says. Secrets, environments
    and entries are not read; what looks like a password or a token elsewhere is hidden. unread.json has what could not be read.
    """
    refuse_group_of_all_namespaces(group, all_namespaces)
    if file is not None and file.exists():
        raise _already(file)
    name = None
    if group is not None:
        name, target = target.within(group)
    file = file or Path(time.strftime("baton-bundle-%Y%m%dT%H%M%SZ.tar.gz", time.gmtime()))
    try:
        made = ask(_collect(name, target, file, everywhere=all_namespaces))
    except FileExistsError:
        raise _already(file) from None
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}") from None
    say(f"{file}: {counted(made.written, 'file')}. Read it before you send it: messages and logs are free text.")
    for what, why in made.unread.items():
        say(f"not in it: {what}: {why}", error=True)


def _already(file: Path) -> click.UsageError:
    return click.UsageError(f"{file} is there already: give another --file")


async def _collect(group: str | None, target: ClusterTarget, file: Path, *, everywhere: bool) -> "Bundle":
    from baton.cli.bundle_archive import archive
    from baton.cli.bundle_reading import Bundle, groups_of, read_bundle

    async with cluster(target) as (api, where):
        namespace = None if everywhere else where
        groups = await groups_of(api, namespace, group)
        if not groups:
            raise NoAnswerError(f"there is no ConsumerGroup in {'the cluster' if everywhere else f'namespace {where}'}")
        with archive(file) as write:
            made = Bundle(write)
            await read_bundle(made, api, namespace, groups, everything=group is None)
    return made
