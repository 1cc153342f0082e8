"""What became of an append.

Knows: nine fields. Does not know: how they come about.
Source: ``LogAppendInfo.java``.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkalog.formats.layout import CodecName


class AppendResult(NamedTuple):
    """What became of an append: its offsets, and what its batches said.

    `first_offset` is -1 where only unpacking a batch of magic 0 or 1 would tell.
    `log_append_time` is -1 with CreateTime, timestamps are ms. `last_leader_epoch`,
    `source_codec` and `valid_bytes` are those of what came in, whatever was written.
    Of a duplicate the offsets are those of the batch that was written then.
    """

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time: int
    log_start_offset: int
    last_leader_epoch: int | None
    source_codec: CodecName
    valid_bytes: int
    is_duplicate: bool = False
