"""`python -m tests.integration.kafka.stress --rounds 500 --seed 1`: as the test does, for longer."""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.kafka.stress.rounds import coordinator_rounds, rounds, transaction_rounds
from tests.kafka_broker import KafkaBroker


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker-dies-every", type=int, default=0, help="rounds; 0: never")
    parser.add_argument("--transactions", action="store_true", help="of consumers that send outputs")
    parser.add_argument(
        "--mid-commit", action="store_true", help="the broker is killed in each round, while commits are under way"
    )
    options = parser.parse_args()
    with KafkaBroker() as broker, tempfile.TemporaryDirectory() as folder:
        broker.make_topic("stress", 4)
        begun = time.monotonic()
        broker.make_topic("stress-out", 4)
        rounds_of: Callable[..., Any] = transaction_rounds if options.transactions else rounds
        harm: Any
        if options.mid_commit:
            harm = coordinator_rounds(
                [broker.servers], broker, "stress", "shop.stress", Path(folder), options.rounds, options.seed
            )
        else:
            harm = rounds_of(
                broker, "stress", Path(folder), options.rounds, options.seed, broker_dies_every=options.broker_dies_every
            )
        found, count, said = asyncio.run(harm)
        counted = "commits under way" if options.mid_commit else "entries handled"
        print(f"{options.rounds} rounds in {time.monotonic() - begun:.0f} s, {count} {counted}")
        for name, what in zip(found._fields, found, strict=True):
            print(f"{name}: {len(what)} {list(what)[:5]}")
        print(said[-2000:])


if __name__ == "__main__":
    main()
