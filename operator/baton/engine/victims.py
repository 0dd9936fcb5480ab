"""The victims: the pods that a driver removes when the fleet is larger than its desired size (mode Spark)."""

from collections.abc import Collection, Iterable, Mapping

from baton.engine.draft import Draft
from baton.engine.observation import ObservedMember
from baton.engine.state import PodKey
from baton.model.ids import MemberId


def choose_victims(draft: Draft, live: Mapping[MemberId, ObservedMember]) -> tuple[PodKey, ...]:
    """The pods whose loss costs the fewest moves: first those that drain, then standbys, then those with the fewest partitions,
    then the youngest.

    A victim stays one while the fleet is too large. If the desired size grows, the victim chosen last is spared first, and one
    that drains last.
    """
    excess = len(live) - (draft.spec.replicas or 0)
    if excess <= 0:
        return ()

    def draining_first(pods: Iterable[PodKey]) -> list[PodKey]:
        return sorted(pods, key=lambda pod: not live[pod[0]].draining)

    chosen = draining_first(pod for pod in draft.victims if pod[0] in live and live[pod[0]].uid == pod[1])[:excess]
    if len(chosen) < excess:
        loads = draft.loads()
        holders = {slot.member for slot in draft.member_slots if slot.vacated is None}
        names = {name for name, _ in chosen}
        counts = {name: len(of) for name, of in loads.items()}
        rest = cheapest_first({name: pod for name, pod in live.items() if name not in names}, holders, counts)
        chosen = draining_first([*chosen, *((name, live[name].uid) for name in rest[: excess - len(chosen)])])
    return tuple(chosen)


def cheapest_first(
    pods: Mapping[MemberId, ObservedMember], holders: Collection[MemberId], counts: Mapping[MemberId, int]
) -> list[MemberId]:
    """Pods by what their loss costs. `holders`: those that do not stand by; `counts`: the numbers of their partitions."""
    youngest = sorted(pods, key=lambda name: (pods[name].joined, name), reverse=True)
    return sorted(youngest, key=lambda name: (not pods[name].draining, name in holders, counts.get(name, 0)))
