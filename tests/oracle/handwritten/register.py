"""The list of handwritten scenarios, and steps that many begin with."""

from tests.oracle.scenario import T0, Scenario, fill, rec

ALL = []


def scenario(theme, why, compare="bytes"):
    """Add a scenario with the steps and the name of the decorated function."""

    def register(function):
        s = Scenario(function.__name__.replace("_", "-"), why, theme, compare)
        function(s)
        ALL.append(s)
        return function

    return register


def ten(s, size=60, start=0, count=10, step=1000, **more):
    """Add `count` appends of one record each, with timestamps one second apart."""
    for i in range(start, start + count):
        s.append(rec(f"k{i}", fill(size), T0 + i * step), **more)
    return s
