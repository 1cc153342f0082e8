"""Index files of brokers, each with its entries by Kafka; a slow lookup."""

from __future__ import annotations

from typing import Any

import pytest

from tests import golden_data


def golden_indexes(suffix: str) -> list[Any]:
    """Return a parameter (path, truth) for each golden file that ends in `suffix`."""
    return [
        pytest.param(
            golden_data.logs(name) / directory / row["file"],
            row,
            id=f"{name}/{directory}/{row['file']}",
        )
        for name in golden_data.SETS
        for directory in golden_data.directories(name)
        for row in golden_data.truth(name, directory, "indexes")
        if row["file"].endswith(suffix)
    ]


def greatest(entries: list[list[int]], target: int, missing: int) -> int:
    """Return the second field of the last entry whose first is <= `target`."""
    below = [value for key, value in entries if key <= target]
    return below[-1] if below else missing
