"""A small writer of scenario files."""

import json
from pathlib import Path

T0 = 1_700_000_000_000  # the clock of a scenario starts here unless it says otherwise

# small on purpose, so that a few records are enough to roll and to fill indexes
CONFIG = {
    "segment.bytes": 1000,
    "segment.index.bytes": 240,
    "index.interval.bytes": 150,
    "file.delete.delay.ms": 1000,
    "retention.ms": -1,
    "message.timestamp.after.max.ms": 9223372036854775807,
}


def rec(key, value, timestamp=None, **more):
    record = {"key": key, "value": value}
    if timestamp is not None:
        record["timestamp"] = timestamp
    record.update(more)
    return record


def fill(size, pattern="abcdefgh"):
    return {"fill": pattern, "size": size}


def noise(seed, size):
    return {"random": seed, "size": size}


class Scenario:
    """Steps in order. Every method adds one step and returns the scenario."""

    def __init__(self, name, why, theme, compare="bytes"):
        self.name = name
        self.head = {"scenario": name, "theme": theme, "why": why, "compare": compare}
        self.steps = []
        self.opened = False

    def op(self, name, **fields):
        self.steps.append(
            {"op": name, **{k: v for k, v in fields.items() if v is not None}}
        )
        return self

    def open(self, config=None, now=T0, **more):
        """Open the log: first with CONFIG and changes, later with the same settings."""
        if not self.opened:
            self.opened = True
            merged = {**CONFIG, **(config or {})}
            more = {
                "topic": "t",
                "partition": 0,
                "now": now,
                **more,
                "config": {k: v for k, v in merged.items() if v is not None},
            }
        elif config:
            more["config"] = config
        return self.op("open", **more)

    def append(self, *records, **more):
        """Append one batch; leader_epoch, origin and the like belong to the step."""
        step = {
            k: more.pop(k)
            for k in (
                "leader_epoch",
                "origin",
                "transaction_version",
                "record_version",
                "verified_producer",
                "tail",
            )
            if k in more
        }
        return self.op("append", **step, batches=[{**more, "records": list(records)}])

    def txn(self, producer, epoch, sequence, *records, **more):
        return self.append(
            *records,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
            **more,
        )

    def idem(self, producer, epoch, sequence, *records, **more):
        return self.append(
            *records,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            **more,
        )

    def marker(self, producer, epoch, kind, coordinator=0, **more):
        return self.op(
            "marker",
            producer_id=producer,
            producer_epoch=epoch,
            type=kind,
            coordinator_epoch=coordinator,
            **more,
        )

    def follow(self, *batches, leader_epoch=0, **more):
        return self.op(
            "append_follower", leader_epoch=leader_epoch, batches=list(batches), **more
        )

    def hw(self, offset="leo", how=None):
        return self.op("high_watermark", offset=offset, how=how)

    def advance(self, ms):
        return self.op("advance", ms=ms)

    def damage(self, file, action, **more):
        return self.op("damage", file=file, action=action, **more)

    def read(self, offset, **more):
        return self.op("read", offset=offset, **more)

    def __getattr__(self, name):
        """Return a function that adds a step: close, crash, roll, flush, tree ..."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda **fields: self.op(name, **fields)

    def write(self, folder):
        lines = [self.head, *self.steps]
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{self.name}.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines)
        )


def batch(*records, base, epoch=0, **more):
    """Return a batch with offsets, for a follower."""
    return {
        "base_offset": base,
        "leader_epoch": epoch,
        **more,
        "records": list(records),
    }


def seg(offset, suffix="log"):
    return f"{offset:020d}.{suffix}"
