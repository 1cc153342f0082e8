"""Bytes that end where memory ends: whoever reads one more is killed for it."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache

import numpy as np

PAGE = mmap.PAGESIZE
PAGES = 64
PROT_NONE = 0


@cache
def _room():
    """Return pages that may be used, with one behind and one before that may not."""
    memory = mmap.mmap(-1, (PAGES + 2) * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for guard in (address, address + (PAGES + 1) * PAGE):
        if libc.mprotect(ctypes.c_void_p(guard), PAGE, PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
    return memory, np.frombuffer(memory, np.uint8)[PAGE : (PAGES + 1) * PAGE]


def at_the_end(data):
    """Copy bytes so that the first behind them may not be touched."""
    whole = _room()[1]
    place = whole[len(whole) - len(data) :]
    place[:] = np.frombuffer(data, np.uint8)
    return place


def at_the_start(data):
    """Copy bytes so that the last before them may not be touched."""
    place = _room()[1][: len(data)]
    place[:] = np.frombuffer(data, np.uint8)
    return place
