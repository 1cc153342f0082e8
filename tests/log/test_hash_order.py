"""The order of a Java ``HashMap``, compared with explicit buckets and with Java."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.log.producers.hash_order import (
    HashOrderedDict,
    computed_order,
    spread_hash,
)

LONGS = st.integers(-(2**63), 2**63 - 1)
CLOSE = st.integers(0, 40) | st.integers(0, 9).map(lambda n: n * 1000)
KEYS = st.one_of(LONGS, CLOSE, st.integers(0, 3).map(lambda n: n << 32))


class JavaMap:
    """A map with buckets as lists, doubled when Java doubles them."""

    def __init__(self):
        self.table = [[] for _ in range(16)]

    def bucket(self, key):
        low, high = key & 0xFFFFFFFF, (key >> 32) & 0xFFFFFFFF
        folded = low ^ high
        return self.table[(folded ^ folded >> 16) % len(self.table)]

    def double(self):
        keys = self.in_order()
        self.table = [[] for _ in range(2 * len(self.table))]
        for key in keys:
            self.bucket(key).append(key)

    def in_order(self):
        return [key for bucket in self.table for key in bucket]

    def is_full(self):
        return len(self.in_order()) > 0.75 * len(self.table)

    def put(self, key):
        bucket = self.bucket(key)
        if key in bucket:
            return
        bucket.append(key)
        if len(bucket) > 8 and len(self.table) < 64:
            self.double()
        if self.is_full():
            self.double()

    def remove(self, key):
        bucket = self.bucket(key)
        if key in bucket:
            bucket.remove(key)

    def compute_if_absent(self, key):
        if self.is_full():
            self.double()
        bucket = self.bucket(key)
        if key in bucket:
            return
        bucket.insert(0, key)
        if len(bucket) > 7 and len(self.table) < 64:
            self.double()


@given(st.lists(st.tuples(st.sampled_from(["put", "put", "remove", "clear"]), KEYS)))
def test_the_order_is_that_of_explicit_buckets(steps):
    model, ours = JavaMap(), HashOrderedDict()
    for what, key in steps:
        if what == "put":
            model.put(key)
            ours[key] = None
        elif what == "remove":
            model.remove(key)
            ours.pop(key, None)
        else:
            for one in model.in_order():
                model.remove(one)
            ours.clear()
    assert ours.in_hash_order() == model.in_order()
    assert ours.buckets == len(model.table)


@given(st.lists(KEYS, max_size=60))
def test_the_order_of_computed_keys_is_that_of_explicit_buckets(keys):
    model = JavaMap()
    seen, again = [], False
    for key in keys:
        model.compute_if_absent(key)
        again = key in seen
        if not again:
            seen.append(key)
    assert computed_order(seen, again=again) == model.in_order()


def in_order(steps):
    ours = HashOrderedDict()
    for step in steps.split(","):
        key = int(step[1:])
        if step[0] == "+":
            ours[key] = None
        else:
            ours.pop(key, None)
    return ours.in_hash_order()


# The results of java.util.HashMap of OpenJDK 17 for these puts (+) and removals (-).
JAVA = [
    ("-73,-55,+40,+78,-61,-44,+29,+93,+1,+32,+95", [32, 1, 40, 29, 93, 78, 95]),
    ("+160,+160,-128,-160,+160,+96,-16,-96,+112,+96,+144,+48", [160, 112, 96, 144, 48]),
    ("+73,+52,-16,+53,+32,+60,+43,+61", [32, 52, 53, 73, 43, 60, 61]),
    ("+46,+50,+90,+64,+9,+34,+47,-37,+53", [64, 50, 34, 53, 9, 90, 46, 47]),
    (
        "+128,+32,-96,+32,+16,+48,+80,+176,+48,+96,+176,+0,-64,+32,+80,+64,-112,+96",
        [128, 32, 96, 0, 64, 16, 48, 80, 176],
    ),
    ("+65,+91,+9,+91,-10,+91,+46,+97,-89,+6", [65, 97, 6, 9, 91, 46]),
    (
        "+33,-2,+82,+18,+9,+81,+42,-8,+73,+76,+4,+4,+69,+87,+21,+72,+11,+90",
        [33, 4, 69, 72, 9, 73, 42, 11, 76, 81, 82, 18, 21, 87, 90],
    ),
    (
        "+16,+0,+160,+144,-0,+80,-64,+144,+176,-48,-128,+48,+128,+0,-96,+80,+48",
        [16, 160, 144, 80, 176, 48, 128, 0],
    ),
    (
        "+91,+33,+1,+41,+51,+86,+48,+25,+1,+99,-57,+20",
        [48, 33, 1, 51, 99, 20, 86, 41, 25, 91],
    ),
    (
        "+12,+63,+29,+16,+36,+57,+19,+53,+9,+5,+85,+46,+23,-31,+44",
        [36, 5, 9, 12, 44, 46, 16, 19, 53, 85, 23, 57, 29, 63],
    ),
    (
        "+31,+74,+35,+66,+60,-15,+26,+19,-33,+50,+84,+94,+40,+5,+64,+88,-63,-55,-24,-72,+26,+15,+5,+31,+88,+44,+0,+66,-38,+67,+45",
        [64, 0, 66, 35, 67, 5, 40, 74, 44, 45, 15, 50, 19, 84, 88, 26, 60, 94, 31],
    ),
    (
        "+144,+128,+128,-48,+32,+112,-64,+16,+80,-96,+96,+0,+128,+144,+80,-64,+48,+64,+80,+144,+0",
        [128, 32, 96, 0, 64, 144, 112, 16, 80, 48],
    ),
    (
        "+9,+49,+28,+48,+46,+34,+68,-3,+47,-48,+62,+24,+35,+16,+51,-3,-68,+13,+94,-11,+53,+71,-35,+85,-6,+3,+57,+70,+40,+43,-6,+82,+35,+77",
        [
            34,
            3,
            35,
            70,
            71,
            40,
            9,
            43,
            13,
            77,
            46,
            47,
            16,
            49,
            82,
            51,
            53,
            85,
            24,
            57,
            28,
            62,
            94,
        ],
    ),
]


@pytest.mark.parametrize(("steps", "order"), JAVA)
def test_the_order_is_that_of_java(steps, order):
    assert in_order(steps) == order


def test_a_key_added_again_is_at_the_end_of_its_bucket():
    assert in_order("+1,+17,-1,+1") == [17, 1]
    assert in_order("+1,+17,+1") == [1, 17]


def test_a_crowded_bucket_doubles_the_buckets_while_they_are_few():
    ours = HashOrderedDict()
    for key in range(0, 9 * 64, 64):
        assert ours.buckets == 16
        ours[key] = None
    assert ours.buckets == 32


def test_hashes_fold_the_upper_half():
    assert spread_hash(-1) == 0
    assert spread_hash((1 << 32) + 1) == 0
    assert spread_hash(-(1 << 63)) == spread_hash(1 << 31)


def test_buckets_filled_by_computed_keys_are_doubled_at_the_next_call():
    keys = [*range(12), 16]
    assert computed_order(keys, again=False) == [16, *range(12)]
    assert computed_order(keys, again=True) == keys
