"""The tool: a dump of each file by the kind in its name, then the report.

Source: ``DumpLogSegments.java``, its ``main``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kafkalog.dump.dump_options import UNLIMITED_BYTES, DumpOptions
from kafkalog.dump.dump_report import DumpReport
from kafkalog.dump.dumped_file import DumpedFile
from kafkalog.dump.index_files import dump_offset_index, dump_time_index
from kafkalog.dump.java_exceptions import ToolEnded
from kafkalog.dump.log_file import LogDump
from kafkalog.dump.log_slices import SlicedLog
from kafkalog.dump.printing import printer
from kafkalog.dump.record_text import describer
from kafkalog.dump.sidecar_files import dump_snapshot, dump_transaction_index
from kafkalog.dump.streams import Streams
from kafkalog.storage.file_names import BOOTSTRAP


def dump_files(paths: Iterable[str], options: DumpOptions, streams: Streams) -> bool:
    """Dump files one after another, then print the report about them.

    Returns whether all were dumped: an exception of Kafka's ends the dump, and is
    reported on standard error.
    """
    report = DumpReport()
    try:
        for path in paths:
            file = DumpedFile.of(path)
            _dump_file(file, options, replace(streams, file=file.path), report)
    except ToolEnded as ended:
        streams.write_error(ended.report())
        return False
    for line in report.lines():
        streams.write_error(f"{line}\n")
    return True


def _dump_file(
    file: DumpedFile, options: DumpOptions, streams: Streams, report: DumpReport
) -> None:
    streams.print(f"Dumping {file.path}")
    match file.suffix:
        case ".log" | ".checkpoint":
            _dump_log(file, options, streams, report)
        case ".index":
            dump_offset_index(file, options, streams, report)
        case ".timeindex":
            dump_time_index(file, options, streams, report)
        case ".snapshot":
            dump_snapshot(file, streams)
        case ".txnindex":
            dump_transaction_index(file, streams)
        case _:
            streams.write_error(f"Ignoring unknown file {file.path}\n")


def _dump_log(
    file: DumpedFile, options: DumpOptions, streams: Streams, report: DumpReport
) -> None:
    describe, max_bytes = describer(options), options.max_bytes.number()
    _print_title(file, streams)
    with SlicedLog(file) as log:
        end = log.slice_end(0, max_bytes)
        lines = printer(options, describe, streams)
        position = LogDump(file, lines, report.gaps).dump(log.source, end)
    if end > position and max_bytes == UNLIMITED_BYTES:
        invalid = end - position
        line = f"Found {invalid} invalid bytes at the end of {file.name}"
        streams.print(line, "tail", invalidBytes=invalid)


def _print_title(file: DumpedFile, streams: Streams) -> None:
    """Print the numbers in the name of a log or snapshot."""
    if file.suffix == ".log":
        offset = file.base_offset()
        line = f"Log starting offset: {offset}"
        streams.print(line, "log", startingOffset=offset)
    elif file.name == BOOTSTRAP:
        streams.print("KRaft bootstrap snapshot", "log", startingOffset=0)
    else:
        offset, epoch = file.snapshot_id()
        line = f"Snapshot end offset: {offset}, epoch: {epoch}"
        streams.print(line, "log", snapshotEndOffset=offset, snapshotEpoch=epoch)
