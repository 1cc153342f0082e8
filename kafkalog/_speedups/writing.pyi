from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from _typeshed import ReadableBuffer

class _Opened(Protocol):
    @property
    def descriptor(self) -> int: ...
    @property
    def path(self) -> Path: ...

def write_each(
    writes: Sequence[tuple[_Opened, ReadableBuffer, int]],  # a list
) -> None: ...
