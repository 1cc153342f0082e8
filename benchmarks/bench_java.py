"""Reading records in memory, compared with Kafka's own classes in warmed-up Java.

All verify every checksum, and read the same bytes in turn. Where Java collects columns,
ours do too, and headers, which Java's omit; where it visits its records and drops them,
ours are views.
"""

import java_classes
import pytest
from shapes import SHAPES

import kafkalog
from kafkalog.formats.layout import CODECS

COLUMNS = ["offset", "timestamp", "key", "value", "headers"]
CASES = [(shape, "none") for shape in SHAPES]
COMPRESSED = [("log100", codec) for codec in CODECS if codec != "none"]
LACKS = java_classes.missing()


@pytest.mark.skipif(
    bool(LACKS), reason=f"java-columns, java-iterate cannot be measured: no {LACKS}"
)
@pytest.mark.parametrize("size", ["16k"])
@pytest.mark.parametrize(("shape", "codec"), CASES + COMPRESSED)
@pytest.mark.parametrize("way", ["columns", "views"])
def bench_read_against_java(benchmark, segment, shape, codec, size, way):
    path, count = segment(shape, codec, size)
    data = path.read_bytes()

    def ours():
        scan = kafkalog.scan(data, columns=COLUMNS)
        chunks = scan.chunks(reuse=True, views=way == "views")
        return sum(map(len, chunks))

    assert benchmark.pedantic(ours, rounds=5, warmup_rounds=1) == count
    peer = "java-iterate" if way == "views" else "java-columns"
    benchmark.extra_info |= java_classes.compare(peer, path, ours, count)
