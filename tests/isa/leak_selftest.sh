#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# leak_selftest.sh CC: what leak.pl must find, planted into small archives.
set -eu

cc=$1
leak=$(dirname "$0")/leak.pl
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
planted=0
missed=0

# object NAME FUNCTION INSTRUCTION...: assembles one function
object() {
    local name=$1 function=$2
    shift 2
    { printf '.text\n.globl %s\n%s:\n' "$function" "$function"; printf '%s\n' "$@" ret; } |
        "$cc" -c -x assembler -o "$folder/$name.o" -
}

# expect STATUS REGEX NAME...: an archive of these objects
expect() {
    local status=0 wanted=$1 pattern=$2 output
    shift 2
    planted=$((planted + 1))
    rm -f "$folder/all.a"
    (cd "$folder" && ar rc all.a "${@/%/.o}")
    output=$("$leak" "$folder/all.a" 2>&1) || status=$?
    if [ "$status" -ne "$wanted" ] || ! grep -qE -e "$pattern" <<<"$output"; then
        printf 'MISSED %s: wanted status %s and %s, got status %s and:\n%s\n' "$*" "$wanted" "$pattern" "$status" "$output"
        missed=$((missed + 1))
    fi
}

object common seqmix_get_api 'addps %xmm1, %xmm0' 'bsf %eax, %eax'
object generic seqmix_linear__generic 'mulps %xmm1, %xmm0'
object avx2 seqmix_linear__avx2 'vfmadd231ps %ymm1, %ymm2, %ymm0' 'andn %eax, %ebx, %ecx'
object avx512 seqmix_linear__avx512 'vaddps %zmm1, %zmm2, %zmm0' 'kmovw %eax, %k1' "vcvtps2ph \$0, %zmm0, %ymm1"
object amx seqmix_linear__amx 'tilezero %tmm0' 'vcvtneps2bf16 %zmm0, %ymm0'
expect 0 '^0 leaks$' common generic avx2 avx512 amx

object bad seqmix_ctx_create 'vaddps %xmm1, %xmm2, %xmm0'
expect 1 'LEAK bad.o \(common\): 1 instructions of AVX2' common bad avx2
object bad seqmix_ssd_step__generic 'shlx %eax, %ebx, %ecx'
expect 1 'LEAK bad.o \(generic\): 1 instructions of AVX2' common generic bad
object bad seqmix_ssd_step__avx2 'vpxorq %zmm1, %zmm2, %zmm0' 'vaddps %ymm1, %ymm2, %ymm0'
expect 1 'LEAK bad.o \(avx2\): 1 instructions of AVX-512' avx2 bad
object bad seqmix_ssd_step__avx2 'vaddps %ymm1, %ymm2, %ymm16' 'kxorw %k1, %k1, %k1'
expect 1 'LEAK bad.o \(avx2\): 2 instructions of AVX-512' avx2 bad
object bad seqmix_ssd_step__avx512 'tilerelease' 'vaddps %zmm1, %zmm2, %zmm0'
expect 1 'LEAK bad.o \(avx512\): 1 instructions of AMX' avx512 bad
object bad seqmix_ssd_step__avx512 'vaddph %zmm1, %zmm2, %zmm0' 'vpermb %zmm1, %zmm2, %zmm0'
expect 1 'LEAK bad.o \(avx512\): 2 instructions of no level' avx512 bad
object bad seqmix_ssd_step__avx512 'vaddps %ymm1, %ymm2, %ymm0'
expect 1 'LEAK avx512: not one instruction of its level' avx2 bad

echo "$planted archives, $missed judged wrongly"
[ "$missed" -eq 0 ]
