"""Random operations over three log directories, compared with a model.

The model has the batches of each partition. Moves are started, advanced and aborted;
managers are closed, abandoned and opened again.
"""

from random import Random

import pytest

from kafkalog import LogConfig
from tests.manager.managing import batch, manage
from tests.manager.test_moving import content, finish

CONFIG = LogConfig(internal_segment_bytes=2000, file_delete_delay_ms=0)
NAMES = [("orders", 0), ("orders", 1), ("clicks", 0)]
STEPS = 60


class Model:
    """The batches of each partition, next to a manager of the same partitions."""

    def __init__(self, directories, random):
        self.directories = directories
        self.random = random
        self.batches = {}
        self.manager = manage(*directories, config=CONFIG)

    def step(self):
        name = self.random.choice(NAMES)
        exists = name in self.batches
        match self.random.randrange(12):
            case 0 if exists:
                self.manager.delete(*name)
                del self.batches[name]
            case 1 if exists:
                self.truncate(name)
            case 2:
                self.manager.abort_move(*name)
            case 3 | 4 | 5 if exists:
                self.manager.move(*name, self.random.choice(self.directories))
            case 6 | 7:
                self.manager.advance_moves(self.random.choice((1, 1500, 1 << 20)))
            case 8 if self.random.random() < 0.4:
                self.reopen()
            case 9:
                self.manager.remove_deleted()
            case _:
                self.append(name)

    def append(self, name):
        log = self.manager.open(*name)
        data = batch(timestamp=1_700_000_000_000 + self.random.randrange(10**6))
        log.append(data)
        self.batches.setdefault(name, []).append(bytes(data))

    def truncate(self, name):
        batches = self.batches[name]
        keep = self.random.randint(0, len(batches))
        self.manager.truncate_to({name: 10 * keep})
        del batches[keep:]

    def reopen(self):
        if self.random.random() < 0.5:
            self.manager.close()
        else:
            for log in self.manager.values():
                log.flush()
            self.manager.checkpoint()
            self.manager.abandon()
        self.manager = manage(*self.directories, config=CONFIG)

    def check(self):
        assert set(self.manager) == set(self.batches)
        assert set(self.manager.moves) <= set(self.batches)
        for name, batches in self.batches.items():
            log = self.manager[name]
            assert log.log_end_offset == 10 * len(batches)
            found = content(log)
            assert len(found) == sum(map(len, batches))
            at = 0
            for data in batches:  # the log sets the offset and the epoch
                assert found[at + 21 : at + len(data)] == data[21:]
                at += len(data)
        for directory in self.directories:
            live = {path.name for path in directory.iterdir() if path.is_dir()}
            here = {
                f"{name[0]}-{name[1]}"
                for name, log in self.manager.items()
                if log.path.parent == directory
            }
            assert {name for name in live if "." not in name} == here


@pytest.mark.parametrize("seed", range(4))
def test_random_operations_leave_what_the_model_has(tmp_path, seed):
    directories = [tmp_path / name for name in "abc"]
    model = Model(directories, Random(seed))
    for _ in range(STEPS):
        model.step()
        model.check()
    finish(model.manager)
    model.check()
    model.manager.close()
