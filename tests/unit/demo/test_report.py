"""The line that outside checks read."""

import json
from io import StringIO

from rich.console import Console

from demo.audit import audit
from demo.records import Evidence
from demo.report import Totals, clean, line, table
from demo.timings import Timings


def test_the_line_has_exactly_the_fields_of_the_contract_in_their_order() -> None:
    verdict = audit(Evidence({"k": 2}, ()))
    timings = Timings(pauses=[1.0, 3.0], ready_to_ledger=[0.1], ledger_to_executor=[0.4])
    assert json.loads(line(verdict, timings, Totals(2000.0, 7, 7, 1, 12, 9, {}))) == {
        "produced": 2,
        "processed": 0,
        "gaps": 2,
        "duplicates": 0,
        "redelivered": 0,
        "order_violations": 0,
        "moves": 7,
        "lower_bound": 7,
        "pause_ms_p50": 2000,
        "pause_ms_max": 3000,
        "ready_to_ledger_ms_p50": 100,
        "ledger_to_executor_ms_p50": 400,
        "stale_refused": 12,
        "stale_accepted": 0,
    }


def test_the_report_has_the_median_of_spark_s_batches_and_the_longest() -> None:
    driver = {"ranges_planned": 4, "ranges_read_on_owner": 4, "ranges_lent": 0, "owner_share": 1.0}
    shown = StringIO()
    told = table(audit(Evidence({}, ())), Timings(batches=[0.3, 0.4, 1.7]), Totals(2000.0, 7, 7, 1, 12, 9, driver))
    Console(file=shown, width=120).print(told)
    assert "p50 400 ms, max 1,700 ms (3)" in shown.getvalue()


def test_a_move_that_was_to_be_spared_is_not_clean() -> None:
    verdict = audit(Evidence({}, ()))
    assert clean(verdict, Totals(2000.0, 7, 7, 1, 12, 9, {}))
    assert not clean(verdict, Totals(2000.0, 8, 7, 1, 12, 9, {}))
