"""Every batch that a broker or Kafka's producer wrote is built again from its fields.

The result is the same bytes if it is uncompressed. A compressed one may differ only in
the stream, which depends on the build of the codec's library.
"""

from __future__ import annotations

import base64

import pytest

from kafkalog.encoding.batch_builder import RecordBatchBuilder, empty_batch
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.formats.layout import TimestampType
from kafkalog.messages.control_records import end_transaction_marker
from tests import golden_data, oracle_data, reference

# ------------------------------------------------------------- from golden log files

NAMED = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
    "NoTimestampType": TimestampType.NO_TIMESTAMP_TYPE,
}
BATCH_FIELDS = ("leader_epoch", "producer_id", "producer_epoch", "base_sequence")
FLAGS = ("is_transactional", "is_control", "delete_horizon_ms")


def settings_of(entry):
    settings = {name: entry[name] for name in ("magic", "codec", "base_offset")}
    settings["timestamp_type"] = NAMED[entry["timestamp_type"]]
    if entry["timestamp_type"] == "LogAppendTime":
        settings["log_append_time"] = entry["max_timestamp"]
    if entry["magic"] == 2:
        names = (*BATCH_FIELDS, *FLAGS, "last_offset")
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


def without_stream(data):
    """Return the fields of entries that do not depend on the compressed bytes."""
    ignored = {"size_in_bytes": None, "crc": None, "value": None, "position": None}
    return [{**entry, **ignored} for entry in reference.entries(data)]


def segments():
    for name in golden_data.SETS:
        for path in golden_data.logs(name).rglob("*"):
            has_batches = ".log" in path.name or path.suffix == ".checkpoint"
            if has_batches and path.is_file() and path.stat().st_size:
                yield pytest.param(path, id="/".join(path.parts[-3:]))


def record_stamps(entry, data):
    """Return a batch with log append time, its records with their own timestamps."""
    create_time = {**entry, "timestamp_type": "CreateTime"}
    stream = reference.unpack(entry["codec"], data[61:])
    return {**entry, "records": list(reference.batch_records(create_time, stream))}


@pytest.mark.parametrize("path", list(segments()))
def test_a_batch_of_a_broker_is_built_again(path):
    data = path.read_bytes()
    entries = reference.entries(data)
    assert entries
    for entry in entries:
        raw = data[entry["position"] :][: entry["size_in_bytes"]]
        if entry["magic"] == 2 and entry["timestamp_type"] == "LogAppendTime":
            entry = record_stamps(entry, raw)
        built = built_from(entry)
        if entry["codec"] == "none":
            assert built.hex() == raw.hex()
        else:
            assert without_stream(built) == without_stream(raw)


# ------------------------------------------------------------- from oracle scenarios


def noise(seed, size):
    """Return a scenario's random bytes: a linear congruential generator's top bytes."""
    out = bytearray()
    for _ in range(size):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(seed >> 56)
    return bytes(out)


def bytes_of(value):
    match value:
        case None:
            return None
        case str():
            return value.encode()
        case {"b64": text}:
            return base64.b64decode(text)
        case {"fill": pattern, "size": size}:
            return (pattern.encode() * size)[:size]
        case {"random": seed, "size": size}:
            return noise(seed, size)
    raise ValueError(value)


def scenario_settings(batch):
    settings = {"base_offset": batch.get("base_offset", 0)}
    for name in ("magic", "codec", "level", "last_offset", "log_append_time"):
        if name in batch:
            settings[name] = batch[name]
    for name in BATCH_FIELDS:
        settings[name] = batch.get(name, -1)
    settings["is_transactional"] = batch.get("transactional", False)
    settings["timestamp_type"] = NAMED[batch.get("timestamp_type", "CreateTime")]
    return settings


def built_from_scenario(batch):
    builder = RecordBatchBuilder(**scenario_settings(batch))
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
        content = bytes.fromhex(patch["hex"])
        at = patch["at"] % len(data)
        data[at : at + len(content)] = content
    if batch.get("recrc"):
        data[17:21] = reference.crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def steps_of(name, op):
    """Return the appends, or markers, of a scenario that have Kafka's bytes."""
    steps = [step for step in oracle_data.steps(name)[1:] if "bytes" in step]
    if op == "marker":
        return [step for step in steps if step["op"] == "marker"]
    return [step for step in steps if "batches" in step]


def scenarios_with(op):
    return [name for name in oracle_data.NAMES if steps_of(name, op)]


@pytest.mark.parametrize("name", scenarios_with("append"))
def test_an_append_is_built_as_kafkas_producer_builds_it(name):
    for step in steps_of(name, "append"):
        kafkas = base64.b64decode(step["bytes"])
        for batch in step["batches"]:
            built = built_from_scenario(batch)
            size = 12 + int.from_bytes(kafkas[8:12], "big")
            if batch.get("codec", "none") == "none":
                assert built.hex() == kafkas[:size].hex()
            else:
                assert without_stream(built) == without_stream(kafkas[:size])
            kafkas = kafkas[size:]
        assert kafkas.hex() == step.get("tail", "")


@pytest.mark.parametrize("name", scenarios_with("marker"))
def test_a_marker_is_built_as_kafka_builds_it(name):
    for step in steps_of(name, "marker"):
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
        # A step without a timestamp used the clock of the broker.
        timestamp = step.get("timestamp", entry["max_timestamp"])
        builder.append(*record, timestamp=timestamp)
        assert builder.build().hex() == kafkas.hex()
