# SPDX-License-Identifier: MIT
"""What each instruction of PTX does: handler(block, instruction, mask of the threads that execute it)."""
import numpy as np

TYPES = {"u8": np.uint8, "s8": np.int8, "b8": np.uint8, "u16": np.uint16, "s16": np.int16, "b16": np.uint16,
         "f16": np.float16, "u32": np.uint32, "s32": np.int32, "b32": np.uint32, "f32": np.float32, "u64": np.uint64,
         "s64": np.int64, "b64": np.uint64, "f64": np.float64}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def bf16_to_f32(bits):
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(values):
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7fff) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), 0x7fff, rounded).astype(np.uint16)


# ---- moves


def mov(b, i, m):
    target, source = i.args
    if i.parts[-1] == "pred":
        b.put(target, b.predicate(source), m)
        return
    dtype = np.dtype(TYPES[i.parts[-1]])
    if isinstance(target, list):
        part = UNSIGNED[dtype.itemsize // len(target)]
        bits = b.value(source, UNSIGNED[dtype.itemsize])
        for k, name in enumerate(target):
            b.put(name, (bits >> bits.dtype.type(8 * np.dtype(part).itemsize * k)).astype(part), m)
    elif isinstance(source, list):
        whole = UNSIGNED[dtype.itemsize]
        part = UNSIGNED[dtype.itemsize // len(source)]
        bits = np.zeros(b.n, whole)
        for k, name in enumerate(source):
            bits |= b.value(name, part).astype(whole) << whole(8 * np.dtype(part).itemsize * k)
        b.put(target, bits, m)
    else:
        b.put(target, b.value(source, dtype), m)


def cvta(b, i, m):
    """Windows of spaces: sim.py."""
    space = next((p for p in i.parts if p in ("local", "shared", "param", "const")), None)
    start = {"local": 2 << 60, "shared": 3 << 60, "param": 1 << 60}.get(space, 0)
    bits = b.value(i.args[1], np.uint64)
    b.put(i.args[0], bits - np.uint64(start) if "to" in i.parts else bits + np.uint64(start), m)


def selp(b, i, m):
    dtype = TYPES[i.parts[-1]]
    b.put(i.args[0], np.where(b.predicate(i.args[3]), b.value(i.args[1], dtype), b.value(i.args[2], dtype)), m)


def space_of(i):
    return next((p.split("::")[0] for p in i.parts if p.split("::")[0] in ("global", "shared", "local", "param", "const")), None)


def ld(b, i, m):
    dtype = TYPES[i.parts[-1]]
    names = i.args[0] if isinstance(i.args[0], list) else [i.args[0]]
    space, size = space_of(i), np.dtype(dtype).itemsize
    at = b.addresses(i.args[1], space)
    if len(names) > 1 and (at[m] % (size * len(names))).any():
        raise ValueError("misaligned vector access")
    for k, name in enumerate(names):
        b.put(name, b.load(space, at + k * size, dtype, m), m)


def st(b, i, m):
    dtype = TYPES[i.parts[-1]]
    names = i.args[1] if isinstance(i.args[1], list) else [i.args[1]]
    space, size = space_of(i), np.dtype(dtype).itemsize
    at = b.addresses(i.args[0], space)
    if len(names) > 1 and (at[m] % (size * len(names))).any():
        raise ValueError("misaligned vector access")
    for k, name in enumerate(names):
        b.store(space, at + k * size, np.ascontiguousarray(b.value(name, UNSIGNED[size])), m)


def atom(b, i, m):
    """One thread after another."""
    dtype, space = TYPES[i.parts[-1]], space_of(i)
    target, address, *sources = i.args if i.name == "atom" else [None, *i.args]
    operation = next(p for p in i.parts[1:] if p in ATOMIC)
    at, x = b.addresses(address, space), b.value(sources[0], dtype)
    y = b.value(sources[1], dtype) if len(sources) > 1 else None
    before = np.zeros(b.n, dtype)
    for t in np.flatnonzero(m):
        one = np.zeros(b.n, bool)
        one[t] = True
        before[t] = b.load(space, at, dtype, one)[t]
        after = np.zeros(b.n, dtype)
        after[t] = ATOMIC[operation](before[t], x[t], y[t] if y is not None else None)
        b.store(space, at, after.view(UNSIGNED[after.dtype.itemsize]), one)
    if target is not None:
        b.put(target, before, m)


ATOMIC = {"add": lambda old, x, y: old + x, "min": lambda old, x, y: min(old, x), "max": lambda old, x, y: max(old, x),
          "exch": lambda old, x, y: x, "cas": lambda old, x, y: y if old == x else old,
          "or": lambda old, x, y: old | x, "and": lambda old, x, y: old & x}

# ---- arithmetic


def flushed(i, values):
    """.ftz, and .sat"""
    if "ftz" in i.parts:
        values = np.where(np.abs(values) < np.float32(1.17549435e-38), np.copysign(np.float32(0), values), values)
    if "sat" in i.parts:
        values = np.where(np.isnan(values), np.float32(0), np.clip(values, np.float32(0), np.float32(1)))
    return values


def integer_division(x, y, remainder):
    safe = np.where(y == 0, 1, y).astype(x.dtype)
    if x.dtype.kind == "u":
        quotient = x // safe
    else:
        quotient = (np.abs(x) // np.abs(safe)) * (np.sign(x) * np.sign(safe)).astype(x.dtype)
    return x - quotient * safe if remainder else quotient


def rounded_f32(i, exact):
    """f64 to f32 as the instruction says: the nearest, or toward a side."""
    nearest = exact.astype(np.float32)
    with_error = nearest.astype(np.float64)
    if "rm" in i.parts:
        return np.where(with_error > exact, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    if "rp" in i.parts:
        return np.where(with_error < exact, np.nextafter(nearest, np.float32(np.inf)), nearest)
    if "rz" in i.parts:
        return np.where(np.abs(with_error) > np.abs(exact), np.nextafter(nearest, np.float32(0)), nearest)
    return nearest


def binary(function):
    def handler(b, i, m):
        if i.parts[-1] == "pred":
            b.put(i.args[0], function(b.predicate(i.args[1]), b.predicate(i.args[2])), m)
            return
        dtype = TYPES[i.parts[-1]]
        x, y = b.value(i.args[1], dtype), b.value(i.args[2], dtype)
        if dtype is np.float32 and any(p in i.parts for p in ("rz", "rm", "rp")):
            b.put(i.args[0], rounded_f32(i, function(x.astype(np.float64), y.astype(np.float64))), m)
            return
        values = function(x, y).astype(dtype)
        b.put(i.args[0], flushed(i, values).astype(dtype) if dtype is np.float32 else values, m)
    return handler


def unary(function):
    def handler(b, i, m):
        if i.parts[-1] == "pred":
            b.put(i.args[0], ~b.predicate(i.args[1]), m)
            return
        dtype = TYPES[i.parts[-1]]
        values = function(b.value(i.args[1], dtype)).astype(dtype)
        b.put(i.args[0], flushed(i, values).astype(dtype) if dtype is np.float32 else values, m)
    return handler


def div(b, i, m):
    dtype = TYPES[i.parts[-1]]
    x, y = b.value(i.args[1], dtype), b.value(i.args[2], dtype)
    b.put(i.args[0], (x / y).astype(dtype) if np.dtype(dtype).kind == "f" else integer_division(x, y, False), m)


def rem(b, i, m):
    dtype = TYPES[i.parts[-1]]
    b.put(i.args[0], integer_division(b.value(i.args[1], dtype), b.value(i.args[2], dtype), True), m)


def product(b, i):
    """Of the first two operands, as mul and mad take it: the low half, the high half, or twice as wide."""
    dtype = np.dtype(TYPES[i.parts[-1]])
    x, y = b.value(i.args[1], dtype), b.value(i.args[2], dtype)
    if dtype.kind == "f":
        return x * y
    wide = np.dtype((SIGNED if dtype.kind == "i" else UNSIGNED).get(2 * dtype.itemsize, object))
    if "wide" in i.parts:
        return x.astype(wide) * y.astype(wide)
    if "hi" in i.parts:
        high = (x.astype(object) * y.astype(object)) >> 8 * dtype.itemsize
        return high.astype(dtype)
    return x * y


def mul(b, i, m):
    values = product(b, i)
    b.put(i.args[0], flushed(i, values).astype(np.float32) if values.dtype == np.float32 else values, m)


def mad(b, i, m):
    if i.parts[-1] == "f32":
        fma(b, i, m)
        return
    values = product(b, i)
    b.put(i.args[0], values + b.value(i.args[3], values.dtype), m)


def fma(b, i, m):
    if i.parts[-1] in ("f16x2", "bf16x2", "f16", "bf16"):
        raise ValueError("no such form of it here")
    dtype = TYPES[i.parts[-1]]
    x, y, z = (b.value(a, dtype).astype(np.float64) for a in i.args[1:4])
    b.put(i.args[0], flushed(i, rounded_f32(i, x * y + z)).astype(np.float32) if dtype is np.float32 else x * y + z, m)


def shl(b, i, m):
    dtype = np.dtype(TYPES[i.parts[-1]])
    x, by = b.value(i.args[1], UNSIGNED[dtype.itemsize]), b.value(i.args[2], np.uint32)
    limit = 8 * dtype.itemsize
    b.put(i.args[0], np.where(by < limit, x << np.minimum(by, limit - 1).astype(x.dtype), 0).astype(x.dtype), m)


def shr(b, i, m):
    dtype = np.dtype(TYPES[i.parts[-1]])
    x, by = b.value(i.args[1], dtype), b.value(i.args[2], np.uint32)
    limit = 8 * dtype.itemsize
    shifted = x >> np.minimum(by, limit - 1).astype(x.dtype)
    b.put(i.args[0], shifted if dtype.kind == "i" else np.where(by < limit, shifted, 0).astype(dtype), m)


def shf(b, i, m):
    low, high, by = (b.value(a, np.uint32).astype(np.uint64) for a in i.args[1:4])
    by = by & np.uint64(31) if "wrap" in i.parts else np.minimum(by, np.uint64(32))
    both = high << np.uint64(32) | low
    b.put(i.args[0], (both << by >> np.uint64(32) if i.parts[1] == "l" else both >> by).astype(np.uint32), m)


def bfe(b, i, m):
    dtype = TYPES[i.parts[-1]]
    x, at, n = b.value(i.args[1], dtype), b.value(i.args[2], np.uint32) & 255, b.value(i.args[3], np.uint32) & 255
    bits = 8 * np.dtype(dtype).itemsize
    values = []
    for v, p, c in zip(x.tolist(), at.tolist(), n.tolist()):
        field = (v & (1 << bits) - 1) >> p & (1 << c) - 1 if p < bits else 0
        if np.dtype(dtype).kind == "i" and c and field >> (c - 1) & 1:
            field -= 1 << c
        values.append(field)
    b.put(i.args[0], np.array(values, np.int64 if np.dtype(dtype).kind == "i" else np.uint64).astype(dtype), m)


def bfi(b, i, m):
    dtype = UNSIGNED[np.dtype(TYPES[i.parts[-1]]).itemsize]
    x, into = b.value(i.args[1], dtype), b.value(i.args[2], dtype)
    at, n = b.value(i.args[3], np.uint32).astype(dtype), b.value(i.args[4], np.uint32).astype(dtype)
    mask = ((dtype(1) << n) - dtype(1)) << at
    b.put(i.args[0], into & ~mask | x << at & mask, m)


def lop3(b, i, m):
    x, y, z = (b.value(a, np.uint32) for a in i.args[1:4])
    table, out = int(i.args[4], 0), np.zeros(b.n, np.uint32)
    for k in range(8):
        if table >> k & 1:
            out |= (x if k & 4 else ~x) & (y if k & 2 else ~y) & (z if k & 1 else ~z)
    b.put(i.args[0], out, m)


def prmt(b, i, m):
    low, high, selector = (b.value(a, np.uint32) for a in i.args[1:4])
    if len(i.parts) > 2:
        raise ValueError("no such form of it here")
    pool = np.stack([(w >> np.uint32(8 * k)) & np.uint32(255) for w in (low, high) for k in range(4)])
    out = np.zeros(b.n, np.uint32)
    for k in range(4):
        pick = selector >> np.uint32(4 * k)
        byte = pool[(pick & np.uint32(7)).astype(np.int64), np.arange(b.n)]
        byte = np.where(pick & np.uint32(8), np.where(byte & np.uint32(128), 255, 0), byte).astype(np.uint32)
        out |= byte << np.uint32(8 * k)
    b.put(i.args[0], out, m)


def popc(b, i, m):
    x = b.value(i.args[1], TYPES[i.parts[-1]])
    b.put(i.args[0], np.array([bin(v).count("1") for v in x.tolist()], np.uint32), m)


def clz(b, i, m):
    dtype = np.dtype(TYPES[i.parts[-1]])
    x = b.value(i.args[1], dtype)
    b.put(i.args[0], np.array([8 * dtype.itemsize - int(v).bit_length() for v in x.tolist()], np.uint32), m)


def brev(b, i, m):
    x = b.value(i.args[1], np.uint32)
    b.put(i.args[0], np.array([int(f"{v:032b}"[::-1], 2) for v in x.tolist()], np.uint32), m)


# ---- comparisons and conversions

COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
           "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}


def setp(b, i, m):
    dtype, how = TYPES[i.parts[-1]], i.parts[1]
    x, y = b.value(i.args[1], dtype), b.value(i.args[2], dtype)
    if how in ("num", "nan"):
        unordered = np.isnan(x) | np.isnan(y)
        values = unordered if how == "nan" else ~unordered
    elif np.dtype(dtype).kind == "f" and how in ("equ", "neu", "ltu", "leu", "gtu", "geu"):
        values = COMPARE[how[:2]](x, y) | np.isnan(x) | np.isnan(y)
    elif np.dtype(dtype).kind == "f" and how == "ne":
        values = (x != y) & ~np.isnan(x) & ~np.isnan(y)
    else:
        values = COMPARE[how](x, y)
    both = None
    if i.parts[2] in ("and", "or", "xor"):
        both = b.predicate(i.args[3])
    joined = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.get(i.parts[2])
    first, *second = i.args[0].split("|")
    b.put(first, joined(values, both) if joined else values, m)
    for name in second:
        b.put(name, joined(~values, both) if joined else ~values, m)


def cvt(b, i, m):
    to, of = i.parts[-2], i.parts[-1]
    if "bf16x2" in i.parts or "f16x2" in i.parts:
        high, low = (b.value(a, np.float32) for a in i.args[1:3])
        halves = [f32_to_bf16(v) if "bf16x2" in i.parts else v.astype(np.float16).view(np.uint16) for v in (low, high)]
        b.put(i.args[0], halves[0].astype(np.uint32) | halves[1].astype(np.uint32) << np.uint32(16), m)
        return
    if to == "bf16":
        b.put(i.args[0], f32_to_bf16(b.value(i.args[1], np.float32)), m)
        return
    if of == "bf16":
        b.put(i.args[0], bf16_to_f32(b.value(i.args[1], np.uint16)), m)
        return
    if to == "tf32":
        bits = b.value(i.args[1], np.uint32)
        b.put(i.args[0], (bits + np.uint32(0x1000)) & np.uint32(0xffffe000), m)
        return
    source, target = b.value(i.args[1], TYPES[of]), np.dtype(TYPES[to])
    if source.dtype.kind == "f" and target.kind in "iu":
        rounding = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}
        whole = next(rounding[p] for p in i.parts if p in rounding)(source.astype(np.float64))
        info = np.iinfo(target)
        clipped = np.clip(np.where(np.isnan(whole), 0, whole), float(info.min), float(info.max))
        edge = clipped >= float(info.max)
        b.put(i.args[0], np.where(edge, info.max, np.where(edge, 0, clipped).astype(target)).astype(target), m)
        return
    if source.dtype.kind == "f" and any(p in i.parts for p in ("rni", "rmi", "rpi", "rzi")):
        rounding = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}
        source = next(rounding[p] for p in i.parts if p in rounding)(source)
    values = source.astype(target)
    b.put(i.args[0], flushed(i, values).astype(target) if target == np.float32 else values, m)


# ---- lanes and tensor cores


def shfl(b, i, m):
    how = i.parts[2]
    x, by = b.value(i.args[1], np.uint32), b.value(i.args[2], np.int32)
    c = b.value(i.args[3], np.int32)
    segment, clamp = c >> 8 & 31, c & 31
    low = b.lane & segment
    high = low | clamp & ~segment
    source = {"bfly": b.lane ^ by, "up": b.lane - by, "down": b.lane + by, "idx": low | by & ~segment & 31}[how]
    inside = source >= high if how == "up" else source <= high
    source = np.where(inside, source, b.lane) + b.thread // 32 * 32
    source = np.minimum(source, b.n - 1)
    first, *second = i.args[0].split("|")
    b.put(first, np.where(m[source], x[source], np.uint32(0xffffffff)), m)
    for name in second:
        b.put(name, inside, m)


def vote(b, i, m):
    votes = b.predicate(i.args[1]) & m
    warps = b.thread // 32
    for w in np.unique(warps[m]):
        of_warp = m & (warps == w)
        if "ballot" in i.parts:
            bits = int((np.uint64(1) << b.lane[of_warp & votes].astype(np.uint64)).sum())
            b.put(i.args[0], np.full(b.n, bits, np.uint32), of_warp)
        else:
            voted = votes[of_warp]
            b.put(i.args[0], np.full(b.n, voted.any() if "any" in i.parts else voted.all()), of_warp)


def whole_warps(b, i, m):
    warps = m.reshape(-1, 32) if b.n % 32 == 0 else None
    if warps is None or (warps.any(1) != warps.all(1)).any():
        raise ValueError("a warp is not whole")
    return np.flatnonzero(warps.all(1))


def ldmatrix(b, i, m):
    at, out = b.addresses(i.args[1], "shared"), [np.zeros(b.n, np.uint32) for _ in i.args[0]]
    for w in whole_warps(b, i, m):
        for k, registers in enumerate(out):
            rows = at[w * 32 + 8 * k:w * 32 + 8 * k + 8]
            if (rows % 16).any():
                raise ValueError("a row is misaligned")
            halves = b.spaces["shared"].load((rows[:, None] + 2 * np.arange(8)).ravel(), np.uint16).reshape(8, 8)
            halves = halves.T if "trans" in i.parts else halves
            registers[w * 32:w * 32 + 32] = np.ascontiguousarray(halves).view(np.uint32).ravel()
    for name, registers in zip(i.args[0], out):
        b.put(name, registers, m)


def matrix(registers, n_rows, n_columns, depth):
    """Fragments [register, thread, element] to [warp, row, column]: rows by lane / 4, elements by lane % 4 and number."""
    n_warps = registers.shape[1] // 32
    f = registers.reshape(n_columns, n_rows, n_warps, 8, 4, depth)
    return f.transpose(2, 1, 3, 0, 4, 5).reshape(n_warps, 8 * n_rows, 4 * n_columns * depth)


def mma(b, i, m):
    whole_warps(b, i, m)
    shape, kind = i.parts[3], i.parts[7]
    a, bb = (np.stack([b.value(r, np.uint32) for r in regs]) for regs in i.args[1:3])
    c = np.stack([b.value(r, np.float32) for r in i.args[3]])
    if kind == "tf32":
        elements = [(x & np.uint32(0xffffe000)).view(np.float32)[..., None] for x in (a, bb)]
    else:
        halves = [np.stack([x & np.uint32(0xffff), x >> np.uint32(16)], -1).astype(np.uint16) for x in (a, bb)]
        elements = [bf16_to_f32(h) if kind == "bf16" else h.view(np.float16).astype(np.float32) for h in halves]
    if shape not in ("m16n8k16", "m16n8k8") or i.parts[5] != "col":
        raise ValueError("no such form of it here")
    depth, columns = elements[0].shape[-1], len(i.args[1]) // 2
    A, B = matrix(elements[0], 2, columns, depth), matrix(elements[1], 1, columns, depth)
    C = matrix(c.reshape(2, 2, -1).transpose(0, 2, 1).reshape(2, -1, 2), 2, 1, 2)
    D = (C + np.einsum("wik,wjk->wij", A, B)).astype(np.float32)
    D = D.reshape(-1, 2, 8, 4, 2).transpose(1, 4, 0, 2, 3).reshape(4, -1)
    for name, values in zip(i.args[0], D):
        b.put(name, np.ascontiguousarray(values), m)


# ---- asynchronous copies


def cp(b, i, m):
    if "commit_group" in i.parts:
        b.groups[m] += 1
    elif "wait_group" in i.parts or "wait_all" in i.parts:
        left = int(i.args[0], 0) if i.args else 0
        if "wait_all" in i.parts:
            b.groups[m] += 1
        for copy in b.copies:
            to, source, size, given, of, group = copy
            lands = of & m & (group < b.groups - left)
            land(b, to, source, size, given, lands)
            copy[4] = of & ~lands
        b.copies = [copy for copy in b.copies if copy[4].any()]
    else:
        size = int(i.args[2], 0)
        given = b.value(i.args[3], np.uint32).astype(np.int64) if len(i.args) > 3 else np.full(b.n, size)
        to, source = b.addresses(i.args[0], "shared"), b.addresses(i.args[1], "global")
        if (to[m] % size).any() or (source[m & (given > 0)] % size).any():
            raise ValueError("a misaligned copy")
        for k in range(size):
            b.store("shared", to + k, np.full(b.n, 0xff, np.uint8), m)
        b.copies.append([to, source, size, given, m.copy(), b.groups.copy()])


def land(b, to, source, size, given, m):
    for k in range(size):
        there = m & (given > k)
        bytes_ = b.load("global", source + k, np.uint8, there)
        b.store("shared", to + k, np.where(there, bytes_, 0).astype(np.uint8), m)


def nothing(b, i, m):
    pass


def signed_free(function):
    """min and max of f32 give the number where one is NaN."""
    numbers = {np.minimum: np.fmin, np.maximum: np.fmax}[function]
    return lambda x, y: numbers(x, y) if x.dtype.kind == "f" else function(x, y)


OPS = {
    "mov": mov, "cvta": cvta, "selp": selp, "ld": ld, "ldu": ld, "st": st, "atom": atom, "red": atom,
    "add": binary(np.add), "sub": binary(np.subtract), "and": binary(np.bitwise_and), "or": binary(np.bitwise_or),
    "xor": binary(np.bitwise_xor), "min": binary(signed_free(np.minimum)), "max": binary(signed_free(np.maximum)),
    "div": div, "rem": rem, "mul": mul, "mad": mad, "mul24": mul, "fma": fma,
    "neg": unary(np.negative), "abs": unary(np.abs), "not": unary(np.invert),
    "rcp": unary(lambda x: 1 / x), "sqrt": unary(np.sqrt), "rsqrt": unary(lambda x: 1 / np.sqrt(x)),
    "ex2": unary(np.exp2), "lg2": unary(np.log2), "tanh": unary(np.tanh), "sin": unary(np.sin), "cos": unary(np.cos),
    "shl": shl, "shr": shr, "shf": shf, "bfe": bfe, "bfi": bfi, "lop3": lop3, "prmt": prmt, "popc": popc, "clz": clz,
    "brev": brev, "setp": setp, "cvt": cvt, "shfl": shfl, "vote": vote, "ldmatrix": ldmatrix, "mma": mma, "cp": cp,
    "bar": nothing, "membar": nothing, "fence": nothing, "prefetch": nothing, "activemask": None,
}
