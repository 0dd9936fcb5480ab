"""Who may do what: rules per user, as roles and their bindings come to."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from tests.simulation.api_server.paths import Target
from tests.simulation.api_server.refusals import Refused, forbidden


@dataclass(frozen=True, slots=True)
class Rule:
    """The rights of an account; namespace None: everywhere."""

    group: str
    resources: Collection[str]
    """Plurals, a subresource as pods/status."""
    verbs: Collection[str]
    namespace: str | None = None

    def allows(self, verb: str, target: Target) -> bool:
        within = self.namespace is None or self.namespace == target.namespace
        return within and self.group == target.kind.group and _resource(target) in self.resources and verb in self.verbs


class Access:
    """Rules by user. Without a user: an administrator, who may do everything."""

    def __init__(self) -> None:
        self._rules: dict[str, list[Rule]] = defaultdict(list)

    def grant(self, user: str, *rules: Rule) -> None:
        self._rules[user] += rules

    def revoke(self, user: str, namespace: str | None) -> None:
        """As if the bindings in this namespace were deleted (None: those for all of them)."""
        self._rules[user] = [rule for rule in self._rules[user] if rule.namespace != namespace]

    def check(self, user: str | None, verb: str, target: Target) -> None:
        """Raises Refused (403)."""
        if user is not None and not any(rule.allows(verb, target) for rule in self._rules[user]):
            raise _refused(user, verb, target)


def _resource(target: Target) -> str:
    return f"{target.kind.plural}/{target.subresource}" if target.subresource else target.kind.plural


def _refused(user: str, verb: str, target: Target) -> Refused:
    where = f'in the namespace "{target.namespace}"' if target.namespace is not None else "at the cluster scope"
    what = f'cannot {verb} resource "{_resource(target)}" in API group "{target.kind.group}"'
    return forbidden(target.kind, target.name, f'User "{user}" {what} {where}')
