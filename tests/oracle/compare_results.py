"""Compare the results of two players, step by step."""

import itertools
import json
from pathlib import Path

from tests.oracle.report import short

LENGTH_DEPENDENT = {
    "size",
    "sha256",
    "position",
    "valid_bytes",
    "bytes_read",
    "bytes_written",
    "clean_bytes",
    "cleanable_bytes",
    "segments",
    "offset_index",
    "time_index",
    "first_entry_incomplete",
    "deleted",
}
APPENDS = ("append", "marker", "append_follower")
NOT_COMPARED = ("state", "ran", "cause")
COMPARED_TASKS = ("delete-file", "delete-producer-snapshot")


def load_results(path):
    """Return the lines of a results file, each with the state of the log."""
    lines, state = [], None
    for text in Path(path).read_text().splitlines():
        if text.strip():
            line = json.loads(text)
            state = line.get("state", state)
            line["state"] = state
            lines.append(line)
    return lines


def comparable(line, options):
    """Return a result line without the members that are not compared."""
    line = dict(line)
    if not options.tasks:
        line.pop("ran", None)
        if line.get("op") == "run_tasks":
            line.pop("result", None)
        if line.get("state"):
            state = line["state"] = dict(line["state"])
            state["tasks"] = sorted(
                task for task in state.get("tasks", []) if task[0] in COMPARED_TASKS
            )
    if line.get("op") == "tree":
        line["result"] = {
            entry["path"]: reduced(entry, options) for entry in line.get("result") or []
        }
    if options.content:
        line = without_lengths(line)
    return line


def limit_recovery_point(state):
    """Return Kafka's state of a log, with the recovery point within the log.

    A flush that was due before a truncation moves Kafka's recovery point beyond the log
    end offset, and records appended there then count as flushed. Not so in kafkalog.
    """
    if state is None:
        return None
    limit = max(state["log_end_offset"], state["segments"][-1][0])
    return {**state, "recovery_point": min(state["recovery_point"], limit)}


def reduced(entry, options):
    entry = dict(entry)
    if not options.mtimes:
        entry.pop("mtime", None)
    if not options.strict:
        if "used_sha256" in entry:
            entry.pop("sha256")
        if "entries_sha256" in entry:
            entry.pop("sha256")
        if "decoded_sha256" in entry and options.content:
            entry.pop("sha256")
    if options.content:
        entry.pop("used_sha256", None)  # positions depend on lengths
    return entry


def without_lengths(value):
    if isinstance(value, dict):
        return {
            k: without_lengths(v) for k, v in value.items() if k not in LENGTH_DEPENDENT
        }
    if isinstance(value, list):
        return [without_lengths(v) for v in value]
    return value


def differences(expected, actual, where=""):
    """Yield each path at which two JSON values differ, and both values."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in list(expected) + [k for k in actual if k not in expected]:
            inner = f"{where}.{key}" if where else str(key)
            if key not in actual:
                yield inner, expected[key], "(missing)"
            elif key not in expected:
                yield inner, "(missing)", actual[key]
            else:
                yield from differences(expected[key], actual[key], inner)
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            yield where + " (length)", len(expected), len(actual)
        for i, (left, right) in enumerate(zip(expected, actual, strict=False)):
            yield from differences(left, right, f"{where}[{i}]")
    elif expected != actual or isinstance(expected, bool) != isinstance(actual, bool):
        yield where, expected, actual


def compare_results(expected_path, actual_path, options, report):
    expected, actual = load_results(expected_path), load_results(actual_path)
    for left, right in zip(expected, actual, strict=False):
        if "cause" not in left or "cause" not in right:
            left.pop("cause", None), right.pop("cause", None)
        left["state"] = limit_recovery_point(left.get("state"))
        for where, value, found in differences(
            comparable(left, options), comparable(right, options)
        ):
            report.add(
                f"  step {left.get('step')} {left.get('op')}: {where}: "
                f"expected {short(value)}, got {short(found)}"
            )
    if len(expected) != len(actual):
        report.add(f"  {len(expected)} steps expected, got {len(actual)}")


def compare_appends(expected_path, actual_path, report):
    """Compare the results of appends only: the states in between are not recorded."""
    expected, actual = load_results(expected_path), load_results(actual_path)
    for left, right in zip(expected, actual, strict=True):
        if left["op"] not in APPENDS:
            continue
        ignored = (
            ("state", "ran") if "cause" in left.keys() & right.keys() else NOT_COMPARED
        )
        for line, key in itertools.product((left, right), ignored):
            line.pop(key, None)
        for where, value, found in differences(left, right):
            report.add(
                f"  step {left['step']}: {where}: "
                f"expected {short(value)}, got {short(found)}"
            )
