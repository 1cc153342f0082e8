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

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import numpy as np

from kafkalog import _speedups
from kafkalog.array_types import Bytes, Int64s
from kafkalog.codecs.compression import decompress
from kafkalog.decoding.decompression import DECOMPRESSED_BYTES
from kafkalog.errors import KafkaLogError
from kafkalog.formats.layout import BATCH, CODEC_MASK, RECORD_BATCH_OVERHEAD
from kafkalog.validation.append_analysis import accept_all, analyze_appends
from kafkalog.validation.append_policy import AppendPolicy
from kafkalog.validation.appends import AppendMemory, Appends
from kafkalog.validation.batch_validation import validate_append

_NAMES = list(BATCH.fields or ())
_place = itemgetter(*map(_NAMES.index, ("position", "size_in_bytes", "attributes")))


def validate_for_leader(
    views: list[Any], policy: AppendPolicy, memory: AppendMemory
) -> Appends:
    """Copy the appends of a call, validate them, and return them as they are written.

    Each of `views` is one append, as `as_view` returns it. The result has the leader's
    epoch, timestamps and codec. Each append has one batch at most, and no offsets yet:
    `Appends.assign_offsets` assigns them.

    Errors, in `Appends.errors`: those of `analyze_appends`, `InvalidRecordError`,
    `RecordValidationError`, `CorruptRecordError`, `CompressionError`,
    `RecordTooLargeError` for a rebuilt batch that is too large, `LogArgumentError` for
    fields that Kafka's builder rejects, and `BatchTooLargeError` for a batch that
    decompresses to more bytes than the rules allow.
    """
    required = policy.header_requirements
    accepted = accept_all(
        views, required, policy.record_requirements, policy.now_ms, memory
    )
    if accepted is not None:
        appends, is_compressed = accepted
        if not is_compressed or _accepts_records(appends, policy, memory):
            return appends
    appends = analyze_appends(views, required, memory)
    singles = [
        _validate(appends.select(append), policy, memory)
        for append in range(len(appends))
    ]
    return Appends.merged(singles, memory.merged)


def _accepts_records(
    appends: Appends, policy: AppendPolicy, memory: AppendMemory
) -> bool:
    """Return whether the kernel accepts the records of all batches, one per append.

    If so, the batches have the leader's fields. Otherwise some may have them: of more
    than one append, the caller's bytes are then validated again.
    """
    if len(appends.rows) != len(appends):
        return False
    first, rules = 0, policy.record_requirements
    limit = policy.rules.max_decompressed_bytes
    try:
        for records, bounds in _decompressed(appends, limit, memory):
            accepted = _speedups.survey_batches(
                records, bounds, appends.arrays, first, rules, policy.now_ms
            )
            if accepted < len(bounds) - 1:
                return False
            first += accepted
    except KafkaLogError:
        return False
    return True


def _decompressed(
    appends: Appends, limit: int, memory: AppendMemory
) -> Iterator[tuple[Bytes, Int64s]]:
    """Yield the records of consecutive batches, and the bounds of those of each.

    A part has about `DECOMPRESSED_BYTES`, which bounds the memory. Raises the error of
    a batch that cannot be decompressed, or to more than `limit` bytes.
    """
    data = appends.data.data
    chunks: list[bytes | memoryview] = []
    bounds = [0]
    for position, size, attributes in map(_place, appends.rows.tolist()):
        compressed = data[position + RECORD_BATCH_OVERHEAD : position + size]
        batch = decompress(attributes & CODEC_MASK, compressed, limit=limit)
        bounds.append(bounds[-1] + sum(map(len, batch)))
        chunks += batch
        if bounds[-1] >= DECOMPRESSED_BYTES:
            yield _joined(chunks, memory), np.array(bounds, np.int64)
            chunks, bounds = [], [0]
    if len(bounds) > 1:
        yield _joined(chunks, memory), np.array(bounds, np.int64)


def _joined(chunks: list[bytes | memoryview], memory: AppendMemory) -> Bytes:
    """Return the bytes of all chunks, valid until the next call."""
    if len(chunks) == 1:
        return np.frombuffer(chunks[0], np.uint8)
    joined = memory.decompressed.bytes_for(sum(map(len, chunks)))
    _speedups.join_buffers(chunks, joined)
    return joined


def _validate(append: Appends, policy: AppendPolicy, memory: AppendMemory) -> Appends:
    """Validate one append; a rejected one becomes its error."""
    if not len(append.rows):
        return append
    if _accepts_records(append, policy, memory):
        return append
    try:
        return validate_append(append, policy, memory)
    except KafkaLogError as error:
        return Appends.rejected(error.with_traceback(None))
