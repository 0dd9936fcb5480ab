import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from baton.model import Epoch, QueueName, Uid
from baton.model.session import LONGEST, Release, Releases, format_releases, parse_releases
from tests.in_memory_lease import releases_in

releases = st.frozensets(
    st.builds(
        Release,
        st.sampled_from(["u1", "u2"]).map(Uid),
        st.sampled_from(["orders", "payments"]).map(QueueName),
        st.integers(0, 20),
        st.integers(1, 3).map(Epoch),
    )
)


def released(partition: int, epoch: int) -> Release:
    return Release(Uid("u"), QueueName("orders"), partition, Epoch(epoch))


@given(releases, releases)
def test_what_was_written_is_what_is_found(given_up: frozenset[Release], others: frozenset[Release]) -> None:
    told = dict.fromkeys(one[:3] for one in sorted(given_up))  # of one partition the last epoch is written
    written = {max(one for one in given_up if one[:3] == key) for key in told}
    read = Releases(parse_releases(format_releases(given_up)))
    assert {one for one in given_up | others if one in read} == written
    assert releases_in(format_releases(given_up)) == written


def test_releases_of_one_uid_are_written_together() -> None:
    text = format_releases([released(5, 12), released(6, 12)])
    assert text == '{"u":{"orders":"5-6@12"}}'


@given(releases, st.integers(2, 200))
def test_what_does_not_fit_is_left_out(given_up: frozenset[Release], longest: int) -> None:
    text = format_releases(given_up, longest)
    assert len(text) <= longest
    assert releases_in(text) <= given_up


def test_a_partition_may_be_named_at_several_epochs_in_any_order_and_more_than_once() -> None:
    said = Releases(parse_releases('{"u":{"orders":"7@17,0-3@12,2-5@12,2@1,7@17"}}'))
    found = {(n, epoch) for n in range(10) for epoch in (1, 12, 17) if released(n, epoch) in said}
    assert found == {(2, 1), (7, 17), *((n, 12) for n in range(6))}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "it is no object"),
        ("{", "it is not JSON"),
        ("[" * 1000, "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ('{"u":1}', "what stands under 'u' is no object"),
        ('{"u":{"orders":"x"}}', "what stands under 'u', 'orders' is no list of grants"),
        ('{"u":{"orders":5}}', "is no list of grants"),
        ('{"u":{"orders":{"a":1}}}', "is no list of grants"),
        ('{"%s":{}}' % ("u" * 100), "is no UID"),
        ("{" + ",".join(f'"{n}":{{}}' for n in range(8_001)) + "}", "speaks of more than 8,000 pods and queues"),
        ("1" * 5000, "it is not JSON"),
        (" " * LONGEST + "{}", "has 262,146 characters, and 262,144 are read"),
    ],
)
def test_what_is_not_a_list_of_releases_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refusal:
        parse_releases(text)
    assert len(str(refusal.value)) < 400 and str(refusal.value).isprintable()


@pytest.mark.parametrize("text", ["9-3@5", "3", "5@", "0-1000001@1", "1@" + "9" * 30, "-", "@"])
def test_a_grant_that_does_not_read_releases_nothing_and_is_told(text: str) -> None:
    said = parse_releases(f'{{"u":{{"orders":"4@5,{text}"}}}}')[Uid("u")]
    assert not said.names(QueueName("orders"), 4, Epoch(5))
    assert list(said.refused) == ["orders"]


@example({"\U00010000" * 41: None})
@given(
    st.recursive(
        st.none() | st.integers() | st.floats() | st.text(), lambda part: st.lists(part) | st.dictionaries(st.text(), part)
    )
)
def test_no_json_can_do_more_than_be_refused(raw: object) -> None:
    for text in (json.dumps(raw), json.dumps({"u": raw}), json.dumps({"u": {"orders": raw}})):
        try:
            said = parse_releases(text)
        except ValueError as refusal:
            told = [str(refusal)]
        else:
            asked = released(1, 1) in Releases(said)
            assert asked is (raw == "1@1" or raw == {"orders": "1@1"} or raw == {"u": {"orders": "1@1"}})
            told = [why for one in said.values() for why in one.refused.values()]
        assert all(len(why) < 400 and why.isprintable() for why in told)
