# SPDX-License-Identifier: MIT
"""The text of a .ptx file, as nvcc writes it, taken apart: kernels, their parameters, memory and instructions."""
import re
from dataclasses import dataclass, field

WIDTHS = {"pred": 0, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "b32": 32, "u32": 32,
          "s32": 32, "f32": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64}


@dataclass
class Address:
    base: str  # a register or a symbol
    offset: int


@dataclass
class Instruction:
    guard: str  # a predicate, or ""
    negated: bool
    name: str  # "ld"
    parts: list  # ["ld", "global", "u16"]
    args: list  # text, Address, or a list of text
    text: str


@dataclass
class Kernel:
    name: str
    params: list  # (name, bytes, alignment)
    code: list = field(default_factory=list)
    labels: dict = field(default_factory=dict)
    widths: dict = field(default_factory=dict)  # of registers: by name, or by what stands before the number
    shared: list = field(default_factory=list)  # (name, bytes, alignment)
    local: list = field(default_factory=list)


def parse_param(text):
    found = re.match(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\s+(?:\.\w+\s+)*(?:\.align\s+\d+\s+|\d+\s+)*)?"
                     r"(\w+)(?:\[(\d+)\])?", text.strip())
    align, kind, name, count = found.groups()
    size = WIDTHS[kind] // 8
    return name, size * int(count or 1), int(align or size)


def parse_memory(text):
    """A .shared, .local, .global or .const array: name, bytes, alignment, initial bytes or None."""
    found = re.match(r"(?:\.(?:extern|visible|weak)\s+)*\.\w+\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?"
                     r"\s*(?:=\s*(.*))?$", text, re.S)
    align, kind, name, count, init = found.groups()
    size = WIDTHS[kind] // 8
    data = None
    if init is not None:
        data = b"".join((int(v, 0) & (1 << 8 * size) - 1).to_bytes(size, "little")
                        for v in re.findall(r"-?\w+", init))
    return name, size * int(count if count else 0 if count == "" else 1), int(align or size), data


def parse_operand(text):
    text = text.strip()
    if text.startswith("["):
        found = re.match(r"\[\s*([%\w$.]+)\s*(?:\+\s*(-?\w+))?\s*\]", text)
        return Address(found[1], int(found[2] or "0", 0))
    if text.startswith("{"):
        return [part.strip() for part in text[1:-1].split(",")]
    return text


def split_operands(text):
    parts, depth, word = [], 0, ""
    for c in text:
        depth += (c in "{[") - (c in "}]")
        if c == "," and depth == 0:
            parts.append(word)
            word = ""
        else:
            word += c
    return [parse_operand(p) for p in parts + [word] if p.strip()]


def parse_instruction(text):
    guard, negated = "", False
    found = re.match(r"@(!?)(%?\w+)\s+(.*)", text, re.S)
    if found:
        negated, guard, text = bool(found[1]), found[2], found[3]
    name, _, rest = text.partition(" ")
    parts = name.split(".")
    return Instruction(guard, negated, parts[0], parts, split_operands(rest), text)


def parse_registers(kernel, text):
    kind, names = re.match(r"\.reg\s+\.(\w+)\s+(.*)", text, re.S).groups()
    for name in names.split(","):
        kernel.widths[re.sub(r"<\d+>", "", name.strip())] = WIDTHS[kind]


def parse_body(kernel, body):
    """Statements end in ';', labels in ':'. Braces open scopes, which nvcc does not need to keep names apart."""
    at = 0
    for found in re.finditer(r"[;:{}]", body):
        text, mark = " ".join(body[at:found.start()].split()), found[0]
        if mark == ":" and (not re.fullmatch(r"[$\w]+", text)):
            continue  # of an operator such as "::"
        if mark in "{}" and text:
            continue  # the braces of operands
        at = found.end()
        if mark == ":":
            kernel.labels[text] = len(kernel.code)
        elif mark == ";" and text.startswith(".reg"):
            parse_registers(kernel, text)
        elif mark == ";" and text.startswith((".shared", ".local")):
            name, size, align, _ = parse_memory(text)
            (kernel.shared if text.startswith(".shared") else kernel.local).append((name, size, align))
        elif mark == ";" and text and not text.startswith("."):
            kernel.code.append(parse_instruction(text))


class Module:
    """kernels: by mangled name. constants: (name, bytes, alignment, initial bytes). extern_shared: names."""

    def __init__(self, text):
        text = re.sub(r"//[^\n]*", "", text)
        text = re.sub(r"^\s*\.(?:loc|file|section|pragma)\b[^\n]*$", "", text, flags=re.M)
        self.kernels, self.constants, self.extern_shared = {}, [], []
        end = 0
        for found in re.finditer(r"\.entry\s+(\w+)\s*\((.*?)\)([^{;]*)\{", text, re.S):
            self.parse_module_scope(text[end:found.start()])
            params = [parse_param(p) for p in found[2].split(",") if p.strip()]
            kernel = Kernel(found[1], params)
            depth, end = 1, found.end()
            while depth:
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
            parse_body(kernel, text[found.end():end - 1])
            self.kernels[kernel.name] = kernel
        self.parse_module_scope(text[end:])

    def parse_module_scope(self, text):
        for found in re.finditer(r"^\s*((?:\.\w+\s+)*?\.(global|const|shared)\s[^;]*);", text, re.M):
            name, size, align, data = parse_memory(" ".join(found[1].split()))
            if found[2] == "shared":
                self.extern_shared.append(name)
            else:
                self.constants.append((name, size, align, data))
