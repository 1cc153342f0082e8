"""What the three index files share: slots of one size, the used ones first.

    | entry | entry | ... | 0 0 0 ... |

No header, no checksum, no count. Whatever is used stands at the front and rises; a
closed file ends there. The file of an active segment is preallocated, so zeros follow;
after a broker cut its log back, *stale* entries may follow instead, until it closes the
segment. Bytes that rise are entries, then; an all-zero slot ends them, but for slot 0
where the next one rises (in a time index: timestamp 0 at the base offset).

Knows: slots, their order, how their bytes are got. Does not know: what they mean.
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
from kafkalog.storage.byte_source import SMALL_BYTES, open_plain
from kafkalog.storage.location import AnyPath, Location, locate
from kafkalog.storage.remote_source import RemotePath

Entries = npt.NDArray[np.void]
Path_ = str | os.PathLike[str]
LARGE_BYTES: Final = 1 << 16  # from here on it pays to ask where a file's holes begin
OFFSETS: Final = np.iinfo(np.int64)
_NAME: Final = re.compile(r"([0-9]+)[._]")


class IndexTable(ABC):
    """One segment's index: `entries` as they lie on disk, all before the unused slots.

    `entries` is taken as it is: only the constructors that read bytes check them.
    """

    ENTRY: ClassVar[np.dtype[np.void]]

    def __init__(self, entries: Entries, base_offset: int) -> None:
        self.entries = entries
        self.base_offset = base_offset
        self._data = np.ascontiguousarray(entries, self.ENTRY).view(np.uint8)

    @classmethod
    def open(cls, path: Path_, base_offset: int | None = None) -> Self:
        """Map the index at `path`, refusing one that contradicts itself.

        The base offset is read from the file name unless it is given. `entries` is a
        mapping of the file: shared between processes, and only for a file that no one
        makes shorter. Once another process has cut it, a page of `entries` that lies
        wholly behind the new end kills the reader (SIGBUS), and the rest of the last
        page reads as zeros; what lies before the cut stays valid, as it does when the
        file is renamed or removed. For the files of a running broker there are `read`
        and `read_live`.

        Raises
        ------
        CorruptIndexError
            If the size is no multiple of an entry's, or if, before the zeros at the
            end, a slot does not rise above the one before it.
        ValueError
            If the name does not begin with a base offset, and none is given.
        """
        path = Path(path)
        base_offset = base_offset_of(path) if base_offset is None else base_offset
        size = path.stat().st_size
        empty = np.empty(0, np.uint8)
        data = np.memmap(path, np.uint8, mode="r", shape=(size,)) if size else empty
        return cls._checked(data, size, base_offset, path)

    @classmethod
    def read(cls, path: AnyPath, base_offset: int | None = None) -> Self:
        """Like `open`, but into memory: what becomes of the file does not matter."""
        path = locate(path)
        base_offset = base_offset_of(path) if base_offset is None else base_offset
        data, size = read_slots(path, cls.ENTRY.itemsize)
        return cls._checked(data, size, base_offset, path)

    @classmethod
    def read_live(cls, path: AnyPath, base_offset: int | None = None) -> Self:
        """Like `read`, for a file its broker may be writing: nothing is refused.

        Gives the entries at the front, up to the first slot that is all zero or does
        not rise, or is torn: stale entries of a log that was cut back are left out
        from there on. Those before still may point behind the end of the log. A link
        counts as missing; a file far too large has no entries.
        """
        path = locate(path)
        base_offset = base_offset_of(path) if base_offset is None else base_offset
        try:
            data, _ = read_slots(path, cls.ENTRY.itemsize, links=False)
        except CorruptIndexError:
            data = np.empty(0, np.uint8)
        return cls._front(data, cls.count_sound(data, base_offset), base_offset)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview, base_offset: int) -> Self:
        """Take the bytes of an index file, checked as in `open`, without a copy."""
        view = np.frombuffer(data, np.uint8)
        return cls._checked(view, len(view), base_offset, None)

    def to_bytes(self) -> bytes:
        """Return the bytes of a closed index file: the entries, and no unused slots."""
        return self._data.tobytes()

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} entries from {self.base_offset})"

    @classmethod
    @abstractmethod
    def count_sound(cls, data: npt.NDArray[np.uint8], base_offset: int) -> int:
        """Count the entries at the front of `data`: slots that rise, as Kafka wrote."""

    @classmethod
    @abstractmethod
    def _fault(cls, entries: Entries, slot: int, base_offset: int) -> str | None:
        """Say what is wrong with a slot that is not sound, apart from its order."""

    @classmethod
    def find_damage(
        cls, data: npt.NDArray[np.uint8], used: int, size: int, base_offset: int
    ) -> CorruptIndexError | None:
        """Return what is wrong with a file of `size` bytes that has `used` sound slots.

        `data` is its bytes, all but zeros at the end.
        """
        width = cls.ENTRY.itemsize
        if torn := torn_error(size, width):
            return torn
        if _speedups.first_nonzero(data, used * width) == len(data):
            return None
        entries = data[: len(data) // width * width].view(cls.ENTRY)
        fault = cls._fault(entries, used, base_offset)
        if fault is None:
            used = max(used, 1)  # slot 0 is all zero, and the next does not rise
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
        used = cls.count_sound(data, base_offset)
        damage = cls.find_damage(data, used, size, base_offset)
        if damage is not None:
            raise damage if path is None else damage.located(path)
        return cls._front(data, used, base_offset)

    @classmethod
    def _front(cls, data: npt.NDArray[np.uint8], used: int, base_offset: int) -> Self:
        return cls(data[: used * cls.ENTRY.itemsize].view(cls.ENTRY), base_offset)

    @classmethod
    def _built(cls, columns: dict[str, npt.ArrayLike], base_offset: int) -> Self:
        """Make an index of integer columns, one a field, refusing what has no room."""
        named = {name: as_int64(values).ravel() for name, values in columns.items()}
        if len({len(column) for column in named.values()}) > 1:
            raise ValueError(f"{', '.join(named)} differ in length")
        entries = np.zeros(len(next(iter(named.values()))), cls.ENTRY)
        for name, column in named.items():
            bounds = np.iinfo(cls.ENTRY[name])
            if (
                len(column)
                and not bounds.min <= column.min() <= column.max() <= bounds.max
            ):
                raise ValueError(
                    f"a {name} has no room in {cls.ENTRY[name].itemsize} bytes"
                )
            entries[name] = column
        made = cls(entries, base_offset)
        used = cls.count_sound(made._data, base_offset)
        if used < len(entries):
            fault = cls._fault(entries, used, base_offset) or "does not rise"
            raise ValueError(f"entry {used} {fault}")
        return made

    def _slots(
        self, field: tuple[int, int], base: int, values: npt.ArrayLike
    ) -> npt.NDArray[np.int64]:
        """Search the column at ``(byte, width)`` of an entry: slots, -1 for none."""
        targets = as_int64(values)
        slots = np.empty(targets.size, np.int64)
        stride = self.ENTRY.itemsize
        _speedups.search_slots(
            self._data, stride, *field, base, targets.reshape(-1), slots
        )
        return slots.reshape(targets.shape)

    def _take(
        self,
        field: tuple[int, int],
        base: int,
        missing: int,
        slots: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """Turn `slots`, in place, into what stands there, or `missing`."""
        stride = self.ENTRY.itemsize
        _speedups.take_field(
            self._data, stride, *field, base, missing, slots.reshape(-1)
        )
        return slots

    def _between(
        self, field: tuple[int, int], base: int, start: int, end: int
    ) -> slice[int, int, None]:
        """Slice of the slots whose column lies in ``[start, end)``."""
        last_below = [max(bound - 1, int(OFFSETS.min)) for bound in (start, end)]
        low, high = (self._slots(field, base, last_below) + 1).tolist()
        return slice(low, max(low, high))


def torn_error(size: int, width: int) -> CorruptIndexError | None:
    """Return what is wrong with a file of `size` bytes that ends within an entry."""
    whole, torn = divmod(size, width)
    if not torn:
        return None
    reason = f"{torn} bytes remain behind {whole} entries of {width} bytes"
    return CorruptIndexError(reason, position=whole * width, cause="truncated")


def as_int64(values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return integers of any shape as contiguous int64; beyond its range, its end.

    Raises `TypeError` for anything else: float64 skips integers above 2**53.

    >>> as_int64([]), as_int64(np.array([7, 2**64 - 1], np.uint64))
    (array([], dtype=int64), array([                  7, 9223372036854775807]))
    """
    targets = np.asarray(values)
    if not targets.size and not isinstance(values, np.ndarray):
        return np.empty(targets.shape, np.int64)  # of an empty list NumPy makes floats
    if targets.dtype.kind not in "iu":
        raise TypeError(f"needs integers that fit int64, not {targets.dtype}")
    if targets.dtype.kind == "u" and targets.dtype.itemsize == 8:
        targets = np.minimum(targets, np.uint64(OFFSETS.max))
    return np.asarray(targets, np.int64, order="C")


def base_offset_of(path: AnyPath) -> int:
    """Read the base offset an index file's name begins with.

    Also that of the copies tiered storage keeps, ``<start offset>_<segment id>.index``.

    >>> (
    ...     base_offset_of("orders-0/00000000000000041000.index"),
    ...     base_offset_of("7_A-x.index"),
    ... )
    (41000, 7)
    """
    name = _NAME.match(locate(path).name)
    if name is None or int(name[1]) > OFFSETS.max:
        raise ValueError(f"no base offset in the name {locate(path).name!r}: give one")
    return int(name[1])


def read_slots(
    path: AnyPath, entry_bytes: int, *, links: bool = True
) -> tuple[npt.NDArray[np.uint8], int]:
    """Read an index file: its bytes, all but a hole at the end, and its size.

    Preallocated files are mostly hole; asking the file system where it begins saves
    reading its zeros. What is no file counts as missing, and so does a link unless
    `links` are followed.

    Raises `CorruptIndexError` where there is more to read than any index has.
    """
    if isinstance(path, RemotePath):
        with path.open() as source:
            _check_size(source.size, path)
            return source.read(0, source.size), source.size
    descriptor = open_plain(path, links=links)
    try:
        size = os.fstat(descriptor).st_size
        end = size if size < LARGE_BYTES else _hole(descriptor, size, entry_bytes)
        _check_size(end, path)
        data = os.pread(descriptor, end, 0)
        while len(data) < end and (piece := os.pread(descriptor, end, len(data))):
            data += piece
    finally:
        os.close(descriptor)
    read = np.frombuffer(data, np.uint8)
    return read, size if len(read) == end else len(read)


def _check_size(size: int, path: AnyPath) -> None:
    if size > SMALL_BYTES:
        reason = f"{size} bytes are more than any index has"
        error = CorruptIndexError(reason, position=SMALL_BYTES, cause="too_large")
        raise error.located(path)


def _hole(descriptor: int, size: int, entry_bytes: int) -> int:
    """Return where the hole at the end of a file begins, after whole entries."""
    hole = os.lseek(descriptor, 0, os.SEEK_HOLE)
    try:
        os.lseek(descriptor, hole, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:  # ENXIO: no data behind
            raise
        return min(-(-hole // entry_bytes) * entry_bytes, size)
    return size
