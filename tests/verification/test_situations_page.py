"""The table of situations in ``docs/verify.md``, and the file that it is made from."""

from tests.interop.situations import (
    BROKERS,
    PAGE,
    PARTITIONS,
    read_outcomes,
    with_table,
)


def test_the_page_has_what_a_broker_does_in_each_situation():
    outcomes = read_outcomes()
    assert list(outcomes) == [one.name for one in (*PARTITIONS, *BROKERS)]
    page = PAGE.read_text()
    assert with_table(page, outcomes) == page
