#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/golden/dumps: inputs and outputs of other people's reference functions.

    make_golden.py [--out DIR] [--only PREFIX] [--check-only]

Each file is one call of one seqmix op: tensors under the names of the op's args fields, the pool
before the call as `state`, after it as `state_out`, the options as metadata strings (README.md).
Every file is read back and judged against a plain double-precision recurrence written from the
equations (oracle.py); the errors are printed and stored as metadata err_<tensor>, the RMS error
relative to the oracle's RMS.
"""
import argparse
import os
import sys

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import oracle  # noqa: E402
import st  # noqa: E402

OUT, ONLY = os.path.join(HERE, "dumps"), ""
LIMIT = 150 * 1024
RESULTS = []


def tensor(a):
    t = a.detach() if isinstance(a, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(a))
    return t.clone().contiguous()


def emit(name, op, source, tensors, **options):
    """Writes one dump after judging it."""
    if not name.startswith(ONLY):
        return
    tensors = {k: tensor(v) for k, v in tensors.items() if v is not None}
    for k, t in tensors.items():
        if t.dtype == torch.float64:
            tensors[k] = t.float()
        elif t.dtype == torch.int64:
            tensors[k] = t.int()
        assert t.dtype == torch.int32 or torch.isfinite(t.float()).all(), (name, k)
    meta = {"op": op, "source": source}
    for k, v in options.items():
        meta[k] = v if isinstance(v, str) else repr(v)
    for k, (rms, vec) in oracle.judge(meta, tensors).items():
        meta["err_" + k] = f"{rms:.2e}"
        RESULTS.append((name, op, k, str(tensors[k].dtype).replace("torch.", ""), rms, vec))
        print(f"{name:44s} {op:22s} {k:10s} rms {rms:.2e}  worst vector {vec:.2e}")
    path = os.path.join(OUT, name + ".safetensors")
    st.write(path, st.from_torch(tensors), meta)
    size = os.path.getsize(path)
    assert size < LIMIT, (name, size)


class Capture:
    """Records the calls of a module's global function: clones of the arguments, and the result."""

    def __init__(self, module, name):
        self.module, self.name, self.calls = module, name, []
        self.fn = getattr(module, name)

    def __enter__(self):
        def wrapper(*args, **kw):
            keep = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
            keepk = {k: a.clone() if isinstance(a, torch.Tensor) else a for k, a in kw.items()}
            res = self.fn(*args, **kw)
            after = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
            self.calls.append((keep, keepk, res, after))
            return res
        setattr(self.module, self.name, wrapper)
        return self.calls

    def __exit__(self, *exc):
        setattr(self.module, self.name, self.fn)


def version(pkg):
    return pkg.__name__ + " " + pkg.__version__


def rand_init(module, scale=None):
    """Seeded values for every parameter, so that nothing is 0 or 1 by accident."""
    for name, p in module.named_parameters():
        last = name.split(".")[-1]
        with torch.no_grad():
            if last == "A_log":
                p.copy_(torch.empty_like(p).uniform_(0.05, 12.0).log())
            elif last == "dt_bias" or name.endswith("dt_proj.bias"):
                p.copy_(torch.randn_like(p) - 3.0)
            elif last == "D" or "norm.weight" in name:
                p.copy_(1.0 + 0.3 * torch.randn_like(p))
            elif "conv1d" in name:
                p.copy_(0.4 * torch.randn_like(p))
            else:
                p.copy_(torch.randn_like(p) * (p.shape[-1] ** -0.5))


# ---- gated delta rule, Qwen3-Next -----------------------------------------------------------

def qwen_inputs(gen, batch, rows, hk, hv, dk, dv, mild=True):
    rn = lambda *s: torch.randn(*s, generator=gen)  # noqa: E731
    q, k, v = rn(batch, rows, hk, dk), rn(batch, rows, hk, dk) + 0.3, rn(batch, rows, hv, dv)
    a = torch.rand(hv, generator=gen) * 8 + 0.05
    g = -a * torch.nn.functional.softplus(rn(batch, rows, hv) - 4.0)
    beta = torch.sigmoid(rn(batch, rows, hv))
    state = 0.5 * rn(batch, hv, dk, dv)
    return q, k, v, g, beta, state


def make_qwen_functions():
    import transformers
    from transformers.models.qwen3_next import modeling_qwen3_next as m
    src = version(transformers) + " models.qwen3_next."
    opts = dict(gate_kind="LOG", beta_kind="VALUE", head_map="GROUPED", gate_lower_bound="0")

    # Chunk form, R not a multiple of the chunk, L2 norm inside.
    gen = torch.Generator().manual_seed(101)
    q, k, v, g, beta, s = qwen_inputs(gen, 1, 100, 2, 4, 16, 24)
    o, so = m.torch_chunk_gated_delta_rule(q, k, v, g, beta, chunk_size=64, initial_state=s,
                                           output_final_state=True, use_qk_l2norm_in_kernel=True)
    emit("deltanet_qwen3next_chunk", "deltanet_chunk_forward", src + "torch_chunk_gated_delta_rule",
         dict(q=q[0], k=k[0], v=v[0], gate=g[0], beta=beta[0], state=s, o=o[0], state_out=so),
         qk_l2norm="1", eps="1e-6", scale="0", chunk="64", **opts)

    # The same in bf16: q, k, v, beta rounded to bf16 first, log gates stay f32.
    gen = torch.Generator().manual_seed(102)
    q, k, v, g, beta, s = qwen_inputs(gen, 1, 150, 2, 4, 24, 16)
    q, k, v, beta = (t.bfloat16() for t in (q, k, v, beta))
    o, so = m.torch_chunk_gated_delta_rule(q, k, v, g, beta, chunk_size=64, initial_state=s,
                                           output_final_state=True, use_qk_l2norm_in_kernel=True)
    emit("deltanet_qwen3next_chunk_bf16", "deltanet_chunk_forward", src + "torch_chunk_gated_delta_rule",
         dict(q=q[0], k=k[0], v=v[0], gate=g[0], beta=beta[0], state=s, o=o[0], state_out=so),
         qk_l2norm="1", eps="1e-6", scale="0", chunk="64", **opts)

    # Recurrent form, no L2 norm in the function: keys normalised beforehand; one K head per V head.
    gen = torch.Generator().manual_seed(103)
    q, k, v, g, beta, s = qwen_inputs(gen, 1, 90, 3, 3, 24, 16)
    q, k = (t / t.norm(dim=-1, keepdim=True) for t in (q, k))
    o, so = m.torch_recurrent_gated_delta_rule(q, k, v, g, beta, initial_state=s, output_final_state=True,
                                               use_qk_l2norm_in_kernel=False)
    emit("deltanet_qwen3next_recurrent", "deltanet_chunk_forward", src + "torch_recurrent_gated_delta_rule",
         dict(q=q[0], k=k[0], v=v[0], gate=g[0], beta=beta[0], state=s, o=o[0], state_out=so),
         qk_l2norm="0", eps="1e-6", scale=float(24 ** -0.5), chunk="0", **opts)

    # Decode: 3 sequences of 16, 1 and 5 rows in one step call.
    gen = torch.Generator().manual_seed(104)
    parts = [qwen_inputs(gen, 1, n, 2, 4, 16, 24) for n in (16, 1, 5)]
    outs = [m.torch_recurrent_gated_delta_rule(*p[:5], initial_state=p[5], output_final_state=True,
                                               use_qk_l2norm_in_kernel=True) for p in parts]
    cat = lambda i: torch.cat([p[i][0] for p in parts])  # noqa: E731
    emit("deltanet_qwen3next_recurrent_step", "deltanet_step", src + "torch_recurrent_gated_delta_rule",
         dict(q=cat(0), k=cat(1), v=cat(2), gate=cat(3), beta=cat(4), state=torch.cat([p[5] for p in parts]),
              o=torch.cat([r[0][0] for r in outs]), state_out=torch.cat([r[1] for r in outs]),
              row_begin=np.array([0, 16, 17, 22], np.int32)),
         qk_l2norm="1", eps="1e-6", scale="0", chunk="0", max_rows="16", **opts)

    # Packed prefill with slots: read 2, from zero, read 0; write 1, 3, 0.
    gen = torch.Generator().manual_seed(105)
    lens, reads, writes = (30, 7, 41), (2, -1, 0), (1, 3, 0)
    parts = [list(qwen_inputs(gen, 1, n, 1, 2, 16, 16)) for n in lens]
    pool = 0.5 * torch.randn(4, 2, 16, 16, generator=gen)
    outs = [m.torch_chunk_gated_delta_rule(*p[:5], initial_state=None if r < 0 else pool[r:r + 1],
                                           output_final_state=True, use_qk_l2norm_in_kernel=True)
            for p, r in zip(parts, reads)]
    pool_out = pool.clone()
    for (_, s), w in zip(outs, writes):
        pool_out[w] = s[0]
    emit("deltanet_qwen3next_packed", "deltanet_chunk_forward", src + "torch_chunk_gated_delta_rule",
         dict(q=cat(0), k=cat(1), v=cat(2), gate=cat(3), beta=cat(4), state=pool,
              o=torch.cat([r[0][0] for r in outs]), state_out=pool_out,
              row_begin=np.array([0, 30, 37, 78], np.int32), read_slot=np.array(reads, np.int32),
              write_slot=np.array(writes, np.int32)),
         qk_l2norm="1", eps="1e-6", scale="0", chunk="64", **opts)


def conv_rows(x, state, y, weight, bias):
    """Tensors of a conv dump from channel-first [D,T], [D,K-1] and [D,T]."""
    kk = weight.shape[-1]
    full = torch.cat([state, x], 1)
    return dict(x=x.t(), weight=weight, bias=bias, state=state[None],
                state_out=full[:, full.shape[1] - (kk - 1):][None], y=y.t())


def make_qwen_layer():
    import transformers
    from transformers import DynamicCache, Qwen3NextConfig
    from transformers.models.qwen3_next import modeling_qwen3_next as m
    src = version(transformers) + " models.qwen3_next.Qwen3NextGatedDeltaNet"
    torch.manual_seed(201)
    cfg = Qwen3NextConfig(hidden_size=48, linear_num_key_heads=2, linear_num_value_heads=4,
                          linear_key_head_dim=16, linear_value_head_dim=16, linear_conv_kernel_dim=4,
                          num_hidden_layers=1, layer_types=["linear_attention"], rms_norm_eps=1e-6)
    layer = m.Qwen3NextGatedDeltaNet(cfg, 0).eval()
    rand_init(layer)
    raw = []
    fix = layer.fix_query_key_value_ordering

    def keep_ab(*a):
        res = fix(*a)
        raw.append((res[5][0].clone(), res[4][0].clone()))  # a, b
        return res
    layer.fix_query_key_value_ordering = keep_ab
    cache = DynamicCache(config=cfg)
    a_neg, dt_bias = -layer.A_log.float().exp(), layer.dt_bias
    weight = layer.conv1d.weight.squeeze(1)
    conv_state = torch.zeros(layer.conv_dim, 3)
    for part, rows in (("prefill", 70), ("continue", 37), ("step", 1)):
        u = torch.randn(1, rows, 48)
        with torch.no_grad(), Capture(m, "torch_chunk_gated_delta_rule") as c1, \
                Capture(m, "torch_recurrent_gated_delta_rule") as c2, \
                Capture(m, "causal_conv1d_fn") as c3, Capture(m, "causal_conv1d_update") as c4, \
                Capture(m.Qwen3NextRMSNormGated, "forward") as c5:
            layer(u, cache=cache)
        step = part == "step"
        (args, kw, (o, so), _), = c2 if step else c1
        s0 = kw["initial_state"]
        s0 = torch.zeros_like(so) if s0 is None else s0
        emit("deltanet_qwen3next_layer_" + part, "deltanet_step" if step else "deltanet_chunk_forward", src,
             dict(q=args[0][0], k=args[1][0], v=args[2][0], gate=raw[-1][0], beta=raw[-1][1], A=a_neg,
                  dt_bias=dt_bias, state=s0, o=o[0], state_out=so),
             gate_kind="SOFTPLUS", beta_kind="SIGMOID", qk_l2norm="1", eps="1e-6", scale="0",
             head_map="GROUPED", chunk="0", gate_lower_bound="0")
        (args, kw, y, _), = c4 if step else c3
        x = args[0][0][:, -rows:]
        t = conv_rows(x, conv_state, y[0][:, -rows:], weight, None)
        if part != "prefill":
            emit("conv_qwen3next_" + part, "short_conv_step" if step else "short_conv_rows", src, t,
                 activation="SILU")
        conv_state = t["state_out"][0]
        if part == "continue":
            (args, kw, y, _), = c5
            emit("norm_qwen3next_gated", "gated_rms_norm_rows", version(transformers)
                 + " models.qwen3_next.Qwen3NextRMSNormGated", dict(x=args[1], z=args[2], weight=layer.norm.weight, y=y),
                 group="0", norm_before_gate="1", gate_act="SILU", weight_plus_one="0", eps="1e-6")


def make_kda_layers():
    """Per-channel gates: Kimi Linear (softplus) and GLM-5-next (bounded sigmoid)."""
    import transformers
    from transformers import DynamicCache
    from transformers.models.glm5_next import modeling_glm5_next as glm
    from transformers.models.kimi_linear import modeling_kimi_linear as kimi

    for name, m, cls, kind, seed in (("kimi", kimi, "KimiLinearDeltaAttention", "SOFTPLUS", 301),
                                     ("glm5next", glm, "Glm5NextTextLinearAttention", "BOUNDED_SIGMOID", 302)):
        src = f"{version(transformers)} {m.__name__.split('transformers.')[1].rsplit('.', 1)[0]}.{cls}"
        torch.manual_seed(seed)
        cfg_cls = (transformers.models.kimi_linear.KimiLinearConfig if name == "kimi"
                   else transformers.models.glm5_next.Glm5NextTextConfig)
        cfg = cfg_cls()
        cfg.hidden_size, cfg.linear_num_heads, cfg.linear_head_dim = 32, 3, 16
        cfg.linear_conv_kernel_dim, cfg.rms_norm_eps, cfg.num_hidden_layers = 4, 1e-5, 1
        cfg.layer_types = ["linear_attention"]
        if name == "glm5next":
            cfg.linear_lower_bound = -5.0
        layer = getattr(m, cls)(cfg, 0).eval()
        rand_init(layer)
        raw = {}
        layer.forget_gate.f_b_proj.register_forward_hook(lambda mod, i, o: raw.__setitem__("f", o.clone()))
        layer.b_proj.register_forward_hook(lambda mod, i, o: raw.__setitem__("b", o.clone()))
        cache = DynamicCache(config=cfg)
        for rows in (20, 70):
            u = torch.randn(1, rows, 32)
            with torch.no_grad(), Capture(m, "chunk_kimi_delta_attention") as c1, \
                    Capture(type(layer.o_norm), "forward") as c2:
                layer(u, cache=cache)
        (args, kw, (o, so), _), = c1
        emit(f"deltanet_{name}_layer", "deltanet_chunk_forward", src,
             dict(q=args[0][0], k=args[1][0], v=args[2][0], gate=raw["f"][0].view(rows, 3, 16), beta=raw["b"][0],
                  A=-layer.forget_gate.A_log.float().exp().reshape(-1),
                  dt_bias=layer.forget_gate.dt_bias.view(3, 16), state=kw["initial_state"], o=o[0], state_out=so),
             gate_kind=kind, beta_kind="SIGMOID", qk_l2norm="1", eps="1e-6", scale="0", head_map="GROUPED",
             chunk="0", gate_lower_bound="0" if name == "kimi" else "-5.0")
        if name == "kimi":
            (args, kw, y, _), = c2
            emit("norm_kimi_gated_sigmoid", "gated_rms_norm_rows",
                 version(transformers) + " models.kimi_linear.KimiLinearRMSNormGated",
                 dict(x=args[1].reshape(-1, 16), z=args[2].reshape(-1, 16), weight=layer.o_norm.weight,
                      y=y.reshape(-1, 16)),
                 group="0", norm_before_gate="1", gate_act="SIGMOID", weight_plus_one="0", eps="1e-5")


# ---- Mamba-1 --------------------------------------------------------------------------------

def make_mamba1():
    import transformers
    from transformers import DynamicCache, MambaConfig
    from transformers.models.mamba import modeling_mamba as m
    src = version(transformers) + " models.mamba.MambaMixer"
    torch.manual_seed(401)
    cfg = MambaConfig(hidden_size=30, state_size=16, expand=2, conv_kernel=4, time_step_rank=6,
                      num_hidden_layers=1, use_mambapy=False)
    mixer = m.MambaMixer(cfg, 0).eval()
    rand_init(mixer)
    cache = DynamicCache(config=cfg)
    conv_state = torch.zeros(60, 3)
    weight, bias = mixer.conv1d.weight.squeeze(1), mixer.conv1d.bias
    for part, rows in (("prefill", 100), ("step", 1)):
        u = torch.randn(1, rows, 30)
        with torch.no_grad(), Capture(m, "mamba_selective_scan") as c1, \
                Capture(m, "mamba_selective_state_update") as c2, Capture(m, "causal_conv1d_fn") as c3, \
                Capture(m, "causal_conv1d_update") as c4:
            mixer(u, cache=cache)
        if part == "prefill":
            (a, kw, (y, s), _), = c1
            t = dict(x=a[0][0].t(), dt=a[1][0].t(), A=a[2], B=a[3][0].t()[:, None], C=a[4][0].t()[:, None],
                     skip=kw["D"], dt_bias=kw["delta_bias"], z=kw["z"][0].t(), y=y[0].t(),
                     state=torch.zeros_like(s), state_out=s)
            op = "selective_scan_rows"
        else:
            (a, kw, y, after), = c2
            t = dict(x=a[1], dt=a[2], A=a[3], B=a[4][:, None], C=a[5][:, None], skip=a[6], dt_bias=kw["dt_bias"],
                     z=kw["z"], y=y, state=a[0], state_out=after[0])
            op = "selective_scan_step"
        emit("scan_mamba1_" + part, op, src, t, dt_softplus="1")
        (a, kw, y, _), = c3 if part == "prefill" else c4
        t = conv_rows(a[0][0][:, -rows:], conv_state, y[0][:, -rows:], weight, bias)
        emit("conv_mamba1_" + part, "short_conv_rows" if part == "prefill" else "short_conv_step", src, t,
             activation="SILU")
        conv_state = t["state_out"][0]
    norm = m.MambaRMSNorm(40, eps=1e-5)
    rand_init(norm)
    x = torch.randn(20, 40)
    emit("norm_mamba1_plain", "gated_rms_norm_rows", version(transformers) + " models.mamba.MambaRMSNorm",
         dict(x=x, weight=norm.weight, y=norm(x)), group="0", norm_before_gate="0", gate_act="SILU",
         weight_plus_one="0", eps="1e-5")


# ---- Mamba-2 --------------------------------------------------------------------------------

def make_mamba2():
    import transformers
    from transformers import DynamicCache, Mamba2Config
    from transformers.models.mamba2 import modeling_mamba2 as m
    src = version(transformers) + " models.mamba2.Mamba2Mixer"
    for tag, limit, dt_min, dt_max in (("", (0.0, float("inf")), "0", "0"), ("_limit", (0.02, 0.25), "0.02", "0.25")):
        torch.manual_seed(501)
        cfg = Mamba2Config(hidden_size=40, expand=2, num_heads=4, head_dim=20, state_size=24, n_groups=2,
                           chunk_size=32, conv_kernel=4, num_hidden_layers=1, time_step_limit=limit)
        mixer = m.Mamba2Mixer(cfg, 0).eval()
        rand_init(mixer)
        cache = DynamicCache(config=cfg)
        for part, rows in (("prefill", 75), ("continue", 45), ("step", 1)):
            u = torch.randn(1, rows, 40)
            with torch.no_grad(), Capture(m, "mamba2_chunk_scan") as c1, \
                    Capture(m, "mamba2_selective_state_update") as c2, \
                    Capture(m.MambaRMSNormGated, "forward") as c3:
                mixer(u, cache=cache)
            if part != "step":
                (a, kw, (y, s), _), = c1
                s0 = kw["initial_states"]
                t = dict(x=a[0][0], dt=a[1][0], A=a[2], B=a[3][0], C=a[4][0], skip=kw["D"], dt_bias=kw["dt_bias"],
                         y=y[0], state=torch.zeros_like(s) if s0 is None else s0, state_out=s)
                op = "ssd_chunk_forward"
            else:
                # Called per channel: dt, A, D, dt_bias were expanded over the head's channels.
                (a, kw, y, after), = c2
                t = dict(x=a[1], dt=a[2][..., 0], A=a[3][:, 0, 0], B=a[4], C=a[5], skip=a[6][:, 0],
                         dt_bias=kw["dt_bias"][:, 0], y=y, state=a[0], state_out=after[0])
                op = "ssd_step"
            if (tag == "") != (part == "continue") and not (tag and part == "step"):
                emit(f"ssd_mamba2_{part}{tag}", op, src, t, dt_softplus="1", dt_min=dt_min, dt_max=dt_max,
                     chunk="32" if part != "step" else "0")
            if tag == "" and part == "continue":
                (a, kw, y, _), = c3
                emit("norm_mamba2_gated", "gated_rms_norm_rows",
                     version(transformers) + " models.mamba2.MambaRMSNormGated",
                     dict(x=a[1][0], z=a[2][0], weight=mixer.norm.weight, y=y[0]), group="40",
                     norm_before_gate="0", gate_act="SILU", weight_plus_one="0", eps="1e-5")
    from transformers.models.qwen3_next import modeling_qwen3_next as q
    norm = q.Qwen3NextRMSNorm(40, eps=1e-6)
    with torch.no_grad():
        norm.weight.copy_(0.3 * torch.randn(40))
        x = torch.randn(20, 40)
        emit("norm_qwen3next_plus_one", "gated_rms_norm_rows",
             version(transformers) + " models.qwen3_next.Qwen3NextRMSNorm", dict(x=x, weight=norm.weight, y=norm(x)),
             group="0", norm_before_gate="0", gate_act="SILU", weight_plus_one="1", eps="1e-6")


# ---- ONNX backend node tests ----------------------------------------------------------------

def make_onnx():
    import warnings
    import onnx
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases
        cases = [c for c in collect_testcases(None) if not c.name.endswith("_expanded")]
    src = version(onnx) + " onnx.backend.test.case.node "
    for case in cases:
        node = case.model.graph.node[0]
        if node.op_type not in ("LinearAttention", "CausalConvWithState"):
            continue
        attr = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        attr = {k: v.decode() if isinstance(v, bytes) else v for k, v in attr.items()}
        (ins, outs), = case.data_sets
        run_ort(case, ins, outs)
        ins = iter(ins)
        ins = [next(ins) if n else None for n in node.input]
        ins += [None] * (6 - len(ins))
        name = "onnx_" + case.name.replace("test_", "")
        if node.op_type == "CausalConvWithState":
            onnx_conv(name, src + case.name, attr, ins, outs)
        else:
            onnx_linear_attention(name, src + case.name, attr, ins, outs)


def run_ort(case, ins, outs):
    """The same case through onnxruntime, where that can run it: a second opinion, printed only."""
    import onnxruntime
    try:
        s = onnxruntime.InferenceSession(case.model.SerializeToString(), providers=["CPUExecutionProvider"])
        got = s.run(None, {i.name: a for i, a in zip(s.get_inputs(), ins)})
    except Exception as e:  # no kernel and no function body for it
        print(f"{case.name}: onnxruntime {onnxruntime.__version__} can't run it: {str(e)[:80]}")
        return
    diff = max(np.abs(a.astype(np.float64) - b.astype(np.float64)).max() if b.size else 0.0
               for a, b in zip(got, outs))
    print(f"{case.name}: onnxruntime {onnxruntime.__version__} differs by {diff:.1e} at most")


def onnx_conv(name, src, attr, ins, outs):
    x, w, bias, past = ins[:4]
    y, present = outs
    b, c, t = x.shape
    rows = lambda a: a.transpose(0, 2, 1).reshape(b * t, c)  # noqa: E731
    past = np.zeros_like(present) if past is None else past
    emit(name, "short_conv_rows" if t > 1 else "short_conv_step", src,
         dict(x=rows(x), weight=w[:, 0], bias=bias, state=past, y=rows(y), state_out=present,
              row_begin=np.arange(b + 1, dtype=np.int32) * t),
         activation="NONE" if attr.get("activation", "none") == "none" else "SILU", max_rows=str(t))


def onnx_linear_attention(name, src, attr, ins, outs):
    q, k, v, past, decay, beta = ins
    o, present = outs
    b, t, _ = q.shape
    hq, hv = attr["q_num_heads"], attr["kv_num_heads"]
    dk, dv = q.shape[2] // hq, v.shape[2] // hv
    past = np.zeros_like(present) if past is None else past
    rule = attr.get("update_rule", "gated_delta")
    scale = attr.get("scale", 0.0)
    rep = hq // hv  # one state per q head: k, v, decay, beta, state repeated
    heads = lambda a, h: a.reshape(b * t, h, -1)  # noqa: E731
    kv = lambda a: np.repeat(heads(a, hv), rep, 1)  # noqa: E731
    qq, kk, vv = heads(q, hq), kv(k), kv(v)
    s0, s1 = np.repeat(past, rep, 1), np.repeat(present, rep, 1)
    oo = heads(o, hq)
    gate = None
    if decay is not None:  # the log gate, f32 whatever the inputs are
        gate = np.repeat(decay.astype(np.float32).reshape(b * t, hv, -1), rep, 1)
        if gate.shape[-1] == 1:
            gate = gate[..., 0]
    row_begin = np.arange(b + 1, dtype=np.int32) * t
    if rule in ("linear", "gated"):
        if gate is not None and gate.ndim == 3:
            print(f"{name:44s} skipped: a per-channel decay without the delta rule is no seqmix op")
            return
        # S <- exp(g) S + k v^T is SSD with x = v, B = k, C = scale q and delta A = g:
        # linear: delta 1, A 0; gated: delta -g, A -1, x = v / -g.
        sc = np.float32(scale or dk ** -0.5)
        dt = np.ones((b * t, hq), np.float32) if gate is None else -gate
        x = vv if gate is None else vv / dt[..., None]
        emit(name, "ssd_chunk_forward" if t > 1 else "ssd_step", src,
             dict(x=x, dt=dt, A=np.full(hq, 0.0 if gate is None else -1.0, np.float32), B=kk, C=qq * sc,
                  state=s0.transpose(0, 1, 3, 2), y=oo, state_out=s1.transpose(0, 1, 3, 2), row_begin=row_begin),
             dt_softplus="0", dt_min="0", dt_max="0", chunk="0", max_rows=str(t))
        return
    bb = np.broadcast_to(beta.reshape(b * t, -1), (b * t, hv))
    emit(name, "deltanet_chunk_forward" if t > 1 else "deltanet_step", src,
         dict(q=qq, k=kk, v=vv, gate=gate, beta=np.repeat(bb, rep, 1), state=s0, o=oo, state_out=s1,
              row_begin=row_begin),
         gate_kind="NONE" if gate is None else "LOG", beta_kind="VALUE", qk_l2norm="0", eps="1e-6",
         scale=repr(float(scale)) if scale else "0", head_map="GROUPED", chunk="0", gate_lower_bound="0",
         max_rows=str(t))


# ---- the inverse ----------------------------------------------------------------------------

def make_inverse():
    src = version(torch) + " linalg.solve_triangular (double, rounded to f32)"
    for n, batch, seed in ((37, (2, 3), 601), (64, (2,), 602), (1, (5,), 603)):
        gen = torch.Generator().manual_seed(seed)
        k = torch.randn(*batch, n, 16, generator=gen) + 0.4
        k /= k.norm(dim=-1, keepdim=True)
        beta = torch.rand(*batch, n, 1, generator=gen)
        g = -0.2 * torch.rand(*batch, n, generator=gen)
        g = g.cumsum(-1)
        decay = torch.exp((g[..., :, None] - g[..., None, :]).clamp(max=0))
        a = (beta * (k @ k.transpose(-1, -2)) * decay).tril(-1)
        a = a + torch.randn(*batch, n, n, generator=gen).triu(0)  # diagonal and above: ignored
        inv = torch.linalg.solve_triangular(a.double(), torch.eye(n, dtype=torch.double).expand(*batch, n, n),
                                            upper=False, unitriangular=True)
        emit(f"unit_lower_inverse_{n}", "unit_lower_inverse", src, dict(a=a, inv=inv.tril().float()))


def main():
    global OUT, ONLY
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default=OUT)
    ap.add_argument("--only", default="")
    ap.add_argument("--check-only", action="store_true", help="judge the files that are there")
    args = ap.parse_args()
    OUT, ONLY = args.out, args.only
    os.makedirs(OUT, exist_ok=True)
    torch.set_num_threads(1)
    if args.check_only:
        from safetensors import safe_open
        for f in sorted(os.listdir(OUT)):
            with safe_open(os.path.join(OUT, f), "pt") as file:
                t = {k: file.get_tensor(k) for k in file.keys()}
                for k, (rms, vec) in oracle.judge(file.metadata(), t).items():
                    print(f"{f:56s} {k:10s} rms {rms:.2e}  worst vector {vec:.2e}")
        return
    for make in (make_qwen_functions, make_qwen_layer, make_kda_layers, make_mamba1, make_mamba2, make_onnx,
                 make_inverse):
        make()
    for dt, bound in (("float32", 2e-6), ("float16", 1e-3), ("bfloat16", 4e-3)):
        rs = [r for r in RESULTS if r[3] == dt]
        if rs:
            worst = max(rs, key=lambda r: r[4])
            over = [f"{r[0]}:{r[2]}" for r in rs if r[4] > bound or r[5] > 4 * bound]
            print(f"{dt}: {len(rs)} outputs, worst rms {worst[4]:.2e} ({worst[0]} {worst[2]}), "
                  f"over the bound {bound}: {over or 'none'}")


if __name__ == "__main__":
    main()
