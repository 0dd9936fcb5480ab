"""`python -m tests.peers`: how often ours is better than Kafka's, and by how much, as a table in Markdown (for the docs)."""

from random import Random

from baton.assignors import Request
from tests.peers import ask
from tests.peers.comparison import Comparison, compare
from tests.peers.groups import a_group, rebalanced

COUNT = 3000


def groups_after_a_change(dice: Random, equal: bool, zones: bool) -> list[Request]:
    """Groups that Kafka's server-side assignor had balanced, when a member came or went."""
    before = [a_group(dice, equal=equal, zones=zones) for _ in range(COUNT)]
    answers = ask(("uniform", request) for request in before)
    return [rebalanced(dice, request, a.owners()) for request, a in zip(before, answers, strict=True) if not isinstance(a, str)]


def main() -> None:
    dice = Random(20)
    kinds = {
        "equal subscriptions, arbitrary owners": [a_group(dice, equal=True, claims=True) for _ in range(COUNT)],
        "equal subscriptions, a member came or went": groups_after_a_change(dice, equal=True, zones=False),
        "equal subscriptions, claims that contradict": [
            a_group(dice, equal=True, claims=True, contested=True) for _ in range(COUNT)
        ],
        "equal subscriptions and zones, a member came or went": groups_after_a_change(dice, equal=True, zones=True),
        "different subscriptions, arbitrary owners": [a_group(dice, equal=False, claims=True) for _ in range(COUNT)],
        "different subscriptions, a member came or went": groups_after_a_change(dice, equal=False, zones=False),
        "different subscriptions, claims that contradict": [
            a_group(dice, equal=False, claims=True, contested=True) for _ in range(COUNT)
        ],
    }
    print("| ours | Kafka's | groups | equal answers | more even | as even, fewer moves | moves, where as even | worse |")
    print("|---|---|---|---|---|---|---|---|")
    for kind, requests in kinds.items():
        peers = [("sticky", "sticky")]
        if "contradict" not in kind:  # there every claimant counts as an owner for minimal, and none for Kafka
            peers += [("minimal", "sticky"), ("minimal", "uniform")]
        for ours, peer in peers:
            print(_row(ours, peer, kind, compare(ours, peer, requests)), flush=True)


def _row(ours: str, peer: str, kind: str, result: Comparison) -> str:
    title = {"sticky": "cooperative-sticky", "uniform": "uniform (server)"}[peer]
    counts = f"{result.equal:,} | {result.more_even:,} | {result.fewer_moves:,} | {result.moves:,} to {result.peer_moves:,}"
    return f"| `{ours}` | {title} | {kind} | {counts} | {len(result.worse)} |"


if __name__ == "__main__":
    main()
