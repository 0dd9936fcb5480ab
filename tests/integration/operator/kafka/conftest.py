"""One broker for the tests that do it no harm, each with separate topics and groups."""

from collections.abc import Iterator

import pytest

from tests.kafka_broker import KafkaBroker

RACK = "east"


@pytest.fixture(scope="package")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker({"broker.rack": RACK}) as running:
        yield running
