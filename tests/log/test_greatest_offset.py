"""The greatest int64 as an offset of a record: the log could not end after it."""

import pytest

import kafkalog
from kafkalog.errors import CorruptRecordError, LogArgumentError
from kafkalog.storage.file_names import MAX_OFFSET
from tests.log.writing import batch


def at(offset):
    return batch(1, base_offset=offset, leader_epoch=0)


@pytest.mark.parametrize("base", [0, MAX_OFFSET - 3])
def test_a_follower_rejects_a_record_at_the_greatest_offset(tmp_path, base):
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        log.truncate_fully(base)
        log.append_as_follower(at(base))
        appends = [at(MAX_OFFSET), at(MAX_OFFSET - 1), at(MAX_OFFSET)]
        outcomes = log.append_many_as_follower(appends)
        assert [type(outcome) for outcome in outcomes[::2]] == [LogArgumentError] * 2
        assert outcomes[1].last_offset == MAX_OFFSET - 1
        assert log.log_end_offset == MAX_OFFSET
        with pytest.raises(LogArgumentError, match=f"next offset is {MAX_OFFSET}"):
            log.append(batch(1))
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        assert log.log_end_offset == MAX_OFFSET


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_with_such_a_record_is_not_opened_and_not_changed(tmp_path, is_clean):
    logs = tmp_path / "logs"
    with kafkalog.open(logs / "t-0", "a") as log:
        size = log.append(batch(1)).valid_bytes
        log.append(batch(1))
    path = logs / "t-0/00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[size : size + 8] = MAX_OFFSET.to_bytes(8, "big")
    path.write_bytes(data)
    if not is_clean:
        (logs / ".kafka_cleanshutdown").unlink()
        (logs / "recovery-point-offset-checkpoint").unlink()
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match=f"at most .* at byte {size}"):
            kafkalog.open(logs / "t-0", "a")
        assert [log.name for log in path.parent.glob("*.log*")] == [path.name]
        assert path.read_bytes() == data
    assert not kafkalog.verify(logs).ok
