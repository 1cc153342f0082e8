"""Every batch that a broker or Kafka's producer code wrote, built again.

Uncompressed ones come out byte for byte; of compressed ones everything but the stream,
which depends on the build of the codec's library, and what the stream holds.
"""

from __future__ import annotations

import base64

import pytest

from kafkalog.encoding.batch_builder import RecordBatchBuilder, empty_batch
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.formats.layout import TimestampType
from kafkalog.messages.control_records import end_transaction_marker
from tests import golden_data, oracle_data, reference

# ------------------------------------------------------------------ from what is read

NAMED = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
    "NoTimestampType": TimestampType.NO_TIMESTAMP_TYPE,
}
OF_A_BATCH = ("leader_epoch", "producer_id", "producer_epoch", "base_sequence")
FLAGS = ("is_transactional", "is_control", "delete_horizon_ms")


def settings_of(entry):
    settings = {name: entry[name] for name in ("magic", "codec", "base_offset")}
    settings["timestamp_type"] = NAMED[entry["timestamp_type"]]
    if entry["timestamp_type"] == "LogAppendTime":
        settings["log_append_time"] = entry["max_timestamp"]
    if entry["magic"] == 2:
        names = (*OF_A_BATCH, *FLAGS, "last_offset")
        settings |= {name: entry[name] for name in names}
    return settings


def built_from(entry):
    settings = settings_of(entry)
    if entry["count"] == 0:
        return empty_batch(max_timestamp=entry["max_timestamp"], **settings)
    builder = RecordBatchBuilder(**settings)
    for record in entry["records"]:
        builder.append(
            record["key"],
            record["value"],
            timestamp=record["timestamp"],
            headers=record["headers"],
            offset=record["offset"],
        )
    return builder.build()


def as_told(data):
    """Read entries without their records' own order in the file."""
    own = {"size_in_bytes": None, "crc": None, "value": None, "position": None}
    return [{**entry, **own} for entry in reference.entries(data)]


def segments():
    for name in golden_data.SETS:
        for path in golden_data.logs(name).rglob("*"):
            if path.is_file() and (".log" in path.name or path.suffix == ".checkpoint"):
                yield pytest.param(path, id="/".join(path.parts[-3:]))


def record_stamps(entry, data):
    """Give records of a stamped batch the timestamps that lie in its bytes."""
    plain = {**entry, "timestamp_type": "CreateTime"}
    stream = reference.unpack(entry["codec"], data[61:])
    own = reference.batch_records(plain, stream)
    return {**entry, "records": list(own)}


@pytest.mark.parametrize("path", list(segments()))
def test_a_brokers_batch_is_built_again(path):
    data = path.read_bytes()
    for entry in reference.entries(data):
        whole = data[entry["position"] :][: entry["size_in_bytes"]]
        if entry["magic"] == 2 and entry["timestamp_type"] == "LogAppendTime":
            entry = record_stamps(entry, whole)
        built = built_from(entry)
        if entry["codec"] == "none":
            assert built.hex() == whole.hex()
        else:
            assert as_told(built) == as_told(whole)


# ------------------------------------------------------------------ from what is told


def noise(seed, size):
    """Draw the scenarios' random bytes: the top of a linear congruential generator."""
    out = bytearray()
    for _ in range(size):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(seed >> 56)
    return bytes(out)


def bytes_of(told):
    match told:
        case None:
            return None
        case str():
            return told.encode()
        case {"b64": text}:
            return base64.b64decode(text)
        case {"fill": pattern, "size": size}:
            return (pattern.encode() * size)[:size]
        case {"random": seed, "size": size}:
            return noise(seed, size)
    raise ValueError(told)


def settings_told(batch):
    settings = {"base_offset": batch.get("base_offset", 0)}
    for name in ("magic", "codec", "level", "last_offset", "log_append_time"):
        if name in batch:
            settings[name] = batch[name]
    for name in OF_A_BATCH:
        settings[name] = batch.get(name, -1)
    settings["is_transactional"] = batch.get("transactional", False)
    settings["timestamp_type"] = NAMED[batch.get("timestamp_type", "CreateTime")]
    return settings


def built_as_told(batch):
    builder = RecordBatchBuilder(**settings_told(batch))
    for record in batch["records"]:
        has_no_timestamps = batch.get("magic") == 0
        builder.append(
            bytes_of(record["key"]),
            bytes_of(record["value"]),
            timestamp=-1 if has_no_timestamps else record["timestamp"],
            headers=[(k, bytes_of(v)) for k, v in record.get("headers", [])],
            offset=record.get("offset"),
        )
    return patched(batch, builder.build())


def patched(batch, data):
    data = bytearray(data)
    for patch in batch.get("patch", []):
        piece = bytes.fromhex(patch["hex"])
        at = patch["at"] % len(data)
        data[at : at + len(piece)] = piece
    if batch.get("recrc"):
        data[17:21] = reference.crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize("name", oracle_data.NAMES)
def test_an_append_is_built_as_kafkas_producer_builds_it(name):
    for step in oracle_data.steps(name)[1:]:
        if "batches" not in step or "bytes" not in step:
            continue
        kafkas = base64.b64decode(step["bytes"])
        for batch in step["batches"]:
            built = built_as_told(batch)
            size = 12 + int.from_bytes(kafkas[8:12], "big")
            if batch.get("codec", "none") == "none":
                assert built.hex() == kafkas[:size].hex()
            else:
                assert as_told(built) == as_told(kafkas[:size])
            kafkas = kafkas[size:]
        assert kafkas.hex() == step.get("tail", "")


@pytest.mark.parametrize("name", oracle_data.NAMES)
def test_a_marker_is_built_as_kafka_builds_it(name):
    for step in oracle_data.steps(name)[1:]:
        if step["op"] != "marker" or "bytes" not in step:
            continue
        kafkas = base64.b64decode(step["bytes"])
        (entry,) = reference.entries(kafkas)
        builder = RecordBatchBuilder(
            base_offset=0,
            leader_epoch=entry["leader_epoch"],
            producer_id=step["producer_id"],
            producer_epoch=step["producer_epoch"],
            is_transactional=True,
            is_control=True,
        )
        kind = ControlRecordType[step["type"].upper()]
        record = end_transaction_marker(kind, step["coordinator_epoch"])
        # Where the step names no time, it is the clock's.
        timestamp = step.get("timestamp", entry["max_timestamp"])
        builder.append(*record, timestamp=timestamp)
        assert builder.build().hex() == kafkas.hex()
