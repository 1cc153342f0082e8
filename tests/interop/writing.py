"""Batches of every kind that kafkalog writes for Kafka's own programs to read."""

from __future__ import annotations

from kafkalog import RecordBatchBuilder
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.messages.control_records import end_transaction_marker

T = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HEADERS = [("trace", b"1"), ("none", None)]
RECORDS = 20
PAYER = 7001


def record(number, size=0):
    """Return key and value of a number; a few have none."""
    key = None if number % 11 == 5 else b"key %d" % (number % 17)
    value = None if number % 13 == 7 else b"value %d " % number * (1 + size // 10)
    return key, value


def batch(first, size=0, **settings):
    """Build one batch of the records numbered from `first` on."""
    builder = RecordBatchBuilder(**settings)
    for number in range(first, first + RECORDS):
        key, value = record(number, size)
        builder.append(key, value, timestamp=T + number, headers=HEADERS)
    return builder.build()


def marker(kind, timestamp):
    """Build the control batch that ends the payer's transaction."""
    builder = RecordBatchBuilder(
        producer_id=PAYER, producer_epoch=0, is_transactional=True, is_control=True
    )
    builder.append(*end_transaction_marker(kind, 0), timestamp=timestamp)
    return builder.build()


def write(log, rounds, size=0, epoch=None):
    """Append batches of all kinds in rounds; return the numbers of committed records.

    A round has a batch of each codec, by one call, and two transactions, one of them
    aborted; each of their batches is appended twice and written once. With `epoch`,
    each round has a leader epoch of its own, from that one on.
    """
    number, sequence, committed = 0, 0, []
    for turn in range(rounds):
        leader = {} if epoch is None else {"leader_epoch": epoch + turn}
        batches = [
            batch(number + RECORDS * place, size, codec=codec)
            for place, codec in enumerate(CODECS)
        ]
        log.append_many(batches, **leader)
        committed += range(number, number + RECORDS * len(CODECS))
        number += RECORDS * len(CODECS)
        for kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
            settings = {"producer_id": PAYER, "producer_epoch": 0}
            settings |= {"base_sequence": sequence, "is_transactional": True}
            paid = batch(number, size, **settings)
            guard = log.start_verification(PAYER, sequence, 0)
            first = log.append(paid, guard=guard, **leader)
            again = log.append(paid, **leader)
            assert again.is_duplicate
            assert again.first_offset == first.first_offset
            log.append(
                marker(kind, T + number),
                origin="coordinator",
                transaction_version=0,
                **leader,
            )
            if kind is ControlRecordType.COMMIT:
                committed += range(number, number + RECORDS)
            number, sequence = number + RECORDS, sequence + RECORDS
    log.flush()
    return committed
