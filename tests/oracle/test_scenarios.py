"""Every recorded scenario ends as in Kafka's own engine."""

import ast
from pathlib import Path

import pytest

import kafkalog
from kafkalog import cleaner, errors, testing
from tests.oracle.compare_dirs import compare_tree
from tests.oracle.compare_results import compare_appends
from tests.oracle.playing import EXPECTED, NAMES, differences, options_for, played
from tests.oracle.report import Report


@pytest.mark.parametrize("name", NAMES)
def test_each_step_and_each_file_of_a_scenario_is_as_in_kafka(name, tmp_path):
    assert not differences(name, tmp_path).count


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_ends_the_same_with_appends_in_one_call(name, tmp_path):
    results, options, report = (
        played(name, tmp_path, chunked=True),
        options_for(name),
        Report(10),
    )
    compare_tree(EXPECTED / f"{name}.tree.json", tmp_path / name, options, report)
    compare_appends(EXPECTED / f"{name}.results.jsonl", results, report)
    assert not report.count


@pytest.mark.parametrize("name", ["play", "steps", "files"])
def test_the_player_imports_public_names_only(name):
    tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text())
    public = {"kafkalog": kafkalog.__all__, "kafkalog.testing": testing.__all__}
    public |= {"kafkalog.cleaner": cleaner.__all__, "kafkalog.errors": errors.__all__}
    imported = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert not [alias for alias in node.names if "kafkalog" in alias.name]
        if isinstance(node, ast.ImportFrom) and "kafkalog" in (node.module or ""):
            imported += [(node.module, alias.name) for alias in node.names]
    assert imported or name == "files"
    assert [each for each in imported if each[1] not in public.get(each[0], ())] == []


def test_the_player_is_small():
    assert len((Path(__file__).parent / "play.py").read_text().splitlines()) < 350
