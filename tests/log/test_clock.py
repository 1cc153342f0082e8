"""Clocks and schedulers: the tasks that run, their times and their order."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from kafkalog.log.clock import ThreadScheduler
from kafkalog.testing import ManualClock, ManualScheduler

PATIENCE_S = 20


def test_tasks_run_in_the_order_in_which_they_are_due_then_of_scheduling():
    clock, done = ManualClock(100), []
    scheduler = ManualScheduler(clock)
    for name, delay in (("c", 5), ("a", 0), ("d", 5), ("b", 0)):
        scheduler.schedule(name, lambda name=name: done.append(name), delay)
    assert scheduler.run_due() == ["a", "b"]
    clock.time_ms = 105
    assert scheduler.run_due() == ["c", "d"]
    assert done == ["a", "b", "c", "d"]


def test_a_task_scheduled_by_a_task_for_now_runs_in_the_same_call():
    scheduler = ManualScheduler(ManualClock())
    scheduler.schedule("first", lambda: scheduler.schedule("second", lambda: None))
    assert scheduler.run_due() == ["first", "second"]


def test_a_periodic_task_that_is_late_runs_once():
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    scheduler.schedule("check", lambda: None, 10, 10)
    clock.time_ms = 57
    assert scheduler.run_due() == ["check"]
    assert [task.due_ms for task in scheduler.pending()] == [60]


def test_a_cancelled_task_is_not_pending_and_does_not_run():
    scheduler = ManualScheduler(ManualClock())
    task = scheduler.schedule("never", lambda: None)
    task.cancel()
    assert not scheduler.pending()
    assert not scheduler.run_due()


def test_a_periodic_task_may_cancel_itself():
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    tasks = []
    tasks.append(scheduler.schedule("once", lambda: tasks[0].cancel(), 0, 1))
    assert scheduler.run_due() == ["once"]
    clock.time_ms = 50
    assert not scheduler.run_due()


def test_nothing_is_left_after_a_shutdown():
    scheduler = ManualScheduler(ManualClock())
    scheduler.schedule("lost", lambda: None)
    scheduler.shutdown()
    assert not scheduler.run_due()


def test_a_thread_runs_a_periodic_task_repeatedly():
    counted, enough = [], threading.Event()

    def count():
        counted.append(threading.current_thread().name)
        if len(counted) == 3:
            enough.set()

    with ThreadScheduler() as scheduler:
        scheduler.schedule("count", count, 0, 1)
        assert enough.wait(PATIENCE_S)
    assert set(counted) == {"kafkalog-scheduler"}


def test_as_many_tasks_run_at_once_as_there_are_threads():
    met, late = threading.Barrier(3), threading.Event()
    with ThreadScheduler(3) as scheduler:
        for _ in range(3):
            scheduler.schedule("meet", lambda: met.wait(PATIENCE_S) or late.set())
        assert late.wait(PATIENCE_S)
    assert not scheduler.errors


def test_a_periodic_task_runs_in_one_thread_at_a_time():
    inside, counted, enough = threading.Lock(), [], threading.Event()

    def count():
        assert inside.acquire(blocking=False)
        time.sleep(0.002)
        inside.release()
        counted.append(1)
        if len(counted) == 10:
            enough.set()

    with ThreadScheduler(4) as scheduler:
        for _ in range(3):
            scheduler.schedule("idle", lambda: None)
        scheduler.schedule("count", count, 0, 1)
        assert enough.wait(PATIENCE_S)
    assert not scheduler.errors


def test_a_shutdown_called_by_a_task_waits_for_the_other_tasks_only():
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()
    scheduler = ThreadScheduler(2)
    scheduler.schedule("work", lambda: begun.set() or may_end.wait(PATIENCE_S))
    scheduler.schedule("stop", lambda: scheduler.shutdown() or ended.set())
    assert begun.wait(PATIENCE_S)
    assert not ended.wait(0.05)
    may_end.set()
    assert ended.wait(PATIENCE_S)


def test_a_task_that_fails_does_not_stop_the_others():
    done = threading.Event()
    with ThreadScheduler() as scheduler:
        scheduler.schedule("fails", lambda: 1 / 0)
        scheduler.schedule("works", done.set)
        assert done.wait(PATIENCE_S)
    assert [type(error) for error in scheduler.errors] == [ZeroDivisionError]


def test_a_shutdown_waits_for_running_tasks():
    begun, may_end, ended = threading.Event(), threading.Event(), []

    def work():
        begun.set()
        may_end.wait(PATIENCE_S)
        ended.append(True)

    scheduler = ThreadScheduler()
    scheduler.schedule("work", work)
    scheduler.schedule("later", lambda: ended.append("later"), 10**9)
    assert begun.wait(PATIENCE_S)
    threading.Timer(0.05, may_end.set).start()
    scheduler.shutdown()
    assert ended == [True]
    assert scheduler.schedule("too late", lambda: None).cancelled


def test_many_threads_schedule_at_once():
    scheduler = ManualScheduler(ManualClock())

    def schedule(number):
        for place in range(500):
            scheduler.schedule("later", lambda: None, (number * 7 + place * 13) % 100)

    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(schedule, range(4)))
    finally:
        sys.setswitchinterval(often)
    assert len(scheduler.pending()) == 2000


def test_a_thread_is_added_only_if_a_task_is_due_and_all_threads_are_busy():
    begun, may_end, done = (threading.Event() for _ in range(3))

    def work():
        begun.set()
        may_end.wait(PATIENCE_S)

    def count():
        names = [thread.name for thread in threading.enumerate()]
        return names.count("kafkalog-scheduler")

    with ThreadScheduler(3) as scheduler:
        for delay_ms in range(60_000, 70_000, 1000):
            scheduler.schedule("later", lambda: None, delay_ms)
        assert count() == 1
        scheduler.schedule("work", work)
        assert begun.wait(PATIENCE_S)
        scheduler.schedule("later", lambda: None, 60_000)
        assert count() == 1
        scheduler.schedule("now", done.set)
        assert done.wait(PATIENCE_S)
        assert count() == 2
        may_end.set()
    assert count() == 0
