#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Small launches of every kernel of rung cuda-sm80, from the checker's own cases: record.sh FOLDER seqmix-check-cuda-plain
set -eu

rm -rf "$1"
mkdir -p "$1"
EMU_RECORD=$1 "$2" --backend cuda-emu --rung cuda-sm80 --quick --filter '*:*:gauss:*'
echo "$(find "$1" -type f | wc -l) launches kept"
