import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.model.session import Release, format_releases, parse_releases

releases = st.frozensets(
    st.builds(
        Release, st.sampled_from(["u1", "u2"]), st.sampled_from(["orders", "payments"]), st.integers(0, 20), st.integers(1, 1)
    )
)


@given(releases)
def test_releases_survive_being_written_and_read(given_up):
    assert parse_releases(format_releases(given_up)) == given_up


def test_releases_of_one_uid_are_written_together():
    text = format_releases([Release("u", "orders", 5, 12), Release("u", "orders", 6, 12)])
    assert text == '{"u":{"orders":"5-6@12"}}'


@pytest.mark.parametrize("text", ["[]", "{", '{"u":1}', '{"u":{"orders":"x"}}'])
def test_what_is_not_a_list_of_releases_is_refused(text):
    with pytest.raises(ValueError):
        parse_releases(text)
