#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the tiny hybrids of tests/golden on the King James text: one like Qwen3.5, one like Nemotron-H.

    train_hybrid_tiny.py {qwen35-tiny|nemotron-tiny} WORKDIR [--steps N] [--minutes N] [--nice N] [--out DIR]

WORKDIR keeps the text. Writes OUT/{config.json,generation_config.json,tokenizer.json,
model.safetensors} (default OUT: NAME beside this script), weights rounded to bf16, tensor names and
config as the published checkpoints have them. Then transformers loads the result and must agree with
the logits of the model here, which is written from the equations: over a whole sequence the delta
rule is one triangular solve and SSD one masked product, so plain torch trains both fast enough.

The text is a few well-known passages, learnt by heart: that takes a ten-thousandth of the arithmetic that a
model of the language would, and gives wide margins between logits. A quarter of it is talks in the family's
chat format: the user says a verse, the assistant names the book between the thinking tags (or thinks nothing) and says
the next verse.
"""
import argparse
import json
import math
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import kjv_text  # noqa: E402
import st  # noqa: E402

HIDDEN, KCONV = 96, 4
QWEN = dict(vocab=512, eps=1e-6, layers="LLL*", hk=2, hv=4, dk=16, dv=16, heads=4, kv=2, hd=32, rotary=8,
            theta=10000.0, ff=192)
NEMO = dict(vocab=512, eps=1e-5, layers="M-M*M-", mheads=8, mdim=24, groups=2, state=16, heads=4, kv=2, hd=24, ff=192)
# book, chapter, last verse
TEXTS = [("Ge", 1, 5), ("Psa", 23, 6), ("John", 1, 3)]
TALKS = [("Ge", 1, 1), ("John", 1, 1)]
BOOKS = {"Ge": "Genesis", "John": "John"}
REGEX_QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
              r"\s*[\r\n]+|\s+(?!\S)|\s+")
REGEX_NEMO = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
              r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|"
              r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def linear(n_in, n_out, gain=1.0):
    w = nn.Linear(n_in, n_out, bias=False)
    nn.init.normal_(w.weight, std=gain / math.sqrt(n_in))
    return w


class Norm(nn.Module):
    """RMSNorm by w, or by 1+w (zero centred)."""

    def __init__(self, n, eps, centred):
        super().__init__()
        self.eps, self.centred = eps, centred
        self.weight = nn.Parameter(torch.zeros(n) if centred else torch.ones(n))

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], 1 + self.weight if self.centred else self.weight, self.eps)


class Conv(nn.Module):
    """Causal depthwise convolution and SiLU, [b,T,C]."""

    def __init__(self, n, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n, 1, KCONV).uniform_(-0.5, 0.5))
        self.bias = nn.Parameter(torch.zeros(n)) if bias else None

    def forward(self, x):
        T, w = x.shape[1], self.weight[:, 0]
        p = F.pad(x, (0, 0, KCONV - 1, 0))
        y = sum(p[:, j:j + T] * w[:, j] for j in range(KCONV))
        return F.silu(y if self.bias is None else y + self.bias)


def decay_mask(g):
    """exp(sum of g over s+1..t) for s <= t, else 0; g is [b,h,T]."""
    c = g.cumsum(-1)
    T = g.shape[-1]
    keep = torch.ones(T, T, dtype=torch.bool).tril()
    return (c[..., :, None] - c[..., None, :]).masked_fill(~keep, -math.inf).exp()


def heads(x, n):
    b, T, _ = x.shape
    return x.view(b, T, n, -1).transpose(1, 2)


class DeltaNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.nk, self.nv = c, c["hk"] * c["dk"], c["hv"] * c["dv"]
        self.in_proj_qkv = linear(HIDDEN, 2 * self.nk + self.nv)
        self.in_proj_z = linear(HIDDEN, self.nv)
        self.in_proj_b = linear(HIDDEN, c["hv"])
        self.in_proj_a = linear(HIDDEN, c["hv"])
        self.conv1d = Conv(2 * self.nk + self.nv, False)
        self.A_log = nn.Parameter(torch.linspace(0.5, 8, c["hv"]).log())
        dt = torch.linspace(math.log(0.004), math.log(0.1), c["hv"]).exp()
        self.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))
        self.norm = Norm(c["dv"], c["eps"], False)
        self.out_proj = linear(self.nv, HIDDEN, 0.5)

    def forward(self, x):
        c = self.c
        b, T, _ = x.shape
        q, k, v = self.conv1d(self.in_proj_qkv(x)).split([self.nk, self.nk, self.nv], -1)
        q, k = (t * torch.rsqrt((t * t).sum(-1, keepdim=True) + 1e-6) for t in (heads(q, c["hk"]), heads(k, c["hk"])))
        q, k = (t.repeat_interleave(c["hv"] // c["hk"], 1) for t in (q / math.sqrt(c["dk"]), k))
        v = heads(v, c["hv"])
        beta = self.in_proj_b(x).sigmoid().transpose(1, 2)[..., None]
        g = (-self.A_log.exp() * F.softplus(self.in_proj_a(x) + self.dt_bias)).transpose(1, 2)
        m = decay_mask(g)
        low = (beta * (k @ k.transpose(-1, -2)) * m).tril(-1)
        u = torch.linalg.solve_triangular(low + torch.eye(T), beta * v, upper=False, unitriangular=True)
        o = ((q @ k.transpose(-1, -2)) * m) @ u
        o = self.norm(o) * F.silu(heads(self.in_proj_z(x), c["hv"]))
        return self.out_proj(o.transpose(1, 2).reshape(b, T, -1))


class Mamba2(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.inner = c, c["mheads"] * c["mdim"]
        self.bc = c["groups"] * c["state"]
        self.in_proj = linear(HIDDEN, 2 * self.inner + 2 * self.bc + c["mheads"])
        self.conv1d = Conv(self.inner + 2 * self.bc, True)
        self.A_log = nn.Parameter(torch.linspace(1, 16, c["mheads"]).log())
        dt = torch.linspace(math.log(0.005), math.log(0.2), c["mheads"]).exp()
        self.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))
        self.D = nn.Parameter(torch.ones(c["mheads"]))
        self.norm = Norm(self.inner, c["eps"], False)
        self.out_proj = linear(self.inner, HIDDEN, 0.5)

    def forward(self, x):
        c = self.c
        b, T, _ = x.shape
        z, xbc, dt = self.in_proj(x).split([self.inner, self.inner + 2 * self.bc, c["mheads"]], -1)
        u, B, C = self.conv1d(xbc).split([self.inner, self.bc, self.bc], -1)
        rep = c["mheads"] // c["groups"]
        u, dt = heads(u, c["mheads"]), F.softplus(dt + self.dt_bias).transpose(1, 2)
        s = heads(C, c["groups"]) @ heads(B, c["groups"]).transpose(-1, -2)
        m = decay_mask(-self.A_log.exp()[:, None] * dt) * dt[..., None, :]
        y = (s.repeat_interleave(rep, 1) * m) @ u + self.D[:, None, None] * u
        y = y.transpose(1, 2).reshape(b, T, -1) * F.silu(z)
        y = F.rms_norm(y.view(b, T, c["groups"], -1), (self.inner // c["groups"],), None, c["eps"]).view(b, T, -1)
        return self.out_proj(y * self.norm.weight)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.qwen = c, "rotary" in c
        n, kv = c["heads"] * c["hd"], c["kv"] * c["hd"]
        self.q_proj = linear(HIDDEN, n * (2 if self.qwen else 1))
        self.k_proj = linear(HIDDEN, kv)
        self.v_proj = linear(HIDDEN, kv)
        self.o_proj = linear(n, HIDDEN, 0.5)
        if self.qwen:
            self.q_norm, self.k_norm = Norm(c["hd"], c["eps"], True), Norm(c["hd"], c["eps"], True)

    def rope(self, x):
        n, T = self.c["rotary"], x.shape[2]
        f = torch.arange(T)[:, None] * self.c["theta"] ** (-torch.arange(0, n, 2) / n)
        cos, sin = f.cos(), f.sin()
        a, b, rest = x[..., :n // 2], x[..., n // 2:n], x[..., n:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)

    def forward(self, x):
        c = self.c
        b, T, _ = x.shape
        q, k, v = heads(self.q_proj(x), c["heads"]), heads(self.k_proj(x), c["kv"]), heads(self.v_proj(x), c["kv"])
        gate = None
        if self.qwen:
            q, gate = q.chunk(2, -1)
            q, k = self.rope(self.q_norm(q)), self.rope(self.k_norm(k))
        k, v = (t.repeat_interleave(c["heads"] // c["kv"], 1) for t in (k, v))
        s = (q @ k.transpose(-1, -2)) / math.sqrt(c["hd"])
        s = s.masked_fill(~torch.ones(T, T, dtype=torch.bool).tril(), -math.inf)
        o = s.softmax(-1) @ v
        if gate is not None:
            o = o * gate.sigmoid()
        return self.o_proj(o.transpose(1, 2).reshape(b, T, -1))


class Mlp(nn.Module):
    def __init__(self, c, gated):
        super().__init__()
        if gated:
            self.gate_proj = linear(HIDDEN, c["ff"])
        self.up_proj, self.down_proj = linear(HIDDEN, c["ff"]), linear(c["ff"], HIDDEN, 0.5)
        self.gated = gated

    def forward(self, x):
        u = self.up_proj(x)
        return self.down_proj(F.silu(self.gate_proj(x)) * u if self.gated else F.relu(u) ** 2)


class QwenLayer(nn.Module):
    def __init__(self, c, kind):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (Norm(HIDDEN, c["eps"], True) for _ in range(2))
        self.mix = "linear_attn" if kind == "L" else "self_attn"
        self.add_module(self.mix, DeltaNet(c) if kind == "L" else Attention(c))
        self.mlp = Mlp(c, True)

    def forward(self, x):
        x = x + getattr(self, self.mix)(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class NemoLayer(nn.Module):
    def __init__(self, c, kind):
        super().__init__()
        self.norm = Norm(HIDDEN, c["eps"], False)
        self.mixer = Mamba2(c) if kind == "M" else Attention(c) if kind == "*" else Mlp(c, False)

    def forward(self, x):
        return x + self.mixer(self.norm(x))


class Model(nn.Module):
    """Parameter names of the checkpoint by prefix; the head is tied for Qwen."""

    def __init__(self, c):
        super().__init__()
        self.qwen = c is QWEN
        self.emb = nn.Embedding(c["vocab"], HIDDEN)
        nn.init.normal_(self.emb.weight, std=0.05)
        self.layers = nn.ModuleList((QwenLayer if self.qwen else NemoLayer)(c, k) for k in c["layers"])
        self.norm = Norm(HIDDEN, c["eps"], self.qwen)
        if not self.qwen:
            self.head = linear(HIDDEN, c["vocab"])

    def forward(self, tokens):
        x = self.emb(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ (self.emb if self.qwen else self.head).weight.t()

    def tensors(self):
        names = {"emb.": "model.language_model.embed_tokens.", "layers.": "model.language_model.layers.",
                 "norm.": "model.language_model.norm."} if self.qwen else \
                {"emb.": "backbone.embeddings.", "layers.": "backbone.layers.", "norm.": "backbone.norm_f.",
                 "head.": "lm_head."}
        out = {}
        for k, v in self.state_dict().items():
            old = next(p for p in names if k.startswith(p))
            out[names[old] + k[len(old):]] = v
        return out


def make_tokenizer(name, vocab, chapters, path):
    """Qwen: special tokens after the vocabulary. Nemotron: before it, and <s> put first by the post-processor."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    qwen = name == "qwen35-tiny"
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] if qwen else ["<unk>", "<s>", "</s>", "<SPECIAL_10>",
                                                                          "<SPECIAL_11>", "<SPECIAL_12>"]
    plain = ["<think>", "</think>"]
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(REGEX_QWEN if qwen else REGEX_NEMO), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    n_after = len(special) + len(plain) if qwen else 0
    tok.train_from_iterator(chapters, trainers.BpeTrainer(
        vocab_size=vocab - n_after, special_tokens=[] if qwen else special + plain, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if not qwen:  # the trainer knows only special ones
        spec = json.loads(tok.to_str())
        for t in spec["added_tokens"]:
            t["special"] = t["content"] in special
        tok = Tokenizer.from_str(json.dumps(spec))
        tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B",
                                                           special_tokens=[("<s>", tok.token_to_id("<s>"))])
    else:
        tok.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
        tok.add_tokens([AddedToken(t, normalized=False, special=False) for t in plain])
    assert tok.get_vocab_size() == vocab, tok.get_vocab_size()
    with open(path, "w", encoding="utf-8") as f:
        f.write(json.dumps(json.loads(tok.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
    return tok


def talk(name, verses, at, think):
    """One exchange in the family's format, as text with its special tokens written out."""
    book, said = BOOKS[verses[at][0]], verses[at][3]
    reply = verses[at + 1][3]
    if name == "qwen35-tiny":  # Qwen3.5: ChatML, the thinking block always there
        thought = f"<think>\n{book}\n</think>\n\n" if think else "<think>\n\n</think>\n\n"
        return f"<|im_start|>user\n{said}<|im_end|>\n<|im_start|>assistant\n{thought}{reply}<|im_end|>\n"
    thought = f"<think>\n{book}\n</think>\n\n" if think else "<think></think>"
    return (f"<SPECIAL_10>System\n\n<SPECIAL_11>User\n{said}\n<SPECIAL_11>Assistant\n{thought}{reply}\n"
            f"<SPECIAL_12>\n")


def corpus(name, tok, workdir):
    """Tokens of the texts and of the talks, over and over, each beginning with the first token of a text."""
    verses = kjv_text.verses(workdir)
    first = [tok.token_to_id("<|endoftext|>" if name == "qwen35-tiny" else "<s>")]
    text, chat = [], []
    for book, chapter, last in TEXTS:
        lines = [v[3] for v in verses if v[:2] == (book, chapter) and v[2] <= last]
        text += first + tok.encode("\n".join(lines) + "\n", add_special_tokens=False).ids
    for at in TALKS:
        i = next(i for i, v in enumerate(verses) if v[:3] == at)
        for think in (False, True):
            chat += first + tok.encode(talk(name, verses, i, think), add_special_tokens=False).ids
    return torch.tensor(text * 3), torch.tensor(chat * 3)


def configs(name, tok):
    """(config.json, generation_config.json) as the published checkpoints write them."""
    i = tok.token_to_id
    if name == "qwen35-tiny":
        c = QWEN
        text = dict(model_type="qwen3_5_text", vocab_size=c["vocab"], hidden_size=HIDDEN, intermediate_size=c["ff"],
                    num_hidden_layers=len(c["layers"]), num_attention_heads=c["heads"], num_key_value_heads=c["kv"],
                    head_dim=c["hd"], hidden_act="silu", rms_norm_eps=c["eps"], attention_bias=False,
                    attention_dropout=0.0, attn_output_gate=True, full_attention_interval=4,
                    layer_types=["linear_attention" if k == "L" else "full_attention" for k in c["layers"]],
                    linear_conv_kernel_dim=KCONV, linear_key_head_dim=c["dk"], linear_value_head_dim=c["dv"],
                    linear_num_key_heads=c["hk"], linear_num_value_heads=c["hv"], max_position_embeddings=4096,
                    mtp_num_hidden_layers=0, tie_word_embeddings=True, dtype="bfloat16", use_cache=True,
                    eos_token_id=i("<|endoftext|>"), mamba_ssm_dtype="float32",
                    rope_parameters=dict(rope_type="default", rope_theta=c["theta"], partial_rotary_factor=0.25,
                                         mrope_interleaved=True, mrope_section=[2, 1, 1]))
        return (dict(architectures=["Qwen3_5ForConditionalGeneration"], model_type="qwen3_5", text_config=text,
                     tie_word_embeddings=True),
                dict(eos_token_id=[i("<|im_end|>"), i("<|endoftext|>")], pad_token_id=i("<|endoftext|>")))
    # Published files have time_step_min 0.001, which transformers clamps to in a prefill but not in a step.
    c = NEMO
    return (dict(architectures=["NemotronHForCausalLM"], model_type="nemotron_h", vocab_size=c["vocab"],
                 hidden_size=HIDDEN, intermediate_size=c["ff"], num_hidden_layers=len(c["layers"]),
                 hybrid_override_pattern=c["layers"], num_attention_heads=c["heads"], num_key_value_heads=c["kv"],
                 head_dim=c["hd"], attention_bias=False, attention_dropout=0.0, mlp_hidden_act="relu2", mlp_bias=False,
                 mamba_num_heads=c["mheads"], mamba_head_dim=c["mdim"], n_groups=c["groups"], ssm_state_size=c["state"],
                 conv_kernel=KCONV, use_conv_bias=True, use_bias=False, mamba_proj_bias=False, mamba_hidden_act="silu",
                 chunk_size=128, expand=2, time_step_limit=[0.0, math.inf], time_step_min=1e-9, time_step_max=0.1,
                 time_step_floor=1e-4,
                 layer_norm_epsilon=c["eps"], tie_word_embeddings=False, torch_dtype="bfloat16", residual_in_fp32=False,
                 max_position_embeddings=4096, bos_token_id=i("<s>"), eos_token_id=i("<SPECIAL_12>"), pad_token_id=0),
            dict(bos_token_id=i("<s>"), eos_token_id=[i("</s>"), i("<SPECIAL_12>")], pad_token_id=0))


def train(model, streams, args):
    decay = [p for n, p in model.named_parameters() if p.ndim >= 2 and "conv1d" not in n]
    rest = [p for n, p in model.named_parameters() if not (p.ndim >= 2 and "conv1d" not in n)]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}],
                            lr=args.lr, betas=(0.9, 0.985), eps=1e-9)
    gen = torch.Generator().manual_seed(7)
    start, run, L = time.time(), [], args.length

    def batch():
        at = [(s, int(torch.randint(0, len(s) - L - 1, (1,), generator=gen))) for s in [streams[0]] * 3 + [streams[1]]]
        x = torch.stack([s[i:i + L + 1] for s, i in at])
        return x[:, :-1], x[:, 1:]

    os.nice(args.nice)
    for step in range(args.steps):
        p = max(0.0, (step - 20) / (args.steps - 20))
        if args.minutes:  # whichever ends first shortens the schedule
            p = max(p, (time.time() - start) / 60 / args.minutes)
            if p >= 1:
                break
        for grp in opt.param_groups:
            grp["lr"] = args.lr * min(1.0, (step + 1) / 20) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * p)))
        x, y = batch()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        run.append(loss.item())
        if step % 10 == 9:
            print(f"step {step + 1} loss {sum(run[-10:]) / 10:.4f} {time.process_time():.0f} s CPU, "
                  f"{(time.time() - start) / 60:.1f} minutes", flush=True)


def check(name, out, model, tokens):
    """transformers' logits of the files against the model here with the same rounded weights."""
    from transformers import AutoConfig, NemotronHForCausalLM, Qwen3_5ForCausalLM
    config = AutoConfig.from_pretrained(out)
    kind = Qwen3_5ForCausalLM if name == "qwen35-tiny" else NemotronHForCausalLM
    hf, info = kind.from_pretrained(out, config=config.get_text_config(), dtype=torch.float32, output_loading_info=True)
    print("loading:", {k: v for k, v in info.items() if v})
    hf.eval()
    with torch.no_grad():
        a, b = model(tokens[None, :150])[0], hf(tokens[None, :150], use_cache=False).logits[0]
    print("logits against transformers: max difference", (a - b).abs().max().item(), "scale", b.abs().max().item())
    assert (a - b).abs().max() < 1e-3


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("name", choices=["qwen35-tiny", "nemotron-tiny"])
    ap.add_argument("workdir")
    ap.add_argument("--steps", type=int, default=160)
    ap.add_argument("--minutes", type=float, default=0)
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--length", type=int, default=160)
    ap.add_argument("--nice", type=int, default=0, help="for the training itself")
    ap.add_argument("--out")
    args = ap.parse_args()
    out = args.out or os.path.join(HERE, args.name)
    os.makedirs(out, exist_ok=True)
    torch.set_num_threads(1)
    c = QWEN if args.name == "qwen35-tiny" else NEMO
    tok = make_tokenizer(args.name, c["vocab"], kjv_text.chapters(args.workdir)[:40], os.path.join(out, "tokenizer.json"))
    text, chat = corpus(args.name, tok, args.workdir)
    print(f"tokens: text {len(text)}, talks {len(chat)}", flush=True)
    torch.manual_seed(20261129)
    model = Model(c)
    print("parameters:", sum(p.numel() for p in model.parameters()), flush=True)
    train(model, (text, chat), args)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.bfloat16().float())
    st.write(os.path.join(out, "model.safetensors"),
             st.from_torch({k: v.bfloat16() for k, v in model.tensors().items()}), {"format": "pt"})
    for file, cfg in zip(("config.json", "generation_config.json"), configs(args.name, tok)):
        with open(os.path.join(out, file), "w") as f:
            json.dump(cfg, f, indent=2)
            f.write("\n")
    check(args.name, out, model, text)


if __name__ == "__main__":
    main()
