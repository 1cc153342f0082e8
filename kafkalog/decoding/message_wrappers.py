"""Where compressed messages of magic 0 and 1 begin: only unpacking them tells.

Knows: what is inside a wrapper. Does not know: files, what is beside it.
Source: ``AbstractLegacyRecordBatch.java``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.decoding.decompression import Payloads, unpack
from kafkalog.decoding.workspace import Workspace
from kafkalog.formats.entry_headers import Bytes, Rows


def first_offsets(
    data: Bytes, origin: int, rows: Rows, limit: int
) -> npt.NDArray[np.int64]:
    """Return the first offset of each entry, of wrappers too.

    Of a wrapper that cannot be it is what the wrapper says of its last. `limit` bounds
    each, unpacked, in bytes.
    """
    first = np.where(rows["count"] < 0, rows["last_offset"], rows["base_offset"])
    wrappers = (rows["magic"] < 2) & (rows["count"] < 0)
    measured = rows[wrappers]
    for payloads in unpack(data, origin, measured, limit, Workspace()):
        if isinstance(payloads, Payloads):
            part = (payloads.rows, payloads.starts, payloads.lengths)
            bases = np.zeros(len(payloads.rows), np.int64)
            _speedups.measure_wrappers(payloads.data, *part, bases)
    known = measured["count"] >= 0
    first[np.flatnonzero(wrappers)[known]] = measured["base_offset"][known]
    return first
