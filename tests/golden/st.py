# SPDX-License-Identifier: MIT
"""Safetensors files in plain Python: read headers, write files whose bytes depend on their contents only."""
import json
import struct

SIZES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2, "I8": 1, "U8": 1, "BOOL": 1}


def read(path):
    """({name: (dtype, shape, bytes)}, metadata)"""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
        data = f.read()
    meta = header.pop("__metadata__", {})
    return {k: (v["dtype"], v["shape"], data[v["data_offsets"][0]:v["data_offsets"][1]])
            for k, v in header.items()}, meta


def write(path, tensors, metadata=None):
    """tensors: {name: (dtype, shape, bytes)}. Wide types first, so that every tensor is aligned."""
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = {k: metadata[k] for k in sorted(metadata)}
    names = sorted(tensors, key=lambda k: (-SIZES[tensors[k][0]], k))
    for k in names:
        dtype, shape, data = tensors[k]
        header[k] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for k in names:
            f.write(tensors[k][2])


def from_torch(tensors):
    """{name: torch tensor} -> what write takes."""
    import torch
    kinds = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int32: "I32"}
    out = {}
    for k, t in tensors.items():
        t = t.detach().contiguous()
        out[k] = (kinds[t.dtype], list(t.shape), t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b"")
    return out
