"""`baton check-order` on what two pods have handled, before and after a hand-off."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner, Result

from baton.cli.main import main
from baton.queues.entry import Entry
from tests.integration.redis.conftest import Queue
from tests.integration.redis.pods import lag, operating
from tests.waiting import eventually, until

COUNT = 120


def recorder(file: Path, member: str) -> Callable[[Entry], None]:
    """The handler of the guide."""

    def handle(entry: Entry) -> None:
        record = {
            "key": entry.key.decode(),
            "sequence": int(entry.value),
            "partition": entry.partition,
            "member": member,
            "epoch": entry.epoch,
            "time": time.time(),
            "redelivered": entry.redelivered,
        }
        with file.open("a") as lines:
            lines.write(json.dumps(record) + "\n")

    return handle


def check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["check-order", "-o", "json", *map(str, arguments)])


async def test_check_order_passes_a_hand_off_and_names_a_gap(queue: Queue, tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.jsonl" for name in ("first", "second")}
    keys = [queue.key(0, nth).decode() for nth in range(3)]
    sent = tmp_path / "sent.jsonl"
    sent.write_text("".join(json.dumps({"key": key, "sequence": COUNT}) + "\n" for key in keys))

    def send(begin: int, end: int) -> None:
        queue.producer.send_many((key, str(number)) for number in range(begin, end + 1) for key in keys)

    async with operating(queue, tmp_path) as operator:
        first, second = (operator.pod(name, handler=recorder(file, name)) for name, file in files.items())
        await operator.grant(first, (0, 1))
        send(1, COUNT // 2)
        until(files["first"].exists)
        await operator.grant(second, (0, 2))
        send(COUNT // 2 + 1, COUNT)

        async def drained() -> bool:
            return await lag(queue) == 0

        await eventually(drained, "all are handled")
    clean = check(*files.values(), "--produced", sent)
    report = json.loads(clean.output)
    assert clean.exit_code == 0, report
    assert (report["keys"], report["processed"]) == (3, 3 * COUNT)

    kept = [line for line in files["second"].read_text().splitlines() if json.loads(line)["sequence"] != COUNT - 1]
    files["second"].write_text("\n".join(kept))
    lost = check(*files.values())
    report = json.loads(lost.output)
    assert lost.exit_code == 1
    assert (report["gaps"], report["keys_at_fault"]) == (3, 3)
    assert {found["by"]["member"] for found in report["findings"] if found["fault"] == "gap"} == {"second"}
