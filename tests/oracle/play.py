"""The player of scenarios, with the same output as the player over Kafka's engine.

    python -m tests.oracle.play SCENARIO OUTDIR        results to stdout, JSON Lines
    python -m tests.oracle.play SCENARIODIR OUTROOT    OUTROOT/NAME.results.jsonl, NAME/

It maps steps to calls, and results to JSON in the form of ``README.md``. It implements
no rule of Kafka, and imports only public names and `kafkalog.testing`.
"""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from kafkalog import BrokerConfig, KafkaLogError, LogConfig, WritableLog
from kafkalog.cleaner import LogCleaner
from kafkalog.testing import (
    ManualClock,
    ManualScheduler,
    open_log,
    write_checkpoints,
    write_clean_shutdown,
)
from tests.oracle.files import MtimeStamper, damage, set_modified, tree
from tests.oracle.steps import (
    STEPS,
    AlreadyOpen,
    NotOpen,
    append_chunk,
    describe,
    options_of,
)

Step = dict[str, Any]
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
BROKER = {
    "max_transaction_timeout_ms": "transaction.max.timeout.ms",
    "producer_id_expiration_ms": "producer.id.expiration.ms",
    "producer_id_expiration_check_interval_ms": (
        "producer.id.expiration.check.interval.ms"
    ),
    "transaction_verification": "transaction.partition.verification.enable",
}
NOT_KEPT = ("op", "now", "clean", "log_start_offset", "recovery_point")


class Player:
    """One log directory with one log, and the state that is kept while it is closed."""

    def __init__(self, root: Path, opening: Step) -> None:
        self.root = root
        self.settings = {key: opening[key] for key in ("topic", "partition")}
        self.directory = root / f"{opening['topic']}-{opening['partition']}"
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.stamper = MtimeStamper(root)
        self.guards: dict[int, int] = {}
        self.entries_at_crash: dict[Path, int] = {}
        self.last = {"log_start_offset": 0, "recovery_point": 0}
        self.clean = True
        self.leader_epoch = 0
        self.state: Any = None
        self._log: WritableLog | None = None
        self.cleaner: LogCleaner | None = None

    def play(self, number: int, step: Step) -> Step:
        """Play one step and return its line of the results."""
        line: Step = {"step": number, "op": step["op"]}
        self.stamper.begin()
        try:
            line["result"] = self.perform(step)
        except (KafkaLogError, AlreadyOpen, NotOpen, OSError) as error:
            line |= describe(error)
        self.settle(line)
        return line

    def play_chunk(self, number: int, steps: list[Step]) -> list[Step]:
        """Append in one call what several steps append; the last has the state."""
        self.stamper.begin()
        lines = [
            {"step": at, "op": step["op"]} | line
            for at, (step, line) in enumerate(
                zip(steps, append_chunk(self, steps), strict=True), number
            )
        ]
        self.settle(lines[-1])
        return lines

    def settle(self, line: Step) -> None:
        """Run what is due after a step, and add the log's new state to its line."""
        by_itself = self.settings.get("tasks", "auto") == "auto"
        if self._log is not None and by_itself and (ran := self.scheduler.run_due()):
            line["ran"] = ran
        state = self.describe_state()
        if state != self.state or line["step"] == 1:
            line["state"] = self.state = state
        self.stamper.stamp(self.clock.time_ms)

    def perform(self, step: Step) -> Any:
        """Perform a step and return its result."""
        if step["op"] in STEPS:
            return STEPS[step["op"]](self, step)
        return getattr(self, f"do_{step['op']}")(step)

    @property
    def log(self) -> WritableLog:
        """The log, open."""
        if self._log is None:
            raise NotOpen
        return self._log

    @property
    def is_open(self) -> bool:
        """Whether the log is open."""
        return self._log is not None

    @property
    def logs(self) -> dict[tuple[str, int], WritableLog]:
        """The log by topic and partition; none if it is closed."""
        return (
            {}
            if self._log is None
            else {(self.log.topic, self.log.partition): self.log}
        )

    def offset(self, step: Step, field: str = "offset") -> int:
        """Return the offset in a step: a number, or a name plus a number."""
        value = step[field]
        if isinstance(value, int):
            return value
        name, sign, number = value, "", "0"
        for sign in ("+", "-"):
            if sign in value:
                name, _, number = value.partition(sign)
                break
        log = self.log
        base = {
            "leo": lambda: log.log_end_offset,
            "hw": lambda: log.high_watermark,
            "lso": lambda: log.last_stable_offset,
            "start": lambda: log.log_start_offset,
            "recovery_point": lambda: log.recovery_point,
            "active": lambda: log.growing_segments[-1].base_offset,
        }[name]()
        return base - int(number) if sign == "-" else base + int(number)

    def describe_state(self) -> Any:
        """Return the state of the log; None if it is closed."""
        if self._log is None:
            return None
        log = self._log
        tasks: dict[tuple[str, int], int] = {}
        for task in self.scheduler.pending():
            if task.period_ms < 0:
                key = (task.name, task.due_ms)
                tasks[key] = tasks.get(key, 0) + 1
        return {
            "log_start_offset": log.log_start_offset,
            "log_end_offset": log.log_end_offset,
            "high_watermark": log.high_watermark,
            "last_stable_offset": log.last_stable_offset,
            "recovery_point": log.recovery_point,
            "segments": [
                [each.base_offset, each.size] for each in log.growing_segments
            ],
            "epochs": [list(entry) for entry in log.leader_epochs],
            "producers": len(log.producers),
            "tasks": [[*task, count] for task, count in tasks.items()],
        }

    # Opening and closing

    def do_open(self, step: Step) -> Step:
        if self.is_open:
            raise AlreadyOpen
        self.settings |= {key: step[key] for key in step if key not in NOT_KEPT}
        self.clock.time_ms = step.get("now", self.clock.time_ms)
        self.leader_epoch = step.get("leader_epoch", self.leader_epoch)
        clean = step.get("clean", self.clean)
        for field, value in self.last.items():
            stated = step.get(field, "last")
            self.last[field] = value if stated == "last" else stated
        (self.root / CLEAN_SHUTDOWN).unlink(missing_ok=True)
        self.scheduler = ManualScheduler(self.clock)
        self.guards, self.entries_at_crash, self.clean = {}, {}, False
        try:
            self._log = open_log(
                self.directory,
                self.config(),
                broker=self.broker(),
                clean=clean,
                topic_id=self.settings.get("topic_id"),
                clock=self.clock,
                scheduler=self.scheduler,
                **self.last,
            )
        finally:
            if self._log is None:
                self.scheduler.shutdown()
        used = {f"asked_{field}": value for field, value in self.last.items()}
        return {"clean": clean, **used}

    def config(self) -> LogConfig:
        values = dict(self.settings.get("config", {}))
        if "segment.bytes" in values:
            values["internal.segment.bytes"] = values.pop("segment.bytes")
        return LogConfig.from_properties(values)

    def broker(self) -> BrokerConfig:
        verified = self.settings.get("transaction_verification", False)
        values = self.settings | {"transaction_verification": verified}
        settings = {BROKER[key]: values[key] for key in BROKER if key in values}
        return BrokerConfig.from_properties(settings)

    def do_close(self, step: Step) -> Step:
        log = self.log
        if step.get("flush", True):
            log.flush(include_active=True)
        self.forget(clean=True)
        log.close()
        if step.get("checkpoints", False):
            write_checkpoints(self.root, [log])
            epoch = step.get("broker_epoch", -1)
            write_clean_shutdown(self.root, epoch)
        return {}

    def do_crash(self, step: Step) -> Step:
        log = self.log
        self.entries_at_crash = self.index_entries()
        self.forget(clean=False)
        log.abandon()
        return {}

    def forget(self, *, clean: bool) -> None:
        log, self._log = self.log, None
        self.last["log_start_offset"] = log.log_start_offset
        self.last["recovery_point"] = log.recovery_point
        self.clean = clean
        self.scheduler.shutdown()

    def do_delete_log(self, step: Step) -> Step:
        log = self.log
        log.delete()
        self.forget(clean=True)
        self.last = dict.fromkeys(self.last, 0)
        return {}

    def do_checkpoints(self, step: Step) -> Step:
        write_checkpoints(self.root, [self.log])
        return {}

    def do_damage(self, step: Step) -> Any:
        return damage(step, self.directory)

    def do_set_mtime(self, step: Step) -> Step:
        set_modified(self.directory / step["file"], step["to"])
        return {}

    def do_tree(self, step: Step) -> list[Step]:
        return tree(self.root, self.index_entries())

    def index_entries(self) -> dict[Path, int]:
        """Return the number of entries of each index file."""
        if self._log is None:
            return self.entries_at_crash
        indexes = [
            index
            for segment in self._log.growing_segments
            for index in (segment.offset_index, segment.time_index)
            if index.path.exists()
        ]
        return {index.path: index.entry_count for index in indexes}

    # Time

    def do_advance(self, step: Step) -> Step:
        self.clock.time_ms += step["ms"]
        return {"now": self.clock.time_ms}

    def do_set_time(self, step: Step) -> Step:
        self.clock.time_ms = step["now"]
        return {"now": self.clock.time_ms}

    def do_run_tasks(self, step: Step) -> list[str]:
        return self.scheduler.run_due()


def play(scenario: Path, root: Path, *, chunked: bool = False) -> list[Step]:
    """Play a scenario into an empty directory and return its results.

    If `chunked`, consecutive appends of a leader, of a follower, or of markers, with
    equal options, are one call.
    """
    root.mkdir(parents=True, exist_ok=True)
    lines = scenario.read_text(encoding="utf-8").splitlines()
    steps = [step for line in lines if "op" in (step := json.loads(line))]
    opening = next(step for step in steps if step["op"] == "open")
    player = Player(root.resolve(), opening)
    results: list[Step] = []
    for options, group in groupby(
        steps, lambda step: options_of(step) if chunked else None
    ):
        same = list(group)
        if options is not None and len(same) > 1 and player.is_open:
            results += player.play_chunk(len(results) + 1, same)
        else:
            results += [
                player.play(number, step)
                for number, step in enumerate(same, len(results) + 1)
            ]
    if player.is_open:
        results.append(player.play(len(steps) + 1, {"op": "crash"}))
    return results


def main(scenario: Path, out: Path) -> None:
    """Play one scenario, or all scenarios of a directory."""
    if scenario.is_file():
        for line in play(scenario, out):
            print(json.dumps(line))
        return
    for path in sorted(scenario.glob("*.jsonl")):
        try:
            lines = play(path, out / path.stem)
        except Exception as error:
            raise RuntimeError(path.stem) from error
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (out / f"{path.stem}.results.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
