"""`python -m tests.kafka_broker`, for guides without Docker."""

import re
import signal
import subprocess
import sys
from pathlib import Path

from confluent_kafka.admin import AdminClient

from cluster.ports import free_ports
from tests.processes import ChildProcess
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[3]


def test_a_broker_is_there_until_it_is_told_to_end() -> None:
    port = str(next(free_ports("127.0.0.1")))
    command = [sys.executable, "-m", "tests.kafka_broker", "--port", port, "--topic", "pay", "--partitions", "3"]
    with ChildProcess(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert re.match(rf"Kafka at 127.0.0.1:{port}, .* with pay\.", said), said
            topics = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=PATIENCE).topics
            assert len(topics["pay"].partitions) == 3
        finally:
            process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    assert list(Path("/tmp").glob(f"baton-kafka-{process.pid}-*")) == []
