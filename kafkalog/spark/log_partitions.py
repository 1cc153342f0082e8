"""What log directories hold for a query: partitions, where they begin and end.

Each question looks at the files as they are then, but for where a log ends, which is
looked for once. That is the log's end: no broker is there to tell what is replicated.

Knows: partitions, by topic and number. Does not know: options, Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from kafkalog.errors import ConfigError, NotALogDirectoryError
from kafkalog.log.log import Log, find_end, find_stable
from kafkalog.log.log_segments import list_segments
from kafkalog.query.sources import Part, find_parts
from kafkalog.spark.offset_json import Place, name_place
from kafkalog.storage.location import Location, entries


class Partitions:
    """The partitions in log directories as they are when this is made.

    `sources` are paths of log directories or partitions; no partition may be in two.
    One that is empty is neither, whatever its name: a mount without its file system.
    """

    def __init__(self, sources: Sequence[Any], *, read_committed: bool = False) -> None:
        self._read_committed = read_committed
        self._parts: dict[Place, Part] = {}
        self._ends: dict[Place, int] = {}
        for part in find_parts(list(sources)):
            if part.directory is None:
                raise NotALogDirectoryError(f"not a log directory: {part.file}")
            if part.directory in sources and not entries(part.directory):
                raise NotALogDirectoryError(f"an empty directory: {part.directory}")
            place = part.topic, part.partition
            if place in self._parts:
                raise ConfigError(
                    f"{name_place(place)} is in two places, which may"
                    f" differ: {self.directory(place)} and {part.directory}"
                )
            self._parts[place] = part

    def places(self) -> list[Place]:
        """Name the partitions, in order."""
        return sorted(self._parts)

    def directory(self, place: Place) -> Location:
        """Say where a partition lies."""
        return cast("Location", self._parts[place].directory)

    def earliest(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the log start offset of each."""
        return {place: self._earliest(place) for place in places}

    def latest(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the log end offset of each, or the last stable one."""
        return {place: self._latest(place) for place in places}

    def for_times(self, times: Mapping[Place, int]) -> dict[Place, int | None]:
        """Return the first offset at or after each time, None where there is none."""
        return {place: self._for_time(place, time) for place, time in times.items()}

    def _earliest(self, place: Place) -> int:
        segments = list_segments(self.directory(place))
        first = segments[0].base_offset if segments else 0
        return max(first, self._parts[place].log_start_offset)

    def _latest(self, place: Place) -> int:
        if place not in self._ends:
            self._ends[place] = self._find_end(place)
        return self._ends[place]

    def _find_end(self, place: Place) -> int:
        directory = self.directory(place)
        start = max(0, self._parts[place].log_start_offset)
        end = find_end(directory, start, past_damage=True)
        return find_stable(directory, end) if self._read_committed else end

    def _for_time(self, place: Place, time: int) -> int | None:
        [found] = Log(self.directory(place)).offsets_for_times([time]).tolist()
        if found < 0 or (self._read_committed and found >= self._latest(place)):
            return None
        return int(found)
