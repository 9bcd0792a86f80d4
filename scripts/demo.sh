#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Shows what seqmix does, on a fresh Debian 12 or Ubuntu machine: installs packages, builds, lets a tiny trained Mamba write,
# checks every op against the recurrence in double precision, and measures them.
set -eu

cd "$(dirname "$0")/.."
began=$(date +%s)
model=tests/golden/mamba-tiny
log=$(mktemp)
trap 'rm -f "$log"' EXIT

headline() {
    printf '\n== %s (after %d s)\n' "$*" $(($(date +%s) - began))
}

# show COMMAND...: says what it runs, and runs it
show() {
    local word
    printf '$'
    for word in "$@"; do
        case $word in
        *[!A-Za-z0-9_./-]*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$@"
}

headline "1/5 Packages"
scripts/packages.sh build

headline "2/5 Build, in the folder build"
if [ ! -e build/CMakeCache.txt ]; then
    if [ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja >/dev/null; then
        export CMAKE_GENERATOR=Ninja
    fi
    cmake --preset release -DSEQMIX_TESTS=OFF -DSEQMIX_WERROR=OFF >"$log" 2>&1 || { cat "$log"; exit 1; }
fi
cmake --build build --parallel "$(nproc)" >"$log" 2>&1 || { cat "$log"; exit 1; }
echo "libseqmix, seqmix-run, seqmix-check and seqmix-bench are in build/"

headline "3/5 A tiny Mamba, trained on the King James Bible, goes on from a prompt"
show build/seqmix-run "$model" --prompt "And Jesus said unto them," -n 64
show build/seqmix-run "$model" --prompt "And he said" -n 96 --temperature 0.7 --top-p 0.9 --seed 2
echo
echo "Two tiny hybrids, Qwen3.5's and Nemotron-H's layers, which know a few verses and two talks by heart"
show build/seqmix-run tests/golden/qwen35-tiny --prompt "In the beginning" -n 64
show build/seqmix-run tests/golden/nemotron-tiny --prompt "In the beginning" -n 64

headline "4/5 Every op against the recurrence in double precision"
show build/seqmix-check --quick

headline "5/5 How fast: each op on this machine"
show build/seqmix-bench --quick

cat <<TEXT

== Done in $(($(date +%s) - began)) s. What to try next:
  build/seqmix-run $model --prompt "Behold" --temperature 0.8 --seed 7 --prefill-rows 1 --json
  build/seqmix-check --selftest        plants faults in the reference, and shows that each is caught
  build/seqmix-check --coverage        which kernel ran for which op and model shape
  build/seqmix-check validate --help   judges another engine's outputs
  build/seqmix-bench --help            shapes of real models, rows, workers, JSON, plots
  scripts/test.sh                      the whole test suite
  cmake --install build --prefix ...   headers, libraries, pkg-config and CMake files; docs/INTEGRATING.md goes on from there
TEXT
