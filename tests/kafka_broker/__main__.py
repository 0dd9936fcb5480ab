"""`python -m tests.kafka_broker`: a broker without users and its topics, for trying things out where no container runs."""

import signal
import sys
import threading

import click

from tests.kafka_broker import KafkaBroker


@click.command()
@click.option("--address", default="127.0.0.1", show_default=True, help="Of this machine, where clients find it.")
@click.option("--port", default=9092, show_default=True)
@click.option("--topic", "topics", multiple=True, default=("orders",), show_default=True, help="Repeatable.")
@click.option("--partitions", default=12, show_default=True, help="Of each topic.")
def main(address: str, port: int, topics: tuple[str, ...], partitions: int) -> None:
    """Start it, and keep it until Ctrl-C. It keeps nothing."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        with KafkaBroker(address=address, port=port) as broker:
            for topic in topics:
                broker.make_topic(topic, partitions)
            click.echo(
                f"Kafka at {broker.servers}, without users, with {', '.join(topics)}. Ctrl-C ends it, and nothing of it stays."
            )
            while not ended.wait(1):
                if broker.ended:
                    sys.exit("the broker has ended by itself")
    except RuntimeError as error:
        sys.exit(f"the broker did not start: {error}")


if __name__ == "__main__":
    main()
