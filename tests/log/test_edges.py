"""A log that is cut, or rolled, just at an edge: of its first segment, of its end."""

from tests.log.writing import batch, load, offsets_in


def names_in(directory):
    return sorted(path.name for path in (directory / "t-0").iterdir())


def test_a_log_cut_at_its_first_offset_keeps_its_segment(tmp_path):
    with load(tmp_path) as log:
        log.append(batch(3))
        before = names_in(tmp_path)
        assert log.truncate_to(0)
        assert [(one.base_offset, one.size) for one in log.growing_segments] == [(0, 0)]
        assert names_in(tmp_path) == before
        assert log.append(batch(2)).first_offset == 0
        assert offsets_in(log) == [0, 1]


def test_a_log_may_go_on_at_0(tmp_path):
    with load(tmp_path) as log:
        log.append(batch(3))
        log.truncate_fully(0)
        assert log.log_end_offset == log.high_watermark == 0
        assert log.append(batch(2)).first_offset == 0


def test_a_high_watermark_at_the_end_goes_along_with_a_roll(tmp_path):
    with load(tmp_path) as log:
        log.append(batch(3))
        assert log.update_high_watermark(3) == 3
        log.roll()
        assert not log.increment_high_watermark(3)
        place = log.read(3, isolation="high_watermark").place
        assert (place.segment_base, place.position) == (3, 0)
