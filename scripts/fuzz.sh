#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Fuzzes every hostile entrance (argument structs, safetensors, gguf, config, tokenizer) with libFuzzer under ASan and UBSan for a time
# each, in a clang build of its own, and prints how often each ran. fuzz.sh [--seconds N] [TARGET ...]; exit status 1 on a finding.
set -eu

seconds=60
if [ "${1:-}" = --seconds ]; then
    case ${2:-} in
    '' | *[!0-9]*)
        echo "usage: scripts/fuzz.sh [--seconds N] [TARGET ...]" >&2
        exit 2
        ;;
    esac
    seconds=$2
    shift 2
fi

cd "$(dirname "$0")/.."
scripts/packages.sh test >/dev/null
if [ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja >/dev/null; then
    export CMAKE_GENERATOR=Ninja
fi
cmake --preset clang >/dev/null
if ! grep -q '^SEQMIX_HAVE_LIBFUZZER:INTERNAL=1$' build-clang/CMakeCache.txt; then
    echo "clang's libFuzzer is not installed" >&2
    exit 1
fi
if [ $# -eq 0 ]; then
    set -- args safetensors gguf config tokenizer
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
for target in "$@"; do
    cmake --build build-clang --parallel "$(nproc)" --target "fuzz_$target" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    mkdir -p "$work/$target" "tests/fuzz/corpus/$target" 2>/dev/null
    if build-clang/tests/fuzz/"fuzz_$target" -max_total_time="$seconds" -timeout=25 -max_len=4096 -print_final_stats=1 \
        -artifact_prefix="fuzz-$target-" "$work/$target" "tests/fuzz/corpus/$target" >"$work/log" 2>&1; then
        printf '%-12s %s executions, no finding\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log")"
    else
        tail -n 40 "$work/log"
        echo "$target: a finding; its input is fuzz-$target-* in this folder"
        status=1
    fi
    rmdir "tests/fuzz/corpus/$target" 2>/dev/null || true
done
exit "$status"
