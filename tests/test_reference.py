"""The reference reads the same as Kafka's own tool."""

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


def bytes_as_truth(raw):
    if raw is None or len(raw) <= 64:
        return None if raw is None else raw.hex()
    return {"len": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}


def record_as_truth(record):
    headers = [
        [key.decode(), bytes_as_truth(value)] for key, value in record["headers"]
    ]
    return (
        record["offset"],
        record["timestamp"],
        bytes_as_truth(record["key"]),
        bytes_as_truth(record["value"]),
        headers,
    )


@pytest.mark.parametrize(("name", "directory"), LOGS)
def test_the_reference_reads_the_same_as_kafka(name, directory):
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
    truth = golden_data.truth(name, directory, "batches")
    places = {(row["file"], row["position"]) for row in truth if "size" in row}
    assert places == set(by_position)
    for row in truth:
        if "size" not in row:  # the tail of a file
            continue
        entry = by_position[row["file"], row["position"]]
        expected = {HEADER.get(field, field): value for field, value in row.items()}
        del expected["file"]
        if row["magic"] < 2:  # of which Kafka states fewer fields
            expected = {
                field: value for field, value in expected.items() if value is not None
            }
            expected.pop("base_timestamp", None)
        assert {field: entry[field] for field in expected} == expected
    for row in golden_data.truth(name, directory, "records"):
        entry = by_position[row["file"], row["batch_position"]]
        expected = [row[field] for field in ("offset", "timestamp", "key", "value")]
        expected.append([list(header) for header in row["headers"]])
        assert tuple(expected) in map(record_as_truth, entry["records"])
