"""The common layout of the three index files: slots of one size.

    | entry | entry | ... | 0 0 0 ... |

There is no header, no checksum and no count. The used slots are first, and ascend; a
closed file ends there. The file of an active segment is preallocated, so zeros follow.
After a broker truncated the log, *stale* entries may follow instead, until the segment
is closed. So the slots that ascend are entries. A slot of zeros ends them, except slot
0 if the next one ascends (in a time index: timestamp 0 at the base offset).

Source: ``AbstractIndex.java`` in Apache Kafka's storage module.
"""

from __future__ import annotations

import errno
import os
import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Final, Self

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.errors import CorruptIndexError
from kafkalog.integer_limits import MAX_INT64, MIN_INT64
from kafkalog.storage.byte_source import SMALL_BYTES, open_regular
from kafkalog.storage.location import AnyPath, Location, locate
from kafkalog.storage.remote_source import RemotePath

Entries = npt.NDArray[np.void]
Path_ = str | os.PathLike[str]
LARGE_BYTES: Final = 1 << 16  # from here on, looking up a file's holes is faster
_NAME: Final = re.compile(r"([0-9]+)[._]")


class IndexTable(ABC):
    """One segment's index: `entries` as on disk, without the unused slots.

    The constructor does not validate `entries`; the methods that read bytes do.
    """

    ENTRY: ClassVar[np.dtype[np.void]]

    def __init__(self, entries: Entries, base_offset: int) -> None:
        self.entries = entries
        self.base_offset = base_offset
        self._data = np.ascontiguousarray(entries, self.ENTRY).view(np.uint8)

    @classmethod
    def open(cls, path: Path_, base_offset: int | None = None) -> Self:
        """Map and validate the index file at `path`.

        Parameters
        ----------
        path : path-like or str
            A local file.
        base_offset : int, optional
            The segment's base offset; by default that in the file name.

        Returns
        -------
        OffsetIndex, TimeIndex or TransactionIndex
            The index, whose `entries` are a mapping of the file.

        Raises
        ------
        CorruptIndexError
            If the size is not a multiple of an entry's, or if, before the trailing
            zeros, a slot is not above the one before it.
        ValueError
            If the name does not begin with a base offset, and none is given.

        Notes
        -----
        Use this only for a file that no process truncates: a page of `entries` past a
        new end kills the reader (SIGBUS), and the rest of the last page reads as zeros.
        Renaming or removing the file does no harm. For the files of a running broker
        there are `read` and `read_live`.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from kafkalog import OffsetIndex
        >>> index = OffsetIndex.build([510, 520], [4096, 8192], base_offset=500)
        >>> with TemporaryDirectory() as directory:
        ...     path = Path(directory, "00000000000000000500.index")
        ...     _ = path.write_bytes(index.to_bytes())
        ...     OffsetIndex.open(path)
        OffsetIndex(2 entries from 500)
        """
        path = Path(path)
        base_offset = base_offset_of(path) if base_offset is None else base_offset
        size = path.stat().st_size
        empty = np.empty(0, np.uint8)
        data = np.memmap(path, np.uint8, mode="r", shape=(size,)) if size else empty
        return cls._checked(data, size, base_offset, path)

    @classmethod
    def read(cls, path: AnyPath, base_offset: int | None = None) -> Self:
        """Read and validate the index file at `path`.

        Parameters
        ----------
        path : path-like or str
            A local file, or a URL.
        base_offset : int, optional
            The segment's base offset; by default that in the file name.

        Returns
        -------
        OffsetIndex, TimeIndex or TransactionIndex
            The index, whose `entries` are in memory.

        Raises
        ------
        CorruptIndexError, ValueError
            As in `open`.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from kafkalog import TimeIndex
        >>> with TemporaryDirectory() as directory:
        ...     path = Path(directory, "00000000000000000500.timeindex")
        ...     _ = path.write_bytes(TimeIndex.build([1000], [507], 500).to_bytes())
        ...     TimeIndex.read(path)
        TimeIndex(1 entries from 500)
        """
        path = locate(path)
        base_offset = base_offset_of(path) if base_offset is None else base_offset
        data, size = read_slots(path, cls.ENTRY.itemsize)
        return cls._checked(data, size, base_offset, path)

    @classmethod
    def read_live(cls, path: AnyPath, base_offset: int | None = None) -> Self:
        """Read an index file that a broker may be writing.

        Parameters
        ----------
        path : path-like or str
            A local file, or a URL. A symbolic link counts as missing.
        base_offset : int, optional
            The segment's base offset; by default that in the file name.

        Returns
        -------
        OffsetIndex, TimeIndex or TransactionIndex
            The entries before the first slot that is zero, partial, or not above the
            one before it. A file that is too large for an index has no entries.

        Raises
        ------
        FileNotFoundError
            If there is no such file.

        Notes
        -----
        Content is never rejected. After a truncation of the log, entries from the first
        one out of order on are ignored; those before it may point past the end of the
        log.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from kafkalog import TimeIndex
        >>> with TemporaryDirectory() as directory:
        ...     path = Path(directory, "00000000000000000500.timeindex")
        ...     written = TimeIndex.build([1000], [507], 500).to_bytes()
        ...     _ = path.write_bytes(written + bytes(18))
        ...     TimeIndex.read_live(path)
        TimeIndex(1 entries from 500)
        """
        path = locate(path)
        base_offset = base_offset_of(path) if base_offset is None else base_offset
        try:
            data, _ = read_slots(path, cls.ENTRY.itemsize, links=False)
        except CorruptIndexError:
            data = np.empty(0, np.uint8)
        return cls._front(data, cls.count_valid(data, base_offset), base_offset)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview, base_offset: int) -> Self:
        """Return the index of the bytes of an index file, without a copy.

        Parameters
        ----------
        data : bytes-like
            Content of the file.
        base_offset : int
            The segment's base offset.

        Returns
        -------
        OffsetIndex, TimeIndex or TransactionIndex

        Raises
        ------
        CorruptIndexError
            As in `open`.

        Examples
        --------
        >>> from kafkalog import OffsetIndex
        >>> OffsetIndex.from_bytes(bytes.fromhex("0000000a 00001000"), 500).offsets
        array([510])
        """
        view = np.frombuffer(data, np.uint8)
        return cls._checked(view, len(view), base_offset, None)

    def to_bytes(self) -> bytes:
        """Return the bytes of a closed index file: the entries without unused slots.

        Returns
        -------
        bytes

        Examples
        --------
        >>> from kafkalog import OffsetIndex
        >>> OffsetIndex.build([510], [4096], base_offset=500).to_bytes().hex(" ", 4)
        '0000000a 00001000'
        """
        return self._data.tobytes()

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} entries from {self.base_offset})"

    @classmethod
    @abstractmethod
    def count_valid(cls, data: npt.NDArray[np.uint8], base_offset: int) -> int:
        """Return the number of ascending valid slots at the start of `data`."""

    @classmethod
    @abstractmethod
    def _fault(cls, entries: Entries, slot: int, base_offset: int) -> str | None:
        """Return why a slot is invalid, or None if only its order is wrong."""

    @classmethod
    def find_damage(
        cls, data: npt.NDArray[np.uint8], used: int, size: int, base_offset: int
    ) -> CorruptIndexError | None:
        """Return the error of a file of `size` bytes with `used` valid slots, or None.

        `data` are its bytes, without trailing zeros.
        """
        width = cls.ENTRY.itemsize
        if torn := torn_error(size, width):
            return torn
        if _speedups.first_nonzero(data, used * width) == len(data):
            return None
        entries = data[: len(data) // width * width].view(cls.ENTRY)
        fault = cls._fault(entries, used, base_offset)
        if fault is None:
            used = max(used, 1)  # slot 0 is zero, and the next one does not ascend
            fault = f"does not rise above entry {used - 1}"
        reason = f"entry {used} {fault}"
        return CorruptIndexError(reason, position=used * width, cause="order")

    @classmethod
    def _checked(
        cls,
        data: npt.NDArray[np.uint8],
        size: int,
        base_offset: int,
        path: Location | None,
    ) -> Self:
        used = cls.count_valid(data, base_offset)
        damage = cls.find_damage(data, used, size, base_offset)
        if damage is not None:
            raise damage if path is None else damage.located(path)
        return cls._front(data, used, base_offset)

    @classmethod
    def _front(cls, data: npt.NDArray[np.uint8], used: int, base_offset: int) -> Self:
        return cls(data[: used * cls.ENTRY.itemsize].view(cls.ENTRY), base_offset)

    @classmethod
    def _built(cls, columns: dict[str, npt.ArrayLike], base_offset: int) -> Self:
        """Build an index of integer columns; raise `ValueError` for invalid values."""
        named = {name: as_int64(values).ravel() for name, values in columns.items()}
        if len({len(column) for column in named.values()}) > 1:
            raise ValueError(f"{', '.join(named)} of different lengths")
        entries = np.zeros(len(next(iter(named.values()))), cls.ENTRY)
        for name, column in named.items():
            bounds = np.iinfo(cls.ENTRY[name])
            if (
                len(column)
                and not bounds.min <= column.min() <= column.max() <= bounds.max
            ):
                raise ValueError(
                    f"{name} {column.min()} to {column.max()}, "
                    f"expected {bounds.min} to {bounds.max}"
                )
            entries[name] = column
        table = cls(entries, base_offset)
        used = cls.count_valid(table._data, base_offset)
        if used < len(entries):
            fault = (
                cls._fault(entries, used, base_offset)
                or f"does not rise above entry {used - 1}"
            )
            raise ValueError(f"entry {used} {fault}")
        return table

    def _slots(
        self, field: tuple[int, int], base: int, values: npt.ArrayLike
    ) -> npt.NDArray[np.int64]:
        """Search the field at ``(byte, width)``; return slots, -1 for none."""
        targets = as_int64(values)
        slots = np.empty(targets.size, np.int64)
        stride = self.ENTRY.itemsize
        _speedups.search_slots(
            self._data, stride, (*field, base), targets.reshape(-1), slots
        )
        return slots.reshape(targets.shape)

    def _take(
        self,
        field: tuple[int, int],
        base: int,
        missing: int,
        slots: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """Replace `slots` in place by the field there, or by `missing`."""
        stride = self.ENTRY.itemsize
        _speedups.take_field(
            self._data, stride, (*field, base), missing, slots.reshape(-1)
        )
        return slots

    def _between(
        self, field: tuple[int, int], base: int, start: int, end: int
    ) -> slice[int, int, None]:
        """Return the slice of the slots whose field is in ``[start, end)``."""
        last_below = [max(bound - 1, MIN_INT64) for bound in (start, end)]
        low, high = (self._slots(field, base, last_below) + 1).tolist()
        return slice(low, max(low, high))


def torn_error(size: int, width: int) -> CorruptIndexError | None:
    """Return the error of a file of `size` bytes that ends inside an entry, or None."""
    entries, torn = divmod(size, width)
    if not torn:
        return None
    reason = f"{torn} bytes after {entries} entries, expected entries of {width} bytes"
    return CorruptIndexError(reason, position=entries * width, cause="truncated")


def as_int64(values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return integers of any shape as contiguous int64, clipped to its range.

    Raises `TypeError` for other types: float64 cannot represent all above 2**53.

    >>> as_int64([]), as_int64(np.array([7, 2**64 - 1], np.uint64))
    (array([], dtype=int64), array([                  7, 9223372036854775807]))
    """
    targets = np.asarray(values)
    if not targets.size and not isinstance(values, np.ndarray):
        return np.empty(targets.shape, np.int64)  # NumPy makes floats of an empty list
    if targets.dtype.kind not in "iu":
        raise TypeError(f"array of {targets.dtype}, expected integers that fit int64")
    if targets.dtype.kind == "u" and targets.dtype.itemsize == 8:
        targets = np.minimum(targets, np.uint64(MAX_INT64))
    return np.asarray(targets, np.int64, order="C")


def base_offset_of(path: AnyPath) -> int:
    """Return the base offset at the start of an index file's name.

    Tiered storage keeps copies named ``<start offset>_<segment id>.index``.

    >>> (
    ...     base_offset_of("orders-0/00000000000000041000.index"),
    ...     base_offset_of("7_A-x.index"),
    ... )
    (41000, 7)
    """
    name = _NAME.match(locate(path).name)
    if name is None or int(name[1]) > MAX_INT64:
        raise ValueError(
            f"file name {locate(path).name!r}, expected one that begins with an offset"
        )
    return int(name[1])


def read_slots(
    path: AnyPath, entry_bytes: int, *, links: bool = True
) -> tuple[npt.NDArray[np.uint8], int]:
    """Return the bytes of an index file without the hole at its end, and its size.

    Preallocated files are mostly hole; the file system reports where it begins, so that
    its zeros are not read. Anything but a regular file counts as missing, and so does a
    symbolic link unless `links` are followed.

    Raises `CorruptIndexError` for a file larger than any index.
    """
    if isinstance(path, RemotePath):
        with path.open() as source:
            _check_size(source.size, path)
            return source.read(0, source.size), source.size
    file, status = open_regular(path, links=links)
    with file:
        descriptor, size = file.fileno(), status.st_size
        end = size if size < LARGE_BYTES else _hole(descriptor, size, entry_bytes)
        _check_size(end, path)
        data = os.pread(descriptor, end, 0)
        while len(data) < end and (rest := os.pread(descriptor, end, len(data))):
            data += rest
    read = np.frombuffer(data, np.uint8)
    return read, size if len(read) == end else len(read)


def _check_size(size: int, path: AnyPath) -> None:
    if size > SMALL_BYTES:
        reason = f"index of {size} bytes, expected at most {SMALL_BYTES}"
        error = CorruptIndexError(reason, position=SMALL_BYTES, cause="too_large")
        raise error.located(path)


def _hole(descriptor: int, size: int, entry_bytes: int) -> int:
    """Return where the hole at the end of a file begins, rounded up to an entry."""
    hole = os.lseek(descriptor, 0, os.SEEK_HOLE)
    try:
        os.lseek(descriptor, hole, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:  # ENXIO: no data after the hole
            raise
        return min(-(-hole // entry_bytes) * entry_bytes, size)
    return size
