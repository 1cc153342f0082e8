"""The documentation is correct: examples run, links resolve, messages exist."""

import ast
import io
import json
import re
from contextlib import redirect_stdout
from importlib import import_module

import pytest

import kafkalog
from kafkalog import errors
from kafkalog.cli.main import COMMANDS
from tests.doc_pages import PAGES, ROOT, PageRunner, begins_with_spark, name_of

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
WITHOUT_SPARK = [page for page in PAGES if not begins_with_spark(page)]
PLACEHOLDER = re.compile(r"\b(?:N|HEX|NAME|TEXT|PATH)\b")
NOT_OURS = ("No such file or directory: 'PATH'", "DATA_SOURCE_NOT_FOUND")
NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"


@pytest.mark.parametrize("page", WITHOUT_SPARK, ids=name_of)
def test_the_examples_of_a_page_print_their_output(page, monkeypatch, tmp_path):
    runner = PageRunner(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    report = runner.run()
    assert not report, report


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_resolve(page):
    links = LINK.findall(page.read_text(encoding="utf-8"))
    broken = [
        link
        for link in links
        if "://" not in link and not (page.parent / link).exists()
    ]
    assert not broken


def test_the_page_of_errors_names_each_class_and_no_other():
    there = {
        name
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, errors.KafkaLogError)
    }
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    tree = page.partition("| class |")[0]
    explained = set(re.findall(r"^\| `(\w+Error)` \|", page, re.MULTILINE))
    bases = {"KafkaLogError", "LocatedError", "CorruptionError"}
    assert set(re.findall(r"^ [ |`-]*(\w+Error)\b", tree, re.MULTILINE)) == there
    assert explained == there - bases


def test_each_page_is_once_in_the_menu_and_in_the_index():
    pages = sorted(
        str(page.relative_to(ROOT / "docs").with_suffix(""))
        for page in [*PAGES, NOTEBOOK]
        if page.is_relative_to(ROOT / "docs") and page.stem != "index"
    )
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    menus = re.findall(
        r"^```\{toctree\}\n(?::[^\n]*\n)*\n(.*?)^```", index, re.MULTILINE | re.DOTALL
    )
    assert sorted("".join(menus).split()) == pages
    linked = {link.rpartition(".")[0] for link in LINK.findall(index)}
    assert linked == {*pages}


def test_the_readme_has_a_line_for_each_command():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    table = page.partition("\n## Commands\n")[2].partition("\n## ")[0]
    names = [cell for (cell, _) in re.findall(r"^\| (`.*?) \| (.*) \|$", table, re.M)]
    listed = re.findall(r"`(?:kafkalog )?(\w+)`", " ".join(names))
    assert sorted(listed) == sorted(COMMANDS)


def texts_of_the_package():
    """Return all string literals; of an f-string, the parts between its fields."""
    return {
        node.value
        for path in (ROOT / "kafkalog").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_the_messages_of_the_troubleshooting_page_exist():
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    page = page.partition("## Messages of a broker\n")[0]
    messages = re.findall(r"^(?:###|-) `(.+?)`(?:$|: )", page, re.MULTILINE)
    texts = texts_of_the_package()
    unknown = [
        part
        for message in messages
        if message not in NOT_OURS
        for part in PLACEHOLDER.split(message)
        if not any(part.strip(" :'") in text for text in texts)
    ]
    assert len(messages) > 40
    assert not unknown


def test_the_api_page_has_every_public_name():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    names = re.findall(r"^\.\. auto(?:class|function):: ([\w.]+)", page, re.MULTILINE)
    modules = re.findall(r"^\.\. automodule:: (\S+)$", page, re.MULTILINE)
    public = [name for name in names if "." not in name]
    assert sorted(public) == sorted({*kafkalog.__all__} - {*errors.__all__})
    assert sorted(modules) == [
        "kafkalog.errors",
        "kafkalog.spark",
        "kafkalog.testing",
        "kafkalog.values",
    ]
    for name in {*names} - {*public}:
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute), name


def cells_of(notebook):
    return json.loads(notebook.read_text(encoding="utf-8"))["cells"]


def test_the_code_of_the_notebook_runs(monkeypatch):
    """Run its cells in one namespace, without Jupyter."""
    monkeypatch.chdir(NOTEBOOK.parent)
    monkeypatch.setenv("MPLBACKEND", "agg")
    variables = {"__name__": "__main__"}
    ran = 0
    with redirect_stdout(io.StringIO()):
        for number, cell in enumerate(cells_of(NOTEBOOK)):
            if cell["cell_type"] == "code":
                code = compile("".join(cell["source"]), f"cell {number}", "exec")
                exec(code, variables)
                ran += 1
    assert ran


def test_the_notebook_is_stored_without_outputs():
    cells = [cell for cell in cells_of(NOTEBOOK) if cell["cell_type"] == "code"]
    assert not [cell for cell in cells if cell["outputs"] or cell["execution_count"]]
    assert NOTEBOOK.stat().st_size < 50_000
