"""Sizes in binary units, such as ``1.5 KiB``."""

from __future__ import annotations

from typing import Final

UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def in_units(size_in_bytes: int) -> str:
    """Return a size in binary units.

    >>> in_units(999), in_units(1536), in_units(3 << 30)
    ('999 B', '1.5 KiB', '3.0 GiB')
    """
    size, unit = float(size_in_bytes), 0
    while size >= 1024 and unit < len(UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size_in_bytes} B" if not unit else f"{size:.1f} {UNITS[unit]}"
