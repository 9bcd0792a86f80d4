# SPDX-License-Identifier: MIT
"""Times of other implementations on this GPU, where their packages are installed: peers.py bench/peers.txt

Packages: torch with fla (flash-linear-attention), mamba_ssm, causal_conv1d. Each is tried by itself; what is missing or fails is
said in one line. Times are medians of CUDA events with the L2 cold, as seqmix-bench-gpu's.
"""
import re
import statistics
import sys

try:
    import torch
except ImportError:
    print("peers: no torch here")
    sys.exit(77)
if not torch.cuda.is_available():
    print("peers: torch sees no GPU")
    sys.exit(77)

SCRATCH = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
bf16 = torch.bfloat16


def times(call, replays=20):
    """In a graph where it can be captured."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        call, how = graph.replay, "graph"
    except Exception:  # the peer synchronises or allocates: its calls are timed one by one
        torch.cuda.synchronize()
        how = "calls"
    found = []
    for _ in range(replays):
        SCRATCH.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        found.append(1e3 * begin.elapsed_time(end))
    return statistics.median(found), how


def normal(*shape, dtype=bf16):
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)


def bounds(rows, seqs):
    return torch.arange(0, (seqs + 1) * rows, rows, device="cuda", dtype=torch.int32) if seqs > 1 else None


def deltanet(sizes, rows, seqs, step):
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
    heads_k, heads_v, d = sizes
    batch, length = (seqs, 1) if step else (1, rows * seqs)
    q, k = normal(batch, length, heads_v, d), normal(batch, length, heads_v, d)  # heads repeated, as every version takes them
    v = normal(batch, length, heads_v, d)
    g = -torch.rand(batch, length, heads_v, device="cuda")
    beta = torch.rand(batch, length, heads_v, device="cuda").to(bf16)
    state = torch.zeros(seqs, heads_v, d, d, device="cuda")
    call = fused_recurrent_gated_delta_rule if step else chunk_gated_delta_rule
    more = {} if step or seqs == 1 else {"cu_seqlens": bounds(rows, seqs).long()}
    return lambda: call(q, k, v, g=g, beta=beta, initial_state=state, output_final_state=True,
                        use_qk_l2norm_in_kernel=True, **more)


def ssd(sizes, rows, seqs, step):
    heads, p, groups, n = sizes
    a, skip, bias = -torch.rand(heads, device="cuda"), normal(heads, dtype=torch.float32), normal(heads, dtype=torch.float32)
    if step:
        from mamba_ssm.ops.triton.selective_state_update import selective_state_update
        state, x = torch.zeros(seqs, heads, p, n, device="cuda"), normal(seqs, heads, p)
        dt, b, c = normal(seqs, heads), normal(seqs, groups, n), normal(seqs, groups, n)
        wide = [t[:, None].expand(heads, p) for t in (skip, bias)]
        return lambda: selective_state_update(state, x, dt[..., None].expand(seqs, heads, p), a[:, None, None].expand(heads, p, n),
                                              b, c, wide[0], dt_bias=wide[1], dt_softplus=True)
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined
    x, dt = normal(seqs, rows, heads, p), normal(seqs, rows, heads)
    b, c = normal(seqs, rows, groups, n), normal(seqs, rows, groups, n)
    return lambda: mamba_chunk_scan_combined(x, dt, a, b, c, 128, D=skip, dt_bias=bias, dt_softplus=True,
                                             return_final_states=True)


def scan(sizes, rows, seqs, step):
    from mamba_ssm.ops.selective_scan_interface import selective_scan_fn
    if step:
        raise ImportError("not compared")
    d, n = sizes
    x, dt, z = (normal(seqs, d, rows) for _ in range(3))
    a, b, c = -torch.rand(d, n, device="cuda"), normal(seqs, n, rows), normal(seqs, n, rows)
    skip, bias = torch.rand(d, device="cuda"), torch.rand(d, device="cuda")
    return lambda: selective_scan_fn(x, dt, a, b, c, skip, z=z, delta_bias=bias, delta_softplus=True, return_last_state=True)


def conv(sizes, rows, seqs, step):
    from causal_conv1d import causal_conv1d_fn, causal_conv1d_update
    d, k = sizes
    weight = normal(d, k)
    if step:
        x, state = normal(seqs, d), normal(seqs, d, k - 1)
        return lambda: causal_conv1d_update(x, state, weight, activation="silu")
    x = normal(seqs, rows, d).transpose(1, 2)
    return lambda: causal_conv1d_fn(x, weight, activation="silu")


MAKERS = {"deltanet": deltanet, "ssd": ssd, "selective_scan": scan, "short_conv": conv}

for line in open(sys.argv[1]):
    if line.startswith("#") or not line.strip():
        continue
    op, text, rows, seqs, mode, *_ = line.split()
    make = next((f for name, f in MAKERS.items() if op.startswith(name)), None)
    if make is None or mode == "fast" and (op, text, rows, seqs) != ("deltanet_chunk_forward", "16/32x128", "8192", "1"):
        continue
    title = f"{op:24} {text:16} {rows:>6} {seqs:>4}"
    try:
        call = make([int(n) for n in re.findall(r"\d+", text)], int(rows), int(seqs), op.endswith("_step"))
        us, how = times(call)
        print(f"{title} {us:9.2f} us ({how})", flush=True)
    except Exception as reason:
        print(f"{title}   no time: {type(reason).__name__}: {str(reason).splitlines()[0][:90] if str(reason) else ''}", flush=True)
