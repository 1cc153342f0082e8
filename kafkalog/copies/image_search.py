"""Search for record batches in an image of a disk, or in any other bytes.

Batches of magic 2 are found by their headers and CRCs. (Messages of magic 0 and 1 have
too few fixed bytes: chance finds them in every file.) The image is read once, in steps
of `IMAGE_STEP_BYTES`, and two steps are in memory, so that a batch up to that size is
found wherever it begins. The file is never mapped.

A sector that the device cannot read counts as zeros.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from kafkalog._speedups import find_batch
from kafkalog.array_types import Bytes
from kafkalog.errors import NotALogDirectoryError
from kafkalog.formats.batch_headers import (
    PLAUSIBLE_OFFSETS,
    BatchHeaders,
    find_crc_mismatches,
    scan_headers,
)
from kafkalog.segment.entry_search import CHECKSUMMED_PER_BYTE

IMAGE_STEP_BYTES: Final = 16 << 20
"""Size of a step, and of the largest batch that is found."""

SECTOR_BYTES: Final = 512
"""Files begin at multiples of it, in file systems and in tar archives."""

HEADERS: Final = 1024
"""Headers that are read at a time."""


class ImageFile:
    """A regular file or a block device that is open for reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes_unreadable = 0
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        mode = os.fstat(self._descriptor).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
            self.close()
            raise NotALogDirectoryError(
                f"neither a directory, a file nor a block device: {path}"
            )
        self.size = os.lseek(self._descriptor, 0, os.SEEK_END)

    def read_into(self, buffer: Bytes, position: int) -> int:
        """Fill `buffer` from `position` on; return how many bytes were read."""
        done = 0
        while done < len(buffer):
            try:
                count = os.preadv(
                    self._descriptor, [buffer[done:].data], position + done
                )
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                count = self._read_sectors(buffer[done:], position + done)
            if not count:
                break
            done += count
        return done

    def _read_sectors(self, buffer: Bytes, position: int) -> int:
        """Read sector by sector; one that cannot be read becomes zeros."""
        done = 0
        while done < len(buffer) and position + done < self.size:
            length = SECTOR_BYTES - (position + done) % SECTOR_BYTES
            part = buffer[done : done + min(length, self.size - position - done)]
            try:
                count = os.preadv(self._descriptor, [part.data], position + done)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                part[:] = 0
                count = len(part)
                self.bytes_unreadable += count
            if not count:
                break
            done += count
        return done

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def find_batches(
    image: ImageFile, step_bytes: int = IMAGE_STEP_BYTES
) -> Iterator[BatchHeaders]:
    """Yield the headers of the valid batches in an image, in order of positions."""
    buffer = np.empty(2 * step_bytes, np.uint8)
    length = image.read_into(buffer, 0)
    origin = at = 0
    while length:
        data = buffer[:length]
        stop = min(length, step_bytes)
        budget = CHECKSUMMED_PER_BYTE * len(data)
        while at < stop:
            at, budget = find_batch(data, at, stop, budget, True)
            if at < 0:
                break
            rows = _valid_from(data, at, origin)
            if not len(rows):  # its offset is implausible
                at += 1
                continue
            yield rows
            at = int(rows["position"][-1] + rows["size_in_bytes"][-1]) - origin
        if length <= step_bytes:
            return
        at = max(at, stop) - step_bytes
        origin += step_bytes
        kept = length - step_bytes
        buffer[:kept] = buffer[step_bytes:length]
        length = kept + image.read_into(buffer[kept:], origin + kept)


def _valid_from(data: Bytes, start: int, origin: int) -> BatchHeaders:
    """Return the headers of batches from `start` on, up to the first invalid one."""
    rows, _, _ = scan_headers(data, start, origin, HEADERS)
    valid = (rows["magic"] == 2) & (rows["last_offset"] >= rows["base_offset"])
    valid &= (rows["base_offset"] >= 0) & (rows["last_offset"] <= PLAUSIBLE_OFFSETS[1])
    count = len(rows) if valid.all() else int(valid.argmin())
    mismatches: npt.NDArray[np.intp] = find_crc_mismatches(data, origin, rows[:count])
    return rows[: int(mismatches[0]) if len(mismatches) else count]
