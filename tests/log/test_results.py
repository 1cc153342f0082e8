"""Results of appends hash as tuples, on the fast path and in the general step."""

import pytest

from tests.log.writing import SMALL, batch, load


@pytest.fixture
def log(tmp_path):
    with load(tmp_path, SMALL) as opened:
        yield opened


def assert_plain(result):
    fields = tuple(result)
    assert result == fields
    assert hash(result) == hash(fields)
    assert {fields: "found"}[result] == "found"


def test_results_of_append_hash_as_their_fields_do(log):
    for number in range(5):
        result = log.append(batch(number + 1))
        assert_plain(result)
        assert result.last_offset - result.first_offset == number


def test_results_of_a_producers_appends_hash_as_their_fields_do(log):
    for sequence in range(3):
        sent = batch(producer_id=7, producer_epoch=0, base_sequence=sequence)
        result = log.append(sent)
        assert_plain(result)
        assert not result.is_duplicate
    again = log.append(sent)
    assert again.is_duplicate
    assert_plain(again)


def test_results_of_append_many_hash_as_their_fields_do(log):
    results = log.append_many([batch()] * 9)
    assert [result.first_offset for result in results] == list(range(9))
    for result in results:
        assert_plain(result)


def test_results_of_append_as_follower_hash_as_their_fields_do(log):
    for offset in range(5):
        sent = batch(base_offset=offset, leader_epoch=0)
        assert_plain(log.append_as_follower(sent, leader_epoch=0))


def test_the_log_end_hashes_as_its_fields_do(log):
    for _ in range(3):
        log.append(batch())
        place = log.read(log.log_end_offset).place
        assert place.offset == log.log_end_offset
        assert_plain(place)
