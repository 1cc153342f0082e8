"""`batches`: the batches of logs as a table, one row each, from their headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Unpack

import numpy as np

from kafkalog.array_types import Int64s
from kafkalog.export.arrow import TYPES
from kafkalog.export.batch_streams import stream_of
from kafkalog.formats.batch_headers import BatchHeaders, begin_times
from kafkalog.formats.layout import CODECS, NO_TIMESTAMP
from kafkalog.optional_packages import require
from kafkalog.query.header_columns import batch_values
from kafkalog.query.header_counts import count_batches, counting_reader
from kafkalog.query.log_contents import UNKNOWN_CODEC
from kafkalog.query.partition_reader import SegmentStep
from kafkalog.query.scan import Scan, ScanArguments, Source, scan
from kafkalog.query.sources import PartitionSource

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "arrow")

BATCH_TABLE: Final = pa.schema(
    {
        "topic": TYPES["topic"],
        "partition": TYPES["partition"],
        "segment": TYPES["segment"],
        "position": TYPES["position"],
        "size_in_bytes": pa.int64(),
        "base_offset": pa.int64(),
        "last_offset": pa.int64(),
        "records": pa.int64(),
        "first_timestamp": TYPES["timestamp"],
        "max_timestamp": TYPES["timestamp"],
        **{
            name: TYPES[name]
            for name in (
                "timestamp_type",
                "codec",
                "producer_id",
                "producer_epoch",
                "sequence",
                "leader_epoch",
                "is_transactional",
                "is_control",
                "magic",
            )
        },
    }
)
CODEC_NAMES: Final = pa.array([*CODECS, *[UNKNOWN_CODEC] * 3], pa.string())
"""The names of the codes that three bits can have."""

NOT_OF_BATCHES: Final = (
    *("columns", "text", "limit", "progress"),
    *("keys", "headers", "producer_ids", "sample", "sample_by", "seed"),
)
"""Options of a scan that do not apply to batches, as they are not of records."""


def batches(source: Source, **as_scan: Unpack[ScanArguments]) -> pa.RecordBatchReader:
    """Return the batches of a source as a stream of Arrow tables, a row each.

    Only headers are read, where they suffice for the number of records, which is within
    the bounds of the scan. The CRCs of other batches are checked.

    Parameters
    ----------
    source : path, URL, bytes-like, or list of these
        As for `scan`.
    **as_scan : ScanArguments
        The options of `scan`, but ``columns`` and ``text``. By default control batches
        are included. Batches without records within the bounds are not.

    Returns
    -------
    pyarrow.RecordBatchReader
        A stream that can be read once, by pyarrow, DuckDB, Polars and others. Its
        columns are those of a scan with the same names, and ``size_in_bytes``,
        ``base_offset``, ``last_offset``, ``records``, ``first_timestamp`` and
        ``max_timestamp``. ``sequence`` is that of the first record; the base offset of
        a compressed batch of magic 0 or 1 is null.

    Raises
    ------
    TypeError, ValueError
        If an option does not apply or is invalid.

    Examples
    --------
    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> batch.append(b"k", b"v", timestamp=1700000000000)
    >>> table = kafkalog.batches(batch.build()).read_all()
    >>> table.select(["base_offset", "records", "size_in_bytes"]).to_pylist()
    [{'base_offset': 7, 'records': 1, 'size_in_bytes': 70}]
    """
    if unsupported := sorted(set(as_scan).intersection(NOT_OF_BATCHES)):
        raise TypeError(f"batches of a scan with {' and '.join(unsupported)}")
    as_scan.setdefault("control_records", True)
    rows = _read(scan(source, **as_scan))
    return stream_of(BATCH_TABLE, rows)


def _read(request: Scan) -> Iterator[pa.RecordBatch]:
    for source, bounds in request.sources:
        reader = counting_reader(source, bounds, request.policy)
        for step, records in count_batches(reader, request.problems):
            counted = records > 0
            yield _table(source, step, step.step.rows[counted], records[counted])


def _table(
    source: PartitionSource, step: SegmentStep, rows: BatchHeaders, records: Int64s
) -> pa.RecordBatch:
    """Return the rows of batches of one segment."""
    zeros = np.zeros(len(rows), np.int32)
    base = rows["base_offset"]
    columns: dict[str, Any] = {
        "topic": pa.DictionaryArray.from_arrays(zeros, [source.topic]),
        "partition": np.full(len(rows), source.partition, np.int32),
        "segment": pa.DictionaryArray.from_arrays(zeros, [step.segment]),
        "position": rows["position"],
        "size_in_bytes": rows["size_in_bytes"],
        "base_offset": pa.array(base, mask=base < 0),
        "last_offset": rows["last_offset"],
        "records": records,
        "first_timestamp": _times(begin_times(rows)),
        "max_timestamp": _times(rows["max_timestamp"]),
    }
    for name in BATCH_TABLE.names[len(columns) :]:
        columns[name] = batch_values(name, rows)
    codes = columns["codec"].astype(np.int8)
    columns["codec"] = pa.DictionaryArray.from_arrays(codes, CODEC_NAMES)
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for field, column in zip(BATCH_TABLE, columns.values(), strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=BATCH_TABLE)


def _times(timestamps: Int64s) -> pa.Array:
    known = pa.array(timestamps, mask=timestamps == NO_TIMESTAMP)
    return known.cast(BATCH_TABLE.field("max_timestamp").type)
