"""What Kafka says of golden records, and what a scan says, in one form: 18 columns.

Kafka's telling has bytes above 64 by their length and hash; so has this.
"""

from __future__ import annotations

import hashlib
from functools import cache

from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data

TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
MAGIC_2_ONLY = {
    "leader_epoch": ("partition_leader_epoch", -1),
    "producer_id": ("producer_id", -1),
    "producer_epoch": ("producer_epoch", -1),
    "is_transactional": ("is_transactional", False),
    "is_control": ("is_control", False),
}
DIRECTORIES = [
    (name, directory)
    for name in golden_data.SETS
    for directory in golden_data.directories(name)
]


def told_bytes(raw):
    if raw is None or len(raw) <= 64:
        return None if raw is None else raw.hex()
    return len(raw), hashlib.sha256(raw).hexdigest()


def _as_told(content):
    return tuple(content.values()) if isinstance(content, dict) else content


def split_name(directory):
    """Topic and partition of a directory by its name; the slow way."""
    if directory.endswith("-delete"):
        directory = directory.rpartition(".")[0]
    topic, dash, partition = directory.rpartition("-")
    return (topic, int(partition)) if dash else ("", -1)


@cache
def batches(name, directory):
    """Headers as Kafka tells them, by file and position."""
    rows = golden_data.truth(name, directory, "batches")
    return {(row["file"], row["position"]): row for row in rows if "size" in row}


@cache
def records(name, directory):
    """All records of a directory's files: (file, tuple of the 18 columns)."""
    topic, partition = split_name(directory)
    headers = batches(name, directory)
    found = []
    for row in golden_data.truth(name, directory, "records"):
        batch = headers[row["file"], row["batch_position"]]
        timestamp = None if row["timestamp"] == -1 else row["timestamp"]
        told = {
            "topic": topic,
            "partition": partition,
            "offset": row["offset"],
            "timestamp": timestamp,
            "timestamp_type": TYPES[batch["timestamp_type"]],
            "key": _as_told(row["key"]),
            "value": _as_told(row["value"]),
            "headers": tuple((key, _as_told(text)) for key, text in row["headers"]),
            "sequence": row.get("sequence", -1),
            "magic": batch["magic"],
            "codec": batch["codec"],
            "segment": row["file"],
            "position": row["batch_position"],
        }
        for column, (field, missing) in MAGIC_2_ONLY.items():
            value = batch.get(field)
            told[column] = missing if value is None else value
        found.append((row["file"], tuple(told[column] for column in COLUMNS)))
    return found


def files(name, directory):
    """Names of a directory's files that hold entries."""
    place = golden_data.logs(name) / directory
    if place.is_file():
        return [directory]
    names = sorted(path.name for path in place.iterdir())
    ends = (".log", ".log.deleted", ".checkpoint")
    return [one for one in names if one.endswith(ends)]


def path_of(name, directory, file):
    place = golden_data.logs(name) / directory
    return place if place.is_file() else place / file


def from_chunks(chunks):
    """All rows of chunks of `Records`, gathered or views, as told."""
    found = []
    for chunk in chunks:
        found += from_records(chunk)
    return found


def from_records(chunk):
    columns = []
    for column in COLUMNS:
        if column == "topic":
            columns.append([chunk.topic] * len(chunk))
            continue
        values = getattr(chunk, column)
        if column in ("key", "value"):
            columns.append([told_bytes(value) for value in values.to_list()])
        elif column == "headers":
            columns.append(
                [
                    tuple((key.decode(), told_bytes(value)) for key, value in row)
                    for row in values.to_list()
                ]
            )
        elif column in ("codec", "segment"):
            names = chunk.codecs if column == "codec" else chunk.segments
            columns.append([names[code] for code in values.tolist()])
        else:
            columns.append(values.tolist())
    time = COLUMNS.index("timestamp")
    columns[time] = [None if ms == -1 else ms for ms in columns[time]]
    return list(zip(*columns, strict=True))


def from_arrow(table):
    """All rows of an Arrow table as told."""
    milliseconds = table["timestamp"].cast("int64")
    columns = []
    for column in COLUMNS:
        values = table[column].to_pylist()
        if column == "timestamp":
            values = milliseconds.to_pylist()
        elif column in ("key", "value"):
            values = [told_bytes(value) for value in values]
        elif column == "headers":
            values = [
                tuple((one["key"], told_bytes(one["value"])) for one in row)
                for row in values
            ]
        columns.append(values)
    return list(zip(*columns, strict=True))
