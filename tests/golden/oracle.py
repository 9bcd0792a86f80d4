# SPDX-License-Identifier: MIT
"""Plain double-precision recurrences of the seqmix ops, written from the equations, for judging dumps.

judge(metadata, tensors) -> {output name: (rms error relative to the oracle's rms,
                                           worst vector's error relative to max(its rms, the tensor's))}
Slow and simple on purpose; independent of the library and of the frameworks that made the dumps.
"""
import numpy as np


def f64(t):
    return None if t is None else t.detach().double().numpy()


def softplus(x):
    return np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20))))


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def silu(x):
    return x * sigmoid(x)


def sequences(t, n_rows, step):
    """(first row, end row, read slot, write slot) of each sequence."""
    rb = t.get("row_begin")
    rb = list(range(n_rows + 1)) if rb is None and step else [0, n_rows] if rb is None else rb.tolist()
    n = len(rb) - 1
    read = t["read_slot"].tolist() if "read_slot" in t else list(range(n))
    write = t["write_slot"].tolist() if "write_slot" in t else read
    return [(rb[i], rb[i + 1], read[i], write[i]) for i in range(n)]


def run(t, n_rows, step, out_shape, row_fn):
    """row_fn(row, state) -> (output row, new state), over all sequences."""
    out = np.zeros(out_shape)
    pool = f64(t["state"])
    new = pool.copy()
    for lo, hi, r, w in sequences(t, n_rows, step):
        s = np.zeros(pool.shape[1:]) if r < 0 else pool[r].copy()
        for i in range(lo, hi):
            out[i], s = row_fn(i, s)
        if w >= 0:
            new[w] = s
    return out, new


def conv(m, t, step):
    x, w, b = f64(t["x"]), f64(t["weight"]), f64(t.get("bias"))
    act = {"NONE": lambda v: v, "SILU": silu}[m["activation"]]

    def row(i, s):
        full = np.concatenate([s, x[i][:, None]], 1)
        y = (full * w).sum(1) + (0 if b is None else b)
        return act(y), full[:, 1:]
    return run(t, x.shape[0], step, x.shape, row)


def delta_t(m, t):
    dt = f64(t["dt"])
    if "dt_bias" in t:
        dt = dt + f64(t["dt_bias"])
    if m["dt_softplus"] == "1":
        dt = softplus(dt)
    lo, hi = float(m.get("dt_min", "0")), float(m.get("dt_max", "0"))
    dt = np.maximum(dt, lo) if lo > 0 else dt
    return np.minimum(dt, hi) if hi > 0 else dt


def scan(m, t, step):
    x, A, B, C = (f64(t[k]) for k in ("x", "A", "B", "C"))
    skip, z, dt = f64(t.get("skip")), f64(t.get("z")), delta_t(m, t)
    rep = x.shape[1] // B.shape[1]
    B, C = np.repeat(B, rep, 1), np.repeat(C, rep, 1)

    def row(i, h):
        h = np.exp(np.minimum(dt[i][:, None] * A, 0)) * h + (dt[i] * x[i])[:, None] * B[i]
        y = (h * C[i]).sum(1) + (0 if skip is None else skip * x[i])
        return y * (1 if z is None else silu(z[i])), h
    return run(t, x.shape[0], step, x.shape, row)


def ssd(m, t, step):
    x, A, B, C = (f64(t[k]) for k in ("x", "A", "B", "C"))
    skip, z, dt = f64(t.get("skip")), f64(t.get("z")), delta_t(m, t)
    rep = x.shape[1] // B.shape[1]
    B, C = np.repeat(B, rep, 1), np.repeat(C, rep, 1)
    if skip is not None and skip.ndim == 1:
        skip = skip[:, None]

    def row(i, s):  # [H,P,N]
        s = np.exp(np.minimum(dt[i] * A, 0))[:, None, None] * s \
            + (dt[i][:, None] * x[i])[:, :, None] * B[i][:, None, :]
        y = (s * C[i][:, None, :]).sum(2) + (0 if skip is None else skip * x[i])
        return y * (1 if z is None else silu(z[i])), s
    return run(t, x.shape[0], step, x.shape, row)


def deltanet(m, t, step):
    q, k, v = (f64(t[n]) for n in ("q", "k", "v"))
    hk, hv, dk = q.shape[1], v.shape[1], q.shape[2]
    if m["qk_l2norm"] == "1":
        eps = float(m["eps"])
        q, k = (a / np.sqrt((a * a).sum(-1, keepdims=True) + eps) for a in (q, k))
    heads = [h // (hv // hk) if m["head_map"] == "GROUPED" else h % hk for h in range(hv)]
    q, k = q[:, heads], k[:, heads]
    scale = float(m["scale"]) or dk ** -0.5
    kind, g = m["gate_kind"], np.zeros((q.shape[0], hv, 1))
    if kind != "NONE":
        g = f64(t["gate"])
        per_head = g.ndim == 2
        A, bias = f64(t.get("A")), f64(t.get("dt_bias"))
        if A is not None and not per_head:
            A = A[:, None]
        if bias is not None:
            g = g + (bias[:, None] if bias.ndim == 1 and not per_head else bias)
        if kind == "ALPHA":
            g = np.log(np.clip(g, 0, 1))
        elif kind == "SOFTPLUS":
            g = A * softplus(g)
        elif kind == "BOUNDED_SIGMOID":
            g = float(m["gate_lower_bound"]) * sigmoid(-A * g)
        g = np.minimum(g[:, :, None] if per_head else g, 0)
    beta = f64(t["beta"])
    beta = {"VALUE": lambda b: b, "SIGMOID": sigmoid, "SIGMOID2": lambda b: 2 * sigmoid(b)}[m["beta_kind"]](beta)

    def row(i, s):  # [HV,DK,DV]
        s = np.exp(g[i])[:, :, None] * s
        u = beta[i][:, None] * (v[i] - (s * k[i][:, :, None]).sum(1))
        s = s + k[i][:, :, None] * u[:, None, :]
        return scale * (s * q[i][:, :, None]).sum(1), s
    return run(t, q.shape[0], step, v.shape, row)


def norm(m, t):
    x, z, w = f64(t["x"]), f64(t.get("z")), f64(t.get("weight"))
    rows, d = x.shape
    group = int(m["group"]) or d
    w = np.ones(d) if w is None else np.tile(w, d // len(w))
    w = w + (m["weight_plus_one"] == "1")
    act = 1 if z is None else {"SILU": silu, "SIGMOID": sigmoid}[m["gate_act"]](z)
    before = m["norm_before_gate"] == "1"
    x = x if before else x * act
    g = x.reshape(rows, d // group, group)
    g = g / np.sqrt((g * g).mean(-1, keepdims=True) + float(m["eps"]))
    return g.reshape(rows, d) * w * (act if before else 1)


def inverse(t):
    a = np.tril(f64(t["a"]), -1) + np.eye(t["a"].shape[-1])
    return np.linalg.inv(a)


def errors(got, want):
    got = f64(got)
    assert got.shape == want.shape, (got.shape, want.shape)
    if want.size == 0:
        return 0.0, 0.0
    rms = lambda a, **kw: np.sqrt((a * a).mean(**kw))  # noqa: E731
    base = rms(want)
    d = got - want
    if base == 0:
        assert not d.any()
        return 0.0, 0.0
    vec = rms(d, axis=-1) / np.maximum(rms(want, axis=-1), base)
    return rms(d) / base, vec.max()


def judge(m, t):
    op, step = m["op"], m["op"].endswith("_step")
    if op == "unit_lower_inverse":
        return {"inv": errors(t["inv"], inverse(t))}
    if op == "gated_rms_norm_rows":
        return {"y": errors(t["y"], norm(m, t))}
    fn = {"short": conv, "selec": scan, "ssd_c": ssd, "ssd_s": ssd, "delta": deltanet}[op[:5]]
    out, state = fn(m, t, step)
    name = "o" if fn is deltanet else "y"
    return {name: errors(t[name], out), "state_out": errors(t["state_out"], state)}
