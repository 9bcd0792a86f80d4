# SPDX-License-Identifier: MIT
"""Runs recorded launches of the emulator (../record.cpp) again, from the PTX that nvcc makes of the same sources, and compares
the memory that they leave. So what stands in the wrappers' PTX, and what nvcc makes of a kernel, is seen to do the same.

run.py RECORDS [options of ../static/ptxas.py: --folder --nvcc --flag] FILES...
--all: every kernel; otherwise those of rung cuda-simple are left out. --counts: instructions executed. --expect-failure: at least
one launch must differ. Every kernel of FILES needs a record, a template one of some form of it.
"""
import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("no numpy here (Debian: python3-numpy): skipped")
    sys.exit(77)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "static"))
import ptxas  # noqa: E402
from ptx import Module  # noqa: E402
from sim import Fault, Launch  # noqa: E402

np.seterr(all="ignore")
# Relative to the largest value nearby: exp2 and the order within an mma differ a little, and a 16-bit value may round the other way.
BOUNDS = {"f32": (np.float32, 2e-5), "bf16": (np.uint16, 1.6e-2), "f16": (np.float16, 2e-3)}
MOST_THREADS = 2048


def read_record(path):
    data = path.read_bytes()
    head, _, rest = data.partition(b"\n")
    record = json.loads(head)
    sizes = [size for _, size in record["memory"]]
    if len(rest) != 2 * sum(sizes):
        sys.exit(f"{path}: {len(rest)} bytes of memory instead of {2 * sum(sizes)}")
    record["pieces"], record["after"], at = [], [], 0
    for start, size in record["memory"]:
        record["pieces"].append((start, rest[at:at + size]))
        record["after"].append(rest[sum(sizes) + at:sum(sizes) + at + size])
        at += size
    record["path"] = path
    return record


def as_values(data, dtype):
    size = np.dtype(dtype).itemsize
    values = np.frombuffer(data[:len(data) // size * size], dtype)
    return (values.astype(np.uint32) << np.uint32(16)).view(np.float32) if dtype is np.uint16 else values


def difference(wanted, got, x):
    """Of what the launch was to change or has changed: the least over the types it may hold, in units of their bounds. What a kernel
    of 16-bit `x` holds in f32 has been through operands of fewer bits, where an ulp can turn a rounding."""
    if wanted == got:
        return 0.0
    least = np.inf
    for dtype, bound in BOUNDS.values():
        bound = max(bound, BOUNDS[x][1])
        w, g = as_values(wanted, dtype).astype(np.float64), as_values(got, dtype).astype(np.float64)
        differs = w != g
        same_nan = np.isnan(w) & np.isnan(g)
        scale = np.abs(np.where(np.isfinite(w), w, 0))
        scale = np.maximum(scale, np.sqrt(np.mean(np.square(scale[differs]))) if differs.any() else 0)
        error = np.where(same_nan | ~differs, 0, np.abs(w - g) / np.where(scale > 0, scale, 1) / bound)
        error = np.where(np.isnan(error), np.inf, error)
        least = min(least, float(error.max(initial=0)))
    return least


def demangled(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(zip(text.splitlines(), names))


def load_kernels(options):
    kernels = {}
    for source in options.files:
        stem = Path(source).stem
        if stem.startswith("simple") and not options.all:
            continue
        module = Module(ptxas.compile_ptx(options, source, options.folder).read_text())
        for signature, name in demangled(list(module.kernels)).items():
            kernels[signature] = (module, module.kernels[name], f"{stem}:{ptxas.short_names([name])[name]}")
    return kernels


def judge(record, module, kernel, title, options):
    began, verdict = time.time(), "ok  "
    launch = Launch(module, kernel, record)
    try:
        launch.run()
        x = next((x for x in ("bf16", "f16") if f"as_{x}" in title), "f32")
        worst = max((difference(wanted, launch.memory.piece(i), x) for i, wanted in enumerate(record["after"])), default=0.0)
        text = f"differs by {worst:.2g} of what is allowed"
        if worst > 1:
            verdict = "FAIL"
    except Fault as fault:
        verdict, text = "FAIL", str(fault)
    n = sum(launch.counts.values())
    print(f"{verdict} {title} {record['path'].suffix[1:]}: grid {record['grid']} block {record['block']}, {n} instructions of "
          f"threads, {time.time() - began:.1f} s: {text}", flush=True)
    if options.counts:
        for name, count in launch.counts.most_common(24):
            print(f"       {count:10} {name}")
    return verdict == "ok  "


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("records")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--flag", action="append", default=[])
    parser.add_argument("--kernel", default="", help="only those whose name has it")
    for flag in ("--all", "--counts", "--expect-failure"):
        parser.add_argument(flag, action="store_true")
    options = parser.parse_intermixed_args()
    kernels = load_kernels(options)
    records = {}
    for path in sorted(Path(options.records).iterdir()):
        if path.suffix == ".large" and path.read_bytes() == path.with_suffix(".small").read_bytes():
            continue
        record = read_record(path)
        if np.prod(record["grid"] + record["block"]) <= MOST_THREADS or path.suffix == ".small":
            records.setdefault(record["kernel"], []).append(record)
    n, failed, n_of = 0, [], Counter()
    for signature, (module, kernel, title) in sorted(kernels.items(), key=lambda item: item[1][2]):
        if options.kernel not in title:
            continue
        n_of[title.split("<")[0]] += len(records.get(signature, []))
        if signature not in records:
            print(f"none {title}: no launch of it was recorded")
        for record in records.get(signature, []):
            n += 1
            if not judge(record, module, kernel, title, options):
                failed.append(title)
    missing = [title for title, count in n_of.items() if count == 0]
    for title in missing:
        print(f"FAIL {title}: no launch of any form of it was recorded")
    print(f"{n} launches of {len(kernels)} kernels judged, {len(failed)} failed, {len(missing)} kernels without a record")
    if options.expect_failure:
        return 0 if failed else 1
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
