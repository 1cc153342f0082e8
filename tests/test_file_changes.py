"""All changes of files go through `Disk`: its methods, and open files that it made.

So a test of a failing disk, or of a power cut, meets every change.
"""

import ast
from pathlib import Path

import pytest

import kafkalog

PACKAGE = Path(kafkalog.__file__).parent
MAY_CHANGE = {
    "storage/durable_file.py": "It has `Disk`.",
    "rehearsal/rehearsal_disk.py": "It is a disk, whose files are temporary.",
    "segment/segment_files.py": "It renames open files by `DurableFile.rename`.",
    "export/delta_table.py": "The library writes the files of a Delta table.",
    "cli/exits.py": "It opens /dev/null in place of a closed standard stream.",
    "spark/job_output.py": "Tasks of Spark on other machines write to the directory.",
    "spark/job_parquet.py": "As `job_output`: pyarrow writes files for it.",
}
"""Modules that call what is refused elsewhere, and the reason."""

OF_OS = {
    *("chmod", "chown", "copy_file_range", "fchmod", "fchown", "fdatasync", "fsync"),
    *("ftruncate", "link", "makedirs", "mkdir", "mkfifo", "mknod", "posix_fallocate"),
    *("pwrite", "pwritev", "remove", "removedirs", "rename", "renames", "replace"),
    *("rmdir", "symlink", "truncate", "unlink", "utime", "write", "writev"),
    *("O_APPEND", "O_CREAT", "O_RDWR", "O_TRUNC", "O_WRONLY"),
}
OF_SHUTIL = {
    *("chown", "copy", "copy2", "copyfile", "copyfileobj", "copymode", "copystat"),
    *("copytree", "make_archive", "move", "rmtree", "unpack_archive"),
}
OF_TEMPFILE = {"NamedTemporaryFile", "mkdtemp", "mkstemp"}
"""Not the directories and files that tempfile removes itself."""

NAMES = {"os": OF_OS, "shutil": OF_SHUTIL, "tempfile": OF_TEMPFILE}
METHODS = {
    *("chmod", "hardlink_to", "lchmod", "mkdir", "rmdir", "symlink_to", "tofile"),
    *("touch", "unlink", "write_bytes", "write_deltalake", "write_text"),
}
OF_ONE_ARGUMENT = {"rename", "replace"}
"""Methods of `Path` with one argument; others of the names have several."""


def is_opening(node):
    """Return whether a call opens a file by a mode in which it can be changed."""
    match node.func:
        case ast.Name(id="open" | "FileIO") | ast.Attribute(attr="open" | "FileIO"):
            values = [*node.args, *(each.value for each in node.keywords)]
        case _:
            return False
    modes = [each.value for each in values if isinstance(each, ast.Constant)]
    return any(
        isinstance(mode, str)
        and set(mode) <= set("rwaxbt+")
        and set(mode) & set("wax+")
        for mode in modes
    )


def is_of_disk(node):
    """Return whether an expression is a disk, by its name."""
    return ast.unparse(node).split(".")[-1].lower().endswith(("disk", "unsynced"))


def changes_in(source):
    """Yield the line and the text of what changes files, except calls of a disk."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=module, names=names):
                refused = NAMES.get(module, set())
                is_change = any(alias.name in refused for alias in names)
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                is_change = name in NAMES.get(module, set())
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=args):
                is_one = name in OF_ONE_ARGUMENT and len(args) == 1
                is_change = name in METHODS or (is_one and not node.keywords)
                is_change = (is_change or is_opening(node)) and not is_of_disk(value)
            case ast.Call():
                is_change = is_opening(node)
            case _:
                is_change = False
        if is_change:
            yield node.lineno, ast.unparse(node)


def found_in(path):
    return list(changes_in(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "path",
    sorted(PACKAGE.rglob("*.py")),
    ids=lambda path: path.relative_to(PACKAGE).as_posix(),
)
def test_files_are_changed_by_a_disk(path):
    if path.relative_to(PACKAGE).as_posix() in MAY_CHANGE:
        assert found_in(path), "the module changes no file: take it from the list"
    else:
        assert not found_in(path), "files are changed by the methods of `Disk`"


@pytest.mark.parametrize("name", MAY_CHANGE)
def test_the_modules_that_may_change_files_exist(name):
    assert (PACKAGE / name).is_file()


@pytest.mark.parametrize(
    "source",
    [
        *("os.replace(a, b)", "os.open(a, os.O_RDWR)", "from os import unlink"),
        *("import shutil\nshutil.rmtree(a)", "from shutil import copyfile"),
        *("path.write_bytes(data)", "(root / name).mkdir(parents=True)"),
        *("path.replace(target)", "path.rename(target)", "open(path, 'w')"),
        *("path.open('xb')", "open(path, mode='r+b')", "tempfile.mkdtemp()"),
        *("io.FileIO(path, 'a')", "delta.write_deltalake(path)"),
    ],
)
def test_a_direct_change_is_found(source):
    assert list(changes_in(source))


@pytest.mark.parametrize(
    "source",
    [
        *("DISK.replace(path, data)", "self._disk.rename(a, b)", "open(path, 'rb')"),
        *("text.replace('a', 'b')", "replace(row, size=1)", "path.open('rb')"),
        *("time.replace(tzinfo=UTC)", "disk.open(path, create=True)", "open(path)"),
        *("kafkalog.open(path, config)", "os.open(path, os.O_RDONLY)"),
        "UNSYNCED.replace(path, data)",
    ],
)
def test_reading_and_calls_of_a_disk_are_no_changes(source):
    assert not list(changes_in(source))
