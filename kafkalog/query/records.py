"""`Records`: a chunk of one partition as columns, gathered or as views."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.batch_decoder import DecodedRecords, RecordViews
from kafkalog.decoding.decoded_columns import (
    BinaryColumn,
    ColumnBuffers,
    DecodedColumns,
)
from kafkalog.formats.batch_headers import increment_sequences
from kafkalog.formats.layout import CODECS, NO_SEQUENCE, NO_TIMESTAMP, CodecName
from kafkalog.query.chunk_columns import (
    BytesColumn,
    ByteStrings,
    Column,
    HeadersColumn,
    HeaderViews,
    ViewColumn,
)
from kafkalog.query.header_columns import batch_values
from kafkalog.query.scan_columns import FIXED
from kafkalog.query.sources import check_count
from kafkalog.reports import counted

if TYPE_CHECKING:
    import pyarrow as pa


ColumnType = TypeVar("ColumnType")


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a chunk: its partition, and the index of its file in `segments`."""

    topic: str = ""
    partition: int = -1
    segments: tuple[str, ...] = ("",)
    segment: int = 0


class ColumnOf(Generic[ColumnType]):
    """Descriptor of a column of `Records`; an `AttributeError` if not requested."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, records: None, owner: type) -> Self: ...
    @overload
    def __get__(self, records: Records[Any], owner: type) -> ColumnType: ...

    def __get__(self, records: Records[Any] | None, owner: type) -> Any:
        if records is None:
            return self
        try:
            return records.columns[self._name]
        except KeyError:
            raise AttributeError(f"column {self._name!r} was not requested") from None


class Records(Generic[ByteStrings]):
    """A chunk of records of one partition; each requested column is an attribute.

    `topic` is a str; `offset`, `timestamp` (ms, -1 none), `partition` and the other
    fixed-width columns are arrays of shape (n,); `key` and `value` a `BytesColumn` or
    `ViewColumn`, `headers` a `HeadersColumn`. `codec` and `segment` are codes, whose
    names are in `codecs` and `segments`. `names` are the requested columns, in order;
    iterating yields named tuples of them.

    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> batch.append(b"k", b"v", timestamp=1700000000000)
    >>> [records] = kafkalog.scan(batch.build()).chunks()
    >>> records.offset, records.key.to_list()
    (array([7]), [b'k'])
    >>> [record.value for record in records]
    [b'v']
    """

    partition = ColumnOf[npt.NDArray[np.int32]]()
    offset = ColumnOf[npt.NDArray[np.int64]]()
    timestamp = ColumnOf[npt.NDArray[np.int64]]()
    timestamp_type = ColumnOf[npt.NDArray[np.int8]]()
    key = ColumnOf[ByteStrings]()
    value = ColumnOf[ByteStrings]()
    headers = ColumnOf[HeadersColumn[ByteStrings]]()
    leader_epoch = ColumnOf[npt.NDArray[np.int32]]()
    producer_id = ColumnOf[npt.NDArray[np.int64]]()
    producer_epoch = ColumnOf[npt.NDArray[np.int16]]()
    sequence = ColumnOf[npt.NDArray[np.int32]]()
    is_transactional = ColumnOf[npt.NDArray[np.bool_]]()
    is_control = ColumnOf[npt.NDArray[np.bool_]]()
    magic = ColumnOf[npt.NDArray[np.int8]]()
    codec = ColumnOf[npt.NDArray[np.int8]]()
    segment = ColumnOf[npt.NDArray[np.int32]]()
    position = ColumnOf[npt.NDArray[np.int64]]()

    codecs: tuple[CodecName, ...] = CODECS

    def __init__(
        self,
        origin: Origin,
        length: int,
        columns: Mapping[str, Column],
        names: tuple[str, ...],
    ) -> None:
        self.topic = origin.topic
        self.segments = origin.segments
        self.columns = columns
        self.names = names
        self._origin = origin
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield each record as a named tuple with the requested columns.

        Bytes and a timestamp in ms may be None; ``codec`` and ``segment`` are names,
        and ``headers`` is a list of pairs.
        """
        rows = namedtuple("Row", self.names)  # type: ignore[misc]  # of the columns
        if not self.names:
            return repeat(rows(), len(self))
        return map(rows._make, zip(*map(self._to_list, self.names), strict=True))

    def head(self, count: int) -> Records[ByteStrings]:
        """Return the first records, without a copy of their columns.

        Parameters
        ----------
        count : int
            Maximum number of records.

        Returns
        -------
        Records
            The first `count` records, or all if there are fewer.

        Raises
        ------
        TypeError, ValueError
            If the count is not an integer, or negative.

        Examples
        --------
        >>> import kafkalog
        >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
        >>> for value in (b"one", b"two", b"three"):
        ...     batch.append(None, value, timestamp=1)
        >>> [records] = kafkalog.scan(batch.build()).chunks()
        >>> records.head(2).value.to_list()
        [b'one', b'two']
        """
        check_count("count", count)
        if count >= len(self):
            return self
        columns: dict[str, Column] = {
            name: column[:count]
            if isinstance(column, np.ndarray)
            else column.head(count)
            for name, column in self.columns.items()
        }
        return Records(self._origin, count, columns, self.names)

    def to_arrow(self) -> pa.RecordBatch:
        """Return the requested columns as an Arrow record batch; needs pyarrow.

        Returns
        -------
        pyarrow.RecordBatch
            The columns that `Scan.to_arrow` has, without a copy of keys and values.

        Raises
        ------
        TypeError
            For a chunk of views, whose rows are not contiguous.

        Examples
        --------
        >>> import kafkalog
        >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> [records] = kafkalog.scan(batch.build(), columns=["offset", "key"]).chunks()
        >>> records.to_arrow().to_pylist()
        [{'offset': 7, 'key': b'k'}]
        """
        from kafkalog.export import arrow  # needs pyarrow

        batch: pa.RecordBatch = arrow.to_batch(self, arrow.schema_of(self.names))
        return batch

    def _to_list(self, name: str) -> list[Any]:
        """Return a column as Python values."""
        if name == "topic":
            return [self.topic] * len(self)
        column = self.columns[name]
        values: list[Any] = (
            column.tolist() if isinstance(column, np.ndarray) else column.to_list()
        )
        if name in ("codec", "segment"):
            labels = self.codecs if name == "codec" else self.segments
            return [labels[code] for code in values]
        if name == "timestamp":
            return [None if time == NO_TIMESTAMP else time for time in values]
        return values

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if hasattr(self, name)]

    def __repr__(self) -> str:
        names = ", ".join(self.columns)
        records = counted(len(self), "record")
        return f"<{records} of {self.topic or 'no topic'}: {names}>"


def make_records(
    run: DecodedRecords[DecodedColumns],
    origin: Origin,
    columns: tuple[str, ...],
    buffers: ColumnBuffers,
) -> Records:
    """Return the requested columns of decoded records."""
    decoded = run.records
    made: dict[str, Column] = {}
    for name in columns:
        if name in ("offset", "timestamp"):
            made[name] = getattr(decoded, name)
        elif name in FIXED:
            made[name] = _fixed(name, run, decoded.offset, origin, buffers)
        elif name == "headers" and decoded.headers is not None:
            offsets, key, value = decoded.headers
            made[name] = HeadersColumn(
                offsets, _bytes_column(key), _bytes_column(value)
            )
        elif name != "topic":
            made[name] = _bytes_column(getattr(decoded, name))
    return Records(origin, len(decoded), made, columns)


def make_views(
    views: RecordViews, origin: Origin, columns: tuple[str, ...], buffers: ColumnBuffers
) -> Records[ViewColumn]:
    """Return the requested columns of records as views of the bytes they are in."""
    if not buffers.kept:
        views = replace(views, rows=views.rows.copy(), records=views.records.copy())
    places = views.records
    made: dict[str, Column] = {}
    for name in columns:
        if name in ("offset", "timestamp"):
            made[name] = places[name]
        elif name in FIXED:
            made[name] = _fixed(name, views, places["offset"], origin, buffers)
        elif name == "headers":
            made[name] = HeaderViews(views)
        elif name != "topic":
            start, length = places[f"{name}_start"], places[f"{name}_length"]
            made[name] = ViewColumn(views.data, start, length)
    return Records(origin, len(places), made, columns)


def _bytes_column(strings: BinaryColumn) -> BytesColumn:
    data, offsets, valid = strings
    present = valid.view(np.bool_)
    every = np.count_nonzero(present) == len(present)
    return BytesColumn(data, offsets, None if every else present)


def _fixed(
    name: str,
    run: DecodedRecords[Sized],
    offset: npt.NDArray[np.int64],
    origin: Origin,
    buffers: ColumnBuffers,
) -> npt.NDArray[Any]:
    """Return a column made from batch headers, or from the chunk's origin."""
    length, dtype = len(offset), FIXED[name]
    if name in ("partition", "segment"):
        value = origin.partition if name == "partition" else origin.segment
        item = dtype.type(value).tobytes()
        return np.ndarray(length, dtype, item, strides=(0,))  # read-only, as `item` is
    out = buffers.take(name, length, dtype)
    of_batch = batch_values(name, run.rows)
    if (of_batch == of_batch[0]).all():
        out[:] = of_batch[0]
    else:
        out[:] = np.repeat(of_batch, run.counts)
    if name == "sequence":
        _add_offset_deltas(out, offset - np.repeat(run.rows["base_offset"], run.counts))
    return out


def _add_offset_deltas(
    sequence: npt.NDArray[np.int32], delta: npt.NDArray[np.int64]
) -> None:
    """Replace base sequences by those of the records; a negative one is unknown."""
    own = increment_sequences(sequence, delta.astype(np.int32))
    np.copyto(sequence, np.where(sequence < 0, NO_SEQUENCE, own))
