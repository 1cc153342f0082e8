"""Counting records by the headers of their batches.

Knows: how those are counted that a header does not tell. Does not know: columns.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.batch_decoder import Bounds, decode
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import LocatedError
from kafkalog.formats.entry_headers import checksum_error, find_unsound
from kafkalog.query.header_columns import tell_count
from kafkalog.query.part_reading import PartReading, Piece, Problem, Request, left_out
from kafkalog.query.sources import Part


def counting(part: Part, bounds: Bounds, request: Request) -> PartReading:
    """Return the reading of a part by which its records are counted."""
    return PartReading(part=part, bounds=bounds, request=request, told=tell_count)


def count_records(reading: PartReading, problems: list[Problem]) -> Iterator[int]:
    """Yield how many records each step of a reading has; adds to `problems`."""
    workspace = Workspace()
    for piece in reading.pieces():
        if isinstance(piece, Problem):
            problems.append(piece)
            continue
        rows = piece.step.rows
        whole = tell_count(rows, piece.bounds)
        records = int(rows["count"][whole].sum(dtype=np.int64))
        if not whole.all():
            records += _count_inside(
                piece, ~whole, reading.request, problems, workspace
            )
        yield records


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
