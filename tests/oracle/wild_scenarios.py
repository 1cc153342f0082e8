"""Write random scenarios with more faults than those of `make_scenarios`.

    python -m tests.oracle.wild_scenarios --seed 1 --count 80 [--theme wild-odd] OUT/

Equal calls write equal files. In a few of a hundred Kafka and kafkalog differ: in a
time index that Kafka leaves incomplete if an offset is below its base, and if Kafka
runs out of memory.
"""

import argparse
import random

from tests.oracle.wild_maker import WildMaker

OFTEN = {
    "append": 6,
    "tick": 3,
    "high_watermark": 3,
    "read": 2,
    "look_up": 1,
    "ask": 1,
    "keep": 0.7,
    "roll": 0.5,
    "roll_far": 0.3,
    "change": 0.6,
    "big": 0.4,
    "retention": 0.7,
    "push_start": 0.4,
    "restart": 1,
    "new_epoch": 0.5,
    "cut": 0.4,
    "clock_step": 0.3,
    "run_tasks": 0.5,
}
PRODUCERS = {"idempotent": 5, "transactional": 4, "marker": 3}
WEIGHTS = {
    "wild-append": {"format": 12, "patched": 2},
    "wild-index": PRODUCERS | {"follow_much": 4, "format": 5, "restart": 2, "read": 4},
    "wild-producers": PRODUCERS
    | {"append": 2, "verify": 4, "odd_marker": 2, "wrap": 0.4, "follow_transaction": 3},
    "wild-recovery": PRODUCERS | {"restart": 5, "follow_much": 3, "format": 2},
    "wild-odd": PRODUCERS | {"restart": 6, "follow_much": 2},
    "wild-patch": {"patched": 12, "format": 3},
    "wild-follow": {
        "append": 1,
        "follow_much": 10,
        "follow_transaction": 6,
        "restart": 1.5,
    },
    "wild-time": {"format": 6, "clock_step": 4, "retention": 4, "ask": 5, "change": 2},
}


def make(maker):
    r, verified = maker.rng, maker.theme == "wild-producers" and maker.chance(0.4)
    maker.s.open(
        maker.config(),
        tasks="manual" if maker.chance(0.15) else None,
        topic_id=r.choice((None, None, "AAAAAAAAAAAAAAAAAAAAZQ")),
        transaction_verification=True if verified else None,
        producer_id_expiration_ms=r.choice((None, None, 4000)),
        producer_id_expiration_check_interval_ms=1000,
    )
    maker.s.become_leader(epoch=0)
    weights = OFTEN | WEIGHTS[maker.theme]
    while len(maker.s.steps) < maker.step_count:
        [name] = r.choices(list(weights), weights.values())
        getattr(maker, name)()
    maker.s.run_tasks().hw().producers().segments().tree()
    if maker.chance(0.7):
        maker.s.close(checkpoints=True if maker.chance(0.3) else None)
    return maker.s


def write(seed, count, themes, steps, out):
    for i in range(count):
        theme = themes[i % len(themes)]
        rng = random.Random(f"{seed}/{i}/{theme}")
        make(WildMaker(f"{theme}-{seed}-{i}", theme, rng, steps)).write(out)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--theme", action="append", choices=sorted(WEIGHTS))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("out")
    options = parser.parse_args()
    themes = options.theme or list(WEIGHTS)
    write(options.seed, options.count, themes, options.steps, options.out)


if __name__ == "__main__":
    main()
