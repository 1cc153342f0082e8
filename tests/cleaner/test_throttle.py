"""The throttle sleeps as Kafka's does."""

from kafkalog.cleaner.throttle import Throttle


class Time:
    def __init__(self):
        self.now = 0
        self.naps = []

    def sleep(self, seconds):
        self.naps.append(seconds)
        self.now += round(seconds * 1e9)


def throttled(limit):
    time = Time()
    return time, Throttle(limit, now_ns=lambda: time.now, sleep=time.sleep)


def test_nothing_waits_within_the_first_300_ms():
    time, throttle = throttled(1)
    throttle.count(1000)
    time.now = 300_000_000
    throttle.count(1000)
    assert time.naps == []


def test_more_than_the_limit_waits_until_it_is_the_limit():
    time, throttle = throttled(1000)
    time.now = 400_000_000
    throttle.count(500)
    assert time.naps == [0.1]


def test_the_count_restarts_after_each_window():
    time, throttle = throttled(1000)
    time.now = 400_000_000
    throttle.count(500)
    time.now += 400_000_000
    throttle.count(300)
    assert time.naps == [0.1]


def test_a_limit_that_is_not_reached_does_not_wait():
    time, throttle = throttled(1000)
    time.now = 1_000_000_000
    throttle.count(999)
    assert time.naps == []
