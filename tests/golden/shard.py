#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Splits a model directory's model.safetensors into N shards with an index, as transformers names them.

    shard.py SRC DST N

Needs stock Python only. The other .json files of SRC are copied.
"""
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import st  # noqa: E402


def main():
    src, dst, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    tensors, meta = st.read(os.path.join(src, "model.safetensors"))
    total = sum(len(t[2]) for t in tensors.values())
    shards, used = [{}], 0
    for k in sorted(tensors):
        if len(shards) < n and shards[-1] and used >= total * len(shards) // n:
            shards.append({})
        shards[-1][k] = tensors[k]
        used += len(tensors[k][2])
    assert len(shards) == n, (len(shards), n)
    os.makedirs(dst, exist_ok=True)
    weight_map = {}
    for i, s in enumerate(shards):
        name = f"model-{i + 1:05d}-of-{n:05d}.safetensors"
        st.write(os.path.join(dst, name), s, meta)
        weight_map.update({k: name for k in s})
    with open(os.path.join(dst, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, f, indent=2, sort_keys=True)
        f.write("\n")
    for f in sorted(os.listdir(src)):
        if f.endswith(".json"):
            shutil.copyfile(os.path.join(src, f), os.path.join(dst, f))


if __name__ == "__main__":
    main()
