"""Analyses of internal topics with hostile records: rows, or an error of kafkalog."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafkalog
from kafkalog.analysis import internal_tables
from kafkalog.errors import KafkaLogError
from tests.cli.shell import call

ANY_TIME = kafkalog.LogConfig(
    message_timestamp_before_max_ms=2**63 - 1, message_timestamp_after_max_ms=2**63 - 1
)
EXTREMES = (-(2**63), -(2**62), -(2**31), -2, -1, 0, 1, 2**31, 2**53, 2**62, 2**63 - 1)
NOW = 1_700_000_000_000


def text(value):
    return struct.pack(">h", len(value)) + value


def int_of(number, code):
    """Return a number in the bytes of its type; of a larger one, the low ones."""
    size = struct.calcsize(code)
    return (number % 2 ** (8 * size)).to_bytes(size, "big")


int64s = st.one_of(st.sampled_from(EXTREMES), st.integers(-(2**63), 2**63 - 1))
int32s = int64s.map(lambda number: int_of(number, ">i"))
int16s = int64s.map(lambda number: int_of(number, ">h"))
longs = int64s.map(lambda number: int_of(number, ">q"))
names = st.sampled_from([b"g", b"", b"\x1b[31m", b"\xff", "é".encode()]).map(text)
topics = st.sampled_from([b"t", b"none", b"..", b""]).map(text)
few = st.sampled_from(
    [struct.pack(">i", number) for number in (0, 0, 0, 1, -1, 2**31 - 1)]
)


def joined(*parts):
    return st.tuples(*parts).map(b"".join)


commits = st.tuples(
    joined(st.sampled_from([b"\0\0", b"\0\1"]), names, topics, few),
    st.one_of(
        st.none(),
        joined(st.just(b"\0\0"), longs, names, longs),
        joined(st.just(b"\0\1"), longs, names, longs, longs),
        joined(st.just(b"\0\3"), longs, int32s, names, longs),
        joined(int16s, longs, names, longs),
    ),
)
partitions = st.one_of(
    st.just(struct.pack(">i", 0)),
    joined(
        st.just(struct.pack(">i", 1)), topics, st.just(struct.pack(">i", 1)), int32s
    ),
    few,
)
ongoing = st.tuples(
    joined(st.just(b"\0\0"), names),
    st.one_of(
        st.none(),
        joined(
            st.just(b"\0\0"), longs, int16s, int32s, st.binary(min_size=1, max_size=1),
            partitions, longs, longs,
        ),
    ),
)  # fmt: skip
anything = st.tuples(
    st.one_of(st.none(), st.binary(max_size=40)),
    st.one_of(st.none(), st.binary(max_size=60)),
)
times = st.one_of(st.just(NOW), int64s.map(lambda number: max(number, -1)))
records = st.lists(
    st.tuples(st.one_of(commits, ongoing, anything), times), min_size=1, max_size=6
)
ANALYSES = {
    "groups": kafkalog.groups,
    "groups at": lambda logs: kafkalog.groups(logs, at=NOW),
    "lag": kafkalog.lag,
    "lag at": lambda logs: kafkalog.lag(logs, at=NOW),
    "transactions": internal_tables.transactional_ids,
    "txns": kafkalog.txns,
    "internal offsets": lambda logs: kafkalog.internal(logs, "__consumer_offsets"),
    "internal states": lambda logs: kafkalog.internal(logs, "__transaction_state"),
    "stats": lambda logs: kafkalog.stats(logs, by=["topic", "hour"]),
    "topics": kafkalog.topics,
}
COMMANDS = (
    ("groups",),
    ("groups", "--at", "2023-11-14T22:13:20Z"),
    ("lag",),
    ("lag", "--at", "2023-11-14T22:13:20Z"),
    ("txns",),
    ("stats", "--by", "hour"),
    ("head", "--decode"),
)


def write(logs, topic, rows):
    with kafkalog.open(logs / f"{topic}-0", "a", config=ANY_TIME) as log:
        for (key, value), time in rows:
            builder = kafkalog.RecordBatchBuilder()
            builder.append(key, value, timestamp=time)
            log.append(builder.build())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


@settings(max_examples=20)
@given(records, st.data())
def test_an_analysis_of_hostile_records_returns_rows_or_an_error_of_kafkalog(
    place, found, data
):
    logs = place / f"logs-{len(list(place.iterdir()))}"
    write(logs, "t", [((b"k", b"v"), NOW)])
    for topic in ("__consumer_offsets", "__transaction_state"):
        write(logs, topic, found)
        segment = logs / f"{topic}-0" / f"{0:020}.log"
        content = bytearray(segment.read_bytes())
        if data.draw(st.booleans()):
            at = data.draw(st.integers(0, len(content) - 1))
            content[at] ^= data.draw(st.integers(1, 255))
            segment.write_bytes(content)
    for name, analyse in ANALYSES.items():
        with suppress(KafkaLogError):
            assert analyse(logs) is not None, name
    for command in COMMANDS:
        for form in ("table", "json"):
            ran = call(*command, logs, "--format", form)
            assert ran.exit_code in (0, 1, 3), ran.output
            assert "\x1b" not in ran.stderr
