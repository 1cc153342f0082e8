"""Compare two directories, or a directory with the listing of another."""

import json
import struct
from pathlib import Path

from tests.oracle.compare_logs import batches, explain_log, same_content, sha256

SNAPSHOT_HEADER = struct.Struct(">hIi")
SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
SNAPSHOT_FIELDS = (
    "producer_id",
    "producer_epoch",
    "last_sequence",
    "last_offset",
    "offset_delta",
    "timestamp",
    "coordinator_epoch",
    "txn_first_offset",
)
INDEXES = {
    ".index": (struct.Struct(">ii"), ("relative_offset", "position")),
    ".timeindex": (struct.Struct(">qi"), ("timestamp", "relative_offset")),
    ".txnindex": (
        struct.Struct(">hqqqq"),
        ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset"),
    ),
}


def files_below(root):
    root = Path(root)
    return {str(p.relative_to(root)): p for p in sorted(root.rglob("*")) if p.is_file()}


def compare_names(expected, actual, report):
    for name in sorted(set(expected) - set(actual)):
        report.add(f"  {name}: missing")
    for name in sorted(set(actual) - set(expected)):
        report.add(f"  {name}: not expected")
    return sorted(set(expected) & set(actual))


def compare_dirs(expected_dir, actual_dir, options, report):
    expected, actual = files_below(expected_dir), files_below(actual_dir)
    for name in compare_names(expected, actual, report):
        left, right = expected[name].read_bytes(), actual[name].read_bytes()
        if left != right:
            explain(name, left, right, options, report)


def compare_tree(tree_path, actual_dir, options, report):
    expected = {
        entry["path"]: entry for entry in json.loads(Path(tree_path).read_text())
    }
    actual = files_below(actual_dir)
    for name in compare_names(expected, actual, report):
        entry, data = expected[name], actual[name].read_bytes()
        if options.mtimes and "mtime" in entry:
            mtime = actual[name].stat().st_mtime_ns // 1_000_000
            if mtime != entry["mtime"]:
                report.add(f"  {name}: mtime {entry['mtime']} expected, found {mtime}")
        if sha256(data) == entry["sha256"]:
            continue
        if not options.strict:
            if "used_sha256" in entry:
                used = entry["entries"] * INDEXES[suffix_of(name)][0].size
                if (
                    len(data) == entry["size"]
                    and sha256(data[:used]) == entry["used_sha256"]
                ):
                    continue
            if (
                "entries_sha256" in entry
                and sha256(b"".join(snapshot_entries(data))) == entry["entries_sha256"]
            ):
                continue
            if "decoded_sha256" in entry and options.content:
                same = same_content(data, entry["decoded_sha256"], options)
                if same is None:
                    report.add(f"  {name}: other bytes, and a codec not decoded here")
                if same or same is None:
                    continue
            if options.content and name.endswith((".index", ".timeindex")):
                continue
        report.add(
            f"  {name}: {entry['size']} bytes {entry['sha256'][:12]} expected, "
            f"got {len(data)} bytes {sha256(data)[:12]}{first_hint(name, data)}"
        )


def first_hint(name, data):
    if suffix_of(name) == ".log":
        heads = [
            f"{h['base_offset']}..{h['base_offset'] + h['last_offset_delta']}"
            for _, h, _ in batches(data)
            if "count" in h
        ]
        more = " ..." if len(heads) > 12 else ""
        return f"; batches there: {', '.join(heads[:12])}{more}"
    if suffix_of(name) in INDEXES:
        layout, _ = INDEXES[suffix_of(name)]
        entries = [
            layout.unpack_from(data, at)
            for at in range(0, len(data) - layout.size + 1, layout.size)
        ]
        return f"; entries there: {entries[:6]}{' ...' if len(entries) > 6 else ''}"
    return ""


def suffix_of(name):
    """Return '.log' for x.log, x.log.deleted, x.log.swap and so on."""
    base = name.rsplit("/", 1)[-1]
    for suffix in (".timeindex", ".txnindex", ".index", ".log", ".snapshot"):
        if base.endswith(suffix) or suffix + "." in base:
            return suffix
    return ""


def explain(name, left, right, options, report):
    kind = suffix_of(name)
    if kind == ".log":
        explain_log(name, left, right, options, report)
    elif kind in INDEXES:
        explain_index(name, kind, left, right, options, report)
    elif kind == ".snapshot":
        explain_snapshot(name, left, right, options, report)
    else:
        lines = zip(
            left.decode("utf-8", "replace").split("\n"),
            right.decode("utf-8", "replace").split("\n"),
            strict=False,
        )
        for number, (expected, found) in enumerate(lines, 1):
            if expected != found:
                report.add(
                    f"  {name} line {number}: expected {expected!r}, found {found!r}"
                )
                return
        report.add(f"  {name}: {len(left)} bytes expected, got {len(right)}")


def explain_index(name, kind, left, right, options, report):
    layout, fields = INDEXES[kind]
    if options.content and kind != ".txnindex":
        return
    if (
        not options.strict
        and len(left) == len(right)
        and kind != ".txnindex"
        and used_part(left, layout) == used_part(right, layout)
    ):
        return
    for at in range(0, min(len(left), len(right)) - layout.size + 1, layout.size):
        expected, found = layout.unpack_from(left, at), layout.unpack_from(right, at)
        if expected != found:
            report.add(
                f"  {name} entry {at // layout.size} ({', '.join(fields)}): "
                f"expected {expected}, found {found}"
            )
            return
    report.add(
        f"  {name}: {len(left)} bytes ({len(left) // layout.size} slots) expected, "
        f"got {len(right)} ({len(right) // layout.size})"
    )


def used_part(data, layout):
    """Return the entries before the first slot that is zero or does not ascend."""
    end, last = 0, None
    for at in range(0, len(data) - layout.size + 1, layout.size):
        entry = layout.unpack_from(data, at)
        if not any(entry) or (last is not None and entry[0] <= last[0]):
            break
        end, last = at + layout.size, entry
    return data[:end]


def snapshot_entries(data):
    body = data[SNAPSHOT_HEADER.size :]
    return sorted(
        body[i : i + SNAPSHOT_ENTRY.size]
        for i in range(0, len(body), SNAPSHOT_ENTRY.size)
    )


def explain_snapshot(name, left, right, options, report):
    expected, found = snapshot_entries(left), snapshot_entries(right)
    if expected == found and left[:2] == right[:2] and left[6:10] == right[6:10]:
        if options.strict:
            report.add(f"  {name}: same entries, other order")
        return
    for raw, raw2 in zip(expected, found, strict=False):
        if raw != raw2 and len(raw) == len(raw2) == SNAPSHOT_ENTRY.size:
            a, b = (
                dict(zip(SNAPSHOT_FIELDS, SNAPSHOT_ENTRY.unpack(r), strict=False))
                for r in (raw, raw2)
            )
            report.add(
                f"  {name} producer {a['producer_id']}: "
                + "; ".join(
                    f"{k} {a[k]} expected, found {b[k]}" for k in a if a[k] != b[k]
                )
            )
            return
    report.add(f"  {name}: {len(expected)} entries expected, got {len(found)}")
