#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The interpreter's own test: two operands of a wrapper's PTX change places in a copy of the sources, which the emulator cannot
# see, and the launch must come out wrong. mutant.sh mma|ldmatrix PTX FOLDER SOURCES PYTHON run.py RECORDS OPTIONS...
set -eu

mutant=$1 ptx=$2 folder=$3 sources=$4
shift 4
case $mutant in
mma) from='{%8,%9},{%0,%1,%2,%3};' to='{%9,%8},{%0,%1,%2,%3};' ;;
ldmatrix) from='shared.b16 {%0,%1,%2,%3}' to='shared.b16 {%1,%0,%2,%3}' ;;
*) exit 2 ;;
esac
if [ ! -d "$ptx/sm_80" ]; then
    echo "emu.ptxsim has left no PTX: skipped"
    exit 77
fi
# the shortest file that has the instruction
file=$(grep -l "$mutant\.sync" "$ptx"/sm_80/*.ptx | xargs -r ls -S | tail -n 1)
if [ -z "$file" ]; then
    echo "no kernel has $mutant"
    exit 1
fi
rm -rf "$folder"
mkdir -p "$folder"
cp -r "$sources" "$folder/cuda"
sed -i "s/$from/$to/" "$folder/cuda/device.cuh"
if cmp -s "$sources/device.cuh" "$folder/cuda/device.cuh"; then
    echo "device.cuh has no '$from': adapt this test"
    exit 1
fi
"$@" --folder "$folder" --flag="-I$folder/cuda" --expect-failure "$folder/cuda/$(basename "${file%.ptx}").cu"
