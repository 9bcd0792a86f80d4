#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The C blocks of README.md and docs/*.md: snippets.sh CC BUILD_DIR WORK_DIR [FILE...]. Each is a whole translation unit and
# compiles without a warning; one with a main is linked with BUILD_DIR/libseqmix.a, run, and must exit with 0. What is no
# whole unit is no C block: it is fenced as text.
set -eu

cc=$1
build=$(cd "$2" && pwd)
mkdir -p "$3"
work=$(cd "$3" && pwd)
shift 3
cd "$(dirname "$0")/../.."
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
if echo '#include <omp.h>' | "$cc" -fopenmp -x c -c - -o "$work/openmp.o" 2>/dev/null; then
    has_openmp=yes
fi

# Writes each C block of FILE to WORK_DIR/<file>_<line>.c and prints the lines.
extract() {
    awk -v out="$work/$(basename "$1" .md)" '
        !inside && /^```c([ ].*)?$/ { inside = 1; file = out "_" NR ".c"; print NR; printf "" > file; next }
        !inside && /^```/ { inside = 2; next }
        inside && /^```$/ { if (inside == 1) close(file); inside = 0; next }
        inside == 1 { print > file }' "$1"
}

compiled=0
ran=0
skipped=0
for file in "$@"; do
    extract "$file" >"$work/lines"
    while read -r line; do
        source=$work/$(basename "$file" .md)_$line.c
        flags=(-std=c11 -Wall -Wextra -Wpedantic -Werror -O1 -Iinclude -idirafter "$work/stubs")
        if grep -q '<omp.h>' "$source"; then
            if [ "$has_openmp" = no ]; then
                skipped=$((skipped + 1))
                continue
            fi
            flags+=(-fopenmp)
        fi
        "$cc" "${flags[@]}" -c "$source" -o "$source.o" || fail "$file:$line: does not compile"
        compiled=$((compiled + 1))
        grep -q '^int main(' "$source" || continue
        "$cc" "$source.o" "$build/libseqmix.a" -lm -pthread -ldl -o "$source.run" || fail "$file:$line: does not link"
        LD_LIBRARY_PATH=$build "$source.run" >"$source.out" || fail "$file:$line: exits with $?: $(cat "$source.out")"
        ran=$((ran + 1))
    done <"$work/lines"
done
[ "$compiled" -gt 0 ] || fail "no C block was found"
echo "$compiled C blocks compile, $ran of them run, $skipped skipped (no OpenMP)"
