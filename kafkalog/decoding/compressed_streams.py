"""Decompress the streams of many batches into one buffer.

Kafka's clients write lz4 and snappy streams in one form, which a kernel decompresses,
many in a call. For zstd and gzip streams of the usual form a kernel computes an upper
bound of their decompressed size, many in a call; each stream then takes one call of its
library and one copy. Streams of any other form go to `codecs.compression`, which reads
all forms and raises the error for a corrupt one.

Source: ``CompressionType.java``, ``Lz4BlockInputStream.java``.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.array_types import Bytes
from kafkalog.codecs.compression import bounded_decompressor, decompressor
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import CODEC_MASK

Content = bytes | memoryview


class CompressedStreams:
    """The payloads of `rows`, and their decompressed `sizes` as far as known.

    Payload i has the ``lengths[i]`` bytes from ``starts[i]`` on in `data`; `limit` is
    the greatest size of a decompressed payload, in bytes.
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
    def _streams(self) -> list[tuple[int, int, int, int]]:
        """Codec, size bound or -1, start and end of each stream."""
        _, rows, starts, lengths = self._place
        bounds = np.empty(len(rows), np.int64)
        _speedups.bound_decompressed_sizes(*self._place, self._limit, bounds)
        codecs = rows["attributes"] & CODEC_MASK
        columns = codecs, bounds, starts, starts + lengths
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def decompress_into(
        self, buffer: Bytes, first: int, filled: int
    ) -> tuple[int, int, Content | LocatedError | None]:
        """Decompress payloads from row `first` on into `buffer`, from `filled` on.

        Return the row it stopped at and the bytes filled; then the content of that row
        if `buffer` has no space for it or it takes more than half of `buffer`, its
        error if it is corrupt, or None after the last row.
        """
        i, out = first, buffer.data
        while i < len(self.sizes):
            i, filled = _speedups.decompress_streams(
                *self._place, i, self._limit, buffer, filled, self.sizes
            )
            if i == len(self.sizes):
                break
            content: Content | LocatedError | None = None
            if self._streams[i][1] > 0:
                i, filled, content = self._decompress_bounded(out, i, filled)
            if i == len(self.sizes):
                break
            content = self._decompress(i) if content is None else content
            if isinstance(content, LocatedError):
                return i, filled, content
            self.sizes[i] = size = len(content)
            if size > min(len(out) - filled, len(out) // 2):
                return i, filled, content
            out[filled : filled + size] = content
            i, filled = i + 1, filled + size
        return i, filled, None

    def _decompress_bounded(
        self, out: memoryview, first: int, filled: int
    ) -> tuple[int, int, bytes | None]:
        """Decompress streams of one codec that have a size bound.

        Stop at a stream the library rejects. Return as `decompress_into` does.
        """
        streams, view, sizes = self._streams, self._place[0].data, self.sizes
        i, count, most, space = first, len(streams), len(out) // 2, len(out)
        codec = streams[first][0]
        decompress, rejections = bounded_decompressor(codec)
        try:
            while i < count:
                other, bound, begin, end = streams[i]
                if other != codec or bound < 1:
                    break
                content = decompress(view[begin:end], bound)
                size = len(content)
                stop = filled + size
                if size > most or stop > space:
                    return i, filled, content
                out[filled:stop] = content
                sizes[i] = size
                filled = stop
                i += 1
        except rejections:
            pass  # `_decompress` reads it again, and returns the error
        return i, filled, None

    def _decompress(self, i: int) -> Content | LocatedError:
        """Return the content of one stream of any form, or its error."""
        data, rows, _, _ = self._place
        codec, _, begin, end = self._streams[i]
        stream = data.data[begin:end]
        if not codec or not stream:
            return stream
        try:
            parts = decompressor(codec, int(rows["magic"][i]))(stream, self._limit)
        except LocatedError as caught:
            return caught
        return parts[0] if len(parts) == 1 else b"".join(parts)
