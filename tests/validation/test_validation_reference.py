"""Validation on a leader and a follower, compared with a slow port of Kafka's rules.

Drawn are batches of every kind: with fields that no producer sends, truncated, with
flipped bits, one after another. Several appends are validated in one call, because the
fast path accepts all appends of a call or none.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.codecs.compression import Codec
from kafkalog.formats.layout import TimestampType
from kafkalog.validation.appends import AppendOrigin
from tests import append_reference, reference
from tests.append_reference import Rejected, Topic
from tests.validation import appending
from tests.validation.appending import T, patched

INT64_MIN = -(2**63)
HEADER = (
    "base_offset",
    "last_offset",
    "leader_epoch",
    "attributes",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
)

# -------------------------------------------------------------------------- strategies

texts = st.none() | st.just(b"") | st.binary(max_size=6) | st.just(b"x" * 200)
times = st.sampled_from([-1, -1, T, T + 5, T - 5, T + 50, T - 50, 0, 2**63 - 1])
headers = st.lists(
    st.tuples(st.sampled_from(["h", b"\xff\xed\xa0\x80", "é"]), texts), max_size=2
)
kinds = st.sampled_from(
    [(2, codec) for codec in reference.CODECS]
    + [(2, "none")] * 4
    + [(magic, codec) for magic in (0, 1) for codec in reference.CODECS[:4]]
)
values = {
    "base_offset": [1, -1, 2**62],
    "leader_epoch": [-1, 0, 7, 8],
    "attributes": [0, 8, 16, 24, 32, 48, 64, 128, 5, 7, 1, 4],
    "last_offset_delta": [-1, 0, 1, 2, 9, 2**31 - 1],
    "base_timestamp": [INT64_MIN, INT64_MIN + T, -5, -1, T, T + 60],
    "max_timestamp": [-1, T, T + 5, 1],
    "producer_id": [-2, -1, 0, 5],
    "producer_epoch": [-1, 0],
    "base_sequence": [-1, 0, 2**31 - 1],
    "count": [-1, 0, 1, 2, 3, 100],
}
patches = st.dictionaries(
    st.sampled_from(sorted(values)), st.integers(0, 99), max_size=3
)


@st.composite
def entries(draw):
    """Draw a batch or messages, in some cases corrupt."""
    magic, codec = draw(kinds)
    builder = appending.RecordBatchBuilder(
        magic=magic, codec=codec, base_offset=0 if magic == 2 else None
    )
    for _ in range(draw(st.integers(1, 4))):
        builder.append(
            draw(texts),
            draw(texts),
            timestamp=-1 if magic == 0 else draw(times),
            headers=draw(headers) if magic == 2 else (),
        )
    data = builder.build()
    if magic == 2 and draw(st.booleans()):
        fields = {
            name: values[name][i % len(values[name])]
            for name, i in draw(patches).items()
        }
        data = patched(data, fields, recrc=draw(st.integers(0, 9)) > 0)
    if draw(st.integers(0, 19)) == 0:
        at = draw(st.integers(0, len(data) - 1))
        data = (
            data[:at]
            + bytes([data[at] ^ 1 << draw(st.integers(0, 7))])
            + data[at + 1 :]
        )
    return data


@st.composite
def append_bytes(draw):
    """Draw the bytes of an append: in most cases one complete entry."""
    data = draw(entries())
    if draw(st.integers(0, 5)) == 0:
        data += draw(entries())
    if draw(st.integers(0, 5)) == 0:
        data += draw(entries())[: draw(st.integers(0, 40))]
    return data


topics = st.fixed_dictionaries(
    {
        "origin": st.sampled_from(["client", "client", "coordinator", "replication"]),
        "codec": st.sampled_from(
            ["producer"] * 6 + ["uncompressed", "gzip", "snappy", "lz4", "zstd"]
        ),
        "stamps": st.sampled_from([False, False, True]),
        "before": st.sampled_from([10, *[2**63 - 1] * 3]),
        "after": st.sampled_from([10, *[2**63 - 1] * 3]),
        "compacted": st.sampled_from([False, False, False, True]),
        "max_bytes": st.sampled_from([90] + [1 << 20] * 9),
    }
)

# ----------------------------------------------------------------------------- leaders


def rules_of(topic):
    codec = None
    if topic.codec != "producer":
        codec = Codec[topic.codec.replace("uncompressed", "none").upper()]
    return {
        "max_message_bytes": topic.max_bytes,
        "codec": codec,
        "timestamp_type": TimestampType(topic.stamps),
        "timestamp_before_max_ms": topic.before,
        "timestamp_after_max_ms": topic.after,
        "compacted": topic.compacted,
    }


def expected(data, topic, counter):
    """Return header and records by the port, a rejection, or None for no batch."""
    try:
        return append_reference.lead(data, topic, counter)
    except Rejected as rejected:
        return rejected.error


def check_written(data, found):
    """Check the written bytes against the batch of the port."""
    if found is None:
        assert data == b""
        return
    (entry,) = reference.entries(data)
    assert entry["is_valid"]
    assert {name: entry[name] for name in HEADER} == {n: found[n] for n in HEADER}
    if found["payload"] is not None:
        assert data[61:] == found["payload"]
        return
    names = ("key", "value", "headers")
    ours = [[record[name] for name in names] for record in entry["records"]]
    assert ours == [
        [repaired(record, name) for name in names] for record in found["records"]
    ]
    deltas = [record["offset"] - entry["base_offset"] for record in entry["records"]]
    assert deltas == list(range(len(deltas)))


def repaired(record, name):
    """Return a field as Kafka rebuilds it: header keys become valid UTF-8."""
    if name != "headers":
        return record[name]
    return [
        (key.replace(b"\xff\xed\xa0\x80", "\ufffd\ufffd".encode()), value)
        for key, value in record[name]
    ]


@given(data=st.lists(append_bytes(), min_size=1, max_size=3), topic_settings=topics)
@settings(max_examples=20 * settings().max_examples)
def test_a_leader_treats_any_append_as_kafka_does(data, topic_settings):
    topic = Topic(**topic_settings)
    counter, outcomes, kept = 100, [], []
    for append in data:
        found = expected(append, topic, counter)
        outcomes.append(found)
        kept.append(dict(topic.kept))
        if isinstance(found, dict):
            if found["rebuilt"] and too_large(append, topic, counter):
                outcomes[-1] = ("RecordTooLargeException", None, None)
                continue
            counter = found["last_offset"] + 1
    appends = appending.lead(
        *data,
        origin=AppendOrigin(topic.origin),
        next_offset=100,
        **rules_of(topic),
    )
    for i, found in enumerate(outcomes):
        if isinstance(found, tuple):
            assert appending.rejection(appends, i) == found
            assert appending.written(appends, i) == b""
            continue
        assert i not in appends.errors
        check_written(appending.written(appends, i), found)
        info = appends.info[i]
        assert info["valid_bytes"] == kept[i]["valid_bytes"]
        assert info["source_codec"] == kept[i]["source"]
        if found is not None:
            check_known(appends, i, found, topic)


def check_known(appends, i, found, topic):
    """Check the summary and the header row of an append against its written bytes."""
    info, row = appends.info[i], appends.rows[appends.row_bounds[i]]
    assert info["last_offset"] == found["last_offset"]
    assert info["first_offset"] == found["last_offset"] - len(found["records"]) + 1
    assert info["max_timestamp"] == found["max_timestamp"]
    assert info["log_append_time"] == (topic.now if topic.stamps else -1)
    assert info["rebuilt"] == found["rebuilt"]
    (entry,) = reference.entries(appending.written(appends, i))
    for name in (*HEADER, "crc"):
        assert row[name] == entry[name]


def too_large(append, topic, counter):
    """Return whether the rebuilt batch exceeds the limit; its codec decides that."""
    free = Topic(**{**topic.__dict__, "max_bytes": 1 << 20, "kept": {}})
    appends = appending.lead(
        append, origin=AppendOrigin(topic.origin), next_offset=counter, **rules_of(free)
    )
    return len(appending.written(appends)) > topic.max_bytes


# --------------------------------------------------------------------------- followers


@given(
    data=st.lists(append_bytes(), min_size=1, max_size=3),
    origin=st.sampled_from([AppendOrigin.REPLICATION, AppendOrigin.RAFT_LEADER]),
    epoch=st.sampled_from([-1, 0, 7]),
)
@settings(max_examples=200)
def test_a_follower_keeps_the_same_batches_of_any_append_as_kafka(data, origin, epoch):
    topic = Topic(origin=origin.value, leader_epoch=epoch, assigns=False)
    appends = appending.follow(*data, origin=origin, epoch=epoch)
    for i, append in enumerate(data):
        error, kept = None, []
        try:
            kept = append_reference.analyze(append, topic)
        except Rejected as rejected:
            error = rejected.error
        assert appending.rejection(appends, i) == error
        assert appending.written(appends, i) == b"".join(kept)
        if error is None:
            check_followed(appends, i, [append_reference.header(raw) for raw in kept])


def check_followed(appends, i, heads):
    info, rows = appends.info[i], appends.rows[slice(*appends.row_bounds[i : i + 2])]
    assert len(rows) == len(heads)
    assert info["valid_bytes"] == sum(head["size"] for head in heads)
    assert info["max_timestamp"] == max([-1, *(h["max_timestamp"] for h in heads)])
    if not heads:
        assert info["first_offset"] == info["last_offset"] == -1
        return
    first = heads[0]["base_offset"] if heads[0]["magic"] == 2 else -1
    assert info["first_offset"] == first
    assert info["last_offset_of_first_batch"] == heads[0]["last_offset"]
    assert info["last_offset"] == heads[-1]["last_offset"]
    assert info["last_leader_epoch"] == heads[-1]["leader_epoch"]
    assert rows["position"][0] == appends.byte_bounds[i]
