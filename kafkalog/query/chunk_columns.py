"""The columns of a chunk that are not arrays: byte strings, and lists of headers.

Keys and values are columns in Arrow's form: `data` with the bytes of all rows, n + 1
`offsets` into it, and `valid`. As views nothing is copied: `data` has the file's or the
decompressed bytes, and `start` and `length` are the place of each row in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Bytes
from kafkalog.decoding.batch_decoder import RecordViews, find_headers

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault


@dataclass(frozen=True, slots=True)
class BytesColumn:
    """n byte strings: row i is ``data[offsets[i]:offsets[i + 1]]``, where `valid`.

    `valid` is None where no row is null; a null row takes no bytes of `data`.
    """

    data: Bytes
    offsets: npt.NDArray[np.int32]
    valid: npt.NDArray[np.bool_] | None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def head(self, count: int) -> Self:
        """Return the first `count` rows, without a copy."""
        valid = None if self.valid is None else self.valid[:count]
        return type(self)(self.data, self.offsets[: count + 1], valid)

    def to_list(self) -> list[bytes | None]:
        """Return the rows as Python's bytes, null as None."""
        data, ends = self.data.tobytes(), self.offsets.tolist()
        rows = [data[a:b] for a, b in pairwise(ends)]
        if self.valid is None:
            return list(rows)
        return [
            row if ok else None
            for row, ok in zip(rows, self.valid.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """n byte strings in place: row i is ``data[start[i]:][:length[i]]``; -1 is null."""

    data: Bytes
    start: npt.NDArray[np.int32]
    length: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.start)

    def head(self, count: int) -> Self:
        """Return the first `count` rows, without a copy."""
        return type(self)(self.data, self.start[:count], self.length[:count])

    def to_list(self) -> list[bytes | None]:
        """Return the rows as Python's bytes, null as None."""
        data = self.data.data
        return [
            None if length < 0 else bytes(data[start : start + length])
            for start, length in zip(
                self.start.tolist(), self.length.tolist(), strict=True
            )
        ]


if TYPE_CHECKING:
    ByteStrings = TypeVarWithDefault(
        "ByteStrings", BytesColumn, ViewColumn, default=BytesColumn
    )
else:
    ByteStrings = TypeVar("ByteStrings", BytesColumn, ViewColumn)


@dataclass(frozen=True)
class HeadersColumn(Generic[ByteStrings]):
    """The headers of n records: those of row i are rows ``offsets[i]`` to the next."""

    offsets: npt.NDArray[np.int32]
    key: ByteStrings
    value: ByteStrings

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def head(self, count: int) -> HeadersColumn[ByteStrings]:
        """Return the first `count` rows, without a copy."""
        return HeadersColumn(self.offsets[: count + 1], self.key, self.value)

    def to_list(self) -> list[list[tuple[bytes, bytes | None]]]:
        """Return each row's headers as pairs of bytes."""
        keys = [key or b"" for key in self.key.to_list()]
        pairs = list(zip(keys, self.value.to_list(), strict=True))
        ends = self.offsets.tolist()
        return [pairs[a:b] for a, b in pairwise(ends)]


class HeaderViews(HeadersColumn[ViewColumn]):
    """The headers of n records in place, which are located when first accessed."""

    _views: RecordViews

    def __init__(self, views: RecordViews) -> None:
        vars(self)["_views"] = views  # as the class above is frozen

    @cached_property
    def _located(self) -> HeadersColumn[ViewColumn]:
        offsets, places = find_headers(self._views)
        data = self._views.data
        key, value = (ViewColumn(data, *places[i : i + 2]) for i in (0, 2))
        return HeadersColumn(offsets, key, value)

    @property
    def offsets(self) -> npt.NDArray[np.int32]:
        """Return n + 1 offsets into `key` and `value`."""
        return self._located.offsets

    @property
    def key(self) -> ViewColumn:
        """Return the keys of all headers."""
        return self._located.key

    @property
    def value(self) -> ViewColumn:
        """Return the values of all headers."""
        return self._located.value


Column = (
    npt.NDArray[np.generic]
    | BytesColumn
    | ViewColumn
    | HeadersColumn[BytesColumn]
    | HeadersColumn[ViewColumn]
)
