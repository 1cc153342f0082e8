"""Appends of records, which are encoded as batches like a producer's.

    records -> columns     encoding.record_input        any container of records
    columns -> batches     encoding.producer_batches    split, encoded, compressed
    batches -> the log     appending                    as `append_many`

The batches are appended like those of any producer.

Source: ``KafkaProducer.java``, ``RecordAccumulator.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kafkalog.array_types import Int64s
from kafkalog.codecs.compression import Codec, check_level
from kafkalog.config import LogConfig
from kafkalog.encoding.batch_builder import BatchSettings
from kafkalog.errors import KafkaLogError
from kafkalog.formats.layout import CodecName
from kafkalog.log.appending import Outcome

NO_OFFSET: Final = -1


class Refusal(NamedTuple):
    """Records ``[first, end)`` of those passed in, rejected together, and their error.

    Record numbers in `error` are counted from `first`.
    """

    first: int
    end: int
    error: KafkaLogError


@dataclass(frozen=True, slots=True)
class AppendedRecords:
    """The outcomes of an append of records.

    Attributes
    ----------
    outcomes : list
        For each batch its `AppendResult`, or the error with which it was rejected.
    bounds : ndarray of int64
        Batch i has the records ``[bounds[i], bounds[i + 1])``.
    """

    outcomes: list[Outcome]
    bounds: Int64s

    @property
    def offsets(self) -> Int64s:
        """The offset of each record, -1 for a rejected one."""
        firsts = [
            NO_OFFSET if isinstance(outcome, KafkaLogError) else outcome.first_offset
            for outcome in self.outcomes
        ]
        counts = np.diff(self.bounds)
        first = np.repeat(np.array(firsts, np.int64), counts)
        within = np.arange(len(first)) - np.repeat(self.bounds[:-1], counts)
        return np.where(first < 0, NO_OFFSET, first + within)

    @property
    def refused(self) -> list[Refusal]:
        """The batches that were rejected: their records, and the error."""
        bounds = self.bounds.tolist()
        return [
            Refusal(bounds[i], bounds[i + 1], outcome)
            for i, outcome in enumerate(self.outcomes)
            if isinstance(outcome, KafkaLogError)
        ]


def batch_settings(
    config: LogConfig,
    codec: CodecName | None,
    level: int | None,
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    is_transactional: bool,
) -> BatchSettings:
    """Return the settings of batches, by default with the codec of the topic.

    Raises `ConfigError` for a level that the codec does not have.
    """
    topic_codec = config.compression_type
    if codec is None and topic_codec != "producer" and topic_codec != "uncompressed":
        codec = topic_codec
        level = config.compression_level if level is None else level
    settings = BatchSettings(
        codec="none" if codec is None else codec,
        level=level,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )
    check_level(Codec(int(settings.codec)), level)
    return settings
