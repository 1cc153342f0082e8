"""Header-only reading returns what decoding returns, and finds the same damage."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafkalog
from kafkalog import RecordBatchBuilder
from kafkalog.errors import CorruptRecordError, UnsupportedFormatError
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.messages.control_records import end_transaction_marker
from kafkalog.query import scan_run
from kafkalog.query.scan_columns import COLUMNS
from kafkalog.query.scan_run import HEADER_COLUMNS
from tests import golden_data

from .batches import KINDS, build, offsets_until

NAMES = tuple(name for name in COLUMNS if name in HEADER_COLUMNS)
WAYS = {"in order": {}, "threads": {"threads": 3}}


def sparse(codec, first, count):
    """Return a batch from which compaction removed every other record."""
    builder = RecordBatchBuilder(
        codec=codec, base_offset=first, last_offset=first + 2 * count
    )
    for i in range(first, first + 2 * count, 2):
        builder.append(b"k", b"value %d" % i, timestamp=i)
    return builder.build()


def marker(first):
    key, value = end_transaction_marker(ControlRecordType.COMMIT, 3)
    builder = RecordBatchBuilder(
        base_offset=first,
        producer_id=7,
        producer_epoch=1,
        is_transactional=True,
        is_control=True,
    )
    builder.append(key, value, timestamp=first)
    return builder.build()


@st.composite
def logs(draw):
    """Draw batches with and without gaps, markers and messages, with gaps between."""
    data, offset = [], 0
    for kind in draw(st.lists(st.sampled_from("wwwsmo"), min_size=1, max_size=30)):
        count = draw(st.integers(1, 9))
        codec = draw(st.sampled_from(["none", "lz4", "zstd"]))
        if kind == "w":
            data.append(build(2, codec, offset, count))
        elif kind == "s":
            data.append(sparse(codec, offset, count))
        elif kind == "m":
            data.append(marker(offset))
        else:
            data.append(build(*draw(st.sampled_from(KINDS[:8])), offset, count))
        offset += 2 * count + 1 + draw(st.integers(0, 1))
    return b"".join(data)


def rows(scan):
    """Return the rows of a scan, without its chunks' sizes."""
    columns = [[] for _ in scan.columns]
    for chunk in scan.chunks():
        for name, found in zip(scan.columns, columns, strict=True):
            whole = name == "topic"
            found += (
                [chunk.topic] * len(chunk) if whole else getattr(chunk, name).tolist()
            )
    return list(zip(*columns, strict=True))


def of_source(source, columns=NAMES, **options):
    """Return a scan that decodes all records, and one that reads only headers."""
    scan = kafkalog.scan(source, columns=columns, **options)
    return scan, replace(scan, policy=replace(scan.policy, needs="headers"))


@given(
    data=logs(),
    bounds=st.tuples(st.integers(-1, 70), st.integers(-1, 300)),
    kind=st.sampled_from(["bytes", "file", "directory"]),
    way=st.sampled_from(list(WAYS)),
    control=st.booleans(),
    most=st.sampled_from([1, 5, 1 << 17]),
    changes=st.sampled_from([1, 2, 16]),
)
@settings(max_examples=150)
def test_header_only_columns_equal_decoded_columns(
    data, bounds, kind, way, control, most, changes, tmp_path_factory
):
    source = data
    if kind != "bytes":
        place = tmp_path_factory.mktemp("t") / "t-3"
        place.mkdir()
        source = place / f"{0:020d}.log"
        source.write_bytes(data)
        source = source if kind == "file" else place
    options = {"start_offset": bounds[0], "end_offset": bounds[1]}
    options = {name: None if at < 0 else at for name, at in options.items()}
    options |= {"control_records": control, **WAYS[way]}
    decoded, header_only = of_source(source, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_run, "MAX_RECORDS", most)
        patch.setattr(scan_run, "MAX_INTERVALS", changes)
        assert rows(header_only) == rows(decoded)
        unchecked = kafkalog.scan(source, columns=NAMES, check_crcs=False, **options)
        assert rows(unchecked) == rows(decoded)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", golden_data.SETS)
def test_header_only_columns_equal_decoded_columns_of_golden_directories(name, way):
    for control in (False, True):
        decoded, header_only = of_source(
            golden_data.logs(name), control_records=control, **WAYS[way]
        )
        assert rows(header_only) == rows(decoded)
        assert len(rows(header_only)) == header_only.count()


@pytest.mark.parametrize("column", COLUMNS)
def test_only_columns_of_the_header_are_read_without_decoding(column, monkeypatch):
    def never(*_args, **_options):
        raise AssertionError("decoded")

    monkeypatch.setattr(scan_run, "decode", never)
    data = build(2, "zstd", 100)
    _, header_only = of_source(data, (column,))
    if column not in HEADER_COLUMNS:
        with pytest.raises(AssertionError, match="decoded"):
            list(header_only.chunks())
        return
    assert len(rows(header_only)) == 3
    assert len(rows(of_source(data, (column,), isolation="read_committed")[1])) == 3
    for scan in (
        of_source(data, (column,), on_corruption="skip")[1],
        of_source(data, (column,), start_timestamp=0)[1],
        of_source(data, (column,))[0],
    ):
        with pytest.raises(AssertionError, match="decoded"):
            list(scan.chunks())
    with pytest.raises(AssertionError, match="decoded"):
        list(header_only.chunks(views=True))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("kind", ["bytes", "directory"])
def test_damage_is_found_without_decoding(kind, codec, way, tmp_path):
    parts = [
        build(2, codec, 0, 5),
        sparse(codec, 10, 5),
        build(2, codec, 30, 5),
        sparse(codec, 40, 5),
        build(2, codec, 60, 5),
    ]
    whole = offsets_until(kafkalog.scan(b"".join(parts), columns=["offset"]))
    for hit in range(len(parts)):
        data = bytearray(b"".join(parts))
        data[len(b"".join(parts[: hit + 1])) - 3] ^= 1
        source = bytes(data)
        if kind == "directory":
            source = tmp_path / "t-0"
            source.mkdir(exist_ok=True)
            (source / f"{0:020d}.log").write_bytes(data)
        decoded, header_only = of_source(source, ("offset",), **WAYS[way])
        assert offsets_until(header_only) == offsets_until(decoded)
        error, _, position = offsets_until(header_only)[1]
        assert (error, position) == (CorruptRecordError, len(b"".join(parts[:hit])))
        unchecked = {"columns": ["offset"], "check_crcs": False, **WAYS[way]}
        if not hit % 2:
            assert offsets_until(kafkalog.scan(source, **unchecked)) == whole
        options = {"on_corruption": "skip", **WAYS[way]}
        decoded, header_only = of_source(source, ("offset",), **options)
        assert rows(header_only) == rows(decoded)
        assert header_only.problems == decoded.problems
        assert len(header_only.problems) == 1


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_flipped_control_flag_is_damage(codec):
    data = bytearray(build(2, codec, 0, 5) + build(2, codec, 5, 5))
    data[22] ^= 0x20
    decoded, header_only = of_source(bytes(data), ("offset",))
    assert offsets_until(header_only) == offsets_until(decoded)
    error, _, position = offsets_until(header_only)[1]
    assert (error, position) == (CorruptRecordError, 0)
    with pytest.raises(CorruptRecordError):
        header_only.count()
    skipping = kafkalog.scan(bytes(data), on_corruption="skip")
    assert skipping.count() == 5
    assert [problem.position for problem in skipping.problems] == [0]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_record_count_that_does_not_fit_into_a_batch_is_damage(codec):
    data = bytearray(build(2, codec, 0, 5))
    data[23:27] = (2**31 - 2).to_bytes(4)
    data[57:61] = (2**31 - 1).to_bytes(4)
    for scan in (
        of_source(bytes(data), ("offset",))[1],
        kafkalog.scan(bytes(data), columns=["offset"], check_crcs=False),
    ):
        with pytest.raises(CorruptRecordError):
            list(scan.chunks())


def test_an_unknown_codec_is_an_error():
    data = bytearray(build(2, "zstd", 0, 5))
    data[22] |= 7
    scan = kafkalog.scan(bytes(data), columns=["codec"], check_crcs=False)
    with pytest.raises(UnsupportedFormatError):
        list(scan.chunks())


def test_a_chunk_has_at_most_the_maximum_number_of_records():
    data = b"".join(build(2, "none", 1000 * i, 1000) for i in range(200))
    _, header_only = of_source(data, ("offset", "sequence"))
    lengths = [len(chunk) for chunk in header_only.chunks()]
    assert sum(lengths) == 200_000
    assert max(lengths) <= scan_run.MAX_RECORDS
    assert [offset for offset, _ in rows(header_only)] == list(range(200_000))


@pytest.mark.parametrize("base", [-5, -1, 2**63 - 3])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_invalid_offsets_are_the_same_error_with_and_without_decoding(codec, base):
    """Batches in memory may have any base offset, which no checksum covers."""
    data = base.to_bytes(8, signed=True) + build(2, codec, 0, 5)[8:]
    decoded, header_only = of_source(data, ("offset",))
    assert offsets_until(header_only) == offsets_until(decoded)


@pytest.mark.parametrize("kind", ["bytes", "file"])
def test_a_wrapper_is_decoded_with_the_offset_before_it(kind, tmp_path):
    source = build(2, "none", 0, 10) + build(1, "lz4", 8, 3)
    if kind == "file":
        path = tmp_path / f"{0:020d}.log"
        path.write_bytes(source)
        source = path
    decoded, header_only = of_source(source, ("offset",))
    assert offsets_until(header_only) == offsets_until(decoded)
    ended = offsets_until(header_only)[1]
    assert ended is None if kind == "bytes" else ended[0] is CorruptRecordError


def test_a_step_with_many_intervals_is_decoded_at_once(monkeypatch):
    calls, decode = [], scan_run.decode
    monkeypatch.setattr(
        scan_run,
        "decode",
        lambda *args, **options: calls.append(1) or decode(*args, **options),
    )
    parts = [
        (build(2, "lz4", 20 * i, 5), sparse("lz4", 20 * i + 10, 4)) for i in range(50)
    ]
    decoded, header_only = of_source(b"".join(map(b"".join, parts)))
    assert rows(header_only) == rows(decoded)
    assert len(calls) == 2


def test_reading_continues_after_an_invalid_size_in_memory():
    parts = [bytearray(build(2, "none", 10 * i)) for i in range(4)]
    parts[1][8:12] = (13).to_bytes(4)
    scan = kafkalog.scan(b"".join(parts), columns=["offset"], on_corruption="skip")
    assert rows(scan) == [(10 * i + j,) for i in (0, 2, 3) for j in range(3)]
    assert [problem.position for problem in scan.problems] == [len(parts[0])]
