#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# same_tokens.sh RUN EMULATED OPTIONS MODEL...: greedy tokens of seqmix-run on the CPU's reference and of its twin on the
# emulated device. The prompt of 19 tokens is cut at 8 and 16.
set -eu

run=$1
emulated=$2
read -ra options <<<"$3"
shift 3
prompt=5,9,2,7,11,3,8,6,4,10,12,5,1,9,9,2,7,13,3
asked=(--tokens "$prompt" --ignore-eos --prefill-rows 8 --json "${options[@]}")
differ=0

# tokens COMMAND...: what it generated, as JSON has it
tokens() {
    "$@" "${asked[@]}" 2>/dev/null | grep -o '"tokens":\[[0-9,]*\]'
}

for model in "$@"; do
    wanted=$(tokens "$run" "$model" --level ref)
    got=$(tokens "$emulated" "$model" --backend cuda) || got="no tokens: $("$emulated" "$model" --backend cuda "${asked[@]}" 2>&1 | tail -1)"
    if [ "$wanted" != "$got" ]; then
        differ=$((differ + 1))
        echo "$model: $got, wanted $wanted"
    fi
done
echo "$# models, $differ differ"
[ "$differ" -eq 0 ]
