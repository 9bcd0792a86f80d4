#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A user's program against the installed library: install.sh CHECK BUILD_DIR WORK_DIR CC, with CHECK one of
#   stage              installs into WORK_DIR and moves the tree, as a package would; the other checks use it
#   tools              the installed programs start
#   pkgconfig-shared   consumer.c by pkg-config, and the same fully static
#   pkgconfig-static
#   cmake-shared       consumer.c by find_package, and the same with seqmix::static
#   cmake-static
#   subproject         consumer.c by add_subdirectory: the library alone, no C++ compiler, no other dependency
set -eu

check=$1
build=$2
work=$3
cc=$4
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
prefix=$work/moved

fail() {
    echo "install $check: $*" >&2
    exit 1
}

# Where the installed libraries are: lib, lib64 or lib/<triplet>.
libdir() {
    dirname "$(find "$prefix" -name libseqmix.a)"
}

# runs PROGRAM, which must say what README.md promises
runs() {
    said=$("$1") || fail "$1 exits with $?: $said"
    [ "$said" = "recalled 5 6 7" ] || fail "$1 says: $said"
    echo "$said"
}

# needs_shared PROGRAM yes|no: whether the loader is asked for the library
needs_shared() {
    found=no
    if readelf -d "$1" | grep -q 'NEEDED.*libseqmix'; then
        found=yes
    fi
    [ "$found" = "$2" ] || fail "$1 needs libseqmix.so: $found"
}

# by_pkgconfig [-static]: the flags are words, on purpose
by_pkgconfig() {
    flags=$(PKG_CONFIG_PATH=$(libdir)/pkgconfig pkg-config --cflags --libs ${1:+--static} seqmix) || fail "pkg-config"
    # shellcheck disable=SC2086
    "$cc" -std=c11 -Wall -Wextra -Werror "$here/consumer.c" -o "$work/$check" ${1:-} $flags
}

by_cmake() {
    rm -rf "${work:?}/$check"
    cmake -S "$here" -B "$work/$check" -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Release "$@" >"$work/$check.log" ||
        fail "cmake fails: $(cat "$work/$check.log")"
    cmake --build "$work/$check" >>"$work/$check.log" 2>&1 || fail "the build fails: $(cat "$work/$check.log")"
}

case $check in
stage)
    rm -rf "$work"
    mkdir -p "$work"
    cmake --install "$build" --prefix "$work/first" >"$work/stage.log"
    mv "$work/first" "$prefix"
    for file in include/seqmix/seqmix.h include/seqmix/abi.h include/seqmix/version.h; do
        [ -f "$prefix/$file" ] || fail "$file is not installed"
    done
    for file in libseqmix.a libseqmix.so pkgconfig/seqmix.pc cmake/seqmix/seqmixConfig.cmake; do
        [ -f "$(libdir)/$file" ] || fail "$file is not installed"
    done
    ! grep -rl "$work\|$root" "$prefix" --include='*.pc' --include='*.cmake' || fail "absolute paths in the files above"
    find "$prefix" -type f -o -type l | sed "s|$prefix/||" | sort
    ;;
tools)
    for tool in seqmix-check seqmix-bench seqmix-run; do
        "$prefix/bin/$tool" --help >"$work/$tool.log" 2>&1 || fail "$tool --help exits with $?"
        grep -q "$tool" "$work/$tool.log" || fail "$tool --help does not say its name"
    done
    echo "seqmix-check, seqmix-bench and seqmix-run start from the moved tree"
    ;;
pkgconfig-shared)
    by_pkgconfig
    needs_shared "$work/$check" yes
    LD_LIBRARY_PATH=$(libdir)
    export LD_LIBRARY_PATH
    runs "$work/$check"
    ;;
pkgconfig-static)
    by_pkgconfig -static
    needs_shared "$work/$check" no
    runs "$work/$check"
    ;;
cmake-shared)
    by_cmake -DCMAKE_PREFIX_PATH="$prefix"
    needs_shared "$work/$check/consumer" yes
    runs "$work/$check/consumer"
    ;;
cmake-static)
    by_cmake -DCMAKE_PREFIX_PATH="$prefix" -DCONSUMER_LINKS=seqmix::static
    needs_shared "$work/$check/consumer" no
    runs "$work/$check/consumer"
    ;;
subproject)
    by_cmake -DSEQMIX_SOURCE="$root"
    ! grep -q '^CMAKE_CXX_COMPILER:' "$work/$check/CMakeCache.txt" || fail "a C++ compiler was looked for"
    ! grep -q '^PKG_CONFIG_EXECUTABLE:' "$work/$check/CMakeCache.txt" || fail "pkg-config was looked for"
    [ ! -e "$work/$check/seqmix/seqmix-check" ] || fail "the tools were built"
    runs "$(find "$work/$check" -name consumer -type f)"
    ;;
*)
    fail "no such check"
    ;;
esac
