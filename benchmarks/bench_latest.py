"""The latest record of each key, beside ways written by hand; keys and samples.

Records are documents of about 1 KB, whose keys are users. By hand, a dict in Python is
filled from the chunks of a scan, and Polars groups a table of all records.
"""

import numpy as np
import polars
import pytest
from interleaved import compare

import kafkalog

CODECS = ("none", "zstd")


def by_dict(data):
    found = {}
    for records in kafkalog.scan(data, columns=["key", "value"]).chunks():
        found.update(zip(records.key.to_list(), records.value.to_list(), strict=True))
    return len(found)


def by_polars(data):
    rows = kafkalog.scan(data, columns=["key", "value"]).to_polars()
    return rows.group_by("key").agg(polars.col("value").last()).height


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("peer", [by_dict, by_polars], ids=["dict", "Polars"])
def bench_latest(benchmark, segment, codec, peer):
    path, _ = segment("json1k", codec, "16k")
    data = np.fromfile(path, np.uint8)

    def read():
        return kafkalog.latest(data, columns=["key", "value"]).to_arrow().num_rows

    keys = peer(data)
    assert benchmark.pedantic(read, rounds=5, warmup_rounds=1) == keys
    timing = compare(read, lambda: peer(data), peer=peer.__name__, of=keys)
    benchmark.extra_info.update(timing)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "selected",
    [
        {"keys": "user-00000001"},
        {"sample": 0.01},
        {"sample": 0.01, "sample_by": "batch"},
    ],
    ids=["a key", "1% of records", "1% of batches"],
)
def bench_selected(benchmark, segment, codec, selected):
    path, count = segment("json1k", codec, "16k")
    data = np.fromfile(path, np.uint8)

    def read(**options):
        return sum(map(len, kafkalog.scan(data, **options).chunks(reuse=True)))

    found = benchmark.pedantic(lambda: read(**selected), rounds=5, warmup_rounds=1)
    assert found < count
    timing = compare(lambda: read(**selected), read, peer="a scan of all", of=count)
    benchmark.extra_info.update(timing)
