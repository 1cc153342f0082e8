"""The steps of a scenario that need an open log: calls, and their results as JSON."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkalog.cleaner import LogCleaner
from kafkalog.errors import LogCleaningAbortedError

if TYPE_CHECKING:
    from tests.oracle.play import Player

Step = dict[str, Any]
OPTIONS = ("op", "leader_epoch", "origin", "transaction_version", "verified_producer")


CLEANED = (
    *("first_dirty_offset", "first_uncleanable_offset", "clean_bytes"),
    *("cleanable_bytes", "needs_compaction_now", "end_offset", "map_messages_read"),
    *("messages_read", "bytes_read", "messages_written", "bytes_written"),
    *("invalid_messages", "map_utilization"),
)


class NotOpen(Exception):
    """The step needs an open log."""

    kafka_name = "NotOpen"


class AlreadyOpen(Exception):
    """The step opens a log, and there is one."""

    kafka_name = "IllegalStateException"


def describe(error: Exception) -> Step:
    """Return the members of a result that name an error and its records."""
    if isinstance(error, OSError):
        return {"error": "KafkaStorageException"}
    line: Step = {"error": getattr(error, "kafka_name", None)}
    if hasattr(error, "record_errors"):
        line["cause"] = getattr(error.__cause__, "kafka_name", None)
        line["record_errors"] = [index for index, _ in error.record_errors]
    return line


def append(player: Player, step: Step) -> Step:
    batches = base64.b64decode(step["bytes"])
    return as_json(player.log.append(batches, **append_options(player, step)))


def append_chunk(player: Player, steps: list[Step]) -> list[Step]:
    """Append the batches of several steps with equal options, in one call."""
    appends = [base64.b64decode(step["bytes"]) for step in steps]
    if steps[0]["op"] == "append_follower":
        epoch = epoch_of(player, steps[0])
        outcomes = player.log.append_many_as_follower(appends, leader_epoch=epoch)
    else:
        outcomes = player.log.append_many(appends, **append_options(player, steps[0]))
    return [
        describe(outcome)
        if isinstance(outcome, Exception)
        else {"result": as_json(outcome)}
        for outcome in outcomes
    ]


def append_options(player: Player, step: Step) -> Step:
    marker = step["op"] == "marker"
    return {
        "leader_epoch": epoch_of(player, step),
        "origin": step.get("origin", "coordinator" if marker else "client"),
        "guard": player.guards.get(step.get("verified_producer"), 0),
        "transaction_version": step.get("transaction_version", 0 if marker else -1),
    }


def epoch_of(player: Player, step: Step) -> int:
    return int(step.get("leader_epoch", player.leader_epoch))


def options_of(step: Step) -> Any:
    """Return the options that appends in one call share; None for other steps."""
    if step["op"] not in ("append", "append_follower", "marker"):
        return None
    return json.dumps({key: step[key] for key in step if key in OPTIONS})


def append_follower(player: Player, step: Step) -> Step:
    epoch = epoch_of(player, step)
    batches = base64.b64decode(step["bytes"])
    return as_json(player.log.append_as_follower(batches, leader_epoch=epoch))


def as_json(result: Any) -> Step:
    return {
        "first_offset": result.first_offset,
        "last_offset": result.last_offset,
        "max_timestamp": result.max_timestamp,
        "log_append_time": result.log_append_time,
        "log_start_offset": result.log_start_offset,
        "last_leader_epoch": result.last_leader_epoch,
        "source_codec": result.source_codec,
        "valid_bytes": result.valid_bytes,
    }


def start_verification(player: Player, step: Step) -> Step:
    guard = player.log.start_verification(
        step["producer_id"],
        step.get("sequence", 0),
        step.get("epoch", 0),
        supports_epoch_bump=step.get("supports_epoch_bump", False),
    )
    player.guards[step["producer_id"]] = guard
    return {"needed": guard != 0}


def become_leader(player: Player, step: Step) -> Step:
    player.leader_epoch = step["epoch"]
    player.log.assign_epoch(step["epoch"])
    return {}


def assign_epoch(player: Player, step: Step) -> Step:
    player.log.assign_epoch(step["epoch"], player.offset(step))
    return {}


def high_watermark(player: Player, step: Step) -> Step:
    log, offset = player.log, player.offset(step)
    match step.get("how", "update"):
        case "update":
            return {"high_watermark": log.update_high_watermark(offset)}
        case "leader":
            if log.log_start_offset <= offset < log.log_end_offset:
                offset = log.read(offset, max_bytes=0).place.offset
            return {"moved": log.increment_high_watermark(offset)}
    before = log.high_watermark
    return {"moved": log.update_high_watermark(offset) != before}


def roll(player: Player, step: Step) -> Step:
    offset = player.offset(step) if "offset" in step else 0
    return {"base_offset": player.log.roll(offset)}


def flush(player: Player, step: Step) -> Step:
    if "offset" in step:
        player.log.flush(player.offset(step))
    else:
        player.log.flush(include_active=step.get("active", False))
    return {}


def retention(player: Player, step: Step) -> Step:
    return {"deleted": player.log.delete_old_segments()}


def delete_records(player: Player, step: Step) -> Step:
    return {"moved": player.log.delete_records(player.offset(step))}


def truncate_to(player: Player, step: Step) -> Step:
    log, offset = player.log, player.offset(step)
    if player.cleaner is None:
        return {"truncated": log.truncate_to(offset)}
    return {"truncated": player.cleaner.truncate_to(log, offset)}


def truncate_fully(player: Player, step: Step) -> Step:
    start = "log_start_offset"
    start_offset = player.offset(step, start) if start in step else None
    log, offset = player.log, player.offset(step)
    if player.cleaner is None:
        log.truncate_fully(offset, start_offset)
    else:
        player.cleaner.truncate_fully(log, offset, start_offset)
    return {}


def compact(player: Player, step: Step) -> Step:
    cleaner = player.cleaner = LogCleaner(
        player.logs,
        dedupe_buffer_size=step.get("dedupe_buffer_size", 65536),
        load_factor=step.get("load_factor", 0.9),
        io_buffer_size=2 * step.get("io_buffer_size", 65536),
    )
    log = player.log
    try:
        if step.get("if_dirty_enough", False):
            result = cleaner.clean_filthiest()
        else:
            result = cleaner.clean(log.topic, log.partition)
    except LogCleaningAbortedError:
        return {"cleaned": True, "aborted": True}
    if result is None:
        return {"cleaned": False}
    return {"cleaned": True, **{name: getattr(result, name) for name in CLEANED}}


def update_config(player: Player, step: Step) -> Step:
    config = player.settings.get("config", {}) | step["config"]
    player.settings["config"] = config
    player.log.update_config(player.config())
    return {}


def producer_snapshot(player: Player, step: Step) -> Step:
    player.log.take_producer_snapshot()
    return {}


def read(player: Player, step: Step) -> Step:
    found = player.log.read(
        player.offset(step),
        max_bytes=step.get("max_bytes", 1 << 20),
        isolation=step.get("isolation", "log_end"),
        min_one_batch=step.get("min_one_message", True),
        whole_batches=False,
    )
    result: Step = {"offset": found.place.offset}
    if not found.place.is_bare:
        result["segment"] = found.place.segment_base
        result["position"] = found.place.position
    result |= {
        "size": len(found.data),
        "sha256": hashlib.sha256(found.data).hexdigest(),
        "first_entry_incomplete": found.first_entry_incomplete,
        "batches": [
            [
                batch.last_offset if batch.magic < 2 else batch.base_offset,
                batch.last_offset,
            ]
            for batch in found.batches()
        ],
    }
    if found.lists_aborted:
        result["aborted"] = [list(entry) for entry in found.aborted]
    return result


def offset_for_timestamp(player: Player, step: Step) -> Any:
    found = player.log.find_offset(step["timestamp"])
    return None if found is None else found._asdict()


def offset_for_epoch(player: Player, step: Step) -> Any:
    found = player.log.end_offset_for_epoch(step["epoch"])
    if found is None:
        return None
    return {"epoch": found.epoch, "offset": found.end_offset}


def aborted_transactions(player: Player, step: Step) -> list[list[int]]:
    bounds = player.offset(step, "from"), player.offset(step, "to")
    return [list(entry) for entry in player.log.find_aborted(*bounds)]


def producers(player: Player, step: Step) -> list[Step]:
    return [
        {
            "producer_id": state.producer_id,
            "epoch": state.producer_epoch,
            "coordinator_epoch": state.coordinator_epoch,
            "last_timestamp": state.last_timestamp,
            "txn_first_offset": state.txn_first_offset,
            "batches": [
                [
                    batch.first_sequence,
                    batch.last_sequence,
                    batch.first_offset,
                    batch.last_offset,
                    batch.timestamp,
                ]
                for batch in state.batches
            ],
        }
        for _, state in sorted(player.log.producers.items())
    ]


def segments(player: Player, step: Step) -> list[Step]:
    described = []
    for segment in player.log.growing_segments:
        first = segment.rolling_timestamp
        described.append(
            {
                "base_offset": segment.base_offset,
                "size": segment.size,
                "largest_timestamp": segment.largest_timestamp,
                "max_timestamp": segment.greatest_timestamp[0],
                "offset_of_max_timestamp": segment.greatest_timestamp[1],
                "first_batch_timestamp": first if first >= 0 else 2**63 - 1,
                "next_offset": segment.next_offset(),
                "mtime": segment.modified_ms,
                "offset_index": entries_of(segment.offset_index),
                "time_index": entries_of(segment.time_index),
            }
        )
    return described


def entries_of(index: Any) -> list[list[int]]:
    """Return the entries of an index."""
    return [list(index.entry(slot)) for slot in range(index.entry_count)]


STEPS: dict[str, Callable[[Player, Step], Any]] = {
    "append": append,
    "marker": append,
    **{
        step.__name__: step
        for step in (
            *(aborted_transactions, append_follower, assign_epoch, become_leader),
            *(delete_records, flush, high_watermark, offset_for_epoch),
            *(offset_for_timestamp, producer_snapshot, producers, read, retention),
            *(compact, roll, segments, start_verification, truncate_fully, truncate_to),
            update_config,
        )
    },
}
