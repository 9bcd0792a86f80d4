# SPDX-License-Identifier: MIT
"""Packing of the GGUF types that the gguf package only unpacks: Q4_K, Q5_K, Q6_K, IQ4_NL. numpy, round to nearest, no search.

quantize(array [n,k], TYPE) -> uint8 [n,bytes]; types the package packs are left to it. Each result is
checked by the package's own unpacking.
"""
import gguf
import numpy as np

IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)


def half(x):
    """x rounded to f16: (its bytes [n,2], its value)"""
    h = x.astype(np.float16)
    return h[:, None].view(np.uint8).reshape(-1, 2), h.astype(np.float32)


def inverse(d):
    return np.where(d == 0, 0, 1 / np.where(d == 0, 1, d))


def scale_min(x, top):
    """256 values in 8 parts as q*d*s - m*e: (d, e as bytes, the 12 packed bytes of s and m, q uint8 [n,8,32])"""
    x = x.reshape(-1, 8, 32)
    low, high = np.minimum(x.min(-1), 0), np.maximum(x.max(-1), 0)
    s, m = (high - low) / top, -low
    db, d = half(s.max(-1) / 63)
    eb, e = half(m.max(-1) / 63)
    s = np.clip(np.rint(s * inverse(d)[:, None]), 0, 63).astype(np.uint8)
    m = np.clip(np.rint(m * inverse(e)[:, None]), 0, 63).astype(np.uint8)
    step, off = (d[:, None] * s)[..., None], (e[:, None] * m)[..., None]
    q = np.clip(np.rint((x + off) * inverse(step)), 0, top).astype(np.uint8)
    packed = np.concatenate([s[:, :4] | (s[:, 4:] >> 4) << 6, m[:, :4] | (m[:, 4:] >> 4) << 6,
                             (s[:, 4:] & 15) | (m[:, 4:] & 15) << 4], 1)
    return np.concatenate([db, eb, packed], 1), q


def q4_k(x):
    head, q = scale_min(x, 15)
    q = q.reshape(-1, 4, 2, 32)
    return np.concatenate([head, (q[:, :, 0] | q[:, :, 1] << 4).reshape(-1, 128)], 1)


def q5_k(x):
    head, q = scale_min(x, 31)
    high = sum((q[:, j] >> 4) << j for j in range(8)).astype(np.uint8)
    q = (q & 15).reshape(-1, 4, 2, 32)
    return np.concatenate([head, high, (q[:, :, 0] | q[:, :, 1] << 4).reshape(-1, 128)], 1)


def q6_k(x):
    x = x.reshape(-1, 16, 16)
    s = np.abs(x).max(-1) / 31
    db, d = half(s.max(-1) / 127)
    s = np.clip(np.rint(s * inverse(d)[:, None]), 0, 127)
    step = (d[:, None] * s)[..., None]
    q = (np.clip(np.rint(x * inverse(step)), -32, 31) + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    low, high = q & 15, q >> 4
    ql = np.concatenate([low[:, :, 0] | low[:, :, 2] << 4, low[:, :, 1] | low[:, :, 3] << 4], -1)
    qh = high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6
    return np.concatenate([ql.reshape(-1, 128), qh.reshape(-1, 64), s.astype(np.int8).view(np.uint8), db], 1)


def iq4_nl(x):
    big = np.take_along_axis(x, np.abs(x).argmax(-1)[:, None], 1)[:, 0]
    db, d = half(big / -127)
    q = np.abs((x * inverse(d)[:, None])[..., None] - IQ4).argmin(-1).astype(np.uint8)
    return np.concatenate([db, q[:, :16] | q[:, 16:] << 4], 1)


OWN = {"Q4_K": (q4_k, 256, 0.1), "Q5_K": (q5_k, 256, 0.05), "Q6_K": (q6_k, 256, 0.03), "IQ4_NL": (iq4_nl, 32, 0.12)}


def quantize(a, kind):
    """uint8 rows of a 2-D float array; 3-D is taken as its rows."""
    t = gguf.GGMLQuantizationType[kind]
    if kind not in OWN:
        return gguf.quantize(np.ascontiguousarray(a), t)
    fn, block, bound = OWN[kind]
    out = np.ascontiguousarray(fn(a.astype(np.float32).reshape(-1, block))).reshape(*a.shape[:-1], -1)
    back = gguf.dequantize(out, t)
    err = np.sqrt(((back - a) ** 2).mean() / (a ** 2).mean())
    assert back.shape == a.shape and err < bound, (kind, err)
    return out
