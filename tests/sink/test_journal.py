"""The journal: what it remembers, and what is corrupt in it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.codecs.checksum import crc32c
from kafkalog.errors import CorruptJournalError
from kafkalog.sink import journal as journal_module
from kafkalog.sink.journal import (
    JOURNAL,
    MAX_EPOCH,
    Journal,
    OpenCommit,
    Producer,
    QueryState,
    format_journal,
    parse_journal,
)
from kafkalog.sink.staging import CommitIdentity, StagedFile

COMMIT = OpenCommit(
    identity=CommitIdentity("query:1", 7),
    files=(StagedFile("kafkalog-staged-x", "orders", 2, 4100, 3, 17),),
    begins={("orders", 2): 41},
    created={"orders": 3},
    settings={"segment.bytes": "1048576"},
    producer=Producer(2**62 + 5, 3),
)

producers = st.none() | st.builds(
    Producer, st.integers(2**62, 2**63 - 1), st.integers(0, MAX_EPOCH)
)
queries = st.dictionaries(
    st.text(max_size=20), st.builds(QueryState, st.integers(-1, 2**63 - 1), producers)
)


@given(queries, st.sampled_from([None, COMMIT]))
def test_a_journal_is_read_as_it_was_written(states, commit):
    assert parse_journal(format_journal(states, commit)) == (states, commit)


@given(st.data())
def test_any_changed_byte_is_found(data):
    content = bytearray(format_journal({"batch:1": QueryState(0)}, COMMIT))
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptJournalError):
        parse_journal(bytes(content))


@given(st.integers(0, len(format_journal({}, COMMIT)) - 1))
def test_a_journal_that_is_cut_short_is_found(size):
    with pytest.raises(CorruptJournalError):
        parse_journal(format_journal({}, COMMIT)[:size])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"queries":[],"open":{}}',
        b'{"queries":{"a":1},"open":null}',
        b'{"queries":{},"open":{"identity":[]}}',
    ],
)
def test_other_json_with_its_checksum_is_corrupt(body):
    with pytest.raises(CorruptJournalError, match="expected the JSON of a journal"):
        parse_journal(b"1\n%08x\n%b" % (crc32c(body), body))


ELSEWHERE = [
    {"files": [["../kafkalog-staged-x", "orders", 2, 4100, 3, 17]]},
    {"files": [["/kafkalog-staged-x", "orders", 2, 4100, 3, 17]]},
    {"files": [["orders-0", "orders", 2, 4100, 3, 17]]},
    {"files": [["kafkalog-staged-x", "../orders", 2, 4100, 3, 17]]},
    {"files": [["kafkalog-staged-x", "orders", -2, 4100, 3, 17]]},
    {"begins": [["../../orders", 2, 41]]},
    {"begins": [["a/b", 2, 41]]},
    {"begins": [["orders", -1, 41]]},
    {"begins": [["orders", 2, -41]]},
    {"begins": [["orders", 2, None]]},
    {"created": {"../orders": 3}},
    {"created": {"orders": 2**40}},
]


@pytest.mark.parametrize("members", ELSEWHERE, ids=repr)
def test_a_name_that_leads_out_of_the_log_directory_is_corrupt(members):
    content = json.loads(format_journal({}, COMMIT).split(b"\n", 2)[2])
    content["open"] |= members
    body = json.dumps(content).encode()
    with pytest.raises(CorruptJournalError, match="expected the JSON of a journal"):
        parse_journal(b"1\n%08x\n%b" % (crc32c(body), body))


def test_a_corrupt_journal_is_an_error_with_its_path(tmp_path):
    (tmp_path / JOURNAL).write_bytes(b"2\n")
    with pytest.raises(CorruptJournalError, match=f"{JOURNAL} at byte 0") as raised:
        Journal(tmp_path)
    assert raised.value.__notes__


def test_an_ended_commit_is_committed_with_all_epochs_before_it(tmp_path):
    journal = Journal(tmp_path)
    journal.begin(COMMIT)
    assert Journal(tmp_path).open == COMMIT
    assert not journal.is_committed(COMMIT.identity)
    journal.end(COMMIT)
    again = Journal(tmp_path)
    assert again.open is None
    epochs = [again.is_committed(CommitIdentity("query:1", n)) for n in (0, 6, 7, 8)]
    assert epochs == [True, True, True, False]
    assert not again.is_committed(CommitIdentity("query:2", 0))


def test_a_cancelled_commit_is_not_committed_and_its_producer_epoch_not_reused(
    tmp_path,
):
    journal = Journal(tmp_path)
    journal.begin(COMMIT)
    journal.cancel(COMMIT)
    again = Journal(tmp_path)
    assert again.open is None
    assert not again.is_committed(CommitIdentity("query:1", 0))
    assert again.next_producer("query:1") == COMMIT.producer.bumped()


def test_a_commit_without_transaction_keeps_the_producer_of_its_query(tmp_path):
    journal = Journal(tmp_path)
    journal.end(COMMIT)
    plain = OpenCommit(identity=CommitIdentity("query:1", 8), files=(), begins={})
    journal.end(plain)
    assert journal.next_producer("query:1") == COMMIT.producer.bumped()


def test_a_producer_whose_epochs_are_used_up_is_replaced_by_another():
    first = Producer.new()
    last = first._replace(epoch=MAX_EPOCH)
    assert first.next() == (first.producer_id, 1)
    assert last.next().producer_id != first.producer_id
    assert last.next().epoch == 0
    assert 2**62 <= first.producer_id < 2**63


def test_the_query_that_committed_longest_ago_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "MAX_QUERIES", 3)
    journal = Journal(tmp_path)
    for name in ("a", "b", "c", "a", "d"):
        epoch = journal.queries[name].epoch + 1 if name in journal.queries else 0
        commit = OpenCommit(identity=CommitIdentity(name, epoch), files=(), begins={})
        journal.end(commit)
    assert list(Journal(tmp_path).queries) == ["c", "a", "d"]


def test_the_content_is_json_after_version_and_checksum(tmp_path):
    Journal(tmp_path).begin(COMMIT)
    version, checksum, body = (tmp_path / JOURNAL).read_bytes().split(b"\n", 2)
    assert (version, len(checksum)) == (b"1", 8)
    assert json.loads(body)["open"]["begins"] == [["orders", 2, 41]]
