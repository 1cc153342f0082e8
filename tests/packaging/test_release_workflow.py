"""The workflow that publishes builds a wheel for each Python and platform named."""

import re
import subprocess
import sys

import pytest
import yaml

import kafkalog
from tests.packaging.needs import PROJECT, ROOT, SETTINGS

WORKFLOW = ROOT / ".github" / "workflows" / "wheels.yml"
JOBS = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
CLASSIFIERS = PROJECT["classifiers"]
VERSIONS = [
    name.removeprefix("Programming Language :: Python :: ")
    for name in CLASSIFIERS
    if re.search(r":: 3\.\d+$", name)
]


def test_wheels_are_built_for_the_pythons_named():
    built = SETTINGS["tool"]["cibuildwheel"]["build"].split()
    named = [f"cp{version.replace('.', '')}-*" for version in VERSIONS]
    assert any(":: Free Threading ::" in name for name in CLASSIFIERS)
    assert built == [*named, f"cp{VERSIONS[-1].replace('.', '')}t-*"]
    assert PROJECT["requires-python"] == f">={VERSIONS[0]}"


def test_wheels_are_built_on_the_systems_named():
    systems = {name for name in CLASSIFIERS if name.startswith("Operating System ::")}
    runners = JOBS["wheels"]["strategy"]["matrix"]["os"]
    kinds = {runner.partition("-")[0] for runner in runners}
    names = {"ubuntu": "POSIX :: Linux", "macos": "MacOS"}
    assert systems == {f"Operating System :: {names[kind]}" for kind in kinds}


def test_only_the_job_that_publishes_gets_a_token():
    allowed = [name for name, job in JOBS.items() if "permissions" in job]
    assert allowed == ["publish"]
    assert JOBS["publish"]["permissions"] == {"id-token": "write"}
    assert JOBS["publish"]["environment"] == "pypi"
    assert {*JOBS["publish"]["needs"]} == {*JOBS} - {"publish"}
    assert JOBS["publish"]["if"] == "startsWith(github.ref, 'refs/tags/')"


def test_the_package_names_the_version_that_a_tag_publishes():
    assert kafkalog.__version__ == PROJECT["version"]


def test_pages_and_messages_name_the_same_pythons():
    text = f"Python {VERSIONS[0]} to {VERSIONS[-1]}"
    for name in ("README.md", "CONTRIBUTING.md", "Makefile", "docs/install.md"):
        assert text in (ROOT / name).read_text(encoding="utf-8"), name


def run(*command):
    ran = subprocess.run(
        [sys.executable, "-m", *command],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    return ran.stdout.split()


@pytest.mark.packaging
def test_the_workflow_has_the_form_that_its_forge_reads():
    run("check_jsonschema", "--builtin-schema=vendor.github-workflows", str(WORKFLOW))


@pytest.mark.packaging
@pytest.mark.parametrize(
    ("system", "platform"),
    [
        ("linux", "manylinux_x86_64"),
        ("linux", "manylinux_aarch64"),
        ("macos", "macosx_x86_64"),
        ("macos", "macosx_arm64"),
    ],
)
def test_cibuildwheel_makes_these_wheels(system, platform):
    machine = platform.partition("_")[2]
    options = ["--print-build-identifiers", "--platform", system, "--archs", machine]
    tags = SETTINGS["tool"]["cibuildwheel"]["build"].replace("*", platform).split()
    assert run("cibuildwheel", *options) == tags
