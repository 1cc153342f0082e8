"""Draws the steps of a scenario with more faults than a broker usually meets.

Tiny segments and indexes, all record formats, settings that change, clocks that go
back, patched batches, and files that are damaged, misnamed or of other segments.
"""

from tests.oracle.scenario import batch, fill, rec, seg
from tests.oracle.scenario_maker import Maker

KINDS = ("log", "log", "index", "timeindex", "txnindex", "snapshot")
FAR = 1 << 31
ODD_NAMES = (
    *("1.log", "7.index", "7.timeindex", "x.log", "abc.snapshot", "+3.log"),
    *("00000000000000000003.log.tmp", ".log", "1.2.log", "3.snapshot", "1.txnindex"),
    *("00000000000000000002.snapshot", "00000000000000000004.snapshot.deleted"),
    *("99999999999999999999.log", "1.cleaned", "x.cleaned"),
    *("x.swap", "00000000000000000002.index.swap", "x.deleted", "5.snapshot.cleaned"),
    *("00000000000000000005-0000000001.checkpoint", "00000000000000000900.timeindex"),
    *("00000000000000000002.txnindex.swap", "leader-epoch-checkpoint.tmp", " 1.log"),
    *("00000000000000000001.log.cleaned", "00000000000000000001.timeindex.cleaned"),
    *("00000000000000000005-0000000001.checkpoint.deleted", "0x1.log", "1log"),
)
EPOCH_TEXTS = (
    *("", "0\n", "0\n0\n", "0\n1\n0 0\n", "0\n2\n0 0\n", "1\n0\n", "0\n1\n5 3\n"),
    *("0\n2\n3 0\n1 5\n", "0\n2\n1 5\n3 2\n", "0\n1\n-1 0\n", "0\n1\n0 x\n", "x"),
    *("0\n2\n0 0\n1 90000\n", "0\n1\n0 0\n1 3\n", "0\n2\n0 0\n0 4\n", "0\n-1\n"),
)
METADATA_TEXTS = (
    *("", "version: 0\n", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAZQ\n"),
    *("version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAZQ\n", "x\n", "version: x\n"),
    *("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n", "\n", "version: 0\ntopic_id\n"),
)
CONFIGS = {
    "segment.bytes": (100, 200, 300, 500, 800, 1500),
    "segment.index.bytes": (8, 12, 24, 36, 60, 96, 240, 336),
    "index.interval.bytes": (0, 1, 100, 200, 400),
    "file.delete.delay.ms": (0, 500, 2000),
    "segment.ms": (1, 500, 3000, 604800000),
    "retention.ms": (-1, 0, 1000, 5000),
    "retention.bytes": (-1, 0, 300, 500, 1500),
    "message.timestamp.type": ("CreateTime", "CreateTime", "LogAppendTime"),
    "message.timestamp.before.max.ms": (1000, 9223372036854775807),
    "message.timestamp.after.max.ms": (1000, 9223372036854775807),
    "max.message.bytes": (150, 300, 1048588),
    "preallocate": (False, False, True),
    "flush.messages": (1, 3, 9223372036854775807),
    "cleanup.policy": ("delete", "delete", "compact", "compact,delete"),
    "compression.type": ("producer", "producer", "uncompressed"),
}


class WildMaker(Maker):
    """Draws the steps of a scenario; its theme makes some steps more frequent."""

    def config(self):
        config = {}
        for name, values in CONFIGS.items():
            if self.chance(0.35) or name.startswith(("segment.", "index.")):
                config[name] = self.rng.choice(values)
        if self.theme != "wild-index":
            config["segment.index.bytes"] = max(96, config["segment.index.bytes"])
        if self.theme != "wild-append":
            config.pop("cleanup.policy", None)
        return config

    def change(self):
        config = self.config()
        names = self.rng.sample(sorted(config), min(len(config), 2))
        self.s.update_config(config={name: config[name] for name in names})

    def clock_step(self):
        self.now += self.rng.choice((-100000, -3000, -1, 1, 3000, 700000, 90000000))
        self.s.set_time(now=self.now)

    # Appending

    def formatted(self):
        """Return a batch of any format, perhaps with its own offsets."""
        r, fields = self.rng, self.codec()
        records = self.records()
        magic = r.choice((0, 1, 2, 2, 2))
        if magic < 2:
            fields["magic"] = magic
            if fields.get("codec") == "zstd":
                del fields["codec"]
            for record in records:
                record.pop("headers", None)
                if magic == 0:
                    record["timestamp"] = -1
        if magic and self.chance(0.1):
            fields |= {"timestamp_type": "LogAppendTime", "log_append_time": self.now}
        if self.chance(0.05):
            fields["base_offset"] = r.randint(1, 9)
        if magic == 2 and self.chance(0.05):
            fields["last_offset"] = fields.get("base_offset", 0) + r.randint(0, 9)
        return {**fields, "records": records}

    def format(self):
        batches = [self.formatted() for _ in range(self.rng.choice((1, 1, 1, 2)))]
        fields = {}
        if self.chance(0.1):
            fields["tail"] = self.rng.choice(("00", "00" * 12, "00" * 11 + "40", "ff"))
        if self.chance(0.15):
            fields["origin"] = self.rng.choice(
                ("coordinator", "replication", "raft_leader")
            )
        for entry in batches:
            self.keep_uncompressed(entry, rebuilt="origin" in fields)
        self.s.op("append", batches=batches, leader_epoch=self.epoch, **fields)
        self.leo += sum(len(entry["records"]) for entry in batches)

    def keep_uncompressed(self, entry, *, rebuilt=False):
        """Remove the codec of batches to rebuild: the output of compressors differs."""
        if rebuilt or entry.get("magic", 2) < 2:
            entry.pop("codec", None)

    def patched(self):
        """Append an invalid batch."""
        entry = self.formatted()
        entry["patch"] = [self.patch(entry) for _ in range(self.rng.choice((1, 1, 2)))]
        if entry.get("magic", 2) == 2 and self.chance(0.8):
            entry["recrc"] = True
        if self.chance(0.4):
            entry |= {"base_offset": self.leo, "leader_epoch": self.epoch}
            self.s.follow(entry, leader_epoch=self.epoch)
        else:
            self.keep_uncompressed(entry)
            self.s.op("append", batches=[entry], leader_epoch=self.epoch)

    def patch(self, entry):
        r = self.rng
        at = r.choice((0, 7, 8, 11, 15, 16, 17, 21, 22, 26, 27, 34, 35, 42, 43, 50, 51))
        at = r.choice((at, at, 53, 57, 60, 61, 62, 63, 64, 65, 66, 67, -1, -2, -3))
        if entry.get("magic", 2) < 2:
            at = min(at, 21)
        return {"at": at, "hex": r.choice(("00", "01", "02", "7f", "80", "ff", "10"))}

    def follow_much(self):
        """Append batches of all kinds as a follower, some of which are rejected."""
        r, batches, base = self.rng, [], self.leo
        for _ in range(r.choice((1, 2, 3, 6, 12))):
            base += r.choice((0, 0, 0, 0, 1, 7, 300))
            if self.chance(0.03):
                base = max(0, base - r.randint(1, 9))
            self.epoch += self.chance(0.12)
            entry = self.formatted()
            entry |= {"base_offset": base, "leader_epoch": self.epoch}
            if self.chance(0.15):
                entry = self.control(base)
            if self.chance(0.04):
                entry["patch"] = [self.patch(entry)]
                entry["recrc"] = self.chance(0.5) and entry.get("magic", 2) == 2
            last = base + len(entry.get("records", (1,))) - 1
            if "last_offset" in entry:
                entry["last_offset"] = last = last + r.randint(0, 4)
            batches.append(entry)
            base = last + 1
        tail = "00" * r.choice((1, 12, 17, 30)) if self.chance(0.1) else None
        granted = max(0, self.epoch + r.choice((0, 0, 0, 0, 1, -1)))
        self.s.follow(*batches, leader_epoch=granted, tail=tail)
        self.leo = max(self.leo, base)

    def control(self, base):
        return {
            "control": self.rng.choice(("commit", "abort")),
            "base_offset": base,
            "leader_epoch": self.epoch,
            "producer_id": self.rng.randint(1, 4),
            "producer_epoch": self.rng.choice((0, 0, 1)),
            "coordinator_epoch": self.rng.choice((0, 0, 1)),
            "timestamp": self.now,
        }

    def follow_transaction(self):
        """Append as a follower for a producer, perhaps in a transaction."""
        r = self.rng
        entry = batch(
            *self.records(),
            base=self.leo,
            epoch=self.epoch,
            producer_id=r.randint(1, 4),
            producer_epoch=r.choice((0, 0, 0, 1)),
            base_sequence=r.choice((0, 0, 1, 3, 2147483647)),
            transactional=self.chance(0.6),
        )
        self.leo += len(entry["records"])
        end = [self.control(self.leo)] if self.chance(0.4) else []
        self.leo += len(end)
        self.s.follow(entry, *end, leader_epoch=self.epoch)

    # Producers

    def verify(self):
        pid = self.producer()
        state = self.producers[pid]
        sequence = state[1] if self.chance(0.8) else self.rng.randint(0, 3)
        self.s.start_verification(
            producer_id=pid,
            sequence=sequence,
            epoch=state[0],
            supports_epoch_bump=self.chance(0.3),
        )
        if self.chance(0.7):
            records = self.records()
            self.s.append(
                *records,
                producer_id=pid,
                producer_epoch=state[0],
                base_sequence=sequence,
                transactional=True,
                leader_epoch=self.epoch,
                verified_producer=pid if self.chance(0.8) else None,
                transaction_version=self.rng.choice((None, 0, 1, 2)),
            )
            state[1], state[2] = state[1] + len(records), True
            self.leo += len(records)

    def odd_marker(self):
        pid = self.rng.choice((self.producer(), self.rng.randint(1, 9)))
        state = self.producers.get(pid, [0, 0, False, []])
        self.s.marker(
            pid,
            max(0, state[0] + self.rng.choice((-1, 0, 0, 1, 2))),
            self.rng.choice(("commit", "abort")),
            coordinator=self.rng.choice((0, 0, 1, 2)),
            timestamp=self.now + self.rng.choice((0, 0, -5000, 5000)),
            transaction_version=self.rng.choice((0, 1, 2)),
            leader_epoch=self.epoch,
        )
        state[2] = False
        self.leo += 1

    def wrap(self):
        """Append sequences around the greatest entry."""
        pid, sequence = 77, 2147483645
        for _ in range(2):
            records = self.records()
            self.s.idem(
                *(pid, 0, sequence % (1 << 31)), *records, leader_epoch=self.epoch
            )
            sequence += len(records)
            self.leo += len(records)

    # Lookups

    def ask(self):
        r = self.rng
        times = (-1, -2, -3, -4, -5, -6, -7, 0, 1, self.now, self.now - 1)
        self.s.op("offset_for_timestamp", timestamp=r.choice(times))
        if self.chance(0.3):
            self.s.op("offset_for_epoch", epoch=r.choice((-1, 0, 1, self.epoch, 99)))
        if self.chance(0.3):
            far = {
                "from": r.choice(("start", "start+2", 0)),
                "to": r.choice((3, "leo")),
            }
            self.s.op("aborted_transactions", **far)
        if self.chance(0.2):
            self.s.segments()

    def cut(self):
        r = self.rng
        where = r.choice(("start", "start+1", "hw", "lso", "active", "active"))
        if self.chance(0.7):
            self.s.truncate_to(offset=where)
        else:
            start = r.choice((None, None, "start", "leo+1"))
            self.s.truncate_fully(offset=where, log_start_offset=start)
        self.leo = max(0, self.leo - 1)
        self.forget_producers()

    def push_start(self):
        self.s.hw()
        self.s.delete_records(offset=self.rng.choice(("hw", "active", "active+1")))
        if self.chance(0.5):
            self.s.retention()

    def roll_far(self):
        self.s.roll(offset=f"leo+{self.rng.choice((0, 1, 5))}")

    def run_tasks(self):
        self.s.run_tasks()

    def keep(self):
        getattr(
            self.s, self.rng.choice(("flush", "checkpoints", "producer_snapshot"))
        )()
        if self.chance(0.3):
            self.s.flush(offset=self.rng.choice(("leo", "leo-1", "active")))
        if self.chance(0.2):
            self.s.flush(active=True)

    # Restarting

    def restart(self):
        r = self.rng
        if self.chance(0.3):
            self.s.close(flush=self.chance(0.8), checkpoints=self.chance(0.3))
            hurts = 0.3
        else:
            self.s.crash()
            hurts = 0.8
        while self.chance(hurts):
            self.hurt()
            hurts *= 0.6
        fields = {}
        if self.chance(0.4):
            fields["recovery_point"] = r.choice((0, 0, 3, self.leo // 2, self.leo + 5))
        if self.chance(0.15):
            fields["log_start_offset"] = r.choice((0, 2, self.leo // 2, self.leo + 3))
        if self.chance(0.1):
            fields["clean"] = self.chance(0.5)
        first = self.s.steps[0]["config"]
        changed = {**first, **self.config()} if self.chance(0.1) else None
        self.s.open(changed, **fields)
        if self.chance(0.3):
            self.s.open()
        if self.chance(0.7):
            self.s.hw()
        self.s.producers()
        if self.chance(0.5):
            self.s.segments()
        self.forget_producers()

    def hurt(self):
        r = self.rng
        if self.theme == "wild-odd":
            self.hurt_by_name()
            return
        kind = r.choice(KINDS)
        place = {"nth": r.choice((-1, -1, -2, 0, 1)), "suffix": kind}
        action = r.choice(("xor", "xor", "truncate", "truncate", "append", "delete"))
        if kind == "log" and action == "delete":
            action = "truncate"
        more = {}
        if action == "xor":
            more = {"at_permille": r.randrange(1000), "mask": 1 << r.randrange(8)}
        elif action == "truncate":
            to = r.choice((0, -1, -10, -12, -34, 5, 14, 30))
            more = (
                {"to_permille": r.randrange(1000)} if self.chance(0.5) else {"to": to}
            )
        elif action == "append":
            more = self.stray_bytes(kind)
        self.s.op("damage", action=action, **place, **more)

    def stray_bytes(self, kind):
        if kind != "log" or self.chance(0.3):
            return {"hex": self.rng.choice(("00" * 5, "00" * 40, "5a" * 30, "ff" * 34))}
        base = max(0, self.leo + self.rng.choice((0, 0, 0, 3, -2, FAR)))
        return {"batches": self.batches_from(base)}

    def batches_from(self, base):
        batches = []
        for _ in range(self.rng.choice((1, 1, 2, 4))):
            entry = {
                **self.formatted(),
                "base_offset": base,
                "leader_epoch": self.epoch,
            }
            entry.pop("last_offset", None)
            if self.chance(0.15):
                entry |= {"producer_id": 3, "producer_epoch": 0, "base_sequence": 0}
                entry |= {"transactional": True, "magic": 2}
            elif self.chance(0.15):
                entry = self.control(base)
            batches.append(entry)
            base += len(entry.get("records", (1,)))
            if self.chance(0.05):
                base += FAR
        return batches

    def hurt_by_name(self):
        r, kind = self.rng, self.rng.randrange(6)
        if kind == 0:
            name = r.choice(ODD_NAMES)
            content = {"text": "x"} if self.chance(0.5) else {"hex": ""}
            if ".log" in name and self.chance(0.5):
                content = {"batches": self.batches_from(self.leo)}
            self.s.damage(name, "create", **content)
        elif kind == 1:
            text = r.choice(EPOCH_TEXTS)
            self.s.damage("leader-epoch-checkpoint", "create", text=text)
        elif kind == 2:
            text = r.choice(METADATA_TEXTS)
            self.s.damage("partition.metadata", "create", text=text)
        elif kind == 3:
            base = r.randint(0, self.leo + 2)
            mark = r.choice((".swap", ".swap", ".cleaned", ".deleted"))
            batches = self.batches_from(base)
            self.s.damage(seg(base) + mark, "create", batches=batches)
        elif kind == 4:
            base = r.randint(0, self.leo + 2)
            suffix = r.choice(("index", "timeindex", "txnindex", "snapshot"))
            text = r.choice(("", "0102", "00" * 12, "00" * 34))
            self.s.damage(seg(base, suffix), "create", hex=text)
        else:
            base = self.leo + r.choice((0, 1, 40))
            self.s.damage(seg(base), "create", batches=self.batches_from(base))

    def big(self):
        """Append more than the limit of a segment or batch."""
        value = fill(self.rng.choice((90, 150, 290, 700)))
        self.s.append(rec("big", value, self.now), leader_epoch=self.epoch)
