"""A log takes no more disk space than its bytes."""

from kafkalog import LogConfig
from tests.log.writing import batch, load

BLOCK_BYTES = 512
SLACK_BYTES = 1 << 16


def space_of(path):
    return path.stat().st_blocks * BLOCK_BYTES


def test_an_open_log_takes_no_more_disk_space_than_a_file_of_the_same_bytes(tmp_path):
    """Some file systems allocate more than is written, but for both files."""
    plain = tmp_path / "plain"
    with load(tmp_path, LogConfig()) as log, plain.open("wb", buffering=0) as file:
        for size in (100, 300_000, 20_000, 900_000, 100):
            one = batch(1, size=size)
            for many in ([one], [one, one]):
                log.append_many(many)
                file.write(b"".join(many))
                [path] = log.path.glob("*.log")
                assert path.stat().st_size == plain.stat().st_size
                assert space_of(path) <= space_of(plain) + SLACK_BYTES


def test_a_log_that_was_not_closed_takes_no_more_disk_space(tmp_path):
    log = load(tmp_path, LogConfig())
    log.append_many([batch(1, size=500_000)] * 3)
    log.abandon()
    [path] = log.path.glob("*.log")
    assert space_of(path) <= path.stat().st_size + SLACK_BYTES
