#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Small launches of every kernel that some programs of the emulator run: record.sh FOLDER PROGRAM... The checker runs its
# ordinary cases of rung cuda-sm80.
set -eu

folder=$1
shift
rm -rf "$folder"
mkdir -p "$folder"
for program; do
    case $program in
    */seqmix-check*)
        EMU_RECORD=$folder "$program" --backend cuda-emu --rung cuda-sm80 --quick --filter '*:*:gauss:*'
        for variant in 249 196; do # segments, with a gate per head and per key channel
            EMU_RECORD=$folder "$program" --backend cuda-emu --rung cuda-sm80 --quick --fast \
                --filter "deltanet_chunk*:*:gauss:$variant"
        done
        ;;
    *) EMU_RECORD=$folder "$program" ;;
    esac
done
echo "$(find "$folder" -type f | wc -l) launches kept"
