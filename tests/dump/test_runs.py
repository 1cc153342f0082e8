"""Every recorded run of the flags that golden's runs do not use, line for line."""

import pytest

from tests import golden_data
from tests.dump.dump_command import dump
from tests.dump.runs import kept_runs

RUNS = kept_runs()


@pytest.mark.parametrize("run", RUNS, ids=lambda run: " ".join(run["arguments"]))
def test_flags_have_the_same_effect_as_kafkas(run, monkeypatch):
    here = golden_data.logs(run["set_name"]).parent
    monkeypatch.chdir(here)
    ran = dump(*run["arguments"])
    assert ran.stdout.decode() == run["stdout"]
    assert ran.stderr.replace(f"{here}/", "") == run["stderr"]
    assert ran.exit_code == run["exit_code"]


def test_there_are_runs_of_every_flag():
    given = {argument for run in RUNS for argument in run["arguments"]}
    assert len(RUNS) > 1000
    assert given >= {
        "--deep-iteration",
        "--skip-record-metadata",
        "--max-bytes",
        "--max-message-size",
        "--key-decoder-class",
        "--value-decoder-class",
        "--remote-log-metadata-decoder",
    }


def test_an_unknown_flag_is_a_usage_error():
    for flag in ("--bogus", "-x", "--print-data", "--FILES"):
        ran = dump("--files", "7.log", flag)
        assert (ran.exit_code, ran.stdout) == (2, b"")
        assert flag in ran.stderr


@pytest.mark.parametrize(
    "faulty",
    [
        ["--max-bytes", "abc"],
        ["--max-message-size", "1", "--max-message-size", "1"],
        ["--files", "7.log", "--files", "7.log"],
    ],
)
def test_with_format_an_invalid_value_is_a_usage_error(faulty, monkeypatch):
    monkeypatch.chdir(golden_data.partitions("k431-clean")[0])
    for form in (["."], ["--format", "jsonl", "--files", "."]):
        ran = dump(*faulty, *form)
        assert (ran.exit_code, ran.stdout) == (2, b"")
        assert "java" not in ran.stderr
