"""Counting records by the headers of their batches.

Knows: when a header's count is the answer. Does not know: columns.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kafkalog.errors import LocatedError
from kafkalog.formats.decoding import Bounds, decode
from kafkalog.formats.headers import Rows, checksum_error, find_unsound
from kafkalog.formats.layout import LOG_APPEND_TIME_FLAG
from kafkalog.formats.workspace import Workspace
from kafkalog.query.plan import Part
from kafkalog.query.reading import PartReading, Piece, Problem, Request, left_out


def count_records(
    part: Part, bounds: Bounds, request: Request, problems: list[Problem]
) -> int:
    """Count a part's records within `bounds`; what is left out goes to `problems`."""
    reading = PartReading(part=part, bounds=bounds, request=request, headers_only=True)
    total, workspace = 0, Workspace()
    for piece in reading.pieces():
        if isinstance(piece, Problem):
            problems.append(piece)
            continue
        rows = piece.step.rows
        whole = _told_by_header(rows, piece.bounds)
        total += int(rows["count"][whole].sum(dtype=np.int64))
        if not whole.all():
            total += _count_inside(piece, ~whole, request, problems, workspace)
    return total


def _told_by_header(rows: Rows, bounds: Bounds) -> npt.NDArray[np.bool_]:
    """Say of which batches all records lie within the bounds, going by headers."""
    told: npt.NDArray[np.bool_] = (rows["magic"] == 2) & (rows["count"] >= 0)
    told &= rows["base_offset"] >= bounds.start_offset
    told &= rows["last_offset"] < bounds.end_offset
    if bounds.timed:
        told &= rows["attributes"] & LOG_APPEND_TIME_FLAG != 0
        told &= rows["max_timestamp"] >= 0
        if bounds.start_timestamp is not None:
            told &= rows["max_timestamp"] >= bounds.start_timestamp
        if bounds.end_timestamp is not None:
            told &= rows["max_timestamp"] < bounds.end_timestamp
    return told


def _count_inside(
    piece: Piece,
    which: npt.NDArray[np.bool_],
    request: Request,
    problems: list[Problem],
    workspace: Workspace,
) -> int:
    """Count the records of batches that must be decoded for it."""
    step = piece.step
    rows = step.rows[which]
    if request.check_crcs:
        bad = find_unsound(step.data, step.origin, rows)
        errors = map(checksum_error, rows[bad])
        problems += [left_out(error, piece, request) for error in errors]
        rows = np.delete(rows, bad)
    found = decode(
        step.data,
        step.origin,
        rows,
        bounds=piece.bounds,
        limit=request.max_batch_bytes,
        workspace=workspace,
        before=step.before,
        in_pieces=True,
    )
    total = 0
    for views in found:
        if isinstance(views, LocatedError):
            problems.append(left_out(views, piece, request))
        else:
            total += len(views.records)
    return total
