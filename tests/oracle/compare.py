"""Compare the results and the directories of two players.

    python -m tests.oracle.compare results EXPECTED.results.jsonl ACTUAL.results.jsonl
    python -m tests.oracle.compare dirs    EXPECTED_DIR ACTUAL_DIR
    python -m tests.oracle.compare tree    EXPECTED.tree.json ACTUAL_DIR
    python -m tests.oracle.compare all     EXPECTED_ROOT ACTUAL_ROOT [NAME ...]

`all` takes every NAME.results.jsonl below EXPECTED_ROOT and compares it with
ACTUAL_ROOT/NAME.results.jsonl, and EXPECTED_ROOT/NAME/ (or NAME.tree.json) with
ACTUAL_ROOT/NAME/. With --scenarios only those whose scenario is in DIR, and those whose
first line says "compare": "content" in content mode.

Exit code: 0 all equal, 1 a difference, 2 usage. README.md lists what is ignored.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path

from tests.oracle.compare_dirs import compare_dirs, compare_tree
from tests.oracle.compare_results import compare_results
from tests.oracle.report import Report


def compare_all(expected_root, actual_root, names, options):
    expected_root, actual_root = Path(expected_root), Path(actual_root)
    names = names or sorted(
        p.name.removesuffix(".results.jsonl")
        for p in expected_root.glob("*.results.jsonl")
    )
    if options.scenarios:
        names = [
            name
            for name in names
            if (Path(options.scenarios) / f"{name}.jsonl").exists()
        ]
    failed = 0
    for name in names:
        report = Report(options.max)
        content = options.content
        if options.scenarios:
            first = (
                (Path(options.scenarios) / f"{name}.jsonl")
                .read_text()
                .split("\n", 1)[0]
            )
            options.content = content or json.loads(first).get("compare") == "content"
        print(f"{name}:", end=" ", flush=True)
        actual_results = actual_root / f"{name}.results.jsonl"
        if actual_results.exists():
            compare_results(
                expected_root / f"{name}.results.jsonl", actual_results, options, report
            )
        else:
            report.add("  no results")
        if (actual_root / name).is_dir():
            if (expected_root / name).is_dir():
                compare_dirs(expected_root / name, actual_root / name, options, report)
            elif (expected_root / f"{name}.tree.json").exists():
                compare_tree(
                    expected_root / f"{name}.tree.json",
                    actual_root / name,
                    options,
                    report,
                )
        else:
            report.add("  no directory")
        options.content = content
        print("equal" if not report.count else f"{report.count} differences")
        failed += bool(report.count)
    print(f"{len(names) - failed} of {len(names)} equal")
    return failed or not names


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("results", "dirs", "tree", "all"))
    parser.add_argument("expected")
    parser.add_argument("actual")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--scenarios", help="folder of the scenarios (all)")
    parser.add_argument(
        "--content",
        action="store_true",
        help="compare compressed batches by their records; ignore lengths",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="also unused index tails and the order inside snapshots",
    )
    parser.add_argument(
        "--tasks", action="store_true", help="also the names of all background tasks"
    )
    parser.add_argument(
        "--mtimes", action="store_true", help="also modification times of .log files"
    )
    parser.add_argument(
        "--max", type=int, default=10, help="differences shown per scenario"
    )
    parser.add_argument(
        "--decompress",
        metavar="MODULE:FUNCTION",
        help="function(codec_id, data) -> bytes for codecs other than gzip",
    )
    options = parser.parse_intermixed_args(argv)
    if options.decompress:
        module, function = options.decompress.split(":")
        options.decompress = getattr(importlib.import_module(module), function)
    if options.kind == "all":
        return (
            1
            if compare_all(options.expected, options.actual, options.names, options)
            else 0
        )
    report = Report(options.max)
    {"results": compare_results, "dirs": compare_dirs, "tree": compare_tree}[
        options.kind
    ](options.expected, options.actual, options, report)
    print("equal" if not report.count else f"{report.count} differences")
    return 1 if report.count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
