"""Peak memory of a restore, measured in a separate process."""

import numpy as np
import pytest

import kafkalog
from tests.query.test_memory import MIB, measured

pytestmark = pytest.mark.slow

LOG_MIB = 96
MOST_MIB = 64
"""Above the memory of a small log: it depends on steps, not on the size of the log."""

CHUNK = 20_000
RESTORE = """
import kafkalog

keys = ["user-17", "user-18"] if sys.argv[3] == "True" else []
report = kafkalog.restore(sys.argv[1], sys.argv[2], exclude_keys=keys, prove=True)
print(report.excluded_records, report.proof.records, peak() - before)
"""


@pytest.mark.parametrize(("codec", "filtered"), [("none", False), ("zstd", True)])
def test_memory_does_not_depend_on_the_size_of_the_log(
    codec, filtered, tmp_path, figure
):
    random, written = np.random.default_rng(4), 0
    with kafkalog.open(tmp_path / "logs" / "people-0", "a") as log:
        while written < LOG_MIB * MIB:
            users = random.integers(0, 1000, CHUNK)
            values = [random.bytes(100) for _ in range(CHUNK)]
            keys = [b"user-%d" % user for user in users]
            log.append_records({"key": keys, "value": values}, codec=codec)
            written += CHUNK * 110
    excluded, proved, grown = measured(
        RESTORE, tmp_path / "logs", tmp_path / "copy", filtered
    )
    assert (excluded > 0) == filtered
    assert excluded + proved == log.log_end_offset
    part = f"restore, {codec}{', filtered' if filtered else ''}"
    figure("MiB of memory", part, grown, f"of {MOST_MIB}")
    assert grown <= MOST_MIB
