# SPDX-License-Identifier: MIT
"""Runs the PTX of one launch, a block at a time, all threads of the block as numpy vectors.

Every thread has a place in the code; the threads that stand lowest go on until they meet others or a branch parts them, so any
divergence is followed. Shared memory and registers start as NaN; the target of an asynchronous copy is NaN until it is waited
for; accesses outside of allocations and misaligned ones are errors. Not here: TMA, mbarrier, wgmma, textures, f64 products.
"""
from collections import Counter

import numpy as np

from ops import OPS

U = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
PARAM, LOCAL, SHARED, CONST = 1 << 60, 2 << 60, 3 << 60, 5 << 60  # where generic addresses of these spaces begin
SPACES = {"param": PARAM, "local": LOCAL, "shared": SHARED, "const": CONST}


class Fault(Exception):
    pass


class Memory:
    """Pieces at addresses of their own."""

    def __init__(self, pieces):
        self.starts = np.array([start for start, _ in pieces], np.int64)
        self.sizes = np.array([len(data) for _, data in pieces], np.int64)
        self.offsets = np.concatenate(([0], np.cumsum((self.sizes + 31) // 16 * 16)))
        self.bytes = np.full(int(self.offsets[-1]) + 16, 0xff, np.uint8)
        for offset, (_, data) in zip(self.offsets, pieces):
            self.bytes[offset:offset + len(data)] = np.frombuffer(data, np.uint8)

    def index(self, addresses, size):
        piece = np.searchsorted(self.starts, addresses, "right") - 1
        within = addresses - self.starts[piece]
        bad = (piece < 0) | (within < 0) | (within + size > self.sizes[piece])
        if bad.any():
            raise Fault(f"{size} bytes at {int(addresses[bad][0]):#x} are outside of every allocation")
        if (addresses % size).any():
            raise Fault(f"{size} bytes at {int(addresses[addresses % size != 0][0]):#x} are misaligned")
        return within + self.offsets[piece]

    def load(self, addresses, dtype):
        size = np.dtype(dtype).itemsize
        return self.bytes[:len(self.bytes) // size * size].view(dtype)[self.index(addresses, size) // size]

    def store(self, addresses, values):
        size = values.dtype.itemsize
        self.bytes[:len(self.bytes) // size * size].view(values.dtype)[self.index(addresses, size) // size] = values

    def piece(self, i):
        return self.bytes[self.offsets[i]:self.offsets[i] + self.sizes[i]].tobytes()


class Block:
    """The threads of one block. m, where it stands below, is the mask of those that run."""

    def __init__(self, launch, index):
        x, y, z = launch.block
        self.launch, self.kernel, self.n = launch, launch.kernel, x * y * z
        t = np.arange(self.n)
        self.lane, self.thread = t % 32, t
        threads = (t % x, t // x % y, t // (x * y))
        self.special = {"%laneid": (t % 32).astype(np.uint32), "%warpid": (t // 32).astype(np.uint32)}
        for i, c in enumerate("xyz"):
            self.special[f"%tid.{c}"] = threads[i].astype(np.uint32)
            for name, values in (("ntid", launch.block), ("ctaid", index), ("nctaid", launch.grid)):
                self.special[f"%{name}.{c}"] = np.full(self.n, values[i], np.uint32)
        self.registers = {}
        self.spaces = {"global": launch.memory, "param": launch.params, "const": launch.constants,
                       "shared": Memory([(0, b"\xff" * launch.shared_size)]),
                       "local": Memory([(0, b"\xff" * (launch.local_size * self.n))])}
        self.copies, self.groups = [], np.zeros(self.n, np.int64)
        self.waiting = {}

    # ---- registers and operands

    def width(self, name):
        widths = self.kernel.widths
        return widths[name] if name in widths else widths[name.rstrip("0123456789")]

    def value(self, operand, dtype):
        """As an array of dtype: a register, a special register, a symbol's address or a constant."""
        dtype = np.dtype(dtype)
        bits = self.special.get(operand) if operand[0] == "%" else None
        if bits is None:
            bits = self.registers.get(operand)
        if bits is None and operand in self.launch.symbols:
            return np.full(self.n, self.launch.symbols[operand], U[8 * dtype.itemsize]).view(dtype)
        if bits is None:
            return self.constant(operand, dtype)
        if bits.dtype == bool or bits.dtype == dtype:
            return bits
        if bits.dtype.itemsize != dtype.itemsize:
            bits = bits.astype(U[8 * dtype.itemsize])
        return bits.view(dtype)

    def constant(self, text, dtype):
        if text[0] == "%" or text[0].isalpha():
            width = self.width(text)  # a register that nobody has written
            return np.zeros(self.n, bool) if width == 0 else np.full(self.n, -1, f"i{width // 8}").view(dtype)
        if text[:2] in ("0f", "0F"):
            return np.full(self.n, int(text[2:], 16), np.uint32).view(np.float32).astype(dtype)
        if text[:2] in ("0d", "0D"):
            return np.full(self.n, int(text[2:], 16), np.uint64).view(np.float64).astype(dtype)
        if dtype.kind == "f" and "x" not in text:
            return np.full(self.n, float(text), dtype)
        return np.full(self.n, int(text.rstrip("U"), 0) & (1 << 8 * dtype.itemsize) - 1, U[8 * dtype.itemsize]).view(dtype)

    def put(self, name, values, m):
        if name == "_":
            return
        width = self.width(name)
        if width and values.dtype.itemsize * 8 != width:
            values = values.astype(f"{'i' if values.dtype.kind == 'i' else 'u'}{width // 8}")
        if width:
            values = values.view(U[width])
        old = self.registers.get(name)
        if old is None:
            old = np.zeros(self.n, bool) if width == 0 else np.full(self.n, -1, f"i{width // 8}").view(U[width])
        self.registers[name] = np.where(m, values, old)

    def predicate(self, text):
        if text[0] == "!":
            return ~self.predicate(text[1:])
        return self.value(text, bool)

    # ---- memory

    def addresses(self, operand, space):
        """Of all threads, in the space, as int64."""
        base = operand.base
        symbol = self.launch.symbols.get(base)
        if symbol is not None and base not in self.registers:
            return np.full(self.n, symbol + operand.offset, np.int64)
        if base[0] == "%":
            bits = self.value(base, np.uint64 if self.width(base) == 64 else np.uint32)
            return bits.astype(np.int64) + operand.offset
        return np.full(self.n, int(base, 0) + operand.offset, np.int64)

    def parts_of_generic(self, addresses, m):
        """(space, mask, addresses in it) of generic addresses."""
        window = addresses >> 60
        for space, start in SPACES.items():
            of_space = m & (window == start >> 60)
            if of_space.any():
                yield space, of_space, addresses - start
        if (m & (window == 0)).any():
            yield "global", m & (window == 0), addresses

    def of_thread(self, space, addresses, m):
        return addresses[m] + (self.thread[m] * self.launch.local_size if space == "local" else 0)

    def load(self, space, addresses, dtype, m):
        values = np.zeros(self.n, dtype)
        if space is None:
            for part, mask, within in self.parts_of_generic(addresses, m):
                values[mask] = self.spaces[part].load(self.of_thread(part, within, mask), dtype)
        else:
            values[m] = self.spaces[space].load(self.of_thread(space, addresses, m), dtype)
        return values

    def store(self, space, addresses, values, m):
        if space is None:
            for part, mask, within in self.parts_of_generic(addresses, m):
                self.spaces[part].store(self.of_thread(part, within, mask), values[mask])
        else:
            self.spaces[space].store(self.of_thread(space, addresses, m), values[m])

    # ---- the walk

    def run(self):
        groups = {0: np.ones(self.n, bool)}  # place -> who stands there
        while groups or self.waiting:
            if not groups:
                where = sorted(entry[0] for entry in self.waiting.values())
                raise Fault(f"deadlock: threads wait in barriers {where}")
            place = min(groups)
            self.walk(place, groups.pop(place), groups)

    def walk(self, place, m, groups):
        """Goes on with the threads m until they are done, wait, or stand behind or with others."""
        code, labels = self.kernel.code, self.kernel.labels
        everybody = m.all()
        while True:
            limit = min(groups) if groups else len(code)
            if place >= limit and groups:
                groups[place] = groups[place] | m if place in groups else m
                return
            i = code[place]
            on = m
            if i.guard:
                guard = self.predicate(i.guard)
                on = m & (~guard if i.negated else guard)
            self.launch.counts[".".join(i.parts)] += int(on.sum()) if i.guard or not everybody else self.n
            place += 1
            if i.name == "bra":
                m, place = self.branch(m, on, labels[i.args[0]], place, groups)
                everybody = m.all()
            elif i.name in ("ret", "exit"):
                m = m & ~on
                if not m.any():
                    self.release(groups)
                    return
                everybody = False
            elif i.name in ("bar", "barrier") and i.parts[1] != "warp":
                self.wait(i, on, place, groups)
                return
            elif on.any():
                self.execute(i, on)

    def branch(self, m, taken, target, place, groups):
        if taken.all() or not (m & ~taken).any():
            return m, target
        if not taken.any():
            return m, place
        other = m & ~taken
        low, high = (target, place) if target < place else (place, target)
        low_mask, high_mask = (taken, other) if target < place else (other, taken)
        groups[high] = groups[high] | high_mask if high in groups else high_mask
        return low_mask, low

    def execute(self, i, m):
        handler = OPS.get(i.name)
        if handler is None:
            raise Fault(f"no such instruction here: {i.text}")
        try:
            handler(self, i, m)
        except (Fault, ValueError) as fault:
            raise Fault(f"{fault}, in: {i.text}") from None

    # ---- barriers

    def wait(self, i, m, place, groups):
        numbers = [int(a, 0) if a[0].isdigit() else int(self.value(a, np.uint32)[m][0]) for a in i.args]
        barrier, expected = (numbers + [0])[0], numbers[1] if len(numbers) > 1 else None
        entry = self.waiting.setdefault(barrier, [place, np.zeros(self.n, bool), expected, []])
        entry[1] |= m
        entry[3].append((place, m))
        self.release(groups)

    def release(self, groups):
        standing = np.zeros(self.n, bool)
        for mask in groups.values():
            standing |= mask
        for _, mask, _, _ in self.waiting.values():
            standing |= mask
        for barrier in list(self.waiting):
            _, mask, expected, parts = self.waiting[barrier]
            if mask.sum() < (expected or standing.sum()):
                continue
            del self.waiting[barrier]
            for place, part in parts:
                groups[place] = groups[place] | part if place in groups else part


class Launch:
    def __init__(self, module, kernel, record):
        self.kernel, self.grid, self.block = kernel, record["grid"], record["block"]
        self.memory, self.counts = Memory(record["pieces"]), Counter()
        self.symbols = {}
        params, at = bytearray(), 0
        for (name, size, align), text in zip(kernel.params, record["arguments"], strict=True):
            data = bytes.fromhex(text)
            if len(data) != size:
                raise Fault(f"parameter {name} has {size} bytes, the record has {len(data)}")
            params += b"\0" * (-len(params) % align)
            self.symbols[name] = len(params)
            params += data
        self.params = Memory([(0, bytes(params))])
        at = 0
        for name, size, align in kernel.shared:
            at += -at % align
            self.symbols[name] = at
            at += size
        if module.extern_shared:
            at += -at % 1024
        for name in module.extern_shared:
            self.symbols[name] = at
        self.shared_size = at + record["shared"]
        at = 0
        for name, size, align in kernel.local:
            at += -at % 16
            self.symbols[name] = at
            at += size
        self.local_size = at + -at % 16
        constants = bytearray()
        for name, size, align, data in module.constants:
            constants += b"\0" * (-len(constants) % max(align, 16))
            self.symbols[name] = CONST + len(constants)
            constants += (data or b"").ljust(size, b"\0")
        self.constants = Memory([(0, bytes(constants))])

    def run(self):
        gx, gy, gz = self.grid
        for z in range(gz):
            for y in range(gy):
                for x in range(gx):
                    Block(self, (x, y, z)).run()
