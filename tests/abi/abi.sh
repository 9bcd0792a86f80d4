#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What a program that links the library can rely on: abi.sh CHECK BUILD_DIR, with CHECK one of
#   symbols   libseqmix.so exports what symbols.txt lists, nothing else
#   needed    it needs the C library, libm and pthread, and loads without tricks
#   soname    libseqmix.so.<ABI major>, as version.h says
#   static    every global name of libseqmix.a begins with seqmix_
#   denormals nothing in it turns denormals off in the host process
#   layout    structs, table slots and constants stand as layout.txt says
set -eu

check=$1
build=$2
here=$(cd "$(dirname "$0")" && pwd)
header=$here/../../include/seqmix
library=$build/libseqmix.so
archive=$build/libseqmix.a

fail() {
    echo "abi $check: $*" >&2
    exit 1
}

# The lines of a list that are not comments, sorted.
listed() {
    grep -v '^#' "$1" | LC_ALL=C sort
}

for file in "$library" "$archive"; do
    [ -s "$file" ] || fail "$file is not there"
done

case $check in
symbols)
    exported=$(nm -D --defined-only "$library" | awk '{print $NF}' | LC_ALL=C sort)
    [ "$exported" = "$(listed "$here/symbols.txt")" ] || fail "the library exports: $(echo "$exported" | tr '\n' ' ')"
    echo "exported: $exported"
    ;;
needed)
    needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p')
    [ -n "$needed" ] || fail "readelf finds no NEEDED entry at all"
    for name in $needed; do
        case $name in
        libc.so.* | libm.so.* | libpthread.so.* | ld-linux*) ;;
        *) fail "the library needs $name" ;;
        esac
    done
    tags=$(readelf -d "$library")
    [[ $tags != *TEXTREL* ]] || fail "text relocations"
    segments=$(readelf -lW "$library")
    [[ $(echo "$segments" | grep GNU_STACK) == *" RW "* ]] || fail "executable stack"
    echo "needed: $(echo "$needed" | tr '\n' ' ')"
    ;;
soname)
    major=$(awk '$2 == "SEQMIX_ABI_MAJOR" {print $3}' "$header/version.h")
    soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\].*/\1/p')
    [ "$soname" = "libseqmix.so.$major" ] || fail "the soname is $soname, not libseqmix.so.$major"
    [ -e "$build/$soname" ] || fail "$build/$soname is not there"
    echo "soname: $soname"
    ;;
static)
    names=$(nm -g --defined-only "$archive" | awk 'NF == 3 {print $3}')
    [ -n "$names" ] || fail "nm finds no name at all"
    strange=$(echo "$names" | grep -v '^seqmix_' || true)
    [ -z "$strange" ] || fail "global names without the prefix: $(echo "$strange" | tr '\n' ' ')"
    echo "static library: $(echo "$names" | wc -l) global names, all seqmix_"
    ;;
denormals)
    code=$(objdump -d "$library")
    [[ $code != *set_fast_math* ]] || fail "crtfastmath.o is linked in"
    case $(uname -m) in
    x86_64) word='v?ldmxcsr' ;;
    aarch64) word='msr.*fpcr' ;;
    *) fail "no rule for $(uname -m)" ;;
    esac
    count=$(echo "$code" | grep -cE "$word" || true)
    [ "$count" -eq 0 ] || fail "$count instructions set the floating-point mode"
    echo "no instruction of the library sets the floating-point mode"
    ;;
layout)
    printed=$("$build/seqmix-abi-layout") || fail "a struct has a hole or a field that layout.c does not list"
    printed=$(echo "$printed" | LC_ALL=C sort)
    released=$(listed "$here/layout.txt")
    gone=$(LC_ALL=C comm -13 <(echo "$printed") <(echo "$released"))
    new=$(LC_ALL=C comm -23 <(echo "$printed") <(echo "$released"))
    [ -z "$gone" ] || fail "released, and no longer so:
$gone
now: $new"
    [ -z "$new" ] || fail "not in layout.txt yet; with the new ABI minor, add:
$new"
    while read -r name; do
        grep -q "^$name = " "$here/layout.txt" || fail "the constant $name is not in layout.c"
    done < <(sed '/^#ifdef SEQMIX_EXPERIMENTAL/,/^#endif/d' "$header/seqmix.h" | grep -v experimental | grep -oE '\bSEQMIX_[A-Z0-9_]+ = ' | sed 's/ = //')
    echo "layout: $(echo "$released" | wc -l) released lines hold"
    ;;
*)
    fail "no such check"
    ;;
esac
