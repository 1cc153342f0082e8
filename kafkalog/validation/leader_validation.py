"""What a leader does to an append before it is written: judged, stamped, or rebuilt.

Nearly every append is plain: one sound batch of magic 2 in the topic's codec, with
nothing to say against it. All of a call that are so go through a few kernel calls
together. Where one is not, each is taken by itself, and what is still not plain is
judged record by record (`judging`) and, where its format or codec is not the topic's,
built anew (`rebuilding`).

Knows: which appends are plain. Does not know: the log, producers' states.
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
    Asked,
    analyze_appends,
    as_views,
    take_plain,
)
from kafkalog.validation.append_policy import AppendRules, Leadership
from kafkalog.validation.appends import (
    AppendMemory,
    AppendOrigin,
    Appends,
    as_bytes,
    bounds_of,
)
from kafkalog.validation.batch_validation import judge_append

__all__ = ["AppendRules", "lead_appends"]

_NAMES = list(BATCH.fields or ())
_place = itemgetter(*map(_NAMES.index, ("position", "size_in_bytes", "attributes")))
_Place: TypeAlias = tuple[Bytes, Int64s | None, Int64s | None]


def lead_appends(
    pieces: Sequence[Any],
    rules: AppendRules,
    *,
    origin: AppendOrigin,
    leader_epoch: int,
    now_ms: int,
    memory: AppendMemory,
) -> Appends:
    """Analyze and validate the appends of a call, in one pass where all are plain.

    What comes out is that of `analysis.analyze_appends` and then `validate_appends`,
    errors and all.
    """
    as_leader = Leadership(rules, origin, leader_epoch, now_ms)
    views = as_views(pieces)
    most_bytes = rules.max_message_bytes
    header_rules = as_leader.as_tuple()
    asked = Asked(origin, leader_epoch, most_bytes, False, header_rules)
    appends = take_plain(views, asked, memory)
    if appends is not None:
        compressed = bool(appends.info["source_codec"].any())
        if not compressed or _survey(
            appends, header_rules, rules.max_unpacked_bytes, memory, compressed
        ):
            _stamp(appends, as_leader)
            return appends
    appends = analyze_appends(
        views,
        origin=origin,
        leader_epoch=leader_epoch,
        max_message_bytes=most_bytes,
        monotonic=False,
        memory=memory,
    )
    return validate_appends(appends, as_leader, memory)


def validate_appends(
    appends: Appends, as_leader: Leadership, memory: AppendMemory
) -> Appends:
    """Judge what `analyze_appends` has found, and make of it what is to be written.

    What comes out has the leader's epoch, timestamps and codec, and may have `data` of
    its own; each append has one batch at most, and is still to be given offsets by
    `Appends.place`.

    Errors, in `Appends.errors`: `InvalidRecordError`, `RecordValidationError`,
    `CorruptRecordError`, `CompressionError`, `RecordTooLargeError` where a rebuilt
    batch is too large, `LogArgumentError` where Kafka's builder refuses, and
    `BatchTooLargeError` where one unpacks to more than the rules allow.
    """
    singles = [
        _single(appends.only(append), as_leader, memory)
        for append in range(len(appends))
    ]
    return Appends.merged(singles, memory.merged)


def _survey(
    appends: Appends,
    rules: tuple[bool, bool, int, int, int],
    limit: int,
    memory: AppendMemory,
    compressed: bool,
) -> bool:
    """Return whether all records are valid; note their number and greatest timestamp.

    `limit` bounds a batch, decompressed, in bytes.
    """
    place: _Place = (appends.data, None, None)
    if compressed:
        unpacked = _unpacked(appends, limit, memory)
        if unpacked is None:
            return False
        place = unpacked
    valid = _speedups.survey_batches(
        *place,
        as_bytes(appends.rows),
        appends.row_bounds,
        as_bytes(appends.info),
        rules,
    )
    return valid == len(appends)


def _unpacked(appends: Appends, limit: int, memory: AppendMemory) -> _Place | None:
    """Unpack what is packed; None where it cannot be, or is a lot for one step."""
    rows, whole = appends.rows, appends.data.data
    pieces: list[bytes | memoryview] = []
    sizes: list[int] = []
    left = max(DECOMPRESSED_BYTES, limit if len(rows) == 1 else 0)
    for position, size, attributes in map(_place, rows.tolist()):
        piece = whole[position + RECORD_BATCH_OVERHEAD : position + size]
        try:
            unpacked = decompress(
                attributes & CODEC_MASK, piece, limit=min(limit, left)
            )
        except KafkaLogError:
            return None
        sizes.append(sum(map(len, unpacked)))
        left -= sizes[-1]
        pieces += unpacked
    bounds = bounds_of(sizes)
    if len(pieces) == 1:
        data = np.frombuffer(pieces[0], np.uint8)
    else:
        data = memory.unpacked.bytes_for(int(bounds[-1]))
        _speedups.join_buffers(pieces, data)
    return data, bounds[:-1], np.array(sizes, np.int64)


def _stamp(appends: Appends, as_leader: Leadership) -> None:
    """Write into the batches what the leader says of them."""
    _speedups.stamp_batches(
        as_bytes(appends.rows),
        as_bytes(appends.info),
        as_leader.at_append,
        as_leader.now_ms,
        as_leader.leader_epoch,
        appends.data,
    )


def _single(append: Appends, as_leader: Leadership, memory: AppendMemory) -> Appends:
    """Judge one append; what is refused becomes nothing but its error."""
    if not len(append.rows):
        return append
    limit = as_leader.rules.max_unpacked_bytes
    compressed = bool(append.info["source_codec"][0])
    if _survey(append, as_leader.as_tuple(), limit, memory, compressed):
        _stamp(append, as_leader)
        return append
    try:
        return judge_append(append, as_leader, memory)
    except KafkaLogError as error:
        return Appends.refused(error.with_traceback(None))
