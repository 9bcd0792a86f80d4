#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The budget's own test: with one register less allowed the check must fail and name kernel and numbers.
# tight.sh BUDGET FOLDER PYTHON ptxas.py OPTIONS... FILE
set -eu

budget=$1
tight=$2/tight.txt
shift 2
file=${*: -1}
kernel=$(awk -v prefix="$(basename "${file%.cu}"):" '/^sm_80/ && index($NF, prefix) == 1 { print $NF; exit }' "$budget")
awk -v kernel="$kernel" '$1 == "sm_80" && $NF == kernel { had = $3; $3-- } { print } END { print "# had " had }' "$budget" >"$tight"
had=$(sed -n 's/^# had //p' "$tight")
status=0
said=$("$1" "$2" budget "$tight" --arch sm_80 "${@:3}") || status=$?
if [ "$status" -eq 77 ]; then
    echo "$said"
    exit 77
fi
if [ "$status" -eq 1 ] && grep -qF "FAULT sm_80 $kernel: registers $had, its budget is $((had - 1))" <<<"$said"; then
    echo "a tight budget is told: $kernel, $had registers"
    exit 0
fi
echo "$said"
echo "exit status $status; wanted: 1, and a fault of $kernel"
exit 1
