"""An assignor of one's own: the heaviest partition first, to the member that would then be least loaded.

It knows nothing but the request, and names decide where nothing else does: so the same group always has the same answer.
"""

from collections.abc import Iterable
from fractions import Fraction

from baton.assignors import Answer, Request
from baton.model import MemberId, Partition


def assign(request: Request) -> Answer:
    """Who should own what. Members that have nothing in the end may be left out."""
    owners = {partition: name for name, member in request.members.items() for partition in member.owned}
    loads = dict.fromkeys(request.members, Fraction(0))
    owned: dict[MemberId, list[Partition]] = {name: [] for name in request.members}
    for weight, partition in _heaviest_first(request):
        readers = [name for name, member in request.members.items() if partition.queue in member.subscribed]
        if not readers:
            continue

        def cost(name: MemberId, weight: Fraction = weight, partition: Partition = partition) -> tuple[Fraction, bool, str]:
            load = (loads[name] + weight) / request.members[name].capacity
            return load, owners.get(partition) != name, name  # of equals, who has it already

        receiver = min(readers, key=cost)
        loads[receiver] += weight
        owned[receiver].append(partition)
    return Answer({name: tuple(mine) for name, mine in owned.items()})


def _heaviest_first(request: Request) -> Iterable[tuple[Fraction, Partition]]:
    weighed = [
        (request.weights[queue][number] if queue in request.weights else Fraction(1), Partition(queue, number))
        for queue, count in request.queues.items()
        for number in range(count)
    ]
    return sorted(weighed, key=lambda one: (-one[0], one[1]))
