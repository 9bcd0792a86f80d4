#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The whole test suite on a fresh Debian 12 or Ubuntu machine: installs packages, builds with gcc and clang, with sanitizers
# and for fuzzing, and runs every test through ctest. test.sh --quick stops after the first build and its tests.
# The last line counts what passed and what failed; the exit status is 0 only when nothing failed.
set -eu

quick=no
case ${1:-} in
'') ;;
--quick) quick=yes ;;
*)
    echo "usage: scripts/test.sh [--quick]" >&2
    exit 2
    ;;
esac

cd "$(dirname "$0")/.."
jobs=$(nproc)
began=$(date +%s)
passed=0
failed=0
skipped=0
failures=''
log=$(mktemp)
trap 'rm -f "$log"' EXIT

headline() {
    printf '\n== %s (after %d s)\n' "$*" $(($(date +%s) - began))
}

fail() {
    failed=$((failed + 1))
    failures="$failures
  $1"
    echo "FAILED: $1"
}

# check NAME COMMAND...: one check; its output is shown when it fails, and so is its status
check() {
    local name=$1
    shift
    if ! "$@" >"$log" 2>&1; then
        cat "$log"
        fail "$name"
        return 1
    fi
    passed=$((passed + 1))
    echo "ok: $name"
}

skip() {
    skipped=$((skipped + 1))
    echo "skipped: $1"
}

# build PRESET [CMAKE OPTIONS]: configures and builds it in its folder
build() {
    local preset=$1
    shift
    check "configure $preset" cmake --preset "$preset" -DSEQMIX_WERROR=ON "$@" &&
        check "build $preset without a warning" cmake --build --preset "$preset" --parallel "$jobs"
}

# suite FOLDER [CTEST OPTIONS]: runs ctest there and adds up what it counts
suite() {
    local folder=$1 counts
    shift
    ctest --test-dir "$folder" --output-on-failure --no-tests=error --timeout 600 -j "$jobs" "$@" | tee "$log" || true
    # "98% tests passed, 1 tests failed out of 50"
    counts=$(sed -n 's/^[0-9]*% tests passed, \([0-9]*\) tests failed out of \([0-9]*\)$/\1 \2/p' "$log")
    if [ -z "$counts" ]; then
        fail "ctest in $folder"
        return
    fi
    local bad=${counts% *} all=${counts#* } none
    none=$(grep -c '(Skipped)$' "$log" || true)
    passed=$((passed + all - bad - none))
    failed=$((failed + bad))
    skipped=$((skipped + none))
    if [ "$bad" -gt 0 ]; then
        failures="$failures
  $folder: $(sed -n 's/^[[:space:]]*[0-9]* - \(.*\) ([A-Z].*)$/\1/p' "$log" | tr '\n' ' ')"
    fi
}

finish() {
    if [ "$failed" -gt 0 ]; then
        printf '\nWhat failed:%s\n' "$failures"
    fi
    printf '\nTook %d s.\n' $(($(date +%s) - began))
    if [ "$skipped" -gt 0 ]; then
        echo "$passed passed, $failed failed, $skipped skipped"
    else
        echo "$passed passed, $failed failed"
    fi
    [ "$failed" -eq 0 ]
    exit
}

headline "Packages"
scripts/packages.sh test
if [ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja >/dev/null; then
    export CMAKE_GENERATOR=Ninja
fi

headline "Release build with gcc, and all tests"
build release -DSEQMIX_TOOLS=ON -DSEQMIX_TESTS=ON || finish
suite build
if [ "$quick" = yes ]; then
    finish
fi

headline "Each kernel level of this build, as SEQMIX_LEVEL caps it"
levels=$(build/seqmix-check --coverage | sed -n 's/^cpu-\([a-z0-9]*\): [0-9]* of its own.*/\1/p')
[ -n "$levels" ] || fail "seqmix-check --coverage names no level"
for level in ref generic avx2 avx512 amx; do
    if ! grep -qx "$level" <<<"$levels"; then
        skip "SEQMIX_LEVEL=$level: this CPU or this build lacks it; isa.* runs avx512 and amx emulated"
        continue
    fi
    echo "SEQMIX_LEVEL=$level"
    SEQMIX_LEVEL=$level suite build -R '^(api\.(accept|threads)|model\.(session|parity))$'
done

headline "Release build with clang, with libFuzzer"
if build clang; then
    if grep -q '^SEQMIX_HAVE_LIBFUZZER:INTERNAL=1$' build-clang/CMakeCache.txt; then
        echo "clang links libFuzzer"
    else
        skip "libFuzzer: clang's runtime is not installed; the fuzz targets run with their own mutator"
    fi
    suite build-clang -R '^((api|model|fuzz|abi)\.|check\.(all|selftest)$)'
fi

# The kernels run in the suite above, emulated. Here nvcc compiles them: the library exports as much as without them, needs no
# other library, and on a machine without a driver loads and says that there is no device.
headline "CUDA build"
PATH=$PATH:/usr/local/cuda/bin
if ! command -v nvcc >/dev/null; then
    skip "CUDA build: nvcc is not installed"
elif build cuda; then
    suite build-cuda -R '^(abi\.|api\.(context|dlopen)$)'
fi

headline "AddressSanitizer and UndefinedBehaviorSanitizer"
if build asan; then
    # of the widths that models are run at, one is enough here
    suite build-asan -L '^(api|check|model|fuzz|abi|isa)$' -E '^(check\.workers|model\.families_(1|64|128|512))$'
fi

headline "ThreadSanitizer"
if build tsan; then
    suite build-tsan -R '^(api\.(context|pool|threads)|check\.workers|model\.session)$'
fi

headline "Valgrind: memory that nobody wrote"
for class in gauss batch; do
    check "valgrind: every op, class $class" tests/expect.sh 0 '^[1-9][0-9]* checks, 0 failed' \
        valgrind -q --error-exitcode=9 --leak-check=full build/seqmix-check --quick --rung cpu-ref --filter "*:f32:$class:*" || true
done

finish
