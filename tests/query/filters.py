"""Random filters over a scan's columns, as expressions of Arrow, SQL and Polars."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

SIGNS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
INTEGERS = {
    "partition": (-2, 4),
    "offset": (-2, 160),
    "timestamp_type": (-2, 2),
    "leader_epoch": (-2, 4),
    "producer_id": (-2, 12),
    "producer_epoch": (-2, 3),
    "sequence": (-2, 100),
    "magic": (-1, 3),
    "position": (-2, 20_000),
}
CODECS = ["none", "gzip", "snappy", "lz4", "zstd", "brotli"]
SEGMENTS = ["00000000000000000000.log", "00000000000000000040.log", "x"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Term:
    """One filter in three languages."""

    arrow: pc.Expression
    sql: str
    polars: pl.Expr


def terms(topics: list[str], times: list[int]) -> st.SearchStrategy[Term]:
    """Return a strategy of filters, for data with these topics and timestamps in ms."""
    leaves = [
        *(integers(column, *ends) for column, ends in INTEGERS.items()),
        texts("topic", topics),
        texts("codec", CODECS),
        texts("segment", SEGMENTS),
        timestamps(times),
        *(flag(name) for name in ("is_control", "is_transactional")),
        *(null(name) for name in ("timestamp", "key", "value", "offset")),
        st.just(long_value()),
    ]
    return st.recursive(st.one_of(leaves), joined, max_leaves=6)


def joined(parts: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    """Return a strategy of conjunctions, disjunctions and negations."""

    def both(pair: tuple[Term, Term]) -> Term:
        a, b = pair
        return Term(a.arrow & b.arrow, f"({a.sql} AND {b.sql})", a.polars & b.polars)

    def one(pair: tuple[Term, Term]) -> Term:
        a, b = pair
        return Term(a.arrow | b.arrow, f"({a.sql} OR {b.sql})", a.polars | b.polars)

    def negated(a: Term) -> Term:
        return Term(~a.arrow, f"(NOT {a.sql})", ~a.polars)

    pairs = st.tuples(parts, parts)
    conjunctions = pairs.map(both)
    opposites = (parts | conjunctions).map(negated)
    return st.one_of(conjunctions, pairs.map(one), opposites)


def integers(column: str, least: int, most: int) -> st.SearchStrategy[Term]:
    """Return a strategy of comparisons of an integer column, and of lists of values."""
    values = st.integers(least, most)
    return st.one_of(comparisons(column, values), lists(column, values))


def texts(column: str, values: list[str]) -> st.SearchStrategy[Term]:
    """Return a strategy of comparisons of a text column, and of lists of values."""
    found = st.sampled_from(values)
    return st.one_of(
        comparisons(column, found, quoted, ["=", "<>"]), lists(column, found, quoted)
    )


def timestamps(times: list[int]) -> st.SearchStrategy[Term]:
    """Return a strategy of comparisons near the timestamps, some of parts of a ms."""
    near = st.builds(
        lambda ms, us: EPOCH + timedelta(milliseconds=ms, microseconds=us),
        st.sampled_from(times),
        st.sampled_from([-1000, -1, 0, 1, 1000]),
    )
    return comparisons("timestamp", near, lambda time: f"TIMESTAMPTZ '{time}'")


def flag(column: str) -> st.SearchStrategy[Term]:
    """Return a strategy of a column of booleans and its opposite."""
    name = pc.field(column)
    return st.sampled_from(
        [
            Term(name, column, pl.col(column)),
            Term(name == pa.scalar(False), f"({column} = FALSE)", ~pl.col(column)),
        ]
    )


def null(column: str) -> st.SearchStrategy[Term]:
    """Return a strategy of a test for null and its opposite."""
    name, quote = pc.field(column), f'"{column}"'
    return st.sampled_from(
        [
            Term(name.is_null(), f"({quote} IS NULL)", pl.col(column).is_null()),
            Term(
                name.is_valid(), f"({quote} IS NOT NULL)", pl.col(column).is_not_null()
            ),
        ]
    )


def long_value() -> Term:
    """Return a condition that only records decide."""
    arrow = pc.binary_length(pc.field("value")) > 20
    sql = "(octet_length(value) > 20)"
    return Term(arrow, sql, pl.col("value").bin.size() > 20)


def comparisons(
    column: str,
    values: st.SearchStrategy[Any],
    spell: Any = str,
    signs: Any = tuple(SIGNS),
) -> st.SearchStrategy[Term]:
    """Return a strategy of comparisons of a column with one value."""

    def made(sign: str, value: Any) -> Term:
        compare = SIGNS[sign]
        return Term(
            compare(pc.field(column), value),
            f'("{column}" {sign} {spell(value)})',
            compare(pl.col(column), value),
        )

    return st.builds(made, st.sampled_from(list(signs)), values)


def lists(
    column: str, values: st.SearchStrategy[Any], spell: Any = str
) -> st.SearchStrategy[Term]:
    """Return a strategy of tests for one of several values."""

    def made(chosen: list[Any]) -> Term:
        sql = ", ".join(map(spell, chosen))
        return Term(
            pc.field(column).isin(chosen),
            f'("{column}" IN ({sql}))',
            pl.col(column).is_in(chosen),
        )

    return st.builds(made, st.lists(values, min_size=1, max_size=4))


def quoted(text: str) -> str:
    """Return a string of SQL."""
    return f"'{text}'"
