#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The example in README.md is consumer.c, which the other checks build and run.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if ! diff <(awk '/^```c$/ {on = 1; next} /^```$/ {if (on) exit} on' "$here/../../README.md") <(tail -n +2 "$here/consumer.c"); then
    echo "the first C example of README.md (<) is not tests/install/consumer.c without its first line (>)" >&2
    exit 1
fi
echo "the example of README.md is consumer.c"
