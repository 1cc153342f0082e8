"""Runs of appends: how many of a call go into the segment as it is, by one write."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cython cimport final
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkalog._speedups._append cimport Append
from kafkalog._speedups._batch cimport BATCH_HEADER, CODEC_MASK, Batch
from kafkalog._speedups._cursor cimport be64
from kafkalog._speedups._buffers cimport Buffers, hold_buffers, release_buffers
from kafkalog._speedups._run cimport (
    INDEX_ENTRY, NO_PRODUCER, TIME_ENTRY, Entries, Limits, Run, goes_in,
    take_batches_of
)
from kafkalog._speedups.validate cimport (
    Found, Rules, Stamp, Wanted, rules_of, stamp_led, survey_unpacked, take_append,
    take_led
)


cdef enum:
    QUICK_BYTES = 65536  # are judged sooner than the lock of Python is passed on


cdef Py_ssize_t take_run(
    const Batch* batch, const Append* append, const int64_t* row_bounds,
    const int64_t* byte_bounds, Py_ssize_t first, Py_ssize_t count,
    Py_ssize_t plain_rows, int64_t now_ms, Run* run, const Limits* limits, Entries* out,
) noexcept nogil:
    # Take appends, from `first` to below `count`; answers the first that is not taken.
    cdef Py_ssize_t row, i = first
    cdef Run kept
    while i < count and row_bounds[i] < row_bounds[i + 1]:
        kept = run[0]
        row = row_bounds[i]
        if not goes_in(
            &append[i], byte_bounds[i + 1] - byte_bounds[i], now_ms, run, limits
        ):
            break
        if not take_batches_of(
            &batch[row], row_bounds[i + 1] - row, plain_rows - row, run, limits, out
        ):
            run[0] = kept
            break
        run.next_offset = append[i].last_offset + 1
        i += 1
        if run.next_offset >= limits.flush_at:
            break
    return i


@final
cdef class Tail:
    """The end of a log, for runs of appends that just go on there.

    Such an append has batches of magic 2, of the latest leader epoch, from the log's
    end on; of no producer; it rolls nothing, and its index entries have room. What was
    settled with `settle` and `lead_by` holds until something else changes the log.

    Each method takes what it can of the appends that it is given, from the first on,
    and then *made* is what they come to: the log's end behind them, the bytes since the
    last index entry, the greatest timestamp with its offset, and the entries of both
    indexes, as they are on disk. *Told* of an append are the fields of its
    ``AppendResult``, and the log's end are those of its ``OffsetMetadata``.
    """
    cdef Limits limits
    cdef Run run
    cdef Entries out
    cdef Wanted wanted
    cdef Rules rules
    cdef Stamp stamp
    cdef uint8_t[::1] data
    cdef uint8_t[::1] rows
    cdef tuple codecs
    cdef object unpack
    cdef int64_t most_unpacked
    cdef bint owned  # by producers: what `lead` takes

    def __cinit__(
        self, uint8_t[::1] data not None, uint8_t[::1] rows not None,
        tuple codecs not None, unpack not None,
    ):
        # Room for what a leader is given, and for a follower's headers; codecs' names;
        # what unpacks: of a codec, records, and a limit it makes bytes, or None.
        self.data, self.rows, self.codecs = data, rows, codecs
        self.unpack = unpack

    def settle(self, tuple limits not None, tuple state not None):
        """Say how far a run may go, and where it begins.

        `limits` and `state` are the fields of `Limits` and `Run` in their order,
        without the numbers of entries.
        """
        cdef Limits* most = &self.limits
        cdef Run* run = &self.run
        (
            most.epoch, most.epoch_start, most.base, most.most_bytes, most.most_ms,
            most.created_ms, most.interval, most.index_room, most.time_room,
            most.flush_at,
        ) = limits
        (
            run.next_offset, run.size, run.first_timestamp, run.last_time,
            run.filling.since, run.filling.timestamp, run.filling.timestamp_offset,
        ) = state
        run.index_entries = run.time_entries = 0

    def lead_by(
        self, tuple wanted not None, tuple rules not None, int64_t most_unpacked,
        tuple stamp not None,
    ):
        """Say how a leader takes appends.

        `wanted` are the greatest bytes of a batch, and whether base offsets must be 0;
        `rules` those of `survey_batches`; `most_unpacked` the greatest bytes of a
        batch's records; `stamp` whether timestamps are of now, the
        leader's epoch, and now.
        """
        self.wanted = Wanted(wanted[1], False, -2147483648, 2147483647, wanted[0])
        self.rules = rules_of(rules)
        self.most_unpacked = most_unpacked
        self.stamp = Stamp(stamp[0], stamp[1], stamp[2])

    cdef tuple made(self):
        cdef Run* run = &self.run
        cdef Py_ssize_t entries = run.index_entries, times = run.time_entries
        self.limits.index_room -= entries
        self.limits.time_room -= times
        run.index_entries = run.time_entries = 0
        return (
            (run.next_offset, self.limits.base, run.size),
            run.filling.since,
            (run.filling.timestamp, run.filling.timestamp_offset),
            (<const char*>self.out.index)[:entries * INDEX_ENTRY],
            (<const char*>self.out.time)[:times * TIME_ENTRY],
        )

    cdef tuple told(self, const Append* info, int64_t log_start):
        return (
            info.first_offset, info.last_offset, info.max_timestamp,
            info.log_append_time, log_start,
            None if info.last_leader_epoch == -1 else info.last_leader_epoch,
            self.codecs[info.source_codec], info.valid_bytes, False,
        )

    def plan(
        self, list appends not None, Py_ssize_t first, Py_ssize_t plain_rows,
        int64_t log_start, int64_t now_ms,
    ):
        """Take the appends from `first` on: answers what is told of each, and made.

        `appends` are the buffers of rows, bounds of rows and of bytes, and what is
        known of the appends; rows before `plain_rows` may be of producers.
        """
        cdef Buffers held
        cdef Py_ssize_t count, end
        cdef const int64_t* row_bounds
        cdef const Append* info
        if len(appends) != 4:
            raise ValueError("appends are four buffers")
        hold_buffers(appends, &held)
        try:
            count = held.views[3].len // <Py_ssize_t>sizeof(Append)
            row_bounds = <const int64_t*>held.views[1].buf
            info = <const Append*>held.views[3].buf
            if (
                first < 0
                or held.views[1].len < (count + 1) * <Py_ssize_t>sizeof(int64_t)
                or held.views[2].len < (count + 1) * <Py_ssize_t>sizeof(int64_t)
                or held.views[0].len < row_bounds[count] * <Py_ssize_t>sizeof(Batch)
            ):
                raise ValueError("appends without their bounds or rows")
            with nogil:
                end = take_run(
                    <const Batch*>held.views[0].buf, info, row_bounds,
                    <const int64_t*>held.views[2].buf, first, count, plain_rows,
                    now_ms, &self.run, &self.limits, &self.out,
                )
            told = [self.told(&info[i], log_start) for i in range(first, end)]
        finally:
            release_buffers(&held)
        return told, self.made()

    cdef bint survey(
        self, bytes piece, const Batch* row, Append* info
    ) except -1:
        # Whether the records of a packed batch are plain.
        cdef const uint8_t* at
        cdef Py_ssize_t size
        cdef bint plain
        records = self.unpack(
            row.attributes & CODEC_MASK, memoryview(piece)[BATCH_HEADER:],
            self.most_unpacked,
        )
        if type(records) is not bytes:
            return False
        at, size = <const uint8_t*>PyBytes_AS_STRING(records), PyBytes_GET_SIZE(records)
        with nogil:
            plain = survey_unpacked(at, size, row, &self.rules, info)
        return plain

    cdef bint place(self, uint8_t* at, Batch* row, Append* info) noexcept nogil:
        # Let the run go on with a batch that was judged; False where it can not.
        cdef Run kept = self.run
        if (
            stamp_led(at, &self.stamp, self.run.next_offset, row, info)
            and goes_in(
                info, row.size_in_bytes, self.stamp.now_ms, &self.run, &self.limits
            )
            and take_batches_of(
                row, 1, self.owned, &self.run, &self.limits, &self.out
            )
        ):
            self.run.next_offset = info.last_offset + 1
            return True
        self.run = kept
        return False

    cdef bint lead_one(self, bytes piece, int64_t pos, Append* info) except -1:
        # Make one append ready in `data`; False where it needs more.
        cdef Batch row
        cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(piece)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(piece)
        cdef bint taken
        if (
            size > self.data.shape[0] - pos or size < BATCH_HEADER
            or self.run.next_offset >= self.limits.flush_at
            or (be64(at + 43) != NO_PRODUCER) != self.owned
        ):
            return False
        with nogil:
            taken = take_led(
                at, size, &self.data[0], pos, &self.wanted, &self.rules, &row, info
            )
            if taken and not row.attributes & CODEC_MASK:
                return self.place(&self.data[pos], &row, info)
        return (
            taken and self.survey(piece, &row, info)
            and self.place(&self.data[pos], &row, info)
        )

    def lead(self, list pieces not None, int64_t log_start, bint owned):
        """Make ready to be written what a leader is given: plain batches, one each.

        That is `take_batches`, `survey_batches`, `stamp_batches`, `place_batches` and
        `plan` in one pass, up to the first append that needs more, is not ``bytes``, or
        for which there is no room. With `owned` all are of producers, who are the
        caller's to judge; else none is. Answers what is told of each, the bytes of them
        all in `data`, and what they made.
        """
        cdef Append info
        cdef int64_t pos = 0
        cdef list told = []
        self.owned = owned
        for piece in pieces:
            if type(piece) is not bytes or not self.lead_one(piece, pos, &info):
                break
            pos += PyBytes_GET_SIZE(piece)
            told.append(self.told(&info, log_start))
        return told, pos, self.made()

    cdef bint take_followed(
        self, const uint8_t* at, int64_t size, int32_t epoch, int64_t now_ms,
        Append* info,
    ) noexcept nogil:
        # Let the run go on with what a follower is given; False where it can not.
        cdef Wanted wanted = Wanted(
            False, True, -2147483648, epoch, 9223372036854775807
        )
        cdef Found found = Found(
            <Batch*>&self.rows[0], 0, self.rows.shape[0] // <Py_ssize_t>sizeof(Batch)
        )
        cdef Run kept = self.run
        if (
            size
            and take_append(at, 0, size, &wanted, &found, info)
            and goes_in(info, size, now_ms, &self.run, &self.limits)
            and take_batches_of(
                found.at, found.rows, 0, &self.run, &self.limits, &self.out
            )
        ):
            self.run.next_offset = info.last_offset + 1
            return True
        self.run = kept
        return False

    def follow(
        self, bytes piece not None, leader_epoch, int64_t log_start, int64_t now_ms,
    ):
        """Make ready to be written, as it is, what a follower is given in one append.

        That is whole, sound batches, none of an epoch above `leader_epoch`, or with
        None the latest. Answers what is told of them and what they made; None where
        they need more.
        """
        cdef int32_t epoch = (
            self.limits.epoch if leader_epoch is None else leader_epoch
        )
        cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(piece)
        cdef int64_t size = PyBytes_GET_SIZE(piece)
        cdef Append info
        cdef bint taken
        if size <= QUICK_BYTES:
            taken = self.take_followed(at, size, epoch, now_ms, &info)
        else:
            with nogil:
                taken = self.take_followed(at, size, epoch, now_ms, &info)
        if not taken:
            return None
        return self.told(&info, log_start), self.made()
