"""The values of a scan's columns that follow from the headers of batches."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import (
    CODEC_MASK,
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    TimestampType,
)
from kafkalog.integer_limits import MAX_INT64, MIN_INT64

NO_TIMESTAMP_TYPE: Final = int(TimestampType.NO_TIMESTAMP_TYPE)


def batch_values(name: str, rows: BatchHeaders) -> npt.NDArray[Any]:
    """Return the values of a column that is the same for all records of a batch.

    Of ``sequence`` that is the base sequence; ``codec`` is a code.
    """
    attributes = rows["attributes"]
    if name == "timestamp_type":
        log_append = (attributes & LOG_APPEND_TIME_FLAG) != 0
        return np.where(rows["magic"] == 0, NO_TIMESTAMP_TYPE, log_append)
    if name == "codec":
        return attributes & CODEC_MASK
    if name in ("is_transactional", "is_control"):
        flag = TRANSACTIONAL_FLAG if name == "is_transactional" else CONTROL_FLAG
        flagged: npt.NDArray[np.bool_] = (rows["magic"] == 2) & (attributes & flag != 0)
        return flagged
    return np.asarray(rows["base_sequence" if name == "sequence" else name])


def timestamp_ranges(
    rows: BatchHeaders,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the least and greatest timestamp of batches, and where null may be.

    Where no record has a timestamp, the least is greater than the greatest. The least
    of a batch with its producer's times is not in the header. Of a wrapper message
    nothing is certain: some clients wrote other times into it than into its messages.
    """
    magic, attributes, latest = rows["magic"], rows["attributes"], rows["max_timestamp"]
    batch = magic == 2
    message = (magic == 1) & (attributes & CODEC_MASK == 0)
    of_one = message | (batch & (attributes & LOG_APPEND_TIME_FLAG != 0))
    known = batch | message
    none = (magic == 0) | (known & (latest == NO_TIMESTAMP))
    least = np.where(none, MAX_INT64, np.where(of_one, latest, MIN_INT64))
    greatest = np.where(none, MIN_INT64, np.where(known, latest, MAX_INT64))
    return least, greatest, none | ~of_one
