"""Compile the extension modules; the rest of the build is in pyproject.toml."""

import os
import re
import tomllib
from multiprocessing import get_start_method
from pathlib import Path
from sysconfig import get_config_var

from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("KAFKALOG_DEBUG") == "1"  # checks every index
SANITIZE = os.environ.get("KAFKALOG_SANITIZE") == "1"  # checks every address and sum

PACKAGE = Path("kafkalog")
HEADERS = [str(path) for path in sorted(PACKAGE.rglob("*.h"))]
# Sanitizers: optimizing takes minutes, and removes some of what they detect.
LEVEL = ["-O0", "-g1"] if SANITIZE else ["-O1", "-g1"] if DEBUG else ["-O3", "-g0"]
COMPILE = ["-Wall", *LEVEL, *os.environ.get("CFLAGS", "").split()]  # the last one wins
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"] * SANITIZE
# One place for all commands, so that a wheel has the kernels of an editable install.
BUILT = {"build_lib": f"build/lib-{get_config_var('SOABI')}"}
CORES = os.cpu_count() or 1
FORKS = get_start_method() == "fork"  # another process would run this file again


def read_readme() -> str:
    """Return README.md with links to the files of this version, for a package index."""
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    files = f"{project['urls']['Source']}/blob/v{project['version']}"
    text = Path("README.md").read_text("utf-8")
    return re.sub(r"\]\((?!\w+:|#)", f"]({files}/", text)


# One build for each Python: the limited API slows an append of one record by 7 %.
extensions = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        depends=HEADERS,
        extra_compile_args=COMPILE + SANITIZERS,
        extra_link_args=SANITIZERS,
    )
    for path in sorted(PACKAGE.rglob("*.pyx"))
]

setup(
    long_description=read_readme(),
    long_description_content_type="text/markdown",
    options={"build": BUILT, "build_ext": {**BUILT, "parallel": CORES}},
    ext_modules=cythonize(
        extensions,
        nthreads=CORES if FORKS else 0,
        build_dir="build/debug" if DEBUG else "build/release",
        compiler_directives={
            "language_level": 3,
            "embedsignature": True,
            "autotestdict": False,
            "freethreading_compatible": True,
            "boundscheck": DEBUG,
            "wraparound": False,
            "initializedcheck": DEBUG,
            "cdivision": True,
            "show_performance_hints": not DEBUG,
        },
    ),
)
