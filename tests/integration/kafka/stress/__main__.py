"""`python -m tests.integration.kafka.stress --rounds 500 --seed 1`: as the test does, for longer."""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from tests.integration.kafka.stress.rounds import coordinator_rounds, rounds, transaction_rounds
from tests.integration.kafka.stress.verdict import OutputVerdict, Verdict
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
        place, count, dies = Path(folder), options.rounds, options.broker_dies_every
        wrong: Verdict | OutputVerdict
        if options.mid_commit:
            harm = coordinator_rounds([broker.servers], broker, "stress", "shop.stress", place, count, options.seed)
            wrong, caught, said = asyncio.run(harm)
            what = f"{caught} commits under way"
        elif options.transactions:
            wrong, found = asyncio.run(transaction_rounds(broker, "stress", place, count, options.seed, broker_dies_every=dies))
            said = found.said
            what = f"{found.handled} entries handled, {found.handed_over} partitions handed over by their owners"
        else:
            wrong, handled, said = asyncio.run(rounds(broker, "stress", place, count, options.seed, broker_dies_every=dies))
            what = f"{handled} entries handled"
        print(f"{count} rounds in {time.monotonic() - begun:.0f} s, {what}")
        for name, those in wrong._asdict().items():
            print(f"{name}: {len(those)} {list(those)[:5]}")
        print(said[-2000:])


if __name__ == "__main__":
    main()
