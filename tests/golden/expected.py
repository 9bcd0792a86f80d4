#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The 16-bit copies of mamba-tiny, and what transformers says about each copy.

    expected.py [--try TEXT...]

Writes mamba-tiny-{bf16,f16}/ and, in all three directories, expected.json (greedy continuations)
and expected_logits.safetensors. The logits are transformers' on the CPU in f32 (16-bit weights
widened), prefill in one call, then token by token through the cache; a plain numpy forward pass in
double, written here, judges them. --try prints continuations of other prompts and writes nothing.
"""
import json
import os
import shutil
import sys

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import oracle  # noqa: E402
import st  # noqa: E402

N_GREEDY = 200
PROMPTS = [
    "And Jesus said unto them,",
    "But the wicked shall",
    "The LORD is my shepherd; I shall not want.\n"
    "He maketh me to lie down in green pastures: he leadeth me beside the still waters.\n"
    "He restoreth my soul: he leadeth me in the paths of righteousness for his name's sake.\n"
    "Yea, though I walk through the valley of the shadow of death, I will fear no evil: for thou art with me; "
    "thy rod and thy staff they comfort me.\n"
    "Thou preparest a table before me in the presence of mine enemies: thou anointest my head with oil; "
    "my cup runneth over.\nSurely goodness and mercy shall follow me all the days of my life: "
    "and I will dwell in the house of the LORD",
]
VARIANTS = {"mamba-tiny": None, "mamba-tiny-bf16": torch.bfloat16, "mamba-tiny-f16": torch.float16}


def cast(src, dst, dtype):
    """A copy of a model directory with its weights rounded to dtype."""
    from safetensors.torch import load_file
    os.makedirs(dst, exist_ok=True)
    t = {k: v.to(dtype) for k, v in load_file(os.path.join(src, "model.safetensors")).items()}
    st.write(os.path.join(dst, "model.safetensors"), st.from_torch(t), {"format": "pt"})
    with open(os.path.join(src, "config.json")) as f:
        cfg = json.load(f)
    cfg.pop("dtype", None)
    cfg["torch_dtype"] = str(dtype).replace("torch.", "")
    with open(os.path.join(dst, "config.json"), "w") as f:
        json.dump(cfg, f, indent=2, sort_keys=True)
        f.write("\n")
    for name in ("tokenizer.json", "generation_config.json"):
        shutil.copyfile(os.path.join(src, name), os.path.join(dst, name))


def forward64(weights, cfg, tokens):
    """Logits [T,V] in double from the equations."""
    w = {k: v.double().numpy() for k, v in weights.items()}
    n, kc = cfg["state_size"], cfg["conv_kernel"]

    def rms(x, g):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + cfg["layer_norm_epsilon"]) * g
    x = w["backbone.embeddings.weight"][tokens]
    for i in range(cfg["num_hidden_layers"]):
        p = f"backbone.layers.{i}."
        m = {k[len(p) + 6:]: v for k, v in w.items() if k.startswith(p + "mixer.")}
        u, z = np.split(rms(x, w[p + "norm.weight"]) @ m["in_proj.weight"].T, 2, 1)
        pad = np.concatenate([np.zeros((kc - 1, u.shape[1])), u])
        u = oracle.silu(sum(pad[j:j + len(u)] * m["conv1d.weight"][:, 0, j] for j in range(kc)) + m["conv1d.bias"])
        dbc = u @ m["x_proj.weight"].T
        r = dbc.shape[1] - 2 * n
        dt = oracle.softplus(dbc[:, :r] @ m["dt_proj.weight"].T + m["dt_proj.bias"])
        A, h, y = -np.exp(m["A_log"]), 0.0, np.empty_like(u)
        for t in range(len(u)):
            h = np.exp(dt[t][:, None] * A) * h + (dt[t] * u[t])[:, None] * dbc[t, r:r + n]
            y[t] = h @ dbc[t, r + n:] + m["D"] * u[t]
        x = x + (y * oracle.silu(z)) @ m["out_proj.weight"].T
    return rms(x, w["backbone.norm_f.weight"]) @ w["backbone.embeddings.weight"].T


def greedy(model, tokens, n):
    """(greedy tokens, logits of every input position, in order)"""
    with torch.no_grad():
        res = model(input_ids=torch.tensor([tokens]), use_cache=True)
        rows, out = [res.logits[0]], []
        while True:
            out.append(int(rows[-1][-1].argmax()))
            if len(out) == n:
                return out, torch.cat(rows).float()
            res = model(input_ids=torch.tensor([[out[-1]]]), cache=res.cache, use_cache=True)
            rows.append(res.logits[0])


def main():
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers import MambaForCausalLM
    torch.set_num_threads(1)
    base = os.path.join(HERE, "mamba-tiny")
    tok = Tokenizer.from_file(os.path.join(base, "tokenizer.json"))
    trial = sys.argv[2:] if sys.argv[1:2] == ["--try"] else None
    for name, dtype in VARIANTS.items():
        path = os.path.join(HERE, name)
        if trial is None and dtype is not None:
            cast(base, path, dtype)
        if trial is not None and dtype is not None:
            continue
        model = MambaForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        with open(os.path.join(path, "config.json")) as f:
            cfg = json.load(f)
        weights = load_file(os.path.join(path, "model.safetensors"))
        for k, v in model.state_dict().items():
            if k in weights:
                assert torch.equal(v, weights[k].float()), k
        items = []
        for i, text in enumerate(PROMPTS if trial is None else trial):
            ids = tok.encode(text).ids
            out, logits = greedy(model, ids, N_GREEDY)
            want = forward64(weights, cfg, ids + out[:-1])
            err = float(np.abs(logits.numpy() - want).max())
            assert err < 1e-3 and want[len(ids) - 1:].argmax(-1).tolist() == out
            top = logits[len(ids) - 1:].topk(2, -1).values
            margin = float((top[:, 0] - top[:, 1]).min())
            item = {"text": text, "tokens": ids, "greedy": out, "min_margin": round(margin, 6),
                    "max_logit_error": float(f"{err:.2e}"), "eos_at": out.index(0) if 0 in out else -1,
                    "prompt_nll": round(float(torch.nn.functional.cross_entropy(
                        logits[:len(ids) - 1], torch.tensor(ids[1:]))), 6),
                    "greedy_text": tok.decode(out, skip_special_tokens=False)}
            items.append(item)
            print(f"{name} prompt {i}: {len(ids)} tokens, margin {margin:.5f}, logit error {err:.1e}, "
                  f"eos at {item['eos_at']}")
            if dtype is None:
                print("   ", repr(text[-40:]), "->", repr(item["greedy_text"]))
            if trial is None:
                assert margin > 2e-3, "choose another prompt"
            if i == 0 and trial is None:
                n = len(ids)
                pos = sorted({0, n // 2, n - 1, n, n + 1, n + 31, n + 99, n + N_GREEDY - 2})
                st.write(os.path.join(path, "expected_logits.safetensors"),
                         st.from_torch({"logits": logits[pos], "positions": torch.tensor(pos, dtype=torch.int32)}),
                         {"prompt": "0", "prompt_tokens": str(n)})
        if trial is None:
            with open(os.path.join(path, "expected.json"), "w", encoding="utf-8") as f:
                f.write('{"prompts": [\n' + ",\n".join(json.dumps(i, ensure_ascii=False) for i in items) + "\n]}\n")


if __name__ == "__main__":
    main()
