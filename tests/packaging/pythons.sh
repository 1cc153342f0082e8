#!/bin/sh
# Lists the Pythons that can build kafkalog here, a version and a path a line, the
# machine's own python3 first. Looks on PATH and among pyenv's versions; each is tried,
# for a name on PATH may be a shim that leads nowhere.
set -eu

can_build='
import os, sys, sysconfig
import ensurepip, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
minor = sys.version_info[:2]
if sys.implementation.name == "cpython" and minor >= (3, 11) and os.path.exists(header):
    print("%d.%d" % minor, os.path.realpath(sys.executable))
'

{
    for name in python3 python3.11 python3.12 python3.13 python3.14; do
        command -v "$name" || true
    done
    ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3 2>/dev/null || true
} | while read -r python; do
    "$python" -c "$can_build" 2>/dev/null || true
done | awk '!seen[$1]++'
