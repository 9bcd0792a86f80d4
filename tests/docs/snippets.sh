#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The C snippets of README.md and docs/*.md: snippets.sh CC BUILD_DIR WORK_DIR [FILE...]. A snippet is a block that opens with
#   ```c complete    a translation unit; it is compiled, warnings are errors
#   ```c run         a program; it is compiled, linked with BUILD_DIR/libseqmix.a and run, and must exit with 0
# "openmp" after that: with -fopenmp, where the compiler has it. Any other block of C is an error: nothing shown is untested.
# The example in README.md must be tests/install/consumer.c, letter by letter.
set -eu

cc=$1
build=$(cd "$2" && pwd)
mkdir -p "$3"
work=$(cd "$3" && pwd)
shift 3
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
[ $# -gt 0 ] || set -- README.md docs/*.md

rm -rf "${work:?}"/*
mkdir -p "$work/stubs/dispatch"

fail() {
    echo "$1" >&2
    exit 1
}

# Headers of thread pools that need not be installed: what the snippets use of them.
cat >"$work/stubs/pthreadpool.h" <<'C'
#include <stddef.h>
#include <stdint.h>
typedef struct pthreadpool *pthreadpool_t;
typedef void (*pthreadpool_task_1d_t)(void *, size_t);
void pthreadpool_parallelize_1d(pthreadpool_t pool, pthreadpool_task_1d_t task, void *context, size_t range, uint32_t flags);
C
cat >"$work/stubs/dispatch/dispatch.h" <<'C'
#include <stddef.h>
typedef struct dispatch_queue_s *dispatch_queue_t;
void dispatch_apply_f(size_t iterations, dispatch_queue_t queue, void *context, void (*work)(void *, size_t));
C

has_openmp=no
if echo 'int main(void) { return 0; }' | "$cc" -fopenmp -x c - -o "$work/openmp" 2>/dev/null; then
    has_openmp=yes
fi

# Writes each block of FILE to WORK_DIR as <name>_<line>.c and prints "<line> <words after the fence>".
extract() {
    awk -v out="$work/$(basename "$1" .md)" '
        !inside && /^```c([ ].*)?$/ { inside = 1; file = out "_" NR ".c"; print NR, substr($0, 4); printf "" > file; next }
        !inside && /^```/ { inside = 2; next }
        inside && /^```$/ { if (inside == 1) close(file); inside = 0; next }
        inside == 1 { print > file }' "$1"
}

compiled=0
ran=0
skipped=0
for file in "$@"; do
    extract "$file" >"$work/list"
    while read -r line _ kind openmp; do
        source=$work/$(basename "$file" .md)_$line.c
        flags="-std=c11 -Wall -Wextra -Wpedantic -Werror -O1"
        case $kind in
        complete | run) ;;
        *) fail "$file:$line: a block of C is marked \"complete\" or \"run\", not \"$kind\"" ;;
        esac
        if [ "$openmp" = openmp ]; then
            if [ "$has_openmp" = no ]; then
                skipped=$((skipped + 1))
                continue
            fi
            flags="$flags -fopenmp"
        fi
        # The flags are words, on purpose.
        # shellcheck disable=SC2086
        "$cc" $flags -Iinclude -idirafter "$work/stubs" -c "$source" -o "$source.o" || fail "$file:$line: does not compile"
        compiled=$((compiled + 1))
        [ "$kind" = run ] || continue
        # shellcheck disable=SC2086
        "$cc" $flags "$source.o" "$build/libseqmix.a" -lm -pthread -ldl -o "$source.run" || fail "$file:$line: does not link"
        LD_LIBRARY_PATH=$build "$source.run" >"$source.out" || fail "$file:$line: exits with $?: $(cat "$source.out")"
        ran=$((ran + 1))
    done <"$work/list"
    if [ "$file" = README.md ]; then
        for source in "$work"/README_*.c; do
            ! cmp -s "$source" tests/install/consumer.c || continue 2
        done
        fail "README.md: its example is not tests/install/consumer.c"
    fi
done
[ "$compiled" -gt 0 ] || fail "no snippet was found"
echo "$compiled snippets compile, $ran of them run, $skipped skipped (no OpenMP)"
