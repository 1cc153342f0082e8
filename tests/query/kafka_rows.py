"""Rows of golden records as Kafka read them, and of a scan, in one form: 18 columns.

Bytes above 64 are replaced by their length and hash, as in Kafka's JSON.
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


def shorten(raw):
    if raw is None or len(raw) <= 64:
        return None if raw is None else raw.hex()
    return len(raw), hashlib.sha256(raw).hexdigest()


def _from_json(content):
    return tuple(content.values()) if isinstance(content, dict) else content


def split_name(directory):
    """Return topic and partition of a directory by its name."""
    if directory.endswith("-delete"):
        directory = directory.rpartition(".")[0]
    topic, dash, partition = directory.rpartition("-")
    return (topic, int(partition)) if dash else ("", -1)


@cache
def batches(name, directory):
    """Return headers as Kafka read them, by file and position."""
    rows = golden_data.truth(name, directory, "batches")
    return {(row["file"], row["position"]): row for row in rows if "size" in row}


@cache
def records(name, directory):
    """Return file and row of all records of a directory's files."""
    topic, partition = split_name(directory)
    headers = batches(name, directory)
    found = []
    for row in golden_data.truth(name, directory, "records"):
        batch = headers[row["file"], row["batch_position"]]
        timestamp = None if row["timestamp"] == -1 else row["timestamp"]
        columns = {
            "topic": topic,
            "partition": partition,
            "offset": row["offset"],
            "timestamp": timestamp,
            "timestamp_type": TYPES[batch["timestamp_type"]],
            "key": _from_json(row["key"]),
            "value": _from_json(row["value"]),
            "headers": tuple((key, _from_json(text)) for key, text in row["headers"]),
            "sequence": row.get("sequence", -1),
            "magic": batch["magic"],
            "codec": batch["codec"],
            "segment": row["file"],
            "position": row["batch_position"],
        }
        for column, (field, missing) in MAGIC_2_ONLY.items():
            value = batch.get(field)
            columns[column] = missing if value is None else value
        found.append((row["file"], tuple(columns[column] for column in COLUMNS)))
    return found


def files(name, directory):
    """Return the names of a directory's files for batches; there is at least one."""
    place = golden_data.logs(name) / directory
    if place.is_file():
        return [directory]
    names = sorted(path.name for path in place.iterdir())
    ends = (".log", ".log.deleted", ".checkpoint")
    found = [file for file in names if file.endswith(ends)]
    assert found, (name, directory)
    return found


WITH_BATCHES = [place for place in DIRECTORIES if batches(*place)]


def path_of(name, directory, file):
    place = golden_data.logs(name) / directory
    return place if place.is_file() else place / file


def from_chunks(chunks):
    """Return the rows of chunks of `Records`, copied or views."""
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
            columns.append([shorten(value) for value in values.to_list()])
        elif column == "headers":
            columns.append(
                [
                    tuple((key.decode(), shorten(value)) for key, value in row)
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
    """Return the rows of an Arrow table."""
    milliseconds = table["timestamp"].cast("int64")
    columns = []
    for column in COLUMNS:
        values = table[column].to_pylist()
        if column == "timestamp":
            values = milliseconds.to_pylist()
        elif column in ("key", "value"):
            values = [shorten(value) for value in values]
        elif column == "headers":
            values = [
                tuple((header["key"], shorten(header["value"])) for header in row)
                for row in values
            ]
        columns.append(values)
    return list(zip(*columns, strict=True))
