# SPDX-License-Identifier: MIT
"""What can be said of the kernels without a GPU: registers, memory, occupancy, and the instructions that ptxas wrote.

ptxas.py budget BUDGET FILES...   fails when a kernel needs more than its line in BUDGET
ptxas.py write BUDGET FILES...    writes BUDGET anew
ptxas.py sass EXCEPTIONS FILES... fails when a hot kernel touches local memory or has no 16-byte global access

exceptions.txt beside this file says which kernels may, and why.

Options: --folder PATH (where PTX and cubins are kept), --nvcc PATH, --flag FLAG (for nvcc, repeatable). Hot is every kernel but those of rung cuda-simple. Exit
status: 0, 1 with a line for each fault, 77 when a tool is missing.
"""
import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ARCHS = {  # what an SM has: registers, warps, blocks, bytes of shared memory, of which a block costs 1 KiB besides its own
    "sm_80": dict(registers=65536, warps=64, blocks=32, shared=164 << 10),
    "sm_90": dict(registers=65536, warps=64, blocks=32, shared=228 << 10),
}
FIELDS = ("threads", "registers", "shared", "stack", "spill")
SKIPPED = 77


def is_hot(kernel):
    return not kernel.startswith("simple")


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n" + "\n".join(done.stdout.splitlines()[:40]))
    return done.stdout


def short_names(mangled):
    """Kernels as their authors wrote them: no return type, no arguments, no names of anonymous namespaces."""
    text = subprocess.run(["c++filt"], input="\n".join(mangled), stdout=subprocess.PIPE, text=True, check=True).stdout
    names = {}
    for key, line in zip(mangled, text.splitlines()):
        line = re.sub(r"\(anonymous namespace\)::|_INTERNAL_\w+::|_GLOBAL__N__\w+::", "", line)
        line = re.sub(r"^void ", "", line)
        depth, end = 0, len(line)
        for i, c in enumerate(line):
            depth += (c == "<") - (c == ">")
            if c == "(" and depth == 0:
                end = i
                break
        names[key] = re.sub(r"\((?:int|bool|unsigned int|long)\)", "", line[:end]).replace(" ", "")
    return names


def compile_ptx(options, source, folder):
    """The file's PTX for compute_80 in `folder`, made anew if a source has changed."""
    ptx = Path(folder, f"{Path(source).stem}.ptx")
    inputs = [__file__, source, *Path(source).parent.glob("*.*h"), *Path(source).parent.glob("../common/*.h")]
    if not ptx.exists() or ptx.stat().st_mtime < max(os.stat(path).st_mtime for path in inputs):
        ptx.parent.mkdir(parents=True, exist_ok=True)
        unfinished = ptx.with_suffix(".new")
        run([options.nvcc, "-std=c++17", "-arch=compute_80", "-ptx", "-Werror", "all-warnings", *options.flag, source, "-o",
             str(unfinished)])
        unfinished.rename(ptx)
    return ptx


def assemble(options, ptx, arch):
    """The cubin of a file's PTX, and what ptxas says of its kernels, by name."""
    cubin = ptx.with_suffix(f".{arch}.cubin")
    known = cubin.with_suffix(".json")
    if known.exists() and known.stat().st_mtime > ptx.stat().st_mtime:
        return cubin, json.loads(known.read_text())
    ptxas = Path(shutil.which(options.nvcc)).resolve().parent / "ptxas"
    said = run([str(ptxas), "-v", f"-arch={arch}", str(ptx), "-o", str(cubin)])
    if "serialized" in said:
        sys.exit(f"{ptx}: {said}")
    kernels, name = {}, None
    for line in said.splitlines():
        entry = re.search(r"Compiling entry function '(\w+)'", line)
        if entry:
            name = entry[1]
            kernels[name] = dict.fromkeys(FIELDS, 0)
        memory = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line)
        if memory and name:
            kernels[name]["stack"] = max(kernels[name]["stack"], int(memory[1]))
            kernels[name]["spill"] = max(kernels[name]["spill"], int(memory[2]) + int(memory[3]))
        used = re.search(r"Used (\d+) registers", line)
        if used and name:
            shared = re.search(r"(\d+) bytes smem", line)
            kernels[name].update(registers=int(used[1]), shared=int(shared[1]) if shared else 0)
    for entry in re.finditer(r"\.entry\s+(\w+)\s*\([^)]*\)\s*((?:\.\w+[^{;]*)?)\{", ptx.read_text()):
        bound = re.search(r"\.(?:max|req)ntid\s+(\d+)(?:,\s*(\d+))?(?:,\s*(\d+))?", entry[2])
        if bound and entry[1] in kernels:
            kernels[entry[1]]["threads"] = math.prod(int(n) for n in bound.groups() if n)
    names = short_names(list(kernels))
    kernels = {f"{ptx.stem}:{names[key]}": facts for key, facts in kernels.items()}
    known.write_text(json.dumps(kernels))
    return cubin, kernels


def compile_all(options, folder):
    files = [compile_ptx(options, source, folder) for source in options.files]
    return {arch: [assemble(options, ptx, arch) for ptx in files] for arch in options.arch}


def occupancy(arch, facts):
    """Warps an SM holds, and what stops the next block."""
    sm = ARCHS[arch]
    warps = -(-facts["threads"] // 32)
    limits = {
        "warps": sm["warps"] // warps,
        "blocks": sm["blocks"],
        "registers": sm["registers"] // (-(-facts["registers"] // 8) * 8 * 32) // warps,
        "shared memory": sm["shared"] // (facts["shared"] + 1024),
    }
    least = min(limits, key=limits.get)
    return warps * limits[least], least


# ---- the budget


def nvcc_release(options):
    return re.search(r"release ([\d.]+)", run([options.nvcc, "--version"]))[1]


def read_budget(path):
    release, budget = None, {}
    for line in Path(path).read_text().splitlines():
        if line.startswith("# nvcc "):
            release = line.split()[2]
        if line.startswith("#") or not line.strip():
            continue
        arch, *numbers, kernel = line.split()
        budget[arch, kernel] = dict(zip(FIELDS, map(int, numbers)))
    return release, budget


def write_budget(options, measured):
    lines = ["# SPDX-License-Identifier: MIT",
             "# What each kernel may use: written by `ninja ptxas_budget_update`, checked by `ctest -R ptxas_budget`.",
             f"# nvcc {nvcc_release(options)}",
             "# arch  threads registers shared stack spill  file:kernel   (threads: of __launch_bounds__, 0 = none)"]
    for (arch, kernel), facts in sorted(measured.items(), key=lambda item: (item[0][1], item[0][0])):
        lines.append(f"{arch} {facts['threads']:5} {facts['registers']:4} {facts['shared']:6} {facts['stack']:5} "
                     f"{facts['spill']:5}  {kernel}")
    Path(options.table).write_text("\n".join(lines) + "\n")


def check_budget(options, measured):
    release, budget = read_budget(options.table)
    if release != nvcc_release(options):
        print(f"the budget is of nvcc {release}, this is {nvcc_release(options)}: skipped")
        return SKIPPED
    faults, exceptions = [], read_exceptions()
    for (arch, kernel), facts in sorted(measured.items()):
        allowed = budget.get((arch, kernel))
        if allowed is None:
            faults.append(f"{arch} {kernel}: has no line in the budget")
            continue
        for field in ("registers", "shared", "stack", "spill"):
            if facts[field] > allowed[field]:
                faults.append(f"{arch} {kernel}: {field} {facts[field]}, its budget is {allowed[field]}")
    for (arch, kernel), facts in sorted(measured.items()):
        if is_hot(kernel) and facts["stack"] + facts["spill"] > 0 and not may_use_local(exceptions, kernel, arch):
            faults.append(f"{arch} {kernel}: a hot kernel with a stack of {facts['stack']} and spills of "
                          f"{facts['spill']} bytes")
    for arch, kernel in sorted(set(budget) - set(measured)):
        if arch in options.arch:
            faults.append(f"{arch} {kernel}: in the budget, but there is no such kernel")
    for (arch, kernel), facts in sorted(measured.items()):
        text = "threads not bounded"
        if facts["threads"]:
            warps, why = occupancy(arch, facts)
            text = f"{warps:2} warps of {ARCHS[arch]['warps']} an SM by its {why}"
        print(f"{arch} {kernel:58} {facts['registers']:3} registers  {facts['shared']:6} B shared  {text}")
    print("shared memory asked for at the launch is not in these figures; seqmix-bench --model counts it")
    return report(faults, len(measured), "after a change that is worth it: ninja ptxas_budget_update")


def read_exceptions():
    """Kernels without their template arguments: (kernel, "local", "local@ARCH" or "narrow")."""
    lines = Path(__file__).with_name("exceptions.txt").read_text().splitlines()
    return {tuple(line.split(None, 2)[:2]) for line in lines if line.strip() and not line.startswith("#")}


def may_use_local(exceptions, kernel, arch):
    return bool({(plain(kernel), "local"), (plain(kernel), f"local@{arch}")} & exceptions)


def plain(kernel):
    return re.sub(r"<.*", "", kernel)


def report(faults, n, advice):
    for fault in faults:
        print(f"FAULT {fault}")
    if faults:
        print(advice)
    print(f"{n} kernels judged, {len(faults)} faults")
    return 1 if faults else 0


# ---- SASS


def find_tool(name):
    """In the PATH, or in the wheel nvidia-cuda-<name> of the python that runs this."""
    found = os.environ.get(f"SEQMIX_{name.upper()}") or shutil.which(name)
    for folder in sys.path:
        wheel = Path(folder, "nvidia", "cu13", "bin", name)
        if not found and wheel.exists():
            found = str(wheel)
    return found


def sass_facts(cuobjdump, cubin):
    """For each function of the cubin: instructions on local memory, 16-byte and all global accesses."""
    facts, name = {}, None
    for line in run([cuobjdump, "-sass", str(cubin)]).splitlines():
        function = re.search(r"Function : (\S+)", line)
        if function:
            name = function[1]
            facts[name] = dict(local=0, wide=0, all=0)
        op = re.search(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?\w+\s+)?([A-Z0-9_.]+)", line)
        if not op or not name:
            continue
        if re.match(r"(LDL|STL)\b", op[1]):
            facts[name]["local"] += 1
        if re.match(r"(LDG|STG|LDGSTS|LD|ST)\b", op[1]):
            facts[name]["all"] += 1
            facts[name]["wide"] += ".128" in op[1]
    names = short_names(list(facts))
    return {names[key]: value for key, value in facts.items()}


def check_sass(options, compiled):
    cuobjdump, nvdisasm = find_tool("cuobjdump"), find_tool("nvdisasm")
    if not cuobjdump or not nvdisasm:
        print("no cuobjdump and nvdisasm here (PyPI: nvidia-cuda-cuobjdump, nvidia-cuda-nvdisasm): skipped")
        return SKIPPED
    os.environ["PATH"] = f"{Path(nvdisasm).parent}:{os.environ['PATH']}"
    faults, n, exceptions = [], 0, read_exceptions()
    for arch, files in compiled.items():
        for cubin, kernels in files:
            stem = cubin.name.split(".")[0]
            for name, facts in sorted(sass_facts(cuobjdump, cubin).items()):
                kernel = f"{stem}:{name}"
                if kernel not in kernels or not is_hot(kernel):
                    continue
                n += 1
                print(f"{arch} {kernel:58} {facts['wide']:3} of {facts['all']:3} global accesses have 16 bytes")
                if facts["local"] and not may_use_local(exceptions, kernel, arch):
                    faults.append(f"{arch} {kernel}: {facts['local']} accesses to local memory")
                if facts["wide"] == 0 and (plain(kernel), "narrow") not in exceptions:
                    faults.append(f"{arch} {kernel}: none of its {facts['all']} global accesses has 16 bytes")
    return report(faults, n, "a kernel that must may have a line in exceptions.txt")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("budget", "write", "sass"))
    parser.add_argument("table")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--flag", action="append", default=[])
    parser.add_argument("--arch", action="append", choices=sorted(ARCHS))
    options = parser.parse_intermixed_args()
    options.arch = options.arch or sorted(ARCHS)
    if not shutil.which(options.nvcc):
        print("no nvcc here: skipped")
        return SKIPPED
    compiled = compile_all(options, options.folder)
    measured = {(arch, kernel): facts for arch, files in compiled.items() for _, kernels in files
                for kernel, facts in kernels.items()}
    if options.what == "write":
        write_budget(options, measured)
        return 0
    return check_budget(options, measured) if options.what == "budget" else check_sass(options, compiled)


if __name__ == "__main__":
    sys.exit(main())
