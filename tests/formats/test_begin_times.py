"""The times at which batches begin, compared with a slow reference."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.formats.batch_headers import begin_times
from kafkalog.formats.layout import (
    BATCH,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
)

TIMES = st.integers(-1, 2**63 - 1)
HEADERS = st.tuples(
    st.sampled_from([0, 1, 2]), st.integers(0, 127), st.integers(-1, 2), TIMES, TIMES
)
FIELDS = ["magic", "attributes", "count", "base_timestamp", "max_timestamp"]


def begin_time(magic, attributes, count, base_timestamp, max_timestamp):
    """Return the time of the first record of one batch."""
    if count == 0 or (magic == 2 and attributes & DELETE_HORIZON_FLAG):
        return -1
    if magic == 2 and not attributes & LOG_APPEND_TIME_FLAG:
        return base_timestamp
    return max_timestamp


@given(st.lists(HEADERS, max_size=5), st.integers(1, 2))
def test_batches_begin_at_the_time_of_their_first_record(headers, step):
    rows = np.zeros(len(headers), BATCH)
    for row, header in zip(rows, headers, strict=True):
        for field, value in zip(FIELDS, header, strict=True):
            row[field] = value
    times = begin_times(rows[::step])
    assert times.tolist() == [begin_time(*header) for header in headers[::step]]
