"""`txns`: the transactions that Kafka's reading shows, and which of them hang."""

import json
import shlex
import shutil
import struct
import time
from datetime import UTC, datetime

import pytest

import kafkalog
from kafkalog.analysis import internal_tables
from kafkalog.analysis.transaction_report import TxnState
from kafkalog.cli.commands.txns import STATES
from tests import golden_data
from tests.cli.shell import call, objects

CLEAN = golden_data.logs("k431-clean")
SETS = [
    name
    for name in golden_data.SETS
    if any((golden_data.logs(name)).glob("__transaction_state-*"))
]
LEDGER = [
    ("ledger", 0, 4, 107),
    ("ledger", 0, 6, 118),
    ("ledger", 1, 6, 80),
]
"""The open transactions of the golden set: partition, producer, first offset."""


def ms(time):
    return None if time is None else round(time.timestamp() * 1000)


def transactional_ids(name):
    """Return the transactional id of each producer id, from all decoded records."""
    ids = {}
    for directory in golden_data.directories(name):
        if directory.startswith("__transaction_state-"):
            for row in golden_data.truth(name, directory, "decoded"):
                if row.get("value"):
                    producer_id = row["value"]["producerId"]
                    ids[producer_id] = row["key"]["transactionalId"]
    return ids


def expected_rows(name):
    """Return the transactions of a golden set, read batch by batch from its truth."""
    ids = transactional_ids(name)
    for path in golden_data.partitions(name):
        markers = {
            (row["file"], row["batch_position"]): row["control"]["type"]
            for row in golden_data.truth(name, path.name, "records")
            if "control" in row
        }
        begun, epochs, times = {}, {}, {}
        topic, _, number = path.name.rpartition("-")
        for batch in golden_data.truth(name, path.name, "batches"):
            producer_id = batch.get("producer_id")
            if not batch.get("is_transactional") or not batch["valid"]:
                continue
            marker = markers.get((batch["file"], batch["position"]))
            if not batch["is_control"]:
                begun.setdefault(
                    producer_id, (batch["producer_epoch"], batch["base_offset"])
                )
                epochs[producer_id] = batch["producer_epoch"]
                times[producer_id] = batch["max_timestamp"]
            elif marker in ("COMMIT", "ABORT"):
                epoch, first = begun.pop(producer_id, (batch["producer_epoch"], None))
                yield {
                    "topic": topic,
                    "partition": int(number),
                    "producer_id": producer_id,
                    "producer_epoch": epoch,
                    "transactional_id": ids.get(producer_id),
                    "state": "committed" if marker == "COMMIT" else "aborted",
                    "first_offset": first,
                    "last_timestamp": batch["max_timestamp"],
                    "command": None,
                }
        for producer_id, (_, first) in sorted(begun.items(), key=lambda one: one[1][1]):
            yield {
                "topic": topic,
                "partition": int(number),
                "producer_id": producer_id,
                "producer_epoch": epochs[producer_id],
                "transactional_id": ids.get(producer_id),
                "state": "open",
                "first_offset": first,
                "last_timestamp": times[producer_id],
                "command": None,
            }


@pytest.mark.parametrize("name", SETS)
def test_transactions_are_those_that_kafka_reads(name):
    expected = list(expected_rows(name))
    assert expected
    found = kafkalog.txns(golden_data.logs(name)).to_pylist()
    for row in found:
        row["last_timestamp"] = ms(row["last_timestamp"])
    assert found == sorted(expected, key=lambda row: (row["topic"], row["partition"]))


@pytest.mark.parametrize("name", SETS)
def test_aborted_transactions_are_those_of_the_transaction_indexes(name):
    found = kafkalog.txns(golden_data.logs(name), states=["aborted"]).to_pylist()
    assert found
    for path in golden_data.partitions(name):
        with kafkalog.open(path) as log:
            indexed = log.aborted_transactions()
            rows = [
                (row["producer_id"], row["first_offset"])
                for row in found
                if (row["topic"], row["partition"]) == (log.topic, log.partition)
            ]
            known = [row for row in rows if row[1] is not None]
            expected = [
                (int(row["producer_id"]), int(row["first_offset"])) for row in indexed
            ]
            if log.topic == "state.txn":  # compaction removed whole transactions
                assert set(known) < set(expected)
            else:
                assert known == expected


def test_states_select_rows():
    everything = kafkalog.txns(CLEAN).to_pylist()
    for state in STATES:
        rows = kafkalog.txns(CLEAN, states=[state]).to_pylist()
        assert rows == [row for row in everything if row["state"] == state]
    some = kafkalog.txns(CLEAN, states=["open", "aborted"]).to_pylist()
    assert some == [row for row in everything if row["state"] in ("open", "aborted")]
    assert tuple(TxnState) == STATES
    with pytest.raises(ValueError, match="state 'closed', expected one of open, ha"):
        kafkalog.txns(CLEAN, states=["closed"])


def state_key(transactional_id):
    name = transactional_id.encode()
    return struct.pack(">hh", 0, len(name)) + name


def state_value(producer_id, status, partitions):
    """Return a value of version 0, with {topic: partitions}."""
    value = struct.pack(">hqhib", 0, producer_id, 0, 60_000, status)
    value += struct.pack(">i", len(partitions))
    for topic, numbers in partitions.items():
        name = topic.encode()
        value += struct.pack(">h", len(name)) + name
        value += struct.pack(f">{len(numbers) + 1}i", len(numbers), *numbers)
    return value + struct.pack(">qq", 7, 7)


@pytest.fixture
def logs(tmp_path):
    """A log directory with the open transactions, and coordinators without any."""
    for name in ("ledger-0", "ledger-1", "__cluster_metadata-0"):
        shutil.copytree(CLEAN / name, tmp_path / name)
    for number in (0, 1):
        (tmp_path / f"__transaction_state-{number}").mkdir()
        write_states(tmp_path, number)
    return tmp_path


def write_states(logs, number, *states):
    """Write a partition of ``__transaction_state`` from (id, producer, status, ...)."""
    batch = kafkalog.RecordBatchBuilder()
    for transactional_id, *state in states:
        value = state_value(*state) if state else None
        batch.append(state_key(transactional_id), value, timestamp=7)
    file = logs / f"__transaction_state-{number}" / f"{0:020d}.log"
    file.write_bytes(batch.build() if states else b"")


def undecided(logs, **options):
    """Return {(topic, partition, producer, first offset): (state, id)}."""
    rows = kafkalog.txns(logs, states=["open", "hanging", "unknown"], **options)
    return {
        (row["topic"], row["partition"], row["producer_id"], row["first_offset"]): (
            row["state"],
            row["transactional_id"],
        )
        for row in rows.to_pylist()
    }


def test_without_a_transactional_id_an_open_transaction_hangs(logs):
    assert undecided(logs) == dict.fromkeys(LEDGER, ("hanging", None))


ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_ABORT, DEAD = 1, 2, 3, 5, 6


@pytest.mark.parametrize("status", [ONGOING, PREPARE_COMMIT, PREPARE_ABORT])
def test_a_transaction_hangs_in_partitions_that_its_coordinator_has_not(logs, status):
    write_states(logs, 1, ("a", 6, status, {"ledger": [1]}), ("b", 9, ONGOING, {}))
    write_states(logs, 0, ("c", 4, COMPLETE_ABORT, {}))
    assert undecided(logs) == {
        LEDGER[0]: ("hanging", "c"),
        LEDGER[1]: ("hanging", "a"),
        LEDGER[2]: ("open", "a"),
    }


def test_a_dead_or_deleted_id_ends_no_transaction(logs):
    write_states(logs, 0, ("a", 6, DEAD, {"ledger": [0, 1]}))
    write_states(logs, 1, ("b", 4, ONGOING, {"ledger": [0]}), ("b",))
    assert undecided(logs) == {
        LEDGER[0]: ("hanging", None),
        LEDGER[1]: ("hanging", "a"),
        LEDGER[2]: ("hanging", "a"),
    }


@pytest.mark.parametrize(
    "missing",
    ["__transaction_state-1", "__transaction_state-*", "__cluster_metadata-0"],
)
def test_without_all_coordinators_the_state_of_other_producers_is_unknown(
    logs, missing
):
    write_states(logs, 0, ("a", 6, ONGOING, {"ledger": [1]}))
    for path in logs.glob(missing):
        shutil.rmtree(path)
    if missing.endswith("*"):
        assert undecided(logs) == dict.fromkeys(LEDGER, ("unknown", None))
        return
    assert undecided(logs) == {
        LEDGER[0]: ("unknown", None),
        LEDGER[1]: ("hanging", "a"),
        LEDGER[2]: ("open", "a"),
    }


def test_a_transaction_hangs_only_after_the_maximum_timeout(logs):
    age = time.time() - datetime(2023, 11, 14, 22, 16, 10, tzinfo=UTC).timestamp()
    states = undecided(logs, max_transaction_timeout_ms=round(age * 1000))
    assert [state for state, _ in states.values()] == ["hanging", "open", "hanging"]


def test_each_hanging_transaction_has_the_command_that_ends_it(logs):
    options = ("--bootstrap-server", "broker 1:9092")
    lines = call("txns", logs, *options, "--topic", "led*").stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    hanging = [row for row in rows if row["state"] == "hanging"]
    assert len(hanging) == len(LEDGER)
    for row in hanging:
        assert shlex.split(row["command"]) == [
            "kafka-transactions.sh", "--bootstrap-server", "broker 1:9092", "abort",
            "--topic", row["topic"], "--partition", str(row["partition"]),
            "--start-offset", str(row["first_offset"]),
        ]  # fmt: skip
    assert not any(row["command"] for row in rows if row["state"] != "hanging")
    table = call("txns", logs, *options, "--format", "table").stdout.splitlines()
    assert table[-len(LEDGER) :] == [row["command"] for row in hanging]


def write_batches(directory, base, *batches):
    """Write a log of (producer, marker or None), a batch for each offset."""
    directory.mkdir(parents=True)
    data = b""
    for offset, (producer_id, marker) in enumerate(batches, base):
        batch = kafkalog.RecordBatchBuilder(
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0 if marker is None else -1,
            is_transactional=True,
            is_control=marker is not None,
        )
        if marker is None:
            batch.append(b"k", b"v", timestamp=offset)
        else:
            batch.append(struct.pack(">hh", 0, marker), bytes(6), timestamp=offset)
        data += batch.build()
    (directory / f"{base:020d}.log").write_bytes(data)


def test_a_first_offset_that_retention_may_have_removed_is_unknown(tmp_path):
    batches = [(1, None), (2, 0), (1, 1), (1, None), (1, 1), (3, None)]
    write_batches(tmp_path / "t-0", 0, *batches)
    write_batches(tmp_path / "t-1", 5, *batches)
    rows = kafkalog.txns(tmp_path).to_pylist()
    columns = [
        [(row["producer_id"], row["state"], row["first_offset"]) for row in rows
         if row["partition"] == number]
        for number in (0, 1)
    ]  # fmt: skip
    assert columns == [
        [(2, "aborted", None), (1, "committed", 0), (1, "committed", 3),
         (3, "unknown", 5)],
        [(2, "aborted", None), (1, "committed", None), (1, "committed", 8),
         (3, "unknown", 10)],
    ]  # fmt: skip


def test_a_snapshot_at_the_first_segment_has_the_first_offsets(tmp_path):
    logs = tmp_path / "logs"
    shutil.copytree(CLEAN / "ledger-0", logs / "ledger-0")
    whole = kafkalog.txns(logs).to_pylist()
    first, second, *_ = sorted((logs / "ledger-0").glob("*.log"))
    first.unlink()
    assert whole[0]["first_offset"] < int(second.stem)
    assert kafkalog.txns(logs).to_pylist() == whole
    second.with_suffix(".snapshot").unlink()
    rows = kafkalog.txns(logs).to_pylist()
    seen = set()
    for row, known in zip(rows, whole, strict=True):
        is_first = row["state"] != "unknown" and row["producer_id"] not in seen
        assert row["first_offset"] == (None if is_first else known["first_offset"])
        seen.add(row["producer_id"])


def test_transactions_below_the_log_start_are_not_listed(tmp_path):
    write_batches(tmp_path / "t-0", 0, (1, None), (1, 1), (1, None), (1, 0))
    checkpoint = tmp_path / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\nt 0 3\n")
    [row] = kafkalog.txns(tmp_path).to_pylist()
    assert (row["state"], row["first_offset"]) == ("aborted", 2)


def flip_in(path, byte):
    """Flip a bit of a file."""
    data = bytearray(path.read_bytes())
    data[byte] ^= 1
    path.write_bytes(data)


def is_damaged(row):
    """Return whether a row is of the partition that is damaged."""
    return (row["topic"], row["partition"]) == ("ledger", 1)


def test_a_corrupt_batch_does_not_hide_the_other_transactions(tmp_path):
    logs = shutil.copytree(CLEAN, tmp_path / "logs")
    damaged = logs / "ledger-1" / "00000000000000000000.log"
    flip_in(damaged, 100)
    ran = call("txns", logs)
    assert ran.exit_code == 1
    assert ran.stderr.count(f"{damaged} at byte 0") == 1
    whole, rows = objects(call("txns", CLEAN).stdout), objects(ran.stdout)
    others = [row for row in whole if not is_damaged(row)]
    assert [row for row in rows if not is_damaged(row)] == others
    # The batch is the first of a transaction, whose first offset is unknown then.
    of_log = [row for row in whole if is_damaged(row)]
    found = [row for row in rows if is_damaged(row)]
    assert [row | {"first_offset": 0} for row in found] == [
        row | {"first_offset": 0} for row in of_log
    ]
    for row, expected in zip(found, of_log, strict=True):
        assert row["first_offset"] in (None, expected["first_offset"])
    assert found[-1] == of_log[-1]
    with pytest.raises(kafkalog.CorruptRecordError, match="CRC mismatch"):
        kafkalog.txns(logs)


def test_with_corrupt_coordinators_open_transactions_are_unknown(tmp_path):
    logs = shutil.copytree(CLEAN, tmp_path / "logs")
    path = logs / "__transaction_state-0" / "00000000000000000000.log"
    places = kafkalog.scan(path, columns=["position"]).to_arrow()["position"].unique()
    for position in places.to_pylist():
        flip_in(path, position + 70)
    options = ("--topic", "ledger", "--max-transaction-timeout", "0")
    ran = call("txns", logs, *options, "--state", "unknown")
    assert ran.exit_code == 1
    assert "__transaction_state-0" in ran.stderr
    assert ran.stdout
    assert not call("txns", logs, *options, "--state", "hanging").stdout


def test_a_corrupt_batch_of_the_coordinators_does_not_hide_the_others(tmp_path):
    logs = shutil.copytree(CLEAN, tmp_path / "logs")
    path = logs / "__transaction_state-0" / "00000000000000000000.log"
    flip_in(path, 100)
    ran = call("txns", logs, "--topic", "ledger", "--state", "open")
    assert ran.exit_code == 1
    assert f"{path} at byte 0" in ran.stderr
    known = call("txns", CLEAN, "--topic", "ledger", "--state", "open")
    assert ran.stdout == known.stdout


def test_a_coordinators_record_may_have_any_time(tmp_path):
    def text(value):
        return struct.pack(">h", len(value)) + value

    with kafkalog.open(tmp_path / "__transaction_state-0", "a") as log:
        builder = kafkalog.RecordBatchBuilder()
        state = struct.pack(">hqhib", 0, 77, 0, 60_000, 1)
        state += struct.pack(">i", 1) + text(b"t") + struct.pack(">ii", 1, 0)
        state += struct.pack(">qq", 2**62, -(2**62))
        builder.append(struct.pack(">h", 0) + text(b"id"), state, timestamp=1)
        log.append(builder.build())
    assert kafkalog.txns(tmp_path).num_rows == 0
    assert call("txns", tmp_path, "--format", "table").exit_code == 0
    times = internal_tables.transactional_ids(tmp_path)["last_update_timestamp"]
    assert times.cast("int64").to_pylist() == [2**62]


def test_the_command_prints_the_table_in_any_format(tmp_path):
    table = kafkalog.txns(CLEAN)
    lines = call("txns", CLEAN).stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    expected = table.to_pylist()
    for row in expected:
        row["last_timestamp"] = ms(row["last_timestamp"])
    assert rows == expected
    assert json.loads(call("txns", CLEAN, "--format", "json").stdout) == rows
    text = call("txns", CLEAN, "--format", "table", "--state", "open").stdout
    assert len(text.splitlines()) == 1 + len(LEDGER)
    assert call("txns", CLEAN, "--state", "closed").exit_code == 2
    assert call("txns", CLEAN, "--topic", "none").exit_code == 3
    assert call("txns", tmp_path / "none").exit_code == 3
    assert call(
        "txns", CLEAN, "--partition", "1", "--state", "open"
    ).stdout.splitlines() == [
        line for line in lines if '"open"' in line and '"partition": 1' in line
    ]
