"""The tool: file after file, each by what its name says it is, and the reports.

Knows: which file is dumped how. Does not know: command lines.
Source: ``DumpLogSegments.java``, its ``main``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkalog.dump.contents import describer
from kafkalog.dump.dumped_file import DumpedFile
from kafkalog.dump.ending import ToolEnded
from kafkalog.dump.index_files import dump_offset_index, dump_time_index
from kafkalog.dump.log_file import LogDump
from kafkalog.dump.log_slices import SlicedLog
from kafkalog.dump.options import UNLIMITED_BYTES, DumpOptions, Streams
from kafkalog.dump.report import Report
from kafkalog.dump.sidecar_files import dump_snapshot, dump_transaction_index

BOOTSTRAP: Final = "bootstrap.checkpoint"


def dump_files(paths: Iterable[str], options: DumpOptions, streams: Streams) -> bool:
    """Dump files one after another, then report what was found wrong in them.

    Answers whether all were dumped: an exception of Kafka's ends it before, and is
    told on standard error.
    """
    report = Report()
    try:
        for path in paths:
            _dump_file(DumpedFile.of(path), options, streams, report)
    except ToolEnded as ended:
        streams.complain(ended.report())
        return False
    for line in report.lines():
        streams.complain(f"{line}\n")
    return True


def _dump_file(
    file: DumpedFile, options: DumpOptions, streams: Streams, report: Report
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
            streams.complain(f"Ignoring unknown file {file.path}\n")


def _dump_log(
    file: DumpedFile, options: DumpOptions, streams: Streams, report: Report
) -> None:
    describe = describer(options)
    streams.print(_title(file))
    gaps: list[tuple[int, int]] = []
    with SlicedLog(file) as log:
        end = log.slice_end(0, options.max_bytes)
        position = LogDump(file, options, describe, streams, gaps).dump(log.source, end)
    if end > position and options.max_bytes == UNLIMITED_BYTES:
        invalid = end - position
        streams.print(f"Found {invalid} invalid bytes at the end of {file.name}")
    if gaps:
        report.gaps.setdefault(file.absolute, []).extend(gaps)


def _title(file: DumpedFile) -> str:
    if file.suffix == ".log":
        return f"Log starting offset: {file.base_offset()}"
    if file.name == BOOTSTRAP:
        return "KRaft bootstrap snapshot"
    offset, epoch = file.snapshot_id()
    return f"Snapshot end offset: {offset}, epoch: {epoch}"
