from collections.abc import Sequence
from typing import Protocol

from _typeshed import ReadableBuffer

class _Opened(Protocol):
    @property
    def descriptor(self) -> int: ...

def write_each(
    writes: Sequence[tuple[_Opened, ReadableBuffer, int]],  # a list
) -> tuple[int, int]: ...  # writes done, errno
def reserve(descriptor: int, start: int, length: int) -> int: ...  # errno
