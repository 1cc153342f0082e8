"""Draws the steps of one random scenario."""

from tests.oracle.scenario import T0, Scenario, batch, fill, noise, rec

CODECS = ("none", "none", "none", "gzip", "snappy", "lz4", "zstd")


class Maker:
    """Draws the steps of a scenario, with an estimate of the state of the log."""

    def __init__(self, name, theme, rng, steps):
        self.rng, self.theme, self.step_count = rng, theme, steps
        self.content = theme == "compaction" and rng.random() < 0.15
        self.s = Scenario(
            name,
            f"random steps, theme {theme}",
            theme,
            "content" if self.content else "bytes",
        )
        self.now, self.leo, self.epoch = T0, 0, 0
        self.producers, self.next_producer = (
            {},
            1,
        )  # id -> [epoch, next sequence, in transaction, sent batches]
        self.keys = rng.choice((3, 6, 12))
        self.open = True

    # -- Parts

    def chance(self, p):
        return self.rng.random() < p

    def config(self):
        r = self.rng
        config = {
            "segment.bytes": r.choice((300, 500, 800, 1500)),
            "segment.index.bytes": r.choice((96, 240, 336)),
            "index.interval.bytes": r.choice((0, 100, 200, 400)),
            "file.delete.delay.ms": r.choice((0, 500, 2000)),
        }
        if self.theme in ("epochs", "recovery", "mixed"):
            config["segment.index.bytes"] = (
                336  # enough for the entries of one append or recovery
            )
        if self.theme in ("timestamps", "mixed"):
            config["message.timestamp.type"] = r.choice(("CreateTime", "LogAppendTime"))
            config["segment.ms"] = r.choice((500, 3000, 604800000))
            if self.chance(0.3):
                config["message.timestamp.before.max.ms"] = 3000
                config["message.timestamp.after.max.ms"] = 1000
        if self.theme in ("retention", "mixed"):
            config["retention.ms"] = r.choice((-1, 1000, 5000))
            config["retention.bytes"] = r.choice((-1, 500, 1500))
        if self.theme == "compaction":
            config["cleanup.policy"] = r.choice(
                ("compact", "compact", "compact,delete")
            )
            config["delete.retention.ms"] = r.choice((0, 1000, 3000))
            config["min.compaction.lag.ms"] = r.choice((0, 0, 0, 500))
            config["min.cleanable.dirty.ratio"] = r.choice((0.0, 0.3))
            config["segment.bytes"] = r.choice((400, 800))
        if self.theme == "recovery" and self.chance(0.3):
            config["preallocate"] = True
        return config

    def timestamp(self):
        kind = self.rng.random()
        if kind < 0.7:
            return self.now
        if kind < 0.9:
            return self.now + self.rng.randint(-2000, 900)
        return (
            -1
            if self.theme in ("timestamps", "mixed") and kind > 0.97
            else self.now - 60000
            if kind > 0.95
            else self.now + 5000
        )

    def record(self):
        r = self.rng
        key = f"key{r.randrange(self.keys)}"
        if self.theme != "compaction" and self.chance(0.1):
            key = None
        value = (
            None
            if self.chance(0.2 if self.theme == "compaction" else 0.05)
            else fill(r.randint(0, 120), r.choice(("ab", "xyz", "0123456789")))
            if self.chance(0.7)
            else noise(r.randrange(1 << 30), r.randint(0, 90))
        )
        record = rec(key, value, self.timestamp())
        if self.chance(0.08):
            record["headers"] = [["h", r.choice(("1", None, ""))]]
        return record

    def records(self):
        return [self.record() for _ in range(self.rng.choice((1, 1, 1, 2, 3, 5)))]

    def codec(self):
        if self.theme == "compaction" and not self.content:
            return {}
        codec = self.rng.choice(CODECS)
        return {} if codec == "none" else {"codec": codec}

    # -- Steps

    def append(self):
        records = self.records()
        self.s.append(*records, leader_epoch=self.epoch, **self.codec())
        self.leo += len(records)

    def tick(self):
        ms = self.rng.choice((1, 10, 100, 100, 400, 1000, 2500))
        self.now += ms
        self.s.advance(ms)

    def high_watermark(self):
        self.s.hw(
            "leo" if self.chance(0.8) else f"leo-{self.rng.randint(1, 6)}",
            self.rng.choice((None, None, "leader", "follower")),
        )

    def read(self):
        where = self.rng.choice(
            (
                self.rng.randint(0, self.leo + 1),
                "start",
                "hw",
                "lso",
                "leo",
                f"leo-{self.rng.randint(1, 9)}",
                f"start+{self.rng.randint(0, 5)}",
            )
        )
        self.s.read(
            where,
            isolation=self.rng.choice(("log_end", "high_watermark", "read_committed")),
            max_bytes=self.rng.choice((1, 100, 300, 1000, 100000)),
            min_one_message=self.chance(0.7),
        )

    def look_up(self):
        kind = self.rng.randrange(4)
        if kind == 0:
            self.s.op("offset_for_timestamp", timestamp=self.rng.choice((-1, -2, -3)))
        elif kind == 1:
            self.s.op(
                "offset_for_timestamp",
                timestamp=self.now + self.rng.randint(-5000, 2000),
            )
        elif kind == 2:
            self.s.op("offset_for_epoch", epoch=self.rng.randint(-1, self.epoch + 1))
        else:
            self.s.op("aborted_transactions", **{"from": "start", "to": "leo"})

    def new_epoch(self):
        self.epoch += self.rng.choice((1, 1, 2))
        self.s.become_leader(epoch=self.epoch)

    def follow(self):
        batches, base = (
            [],
            self.leo + (self.rng.randint(1, 20) if self.chance(0.3) else 0),
        )
        if self.chance(0.05):
            base = max(0, base - 2)
        for _ in range(self.rng.choice((1, 1, 2, 3, 5))):
            records = self.records()
            if self.chance(0.15):
                self.epoch += 1
            batches.append(batch(*records, base=base, epoch=self.epoch, **self.codec()))
            base += len(records) + (self.rng.randint(1, 9) if self.chance(0.2) else 0)
        granted = (
            self.epoch + self.rng.choice((0, 0, 0, 1, -1))
            if self.chance(0.3)
            else self.epoch
        )
        self.s.follow(*batches, leader_epoch=max(0, granted))
        self.leo = max(self.leo, base)

    def roll(self):
        self.s.roll()

    def retention(self):
        self.s.retention()

    def delete_records(self):
        self.s.delete_records(
            offset=self.rng.choice(
                (
                    f"start+{self.rng.randint(1, 6)}",
                    "hw",
                    f"hw-{self.rng.randint(1, 5)}",
                    "leo+1",
                )
            )
        )

    def truncate(self):
        kind = self.rng.random()
        if kind < 0.85:
            back = self.rng.choice((0, 1, 1, 2, 3, 5, 9))
            self.s.truncate_to(offset=f"leo-{back}" if back else "leo")
            self.leo = max(0, self.leo - back)
        elif kind < 0.93:
            self.s.truncate_fully(offset=f"leo+{self.rng.randint(0, 5)}")
        else:
            self.s.truncate_to(offset="start")
        self.forget_producers()

    def forget_producers(self):
        """Mostly use new producers from here on: sequences are unknown."""
        if self.chance(0.7):
            self.producers = {}

    def producer(self):
        if not self.producers or (len(self.producers) < 4 and self.chance(0.15)):
            self.producers[self.next_producer] = [0, 0, False, []]
            self.next_producer += self.rng.choice((1, 1, 1, 16))
        return self.rng.choice(sorted(self.producers))

    def idempotent(self, transactional=False):
        pid = self.producer()
        state = self.producers[pid]
        if state[2] and not transactional and not self.chance(0.03):
            transactional = (
                True  # data without the flag is rejected in a transaction: rare
            )
        kind = self.rng.random()
        if kind < 0.12 and state[3]:
            epoch, sequence, records = self.rng.choice(state[3][-7:])
            self.s.append(
                *records,
                producer_id=pid,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=transactional,
                leader_epoch=self.epoch,
            )
            return
        if kind < 0.18:
            self.s.idem(
                pid,
                state[0],
                state[1] + self.rng.choice((1, 2, 50)),
                self.record(),
                leader_epoch=self.epoch,
            )
            return
        if kind < 0.24 and not state[2]:
            state[0], state[1], state[3] = state[0] + 1, 0, []
        elif kind < 0.27:
            self.s.idem(
                pid,
                max(0, state[0] - 1),
                state[1],
                self.record(),
                leader_epoch=self.epoch,
            )
            return
        records = self.records()
        fields = dict(
            producer_id=pid,
            producer_epoch=state[0],
            base_sequence=state[1],
            leader_epoch=self.epoch,
            **self.codec(),
        )
        if transactional:
            fields["transactional"] = True
            state[2] = True
        self.s.append(*records, **fields)
        state[3].append((state[0], state[1], records))
        state[1] += len(records)
        self.leo += len(records)

    def transactional(self):
        self.idempotent(transactional=True)

    def marker(self):
        running = [p for p in sorted(self.producers) if self.producers[p][2]]
        pid = (
            self.rng.choice(running)
            if running and not self.chance(0.08)
            else self.producer()
        )
        state = self.producers[pid]
        epoch = state[0] - 1 if self.chance(0.04) and state[0] else state[0]
        version = 2 if self.chance(0.15) else 0
        if version == 2:
            epoch = state[0] + 1
            state[0], state[1], state[3] = epoch, 0, []
        self.s.marker(
            pid,
            epoch,
            self.rng.choice(("commit", "abort")),
            coordinator=self.rng.choice((0, 0, 0, 1)) if self.chance(0.1) else 1,
            timestamp=self.now,
            transaction_version=version,
            leader_epoch=self.epoch,
        )
        state[2] = False
        self.leo += 1

    def compact(self):
        more = {}
        if self.chance(0.25):
            more = {
                "dedupe_buffer_size": 24 * self.rng.choice((3, 5, 9)),
                "load_factor": 0.9,
            }
        if self.chance(0.2):
            more["if_dirty_enough"] = True
        if self.chance(0.2):
            more["io_buffer_size"] = self.rng.choice((64, 200, 500))
        self.s.hw()
        if self.chance(0.5):
            self.s.roll()
            self.append()
            self.s.hw()
        self.s.compact(**more)

    def restart(self):
        if self.chance(0.4):
            self.s.close(checkpoints=True if self.chance(0.3) else None)
            self.s.open()
        else:
            self.s.crash()
            self.hurt()
            recovery_point = {} if self.chance(0.6) else {"recovery_point": 0}
            self.s.open(**recovery_point)
        if self.chance(0.7):
            self.s.hw()
        self.s.producers()
        self.forget_producers()

    def hurt(self):
        if self.theme not in ("recovery", "mixed"):
            return
        for _ in range(self.rng.choice((0, 1, 1, 2))):
            r = self.rng
            kind = r.randrange(8)
            nth = r.choice((-1, -1, -1, -2, 0))
            if kind <= 1:
                self.s.op(
                    "damage",
                    nth=nth,
                    suffix="log",
                    action="truncate",
                    to_permille=r.randrange(1000),
                )
            elif kind == 2:
                self.s.op(
                    "damage",
                    nth=nth,
                    suffix="log",
                    action="xor",
                    at_permille=r.randrange(1000),
                    mask=1 << r.randrange(8),
                )
            elif kind == 3:
                self.s.op(
                    "damage",
                    nth=-1,
                    suffix="log",
                    action="append",
                    hex="00" * r.choice((5, 40)) if self.chance(0.5) else "5a" * 30,
                )
            elif kind == 4:
                self.s.op(
                    "damage",
                    nth=nth,
                    suffix=r.choice(("index", "timeindex")),
                    action="delete",
                )
            elif kind == 5:
                self.s.op(
                    "damage",
                    nth=nth,
                    suffix="snapshot",
                    action=r.choice(("delete", "xor")),
                    at_permille=500,
                )
            elif kind == 6:
                self.s.op(
                    "damage",
                    nth=nth,
                    suffix=r.choice(("index", "timeindex")),
                    action="truncate",
                    to_permille=r.choice((0, 500)),
                )
            else:
                self.s.op(
                    "damage",
                    file="leader-epoch-checkpoint",
                    action="create",
                    text="0\n0\n",
                )
