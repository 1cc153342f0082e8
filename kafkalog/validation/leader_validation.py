"""Validation of the appends of a call to a leader.

Most appends are one valid batch of magic 2 in the codec of the topic. If all appends of
a call are, a few kernel calls validate them together. Otherwise each append goes
through the kernels by itself. One that the kernels do not accept is validated in
`batch_validation` and, if its format or codec is not that of the topic, rebuilt in
`batch_conversion`.

The kernels accept only appends that `batch_validation` accepts, and reject none.

Source: ``LogValidator.java``, ``BrokerCompressionType.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from kafkalog import _speedups
from kafkalog.codecs.compression import decompress
from kafkalog.decoding.decompression import DECOMPRESSED_BYTES
from kafkalog.encoding.record_columns import Int64s
from kafkalog.errors import KafkaLogError
from kafkalog.formats.batch_headers import Bytes
from kafkalog.formats.layout import BATCH, CODEC_MASK, RECORD_BATCH_OVERHEAD
from kafkalog.validation.append_analysis import (
    HeaderRequirements,
    accept_all,
    analyze_appends,
    as_views,
)
from kafkalog.validation.append_policy import AppendRules, KernelRules, LeaderPolicy
from kafkalog.validation.appends import (
    AppendMemory,
    AppendOrigin,
    Appends,
    as_bytes,
    bounds_of,
)
from kafkalog.validation.batch_validation import stamp, validate_append

_NAMES = list(BATCH.fields or ())
_place = itemgetter(*map(_NAMES.index, ("position", "size_in_bytes", "attributes")))
_Payload: TypeAlias = tuple[Bytes, Int64s | None, Int64s | None]
"""Bytes with the records of batches; where those of each begin, and their length."""


def validate_for_leader(
    buffers: Sequence[Any],
    rules: AppendRules,
    *,
    origin: AppendOrigin,
    leader_epoch: int,
    now_ms: int,
    memory: AppendMemory,
) -> Appends:
    """Copy the appends of a call, validate them, and return them as they are written.

    Each of `buffers` is one append, bytes-like. The result has the leader's epoch,
    timestamps and codec. Each append has one batch at most, and no offsets yet:
    `Appends.assign_offsets` assigns them.

    Errors, in `Appends.errors`: those of `analyze_appends`, `InvalidRecordError`,
    `RecordValidationError`, `CorruptRecordError`, `CompressionError`,
    `RecordTooLargeError` for a rebuilt batch that is too large, `LogArgumentError` for
    fields that Kafka's builder rejects, and `BatchTooLargeError` for a batch that
    decompresses to more bytes than the rules allow.
    """
    policy = LeaderPolicy(rules, origin, leader_epoch, now_ms)
    views = as_views(buffers)
    max_bytes = rules.max_message_bytes
    kernel_rules = policy.as_tuple()
    required = HeaderRequirements(origin, leader_epoch, max_bytes, False, kernel_rules)
    appends = accept_all(views, required, memory)
    if appends is not None:
        compressed = bool(appends.info["source_codec"].any())
        if not compressed or _accepts_records(
            appends, kernel_rules, rules.max_decompressed_bytes, memory, compressed
        ):
            stamp(appends, policy)
            return appends
    appends = analyze_appends(
        views,
        origin=origin,
        leader_epoch=leader_epoch,
        max_message_bytes=max_bytes,
        monotonic=False,
        memory=memory,
    )
    singles = [
        _validate(appends.select(append), policy, memory)
        for append in range(len(appends))
    ]
    return Appends.merged(singles, memory.merged)


def _accepts_records(
    appends: Appends,
    rules: KernelRules,
    limit: int,
    memory: AppendMemory,
    compressed: bool,
) -> bool:
    """Return whether the kernel accepts all records.

    Sets their number and max timestamp in `Appends.info`. `limit` is the greatest
    number of bytes of a decompressed batch.
    """
    payload: _Payload | None = (appends.data, None, None)
    if compressed:
        payload = _decompress(appends, limit, memory)
    if payload is None:
        return False
    valid = _speedups.survey_batches(
        *payload,
        as_bytes(appends.rows),
        appends.row_bounds,
        as_bytes(appends.info),
        rules,
    )
    return valid == len(appends)


def _decompress(appends: Appends, limit: int, memory: AppendMemory) -> _Payload | None:
    """Return the decompressed records of all batches.

    Returns None if a batch cannot be decompressed, or if all together are too large to
    be in memory at once.
    """
    rows, data = appends.rows, appends.data.data
    chunks: list[bytes | memoryview] = []
    sizes: list[int] = []
    left = max(DECOMPRESSED_BYTES, limit if len(rows) == 1 else 0)
    for position, size, attributes in map(_place, rows.tolist()):
        compressed = data[position + RECORD_BATCH_OVERHEAD : position + size]
        try:
            batch = decompress(
                attributes & CODEC_MASK, compressed, limit=min(limit, left)
            )
        except KafkaLogError:
            return None
        sizes.append(sum(map(len, batch)))
        left -= sizes[-1]
        chunks += batch
    bounds = bounds_of(sizes)
    if len(chunks) == 1:
        records = np.frombuffer(chunks[0], np.uint8)
    else:
        records = memory.decompressed.bytes_for(int(bounds[-1]))
        _speedups.join_buffers(chunks, records)
    return records, bounds[:-1], np.array(sizes, np.int64)


def _validate(append: Appends, policy: LeaderPolicy, memory: AppendMemory) -> Appends:
    """Validate one append; a rejected one becomes its error."""
    if not len(append.rows):
        return append
    limit = policy.rules.max_decompressed_bytes
    compressed = bool(append.info["source_codec"][0])
    if _accepts_records(append, policy.as_tuple(), limit, memory, compressed):
        stamp(append, policy)
        return append
    try:
        return validate_append(append, policy, memory)
    except KafkaLogError as error:
        return Appends.rejected(error.with_traceback(None))
