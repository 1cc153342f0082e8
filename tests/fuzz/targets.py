"""The targets by name: checks of invalid bytes, and their seeds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.indexes.txn_index import TransactionIndex
from tests.fuzz import (
    commands,
    directories,
    entries,
    internal_records,
    messages,
    requests,
    seeds,
    serialized_values,
    sidecars,
)


class Target(NamedTuple):
    """A check and its seeds.

    `check` fails if reading the bytes has any result but valid data or a typed error;
    `seeds` returns valid inputs.
    """

    check: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    max_bytes: int = 2_048
    share: int = 1  # of the time; greater for slow targets


CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

TARGETS: dict[str, Target] = {
    **{
        f"entries-{magic}": Target(
            entries.check_entries, partial(seeds.entries_of, magic)
        )
        for magic in (0, 1, 2)
    },
    **{
        f"records-{codec}": Target(
            partial(entries.check_records, codec=number), seeds.records
        )
        for codec, number in {"none": 0, **CODECS}.items()
    },
    **{
        f"wrapped-{magic}": Target(
            partial(entries.check_messages, magic=magic), partial(seeds.wrapped, magic)
        )
        for magic in (0, 1)
    },
    **{
        f"stream-{codec}": Target(
            partial(entries.check_stream, codec=number), partial(seeds.streams, number)
        )
        for codec, number in CODECS.items()
    },
    **{
        name: Target(
            partial(sidecars.check_index, kind=kind), partial(seeds.index, kind)
        )
        for name, kind in {
            "offset-index": OffsetIndex,
            "time-index": TimeIndex,
            "txn-index": TransactionIndex,
        }.items()
    },
    "producer-snapshot": Target(
        sidecars.check_producer_snapshot, seeds.producer_snapshots
    ),
    "offset-checkpoint": Target(
        sidecars.check_offset_checkpoint, seeds.offset_checkpoints
    ),
    "epoch-checkpoint": Target(
        sidecars.check_epoch_checkpoint, seeds.epoch_checkpoints
    ),
    "partition-files": Target(sidecars.check_partition_files, seeds.partition_files),
    "properties": Target(sidecars.check_properties, seeds.properties),
    "control": Target(sidecars.check_control, seeds.controls, 512),
    "message": Target(messages.check_message, seeds.messages),
    "request": Target(requests.check_request, requests.seeds, 512),
    "internal-record": Target(
        internal_records.check_internal_record, internal_records.seeds
    ),
    "metadata-snapshot": Target(
        entries.check_metadata_snapshot, seeds.metadata_snapshots, 8_192
    ),
    "option-json": Target(sidecars.check_option_json, seeds.option_json),
    "wire-format": Target(
        serialized_values.check_values,
        serialized_values.seeds,
        serialized_values.MAX_BYTES,
    ),
    "directory": Target(directories.check_directory, seeds.directories, 8_192, 3),
    "recovery": Target(directories.check_recovery, seeds.directories, 8_192, 3),
    "salvage": Target(directories.check_salvage, seeds.directories, 8_192, 3),
    "dump": Target(commands.check_dump, seeds.dumped, share=2),
    "commands": Target(commands.check_commands, seeds.directories, 8_192, 3),
    "append": Target(directories.check_append, seeds.appends, share=3),
}
