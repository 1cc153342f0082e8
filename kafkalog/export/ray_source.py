"""A scan as a source for Ray Data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from kafkalog.query.scan import ScanArguments, Source
from kafkalog.query.splits import TARGET_BYTES, splits

if TYPE_CHECKING:
    from kafkalog.export.ray_tasks import LogDatasource


def ray_datasource(
    source: Source, target_bytes: int = TARGET_BYTES, **as_scan: Unpack[ScanArguments]
) -> LogDatasource:
    """Return a source for ``ray.data.read_datasource``; needs ray.

    Each split of the scan is a read task.

    Parameters
    ----------
    source : path, URL, bytes-like, or list of these
        As for `scan`. Ray's workers have to see the same paths.
    target_bytes : int
        Size of a split, as for `splits`.
    **as_scan : ScanArguments
        The options of `scan`, but `limit` and `progress`.

    Returns
    -------
    LogDatasource
        The source. Offsets are chosen now.

    Examples
    --------
    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder()
    >>> batch.append(b"k", b"v", timestamp=1700000000000)
    >>> logs = ray_datasource(batch.build())
    >>> [task] = logs.get_read_tasks(parallelism=1)
    >>> [table["value"].to_pylist() for table in task()]
    [[b'v']]
    """
    from kafkalog.export.ray_tasks import LogDatasource  # needs ray

    return LogDatasource(splits(source, target_bytes, **as_scan))
