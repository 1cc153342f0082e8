"""Streams of many entries, unpacked into room behind one another, as many as fit.

lz4 and snappy, in the form that Kafka's writers give, are unpacked by a kernel, many in
a call. For zstd and gzip in that form a kernel says of many in a call what each becomes
at most; then the only thing done once a stream is the call of its library, and a copy
of what it gives, while that is in the processor's cache. Any other stream goes to its
codec's own room, which reads every form there is and says what is wrong.

Knows: which codec a stream is of, and how much may be unpacked. Does not know: where
one room ends and another begins; records.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.codecs.compression import bounded_decompressor, decompressor
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import BatchHeaders, Bytes
from kafkalog.formats.layout import CODEC_MASK

Content = bytes | memoryview


class CompressedStreams:
    """The payloads of `rows`, and in `sizes` what each became, in bytes.

    Payload i lies at ``starts[i]`` in `data`, ``lengths[i]`` long; `limit` bounds each,
    unpacked, in bytes.
    """

    def __init__(
        self,
        data: Bytes,
        rows: BatchHeaders,
        starts: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        limit: int,
    ) -> None:
        self.sizes = np.empty(len(rows), np.int64)
        self._place = data, rows, starts, lengths
        self._limit = limit

    @functools.cached_property
    def _told(self) -> list[tuple[int, int, int, int]]:
        """Of each stream its codec, its bound or -1, where it begins and ends."""
        _, rows, starts, lengths = self._place
        bounds = np.empty(len(rows), np.int64)
        _speedups.bound_decompressed_sizes(*self._place, self._limit, bounds)
        codecs = rows["attributes"] & CODEC_MASK
        columns = codecs, bounds, starts, starts + lengths
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def unpack_into(
        self, room: Bytes, first: int, filled: int
    ) -> tuple[int, int, Content | LocatedError | None]:
        """Unpack from row `first` on into `room`, of which so much is `filled`.

        Answers the row it stopped at, how much is filled then, and what that row's
        stream became, which does not fit or takes more than half of `room`, or what is
        wrong with it. At the end there is None.
        """
        i, out = first, room.data
        while i < len(self.sizes):
            i, filled = _speedups.decompress_streams(
                *self._place, i, self._limit, room, filled, self.sizes
            )
            if i == len(self.sizes):
                break
            content: Content | LocatedError | None = None
            if self._told[i][1] > 0:
                i, filled, content = self._unpack_bounded(out, i, filled)
            if i == len(self.sizes):
                break
            content = self._unpack(i) if content is None else content
            if isinstance(content, LocatedError):
                return i, filled, content
            self.sizes[i] = size = len(content)
            if size > min(len(out) - filled, len(out) // 2):
                return i, filled, content
            out[filled : filled + size] = content
            i, filled = i + 1, filled + size
        return i, filled, None

    def _unpack_bounded(
        self, out: memoryview, first: int, filled: int
    ) -> tuple[int, int, bytes | None]:
        """Unpack streams of one codec that have bounds, up to one that is refused.

        Answers as `unpack_into`.
        """
        told, view, sizes = self._told, self._place[0].data, self.sizes
        i, count, most, room = first, len(told), len(out) // 2, len(out)
        codec = told[first][0]
        unpack, refusals = bounded_decompressor(codec)
        try:
            while i < count:
                other, bound, begin, end = told[i]
                if other != codec or bound < 1:
                    break
                content = unpack(view[begin:end], bound)
                size = len(content)
                stop = filled + size
                if size > most or stop > room:
                    return i, filled, content
                out[filled:stop] = content
                sizes[i] = size
                filled = stop
                i += 1
        except refusals:
            pass  # its codec's room says what it is
        return i, filled, None

    def _unpack(self, i: int) -> Content | LocatedError:
        """Unpack one stream by the library of its codec, or say why not."""
        data, rows, _, _ = self._place
        codec, _, begin, end = self._told[i]
        stream = data.data[begin:end]
        if not codec or not stream:
            return stream
        try:
            pieces = decompressor(codec, int(rows["magic"][i]))(stream, self._limit)
        except LocatedError as caught:
            return caught
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
