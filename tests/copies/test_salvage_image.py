"""`salvage` of raw images: files at sectors, in any order, with other bytes between."""

import errno
import os
import random
import tarfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafkalog
from kafkalog.copies import image_search
from kafkalog.copies.batch_runs import continues, follow_within
from kafkalog.copies.image_search import ImageFile, find_batches
from kafkalog.errors import NotALogDirectoryError
from kafkalog.formats.batch_headers import scan_headers
from tests import golden_data
from tests.copies.log_truth import batches_of, logs_of, write_log
from tests.copies.test_salvage import problems

SECTOR = 4096


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return the bytes of the segments of several partitions, by partition."""
    root = tmp_path_factory.mktemp("logs")
    logs = {
        "a": write_log(root / "1" / "a-0", seed=1, producer=7),
        "b": write_log(root / "2" / "b-0", seed=2, producer=9, codec="zstd"),
        "c": write_log(root / "3" / "c-0", seed=3, producer=None),
    }
    return {
        name: [path.read_bytes() for path in sorted(log.glob("*.log"))]
        for name, log in logs.items()
    }


def batch_bytes(data):
    return [data[batch.position : batch.end] for batch in batches_of(data)]


def extents_of(files, rng, pages):
    """Divide files into extents of whole sectors, padded at the end."""
    for name, segments in files.items():
        for data in segments:
            size = SECTOR * pages
            padded = data + bytes(-len(data) % SECTOR)
            for at in range(0, len(padded), size):
                yield name, padded[at : at + size]


def image_of(files, rng, pages):
    """Return extents in any order with other bytes in between, and what is whole."""
    extents = list(extents_of(files, rng, pages))
    rng.shuffle(extents)
    image = b""
    for _, extent in extents:
        image += rng.randbytes(SECTOR * rng.choice([0, 0, 1, 2])) + extent
    return image


def salvaged(tmp_path, image, **options):
    path = tmp_path / "disk.img"
    path.write_bytes(image)
    report = kafkalog.salvage(path, tmp_path / "out", **options)
    logs = {
        row.partition: b"".join(
            data for _, data in sorted(logs_of(_directory(tmp_path, row)).items())
        )
        for row in report.partitions
    }
    return report, logs


def _directory(tmp_path, row):
    return tmp_path / "out" / f"{row.topic}-{row.partition}"


@pytest.fixture(scope="module")
def alike(tmp_path_factory):
    """Return partitions whose batches have the same offsets and sequences."""
    root = tmp_path_factory.mktemp("alike")
    found = {}
    for number in range(4):
        producer = 7 if number < 2 else None
        log = write_log(root / str(number) / "t-0", producer=producer, salt=number)
        found[number] = [path.read_bytes() for path in sorted(log.glob("*.log"))]
    return found


@pytest.mark.parametrize("kind", ["files", "alike"])
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), pages=st.integers(1, 4), gone=st.integers(0, 9))
def test_all_whole_batches_are_found_and_no_partitions_are_mixed(
    kind, files, alike, tmp_path_factory, seed, pages, gone
):
    files = alike if kind == "alike" else files
    tmp_path = tmp_path_factory.mktemp("image")
    rng = random.Random(seed)
    image = bytearray(image_of(files, rng, pages))
    for _ in range(gone):
        at = rng.randrange(len(image))
        image[at : at + 500] = rng.randbytes(len(image[at : at + 500]))
    image = bytes(image)
    owner = {
        data: name
        for name, segments in files.items()
        for segment in segments
        for data in batch_bytes(segment)
    }
    expected = {data for data in owner if data in image}
    report, logs = salvaged(tmp_path, image)
    found = [batch_bytes(log) for log in logs.values()]
    flat = [data for batches in found for data in batches]
    assert set(flat) == expected
    assert len(flat) == len(expected)  # each is written once
    for batches in found:
        assert len({owner[data] for data in batches}) == 1
    for row in report.partitions:
        taken = b"".join(image[first:end] for first, end in row.source_ranges)
        assert taken == logs[row.partition]
    assert problems(tmp_path / "out") == []


def test_segments_are_joined_by_the_sequences_of_their_producer(files, tmp_path):
    image = b""
    for name in ("a", "b", "c"):
        for data in reversed(files[name]):
            image += data + bytes(-len(data) % SECTOR) + b"\x55" * SECTOR
    report, logs = salvaged(tmp_path, image)
    whole = {name: b"".join(segments) for name, segments in files.items()}
    assert whole["a"] in logs.values()
    assert whole["b"] in logs.values()
    # Offsets alone do not join the segments of a log without producer ids.
    assert sorted(logs.values()) == sorted([whole["a"], whole["b"], *files["c"]])
    assert report.ok


def test_copies_are_written_once(files, tmp_path):
    first, second, *_ = files["c"]
    half = b"".join(batch_bytes(first)[2:])
    padding = [bytes(-len(data) % SECTOR) for data in (first, half)]
    image = first + padding[0] + half + padding[1] + first + padding[0] + second
    _, logs = salvaged(tmp_path, image)
    assert sorted(logs.values()) == sorted([first, second])


def test_runs_that_overlap_with_the_same_batches_are_one(files, tmp_path):
    batches = batch_bytes(files["c"][0])
    image = b"".join(batches[3:]).ljust(SECTOR * 2, b"\0") + b"".join(batches[:6])
    _, logs = salvaged(tmp_path, image)
    assert list(logs.values()) == [files["c"][0]]


def test_runs_that_overlap_and_differ_are_separate(files, tmp_path):
    a, c = files["a"][0], files["c"][0]
    image = a.ljust(SECTOR * 2, b"\0") + c
    report, logs = salvaged(tmp_path, image, output_topic="found", output_partition=5)
    assert logs == {5: a, 6: c}
    assert {row.topic for row in report.partitions} == {"found"}


def test_batches_in_a_tar_archive_are_found(tmp_path):
    source = golden_data.logs("k431-repl-broker1")
    with tarfile.open(tmp_path / "backup.tar", "w") as archive:
        for directory in golden_data.partitions("k431-repl-broker1"):
            archive.add(directory, directory.name)
    report = kafkalog.salvage(tmp_path / "backup.tar", tmp_path / "out")
    expected = kafkalog.scan(source, control_records=True).count()
    assert sum(row.records for row in report.partitions) == expected
    assert problems(tmp_path / "out") == []


def test_a_gap_inside_of_a_sector_is_compaction(files, tmp_path):
    batches = batch_bytes(files["c"][0])
    kept = batches[0] + b"".join(batches[4:])
    _, logs = salvaged(tmp_path, b"\x77" * 100 + kept)
    assert list(logs.values()) == [kept]


@pytest.mark.parametrize("step", [2048, 4096, 10000])
def test_batches_are_found_wherever_a_step_ends(files, tmp_path, step):
    rng = random.Random(step)
    image = image_of(files, rng, 3)
    path = tmp_path / "disk.img"
    path.write_bytes(image)
    with ImageFile(path) as file:
        found = np.concatenate(list(find_batches(file, step)))
    expected = {
        image.find(data)
        for segments in files.values()
        for segment in segments
        for data in batch_bytes(segment)
    } - {-1}
    assert set(found["position"].tolist()) == expected
    assert (np.diff(found["position"]) > 0).all()


def test_an_image_without_batches_is_refused(tmp_path):
    path = tmp_path / "disk.img"
    path.write_bytes(random.Random(0).randbytes(100_000))
    with pytest.raises(NotALogDirectoryError, match="no valid batch of magic 2"):
        kafkalog.salvage(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_false_headers_do_not_make_the_search_quadratic(tmp_path):
    header = bytearray(61)
    header[8:12] = (1 << 20).to_bytes(4, "big")
    header[16] = 2
    path = tmp_path / "disk.img"
    path.write_bytes(bytes(header) * 200_000)
    with pytest.raises(NotALogDirectoryError):
        kafkalog.salvage(path, tmp_path / "out")


def test_a_sector_that_cannot_be_read_loses_its_batches_only(
    files, tmp_path, monkeypatch
):
    data = files["a"][0]
    path = tmp_path / "disk.img"
    path.write_bytes(data)
    real = os.preadv

    def failing(descriptor, buffers, position):
        [buffer] = buffers
        if position <= 700 < position + len(buffer):
            raise OSError(errno.EIO, "Input/output error")
        return real(descriptor, buffers, position)

    monkeypatch.setattr(image_search.os, "preadv", failing)
    with ImageFile(path) as file:
        found = np.concatenate(list(find_batches(file)))
        assert file.bytes_unreadable == 512
    expected = [
        b.position for b in batches_of(data) if b.end <= 512 or b.position >= 1024
    ]
    assert found["position"].tolist() == expected


def test_a_producers_sequences_continue_or_contradict(files):
    rows, _, _ = scan_headers(np.frombuffer(files["a"][0], np.uint8))
    none, _, _ = scan_headers(np.frombuffer(files["c"][0], np.uint8))
    assert continues(rows[:3], rows[3:]) is True
    assert continues(rows[:3], rows[4:]) is False
    assert continues(rows[3:], rows[:3]) is False
    assert continues(none[:3], none[3:]) is None
    assert continues(rows[:3], none[3:]) is None
    assert follow_within(rows).all()
    assert not follow_within(rows[::2]).any()
