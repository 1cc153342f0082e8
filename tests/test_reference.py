"""The judge is judged first: what it reads is what Kafka's own tool read."""

from __future__ import annotations

import hashlib

import pytest

from tests import golden_data, reference

HEADER = {
    "size": "size_in_bytes",
    "partition_leader_epoch": "leader_epoch",
    "valid": "is_valid",
}
LOGS = [
    (name, directory)
    for name in golden_data.SETS
    for directory in golden_data.directories(name)
    if golden_data.truth(name, directory, "batches")
]


def bytes_as_told(raw):
    if raw is None or len(raw) <= 64:
        return None if raw is None else raw.hex()
    return {"len": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}


def record_as_told(record):
    headers = [[key.decode(), bytes_as_told(value)] for key, value in record["headers"]]
    return (
        record["offset"],
        record["timestamp"],
        bytes_as_told(record["key"]),
        bytes_as_told(record["value"]),
        headers,
    )


@pytest.mark.parametrize(("name", "directory"), LOGS)
def test_the_reference_reads_what_kafka_read(name, directory):
    place = golden_data.logs(name) / directory
    read = {
        path.name: reference.entries(path.read_bytes())
        for path in ([place] if place.is_file() else sorted(place.iterdir()))
        if ".log" in path.name or path.suffix == ".checkpoint"
    }
    by_position = {
        (file, entry["position"]): entry
        for file, found in read.items()
        for entry in found
    }
    told_of = golden_data.truth(name, directory, "batches")
    places = {(row["file"], row["position"]) for row in told_of if "size" in row}
    assert places == set(by_position)
    for row in told_of:
        if "size" not in row:  # what Kafka says of a tail
            continue
        entry = by_position[row["file"], row["position"]]
        told = {HEADER.get(field, field): value for field, value in row.items()}
        del told["file"]
        if row["magic"] < 2:  # of which Kafka tells less
            told = {field: value for field, value in told.items() if value is not None}
            told.pop("base_timestamp", None)
        assert {field: entry[field] for field in told} == told
    for row in golden_data.truth(name, directory, "records"):
        entry = by_position[row["file"], row["batch_position"]]
        told = [row[field] for field in ("offset", "timestamp", "key", "value")]
        told.append([list(header) for header in row["headers"]])
        assert tuple(told) in map(record_as_told, entry["records"])
