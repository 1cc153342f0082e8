"""Every recorded run of Kafka's own tool, line for line on both streams."""

import pytest

from tests import golden_data
from tests.dump.dump_command import dump
from tests.golden_data import DumpRun

RUNS = [(name, run) for name in golden_data.SETS for run in golden_data.dump_runs(name)]
SHORT_NAMES = {
    "CorruptRecordException": "org.apache.kafka.common.errors.CorruptRecordException",
    "CorruptIndexException": (
        "org.apache.kafka.storage.internals.log.CorruptIndexException"
    ),
}


def name_of(case):
    return case if isinstance(case, str) else " ".join(case.arguments)


def stderr_of(run: DumpRun) -> str:
    """Return what the tool printed, with the exception that was recorded apart."""
    if run.exception is None:
        return run.stderr
    name, reason = run.exception.split(": ", 1)
    return f'{run.stderr}Exception in thread "main" {SHORT_NAMES[name]}: {reason}\n'


@pytest.mark.parametrize(("name", "run"), RUNS, ids=name_of)
def test_the_command_prints_the_same_as_kafkas_tool(name, run, monkeypatch):
    here = golden_data.logs(name).parent
    monkeypatch.chdir(here)
    ran = dump(*run.arguments)
    assert ran.stdout == run.stdout.encode()
    assert ran.stderr.replace(f"{here}/", "") == stderr_of(run)
    assert ran.exit_code == (run.exception is not None)


def test_there_are_recorded_runs():
    assert len(RUNS) > 300
