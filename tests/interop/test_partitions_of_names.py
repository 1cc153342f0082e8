"""Partitions of groups, transactional ids and keys are those that Kafka chooses."""

import base64
import subprocess
from pathlib import Path

import pytest

from kafkalog.copies.carried_offsets import partition_of_group
from kafkalog.encoding.record_columns import ByteColumn
from kafkalog.spark.sink.partitioner import hash_keys
from tests.copies import partition_names
from tests.interop.broker import java_command

pytestmark = [pytest.mark.spark, pytest.mark.interop]
PROGRAM = Path(__file__).with_name("KafkaPartitions.java")
NAMES = list(partition_names.names())


@pytest.fixture(scope="module", params=partition_names.COUNTS)
def chosen(request):
    """Return a number of partitions, and what Kafka chooses among so many."""
    lines = [base64.b64encode(partition_names.as_units(name)) for name in NAMES]
    done = subprocess.run(
        java_command(PROGRAM, str(request.param), heap="256m"),
        input=b"\n".join(lines) + b"\n",
        capture_output=True,
        check=True,
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    assert len(rows) == partition_names.NAMES
    columns = [[int(row[at]) for row in rows] for at in range(3)]
    return request.param, *columns


def test_partitions_are_those_that_kafka_chooses(chosen):
    count, of_groups, of_transactional_ids, of_keys = chosen
    assert [partition_of_group(name, count) for name in NAMES] == of_groups
    assert of_transactional_ids == of_groups
    keys = ByteColumn.of([partition_names.as_units(name) for name in NAMES])
    assert (hash_keys(keys) % count).tolist() == of_keys


def test_the_recorded_digests_are_of_what_kafka_chooses(chosen):
    count, of_groups, _, of_keys = chosen
    assert partition_names.GROUPS[count] == partition_names.digest_of(of_groups)
    assert partition_names.KEYS[count] == partition_names.digest_of(of_keys)
