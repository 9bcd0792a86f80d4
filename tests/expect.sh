#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# expect.sh STATUS REGEX COMMAND...: the command must end with this exit status ("fail": any but 0, and no signal), and its
# output must have a line that matches the extended regular expression.
set -eu

wanted=$1
pattern=$2
shift 2
status=0
output=$("$@" 2>&1) || status=$?
printf '%s\n' "$output"
if [ "$wanted" = fail ]; then
    if [ "$status" -eq 0 ] || [ "$status" -gt 127 ]; then
        echo "expected: a failure that the program itself reports; got exit status $status" >&2
        exit 1
    fi
elif [ "$status" -ne "$wanted" ]; then
    echo "expected: exit status $wanted; got $status" >&2
    exit 1
fi
if ! grep -qE -e "$pattern" <<<"$output"; then
    echo "expected: a line that matches $pattern" >&2
    exit 1
fi
