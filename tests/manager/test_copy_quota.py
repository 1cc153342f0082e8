"""The limit of copied bytes is that of Kafka's quota of moves."""

import pytest

from kafkalog.manager.moving import CopyQuota

LIMIT, WINDOWS, WINDOW_MS = 1239, 6, 2000
KAFKAS = """
    0:1023 203:2434 735:1808! 978:-! 1608:-! 1755:2130! 2182:-! 2486:-! 3182:1679!
    3272:-! 3830:-! 4187:-! 4457:-! 4735:-! 16331:980 16525:489 16869:0 17179:135
    23333:1225 23620:0 24229:683 24680:2049 24982:1817 25469:0 26025:1073 29585:168
    29835:1058 29877:702 29976:-! 30237:-! 30595:1852 30956:-! 31150:145! 31299:-!
    31333:825! 31751:-! 32348:-! 32974:926 33479:0 47261:2343 47266:0 47678:2190
    47915:-! 48362:-! 48381:-! 49003:-! 49675:440! 49988:-! 50159:-! 50221:-!
    68060:1525 68522:0 83157:524 99916:2465 99980:438 100278:-! 110667:1733 111294:0
    111921:2382 112576:-! 113250:-! 113615:-! 114063:870 114685:-! 115119:1418
    115540:-! 115793:-! 115993:1556 116655:-! 121506:0 121544:1090 122136:209
    122787:1569 123407:1736 123668:2490 123677:2136 124317:996 124593:-! 125087:-!
    125409:-! 125850:1904 125904:-! 126188:1517! 126238:-! 126645:-! 129375:-!
    130016:-! 140569:1930 141179:1667 141308:2448 142992:-! 143465:-!
"""
"""Each time in ms, the bytes copied then, and ``!`` if the limit was exceeded before.

Printed by Kafka's 4.3.1 ``ReplicationQuotaManager`` for random times and sizes; ``-``
is a check only.
"""


class Time:
    now = 0

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


def test_the_limit_is_exceeded_when_kafkas_is(time):
    quota = CopyQuota(LIMIT, time, windows=WINDOWS, window_ms=WINDOW_MS)
    for step in KAFKAS.split():
        at, size = step.rstrip("!").split(":")
        time.now = int(at)
        assert quota.is_exceeded == step.endswith("!"), step
        if size != "-":
            quota.count(int(size))


def test_the_first_window_counts_in_full(time):
    quota = CopyQuota(1000, time)
    quota.count(1500)
    for time.now in (0, 999, 1499):
        assert quota.is_exceeded
    time.now = 1500
    assert not quota.is_exceeded


def test_a_rate_equal_to_the_limit_is_allowed(time):
    quota = CopyQuota(1000, time)
    quota.count(1000)
    assert not quota.is_exceeded
    quota.count(1)
    assert quota.is_exceeded


def test_bytes_are_forgotten_after_all_windows(time):
    quota = CopyQuota(1, time, windows=3, window_ms=500)
    quota.count(10**6)
    time.now = 1499
    assert quota.is_exceeded
    time.now = 1500
    assert not quota.is_exceeded
