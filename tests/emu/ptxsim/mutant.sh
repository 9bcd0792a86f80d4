#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The interpreter's own test: two operands of a wrapper's PTX change places in a copy of device.cuh, and a launch must come out
# wrong. mutant.sh mma|ldmatrix FOLDER SOURCES PYTHON run.py OPTIONS...
set -eu

mutant=$1 folder=$2 sources=$3
shift 3
case $mutant in
mma) from='{%8,%9},{%0,%1,%2,%3};' to='{%9,%8},{%0,%1,%2,%3};' ;;
ldmatrix) from='shared.b16 {%0,%1,%2,%3}' to='shared.b16 {%1,%0,%2,%3}' ;;
*) exit 2 ;;
esac
rm -rf "$folder"
mkdir -p "$folder"
cp "$sources"/*.cuh "$sources"/*.h "$folder"
sed -i "s/$from/$to/" "$folder/device.cuh"
if cmp -s "$sources/device.cuh" "$folder/device.cuh"; then
    echo "device.cuh has no '$from': adapt this test"
    exit 1
fi
"$@" --folder "$folder/ptx" --flag="-I$folder" --expect-failure
