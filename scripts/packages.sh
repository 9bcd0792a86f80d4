#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The Debian and Ubuntu packages that seqmix needs, in one place: packages.sh build|test installs what is missing.
# "a|b" means either of them; a "?" in front marks what the work can go on without.
set -eu

build="build-essential cmake pkg-config ninja-build libcjson-dev libpcre2-dev libutf8proc-dev ?libopenblas0-pthread|libopenblas0"
tests="check clang ?libclang-rt-dev|libclang-rt-14-dev valgrind ?clang-format-14|clang-format ?shellcheck python3 python3-numpy libsimde-dev qemu-user"

case ${1:-} in
build) wanted=$build ;;
test) wanted="$build $tests" ;;
*)
    echo "usage: packages.sh build|test" >&2
    exit 2
    ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "No apt-get here. These Debian packages, or their like, are needed: $wanted"
    exit 0
fi

installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# The alternatives of one entry as words.
alternatives() {
    echo "${1#\?}" | tr '|' ' '
}

missing=''
for entry in $wanted; do
    for name in $(alternatives "$entry"); do
        if installed "$name"; then
            continue 2
        fi
    done
    missing="$missing $entry"
done
if [ -z "$missing" ]; then
    echo "All packages are installed."
    exit 0
fi

as_root=''
if [ "$(id -u)" -ne 0 ]; then
    as_root=sudo
fi
export DEBIAN_FRONTEND=noninteractive
echo "Asking apt for the packages that are missing:$(echo "$missing" | tr -d "?")"
$as_root apt-get update -qq

chosen=''
for entry in $missing; do
    for name in $(alternatives "$entry"); do
        if [ -n "$(apt-cache policy "$name" | awk '$1 == "Candidate:" && $2 != "(none)"')" ]; then
            chosen="$chosen $name"
            continue 2
        fi
    done
    case $entry in
    \?*) echo "There is no package for $entry here; going on without." ;;
    *)
        echo "apt knows no package for $entry." >&2
        exit 1
        ;;
    esac
done
if [ -n "$chosen" ]; then
    echo "Installing:$chosen"
    log=$(mktemp)
    # The names are words, on purpose.
    # shellcheck disable=SC2086
    if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $chosen >"$log" 2>&1; then
        cat "$log"
        exit 1
    fi
    rm -f "$log"
fi
