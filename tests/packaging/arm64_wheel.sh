#!/usr/bin/env bash
# Makes a wheel for ARM64 on an x86-64 machine, in the directory given:
#
#     tests/packaging/arm64_wheel.sh DIST
#
# Debian's Python for ARM64, of the version of .venv, is unpacked into build/arm64/root,
# and states how it compiles extension modules. Its compiler is the cross compiler. apt
# gets the packages with lists of its own: the machine's stay as they are.
set -eu

python=.venv/bin/python
version=$($python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
home=$PWD/build/arm64
root=$home/root
apt=(
    -o APT::Architecture=arm64
    -o APT::Architectures=arm64
    -o Dir::State="$home/apt"
    -o Dir::State::status="$home/apt/status"
    -o Dir::Cache="$home/apt"
)
data=_sysconfigdata__aarch64-linux-gnu

if [ ! -e "$home/$version" ]; then
    rm -rf "$home"
    mkdir -p "$home"/apt/{lists,archives}/partial "$home/python" "$root"
    touch "$home/apt/status"
    apt-get -qq "${apt[@]}" update
    apt-cache "${apt[@]}" show "libpython$version-dev" >/dev/null 2>&1 || {
        echo "left out: a wheel for ARM64, as this Debian has no Python $version"
        exit 0
    }
    apt-get -qq "${apt[@]}" install --yes --download-only --no-install-recommends \
        "python$version-minimal" "libpython$version-dev" libstdc++6 >/dev/null
    for package in "$home"/apt/archives/*.deb; do dpkg -x "$package" "$root"; done
    cp "$root/usr/lib/python$version/$data.py" "$home/python"
    touch "$home/$version"
fi

export _PYTHON_HOST_PLATFORM=linux-aarch64 _PYTHON_SYSCONFIGDATA_NAME=$data
export PYTHONPATH=$home/python
export CFLAGS="-I$root/usr/include/python$version -idirafter $root/usr/include ${CFLAGS:-}"
$python -m build --no-isolation --wheel --outdir "$1" >"$home/build.log" 2>&1 || {
    cat "$home/build.log"
    exit 1
}
