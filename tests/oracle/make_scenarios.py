"""Write random scenarios, each from its own seed: equal calls write equal files.

    python -m tests.oracle.make_scenarios --seed 1 --count 20 [--theme recovery] OUT/

``--theme`` may be repeated; ``--steps`` is the number of steps. The files do not have
the bytes of the batches: ``player/run.sh prepare-all OUT/ PREPARED/`` adds them.
"""

import argparse
import random

from tests.oracle.scenario_maker import Maker

WEIGHTS = {
    "append": {
        "append": 12,
        "tick": 4,
        "read": 4,
        "high_watermark": 2,
        "look_up": 2,
        "roll": 0.5,
    },
    "timestamps": {
        "append": 12,
        "tick": 6,
        "look_up": 6,
        "read": 1,
        "high_watermark": 1,
        "roll": 0.5,
        "restart": 0.5,
    },
    "retention": {
        "append": 14,
        "tick": 6,
        "retention": 5,
        "high_watermark": 4,
        "read": 1,
        "delete_records": 1,
        "restart": 0.5,
    },
    "delete_records": {
        "append": 10,
        "tick": 2,
        "delete_records": 4,
        "retention": 3,
        "high_watermark": 4,
        "read": 3,
        "look_up": 2,
        "idempotent": 4,
        "transactional": 2,
        "marker": 2,
        "restart": 1,
    },
    "truncation": {
        "append": 8,
        "idempotent": 4,
        "transactional": 2,
        "marker": 1.5,
        "truncate": 3,
        "high_watermark": 2,
        "read": 2,
        "new_epoch": 1,
        "tick": 1,
    },
    "epochs": {
        "follow": 10,
        "append": 2,
        "new_epoch": 2,
        "look_up": 3,
        "truncate": 1.5,
        "delete_records": 1,
        "high_watermark": 2,
        "read": 2,
        "restart": 0.7,
    },
    "producers": {
        "idempotent": 14,
        "append": 2,
        "tick": 2,
        "high_watermark": 1,
        "roll": 0.7,
        "restart": 1,
        "truncate": 0.4,
    },
    "transactions": {
        "transactional": 12,
        "marker": 5,
        "append": 3,
        "idempotent": 2,
        "high_watermark": 4,
        "read": 4,
        "look_up": 2,
        "roll": 0.5,
        "restart": 0.5,
    },
    "compaction": {
        "append": 14,
        "tick": 4,
        "compact": 3,
        "transactional": 3,
        "marker": 2,
        "idempotent": 2,
        "read": 1,
        "roll": 1,
        "retention": 0.7,
        "delete_records": 0.4,
        "restart": 0.4,
        "truncate": 0.3,
    },
    "recovery": {
        "append": 10,
        "idempotent": 4,
        "transactional": 3,
        "marker": 2,
        "restart": 3,
        "high_watermark": 2,
        "tick": 1,
        "roll": 0.7,
        "read": 2,
        "new_epoch": 0.7,
    },
    "mixed": {
        "append": 8,
        "follow": 3,
        "idempotent": 4,
        "transactional": 3,
        "marker": 2,
        "tick": 3,
        "high_watermark": 3,
        "read": 2,
        "look_up": 2,
        "retention": 1,
        "delete_records": 0.7,
        "truncate": 0.7,
        "roll": 0.7,
        "restart": 1,
        "new_epoch": 0.7,
    },
}


def make(maker):
    r = maker.rng
    maker.s.open(
        maker.config(),
        tasks="manual" if maker.chance(0.15) else None,
        producer_id_expiration_ms=r.choice((None, None, 4000)),
        producer_id_expiration_check_interval_ms=1000,
    )
    maker.s.become_leader(epoch=0)
    names = list(WEIGHTS[maker.theme])
    weights = list(WEIGHTS[maker.theme].values())
    while len(maker.s.steps) < maker.step_count:
        getattr(maker, r.choices(names, weights)[0])()
    maker.s.run_tasks().hw().producers().segments().tree()
    if maker.chance(0.7):
        maker.s.close(checkpoints=True if maker.chance(0.3) else None)
    return maker.s


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument(
        "--theme",
        action="append",
        choices=sorted(WEIGHTS),
        help="may be repeated; without it all in turn",
    )
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("out")
    options = parser.parse_args()
    themes = options.theme or list(WEIGHTS)
    write(options.seed, options.count, themes, options.steps, options.out)


def write(seed, count, themes, steps, out):
    for i in range(count):
        theme = themes[i % len(themes)]
        name = f"random-{theme.replace('_', '-')}-{seed}-{i}"
        rng = random.Random(f"{seed}/{i}/{theme}")
        make(Maker(name, theme, rng, steps)).write(out)


if __name__ == "__main__":
    main()
