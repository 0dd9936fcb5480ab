"""The auditor finds what it is there to find: each test breaks one promise in an otherwise clean record."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict, Unpack

from demo.audit import Verdict, audit
from demo.records import Attempt, Evidence, Fence, Processed


class Changed(TypedDict, total=False):
    offset: str
    key: str
    epoch: int
    late: bool
    redelivered: bool
    executor: str
    batch: int
    run: str


def row(sequence: int, **other: Unpack[Changed]) -> Processed:
    plain = Processed(
        3, f"{sequence}-0", 1000 + sequence, "k", sequence, 1, redelivered=False, executor="exec-1", batch=1, run="1/a"
    )
    return plain._replace(**other)


def judge(
    *rows: Processed, produced: int | None = None, fences: Sequence[Fence] = (), attempts: Sequence[Attempt] = ()
) -> Verdict:
    last = produced if produced is not None else max(each.sequence for each in rows)
    return audit(Evidence({"k": last}, rows, fences, attempts))


CLEAN = (row(1), row(2), row(3))


def test_a_clean_run_is_clean() -> None:
    verdict = judge(*CLEAN)
    assert verdict.clean
    assert (verdict.produced, verdict.processed, verdict.redelivered, verdict.late) == (3, 3, 0, 0)


def test_the_same_message_at_two_offsets_is_a_duplicate() -> None:
    assert judge(*CLEAN, row(3, offset="2000-0")).duplicates.count == 1


def test_a_late_processing_beside_an_unmarked_one_is_a_duplicate() -> None:
    assert judge(row(1, late=True), row(1, epoch=2, executor="exec-2")).duplicates.count == 1


def test_a_late_result_that_was_redelivered_is_counted_and_no_fault() -> None:
    verdict = judge(row(1, epoch=2, executor="exec-2", redelivered=True, run="2/b"), row(1, late=True))
    assert verdict.clean
    assert verdict.late == 1


def test_an_attempt_with_lost_credentials_that_succeeds_is_a_stale_access() -> None:
    refused, accepted = Attempt(3, "read", 1, refused=True), Attempt(3, "commit", 1, refused=False)
    assert judge(*CLEAN, attempts=[refused]).clean
    assert judge(*CLEAN, attempts=[refused, accepted]).stale_accepted.count == 1


def test_an_entry_read_at_an_ended_epoch_is_a_stale_read() -> None:
    ended = Fence(partition=3, epoch=2, at_ms=1002)
    assert judge(*CLEAN, fences=[ended]).stale_accepted.count == 1
    assert judge(*CLEAN, fences=[replace_partition(ended)]).clean
    assert judge(row(1), row(2), row(3, epoch=2), fences=[ended]).clean


def test_a_borrowed_entry_has_no_epoch() -> None:
    ended = Fence(partition=3, epoch=2, at_ms=1000)
    assert judge(row(1, epoch=0), fences=[ended]).clean


def test_an_entry_that_only_a_fenced_owner_processed_is_a_stale_commit() -> None:
    verdict = judge(row(1), row(2, late=True), produced=1)
    assert verdict.stale_accepted.count == 1


def test_many_findings_are_counted_with_a_few_examples() -> None:
    rows = [row(number, redelivered=False) for number in range(1, 1000)]
    finding = judge(*rows, *rows).duplicates
    assert finding.count == 999
    assert len(finding.examples) == 5


def test_one_clean_promise_does_not_hide_a_broken_one() -> None:
    clean = judge(*CLEAN)
    assert not replace(clean, gaps=judge(*CLEAN, produced=9).gaps).clean


def replace_partition(fence: Fence) -> Fence:
    return fence._replace(partition=4)
