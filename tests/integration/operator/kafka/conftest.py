"""One broker for the tests that do it no harm, with topics and groups of their own."""

from collections.abc import Iterator

import pytest

from tests.kafka_broker import KafkaBroker

RACK = "east"


@pytest.fixture(scope="package")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker({"broker.rack": RACK}) as running:
        yield running
