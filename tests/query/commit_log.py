"""Logs of ``__consumer_offsets`` written from steps, each one record."""

import struct

from hypothesis import strategies as st

import kafkalog


def offset_key(place, kind=1):
    group, topic, partition = (*place, 0)
    strings = b"".join(struct.pack(">h", len(s)) + s.encode() for s in (group, topic))
    return struct.pack(">h", kind) + strings + struct.pack(">i", partition)


def offset_value(offset, kind=1):
    if kind == 0:  # Kafka 0.8
        return struct.pack(">hqhq", 0, offset, 0, 7)
    return struct.pack(">hqihq", 3, offset, -1, 0, 7)


PLACES = [("g", "t"), ("g", "u"), ("h", "t")]
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(PLACES),
            st.sampled_from([None, 1, 2, 3]),  # a producer, or no transaction
            st.booleans(),  # whether the key is deleted
            st.sampled_from([0, 1]),  # the type of the key
        ),
        st.tuples(st.sampled_from([1, 2, 3]), st.booleans()),  # a marker
    ),
    max_size=40,
)


def write_steps(directory, steps, removed=()):
    """Write a partition of ``__consumer_offsets``; return the rows of the reference.

    The timestamp of each record is its offset. Records with `removed` offsets are in
    the rows but not in the log.
    """
    directory.mkdir(parents=True, exist_ok=True)
    rows, batches = [], []
    for offset, step in enumerate(steps):
        if len(step) == 2:
            producer_id, commits = step
            rows.append({"producer_id": producer_id, "commits": commits})
            batch = kafkalog.RecordBatchBuilder(
                base_offset=offset,
                producer_id=producer_id,
                producer_epoch=0,
                is_transactional=True,
                is_control=True,
            )
            batch.append(struct.pack(">hh", 0, commits), bytes(6), timestamp=offset)
        else:
            place, producer_id, is_deleted, kind = step
            rows.append(
                {
                    "offset": offset,
                    "place": place,
                    "value": None if is_deleted else offset,
                    "producer_id": producer_id,
                }
            )
            batch = kafkalog.RecordBatchBuilder(
                base_offset=offset,
                producer_id=-1 if producer_id is None else producer_id,
                producer_epoch=-1 if producer_id is None else 0,
                base_sequence=-1 if producer_id is None else 0,
                is_transactional=producer_id is not None,
            )
            value = None if is_deleted else offset_value(offset, kind)
            batch.append(offset_key(place, kind), value, timestamp=offset)
        if offset not in removed:
            batches.append(batch.build())
    (directory / f"{0:020d}.log").write_bytes(b"".join(batches))
    return rows
