"""The demo runs to its end, without Spark, and fails where it finds damage."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOME = ("k431-clean", "oldclients")
MODULES = ("run", "engine", "killed_writer")


@pytest.fixture
def demo(monkeypatch):
    """Return a function that imports a module of the demo by its name."""
    monkeypatch.syspath_prepend(ROOT / "demo")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


def test_the_demo_lists_verifies_reads_exports_and_writes(
    demo, monkeypatch, tmp_path, capsys
):
    run = demo("run")
    monkeypatch.setattr(run, "OUT", tmp_path / "out")
    monkeypatch.setattr(run, "use_spark", lambda: None)
    some = [logs for logs in run.SETS if logs.parent.name in SOME]
    monkeypatch.setattr(run, "SETS", some)
    run.main()
    printed = capsys.readouterr().out
    assert printed.count("\n== ") == 6
    for name in SOME:
        assert printed.count(f"  {name} ") == 3
    assert "killed    by signal 9" in printed
    assert " 0 problems" in printed
    assert "read      10150 records, 13900 to 24049; 0 differ" in printed
    assert "compacted 10000 records of 200 keys to 200, " in printed
    assert "read      200 records, the last of each key; 0 differ" in printed


def append_a_byte(logs):
    with (logs / "orders-0" / "leader-epoch-checkpoint").open("ab") as file:
        file.write(b"?")


def test_the_demo_fails_if_a_file_is_corrupt(demo, monkeypatch, tmp_path, capsys):
    engine = demo("engine")
    recover = engine.recover

    def recover_and_damage(logs):
        recover(logs)
        append_a_byte(logs)

    monkeypatch.setattr(engine, "recover", recover_and_damage)
    assert engine.main(str(tmp_path / "logs")) == 1
    printed = capsys.readouterr().out
    assert " 0 problems" not in printed
    assert "0 differ" in printed


def test_the_demo_fails_if_a_record_differs(demo, monkeypatch, tmp_path, capsys):
    engine, writer = demo("engine"), demo("killed_writer")
    expected = writer.value_of
    recover = engine.recover

    def recover_and_forget(logs):
        recover(logs)
        monkeypatch.setattr(
            writer, "value_of", lambda at: expected(at + (at == 14_000))
        )

    monkeypatch.setattr(engine, "recover", recover_and_forget)
    assert engine.main(str(tmp_path / "logs")) == 1
    printed = capsys.readouterr().out
    assert " 0 problems" in printed
    assert "; 1 differ" in printed
