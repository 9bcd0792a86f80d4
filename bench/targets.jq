# SPDX-License-Identifier: MIT
# The table of docs/BENCH.md from the JSON of seqmix-bench --suite targets: jq -r -f bench/targets.jq out.json
def number: if . == null then "" else (. * 100 | round) / 100 | tostring end;
def asked: if .target == null then "" elif .sense == "at most" then "≤ \(.target)" else "≥ \(.target)" end;
def verdict: if .met == null then "–" elif .met then "yes" else "no" end;
"| target | value | unit | asked | stretch | met | rung | how |",
"|---|---|---|---|---|---|---|---|",
(.[] | "| \(.name) | \(.value | number) | \(.unit) | \(asked) | \(.stretch | number) | \(verdict) | \(.rung) | \(.note) |")
