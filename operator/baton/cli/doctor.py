"""`baton doctor`: whether everything is as it should be, and what to do where it is not."""

import sys
from typing import TYPE_CHECKING

import click

from baton.cli.cluster import ask, cluster
from baton.cli.cluster_target import ClusterTarget, all_namespaces_option, cluster_options
from baton.cli.output_form import Form, output_option, say_object
from baton.cli.printing import say
from baton.model.wording import counted

if TYPE_CHECKING:
    from baton.cli.check_result import CheckResult


@click.command()
@cluster_options
@all_namespaces_option("The groups and queues")
@output_option(wide="also what is as it should be", programs="a list of all findings")
def doctor(all_namespaces: bool, form: Form, target: ClusterTarget) -> None:
    """Check the installation, rights, queues, groups and pods. Says of everything that is not as it should be how to cure it.

    Changes nothing. Ends with 1 if something is wrong; warnings, and what may not be read, are said and do not count.
    """
    from baton.cli.check_result import Verdict

    found = ask(_examine(target, all_namespaces))
    if form.for_programs:
        say_object([dict(one.to_json()) for one in found], form)
    else:
        _tell(found, everything=form.wide)
    if any(one.verdict is Verdict.FAILED for one in found):
        sys.exit(1)


async def _examine(target: ClusterTarget, everywhere: bool) -> "list[CheckResult]":
    from baton.cli.checks import findings
    from baton.cli.facts import read_facts

    async with cluster(target) as (api, where):
        return findings(await read_facts(api, None if everywhere else where))


def _tell(found: "list[CheckResult]", *, everything: bool) -> None:
    from baton.cli.check_result import Verdict

    for one in found:
        if everything or one.verdict is not Verdict.OK:
            say(f"{one.verdict:8} {one.about}: {one.says}")
            if one.cure:
                say(f"         {one.cure}")
    counts = {verdict: sum(one.verdict is verdict for one in found) for verdict in Verdict}
    good = counts[Verdict.OK]
    rest = f"{counts[Verdict.FAILED]} failed, {counted(counts[Verdict.WARNING], 'warning')}, {counts[Verdict.UNKNOWN]} unknown"
    say(f"{counted(len(found), 'check')}: {good} as they should be, {rest}")
