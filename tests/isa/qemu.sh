#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# qemu.sh CPU RUNG SEQMIX-CHECK: on this CPU, as qemu's user mode plays it, RUNG is the best rung and its kernels run: an
# instruction that the CPU lacks would end the program with SIGILL. Exit status 77: no such qemu here.
set -eu

cpu=$1
rung=$2
check=$3
if ! command -v qemu-x86_64 >/dev/null; then
    echo "skipped: no qemu-x86_64 here (package qemu-user)"
    exit 77
fi

best=$(qemu-x86_64 -cpu "$cpu" "$check" --rung none 2>&1 || true)
if ! grep -q "the best one here is $rung\$" <<<"$best"; then
    printf '%s\nexpected %s to be the best rung of %s\n' "$best" "$rung" "$cpu" >&2
    exit 1
fi
qemu-x86_64 -cpu "$cpu" "$check" --quick --rung "$rung" --filter '*:*:gauss:*'
