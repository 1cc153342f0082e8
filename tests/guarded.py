"""Buffers next to protected memory: an access outside of them ends the process."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache

import numpy as np

PAGE = mmap.PAGESIZE
PAGES = 64
PROT_NONE = 0


@cache
def _pages():
    """Return accessible pages, with a protected page before and one after them."""
    memory = mmap.mmap(-1, (PAGES + 2) * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for guard in (address, address + (PAGES + 1) * PAGE):
        if libc.mprotect(ctypes.c_void_p(guard), PAGE, PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
    return memory, np.frombuffer(memory, np.uint8)[PAGE : (PAGES + 1) * PAGE]


def at_the_end(data):
    """Return a copy of `data` with protected memory after it."""
    pages = _pages()[1]
    copy = pages[len(pages) - len(data) :]
    copy[:] = np.frombuffer(data, np.uint8)
    return copy


def at_the_start(data):
    """Return a copy of `data` with protected memory before it."""
    copy = _pages()[1][: len(data)]
    copy[:] = np.frombuffer(data, np.uint8)
    return copy
