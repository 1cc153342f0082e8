"""Ray's data source and its read tasks, one for each split."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from kafkalog.export.arrow import to_batches
from kafkalog.optional_packages import require
from kafkalog.query.splits import Split

if TYPE_CHECKING:
    import pyarrow as pa
    from ray.data import DataContext, Datasource, ReadTask
else:
    pa = require("pyarrow", "ray")
    Datasource = require("ray.data", "ray").Datasource
    ReadTask = require("ray.data", "ray").ReadTask


class LogDatasource(Datasource):  # type: ignore[misc]
    """The splits of a scan as a Ray ``Datasource``; made by `ray_datasource`."""

    def __init__(self, parts: list[Split]) -> None:
        super().__init__()
        self._parts = parts

    def get_name(self) -> str:
        """Return the name that Ray shows."""
        return "Kafkalog"

    def estimate_inmemory_data_size(self) -> int:
        """Return the bytes to read; compressed ones take more when decoded."""
        return sum(part.size_in_bytes for part in self._parts)

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Return a task for each split, whatever the parallelism."""
        from ray.data.block import BlockMetadata

        return [
            ReadTask(
                partial(_read, part),
                BlockMetadata(
                    num_rows=None, size_bytes=part.size_in_bytes, exec_stats=None
                ),
                schema=part.request.schema,
                per_task_row_limit=per_task_row_limit,
            )
            for part in self._parts
        ]


def _read(part: Split) -> Iterator[pa.Table]:
    """Yield the tables of a split."""
    for batch in to_batches(part.scan()):
        yield pa.Table.from_batches([batch])
