#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Everything that only a GPU can tell, in one run of under five minutes that fetches nothing: builds for the GPU at hand, compares
# the wrappers of device.cuh with the emulator's, checks every op, runs compute-sanitizer on small shapes, times the shapes of
# bench/peers.txt and the peers whose packages are there, and ends with a short table. The logs stay in OUT (build-gpu/check).
#   scripts/gpu_check.sh                          on a machine with a GPU, nvcc, cmake and packages.sh build's libraries
#   scripts/gpu_check.sh --pack FOLDER            there, where those libraries can be installed: puts them into FOLDER, for
#   SEQMIX_DEPS=FOLDER scripts/gpu_check.sh       a machine where they cannot
#   scripts/gpu_check.sh --emu BUILD              no GPU: the same steps, small, on the emulator in a build tree
# Exit status: 0, 1 when a step failed, 77 without a GPU.
# The steps are functions that are called by name.
# shellcheck disable=SC2317
set -u

cd "$(dirname "$0")/.." || exit 2
root=$PWD
emu=''
case ${1:-} in
'') ;;
--emu) emu=$(cd "$2" && pwd) || exit 2 ;;
--pack)
    mkdir -p "$2/include" "$2/lib/pkgconfig" || exit 2
    cp -r /usr/include/cjson /usr/include/pcre2.h /usr/include/utf8proc.h "$2/include/" || exit 2
    for library in cjson pcre2-8 utf8proc; do
        find /usr/lib -name "lib$library.so*" -exec cp -L {} "$2/lib/" \; || exit 2
        for module in "$library" "lib$library"; do
            # pkg-config's variables, not the shell's
            # shellcheck disable=SC2016
            printf '%s\n' 'prefix=${pcfiledir}/../..' "Name: $module" "Description: $module" 'Version: 99' \
                "Libs: -L\${prefix}/lib -l$library" 'Cflags: -I${prefix}/include' >"$2/lib/pkgconfig/$module.pc"
        done
    done
    echo "$2: $(find "$2" -type f | wc -l) files"
    exit 0
    ;;
*)
    echo "usage: gpu_check.sh [--emu BUILD | --pack FOLDER]" >&2
    exit 2
    ;;
esac

build=${SEQMIX_BUILD:-$root/build-gpu}
out=${OUT:-$build/check}
[ -z "$emu" ] || out=$emu/gpu_check
mkdir -p "$out"
rm -f "$out"/*.log "$out/table"
began=$(date +%s)
failed=0

# step NAME SECONDS COMMAND...: its output goes to NAME.log, its verdict and its last line into the table
step() {
    local name=$1 limit=$2 from status=0 verdict
    shift 2
    from=$(date +%s)
    echo "== $name" >&2
    timeout "$limit" bash -c '"$@"' step "$@" >"$out/$name.log" 2>&1 || status=$?
    case $status in
    0) verdict=ok ;;
    77) verdict=skipped ;;
    124) verdict="over $limit s" failed=1 ;;
    *) verdict="FAILED ($status)" failed=1 ;;
    esac
    printf '%-18s %-12s %4d s  %s\n' "$name" "$verdict" $(($(date +%s) - from)) \
        "$(grep -v '^$' "$out/$name.log" | tail -n 1 | cut -c1-110)" >>"$out/table"
    [ "$status" -eq 0 ]
}

# The emulator's own build of the wrappers' test: needs the host's compiler alone.
emulated_wrappers() {
    local engine="engine shared check counters mma record runtime" files='' name
    for name in $engine; do
        files="$files tests/emu/$name.cpp"
    done
    # The names are words, on purpose.
    # shellcheck disable=SC2086
    "${CXX:-c++}" -std=c++17 -O1 -DSEQMIX_EXPERIMENTAL -Itests/emu -Iinclude -Isrc/common -Isrc/cuda -x c++ tests/emu/gpu/wrappers.cu \
        $files -o "$out/wrappers"
}

# Every wrapper of device.cuh must be in the conformance test, and print there what the emulator prints.
compare_wrappers() {
    local name missing='' bits=25
    for name in $(grep -o 'dv_[a-z0-9_]*(' src/cuda/device.cuh | tr -d '(' | sort -u); do
        case $name in
        dv_launch | dv_shared_address | dv_smem_bytes) continue ;;
        esac
        grep -q "$name\b" tests/emu/gpu/wrappers.cu || missing="$missing $name"
    done
    [ -z "$missing" ] || echo "wrappers without a conformance test:$missing"
    [ "${arch:-90}" -ge 90 ] || bits=24
    emulated_wrappers && EMU_TC=$bits "$out/wrappers" >"$out/wrappers.emulated" || return 1
    "$@" >"$out/wrappers.device" || return 1
    local differ
    differ=$(diff "$out/wrappers.emulated" "$out/wrappers.device" | sed -n 's/^> \([a-z0-9_]*\) .*/\1/p' | tr '\n' ' ')
    [ -z "$differ" ] || echo "these differ: $differ"
    echo "$(wc -l <"$out/wrappers.device") wrapper tests; other bits in: ${differ:-none}"
    [ -z "$missing" ] && ! tr ' ' '\n' <<<"$differ" | grep -v '_rounding$' | grep -q .
}

build_for() {
    local generator=()
    ! command -v ninja >/dev/null || generator=(-G Ninja)
    cmake "${generator[@]}" -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DSEQMIX_CUDA=ON -DSEQMIX_CUDA_ARCHS="$1-real" -DSEQMIX_TOOLS=ON \
        -DSEQMIX_TESTS=OFF -DSEQMIX_WERROR=OFF &&
        cmake --build "$build" --parallel "$(nproc)" --target seqmix-check seqmix-bench-gpu seqmix-wrappers-gpu
}

sanitize() {
    local tool
    for tool in memcheck racecheck initcheck; do
        echo "-- $tool"
        compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/seqmix-check" --backend cuda --quick --filter "$1" || return 1
    done
}

export -f compare_wrappers emulated_wrappers build_for sanitize
export out build arch=''
export PKG_CONFIG_PATH=${SEQMIX_DEPS:+$SEQMIX_DEPS/lib/pkgconfig:}${PKG_CONFIG_PATH:-}
export LD_LIBRARY_PATH=${SEQMIX_DEPS:+$SEQMIX_DEPS/lib:}${LD_LIBRARY_PATH:-}

finish() {
    printf '\n%s, %d s in all\n' "$1" $(($(date +%s) - began))
    cat "$out/table"
    [ ! -f "$out/bench.log" ] || { echo && cut -c1-150 "$out/bench.log"; }
    [ ! -f "$out/peers.log" ] || { echo && cat "$out/peers.log"; }
    exit "$failed"
}

if [ -n "$emu" ]; then
    checker=$emu/tests/emu/seqmix-check-cuda-plain
    step wrappers 300 compare_wrappers env EMU_TC=25 "$out/wrappers"
    step check 600 "$checker" --backend cuda-emu --quick --filter '*_step:f32:gauss:*'
    step sanitizer 600 "$emu/tests/emu/seqmix-check-cuda-watched" --backend cuda-emu --quick --filter '*_step:f32:gauss:*'
    step bench 600 "$emu/tests/emu/seqmix-bench-gpu-emulated" --scale 4096 --replays 1 --op '*_step'
    [ -n "$(command -v python3)" ] && step peers 60 python3 tests/emu/gpu/peers.py bench/peers.txt
    finish "the emulator: times mean nothing"
fi

arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '. ')
if [ -z "$arch" ]; then
    echo "nvidia-smi names no GPU here; --emu BUILD runs the steps on the emulator"
    exit 77
fi
card=$(nvidia-smi --query-gpu=name,driver_version,clocks.max.sm --format=csv,noheader | head -n 1)
step build 150 build_for "$arch" || finish "$card"
step wrappers 40 compare_wrappers "$build/seqmix-wrappers-gpu"
step check 70 "$build/seqmix-check" --backend cuda --quick --seed 1
step hostile 40 "$build/seqmix-check" --backend cuda --quick --seed 2 --filter '*:bf16:[!g]*:*'
step bench 70 "$build/seqmix-bench-gpu" --peers bench/peers.txt
if command -v compute-sanitizer >/dev/null; then
    step sanitizer 60 sanitize '*:bf16:gauss:*'
else
    step sanitizer 1 sh -c 'echo "no compute-sanitizer here"; exit 77'
fi
step peers 60 python3 tests/emu/gpu/peers.py bench/peers.txt
finish "$card"
