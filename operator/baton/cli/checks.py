"""What `baton doctor` looks at, in order: pure checks of what was read. Each finding says what is wrong, and its cure."""

from collections.abc import Callable, Iterator

from baton.cli import group_checks, installation_checks
from baton.cli.check_result import CheckResult
from baton.cli.cluster_facts import ClusterFacts

Check = Callable[[ClusterFacts], Iterator[CheckResult]]

CHECKS: tuple[Check, ...] = (
    installation_checks.kubernetes,
    installation_checks.resources,
    installation_checks.operators,
    installation_checks.leaders,
    installation_checks.own_rights,
    installation_checks.operator_rights,
    group_checks.queues,
    group_checks.groups,
    group_checks.pods,
    group_checks.ledgers,
    group_checks.deletions,
)


def findings(facts: ClusterFacts) -> list[CheckResult]:
    """Of all checks, in order."""
    return [one for check in CHECKS for one in check(facts)]
