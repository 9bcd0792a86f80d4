#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the tiny Mamba of tests/golden/mamba-tiny on the King James text.

    train_mamba_tiny.py WORKDIR [--steps N] [--minutes N] [--threads N] [--out DIR]

WORKDIR keeps the text and the log. Writes OUT/{config.json,generation_config.json,
model.safetensors,tokenizer.json} (default OUT: mamba-tiny beside this script), then loads the
result into transformers' MambaForCausalLM and checks that its logits agree.

transformers' Mamba on the CPU is too slow to train, so the model is written here, with the same
parameter names and the selective scan with its backward pass in C (train_scan.c).
"""
import argparse
import ctypes
import math
import os
import subprocess
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import kjv_text  # noqa: E402

VOCAB, HIDDEN, LAYERS, STATE, EXPAND, KCONV, DT_RANK, EPS = 1024, 128, 6, 16, 2, 4, 8, 1e-5
INNER = HIDDEN * EXPAND
EOS = "<|endoftext|>"


LIB = None  # train_scan.c, compiled by load_scan
FREE = []   # state buffers of finished steps


def load_scan(workdir):
    global LIB
    so = os.path.join(workdir, "train_scan.so")
    subprocess.run(["cc", "-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC", "-o", so,
                    os.path.join(HERE, "train_scan.c"), "-lm"], check=True)
    LIB = ctypes.CDLL(so)
    LIB.mallopt(-8, 1)           # M_ARENA_MAX, M_MMAP_MAX, M_TRIM_THRESHOLD: keep big buffers, since
    LIB.mallopt(-4, 0)           # their page faults cost a third of the time
    LIB.mallopt(-1, 0x7fffffff)


def call(name, T, b, D, *tensors):
    assert all(t.is_contiguous() and t.dtype == torch.float32 for t in tensors)
    getattr(LIB, name)(T, b, D, *(ctypes.c_void_p(t.data_ptr()) for t in tensors))


class Scan(torch.autograd.Function):
    """y[t] = C[t].h[t], h[t] = exp(delta[t] A) h[t-1] + (delta x)[t] B[t]; time is axis 0."""

    @staticmethod
    def forward(ctx, delta, dx, A, B, C):  # [T,b,D] [T,b,D] [D,16] [T,b,16] [T,b,16]
        T, b, D = delta.shape
        shape = (b, D // 16, T + 1, 16, 16)
        hs = FREE.pop() if FREE and FREE[-1].shape == shape else delta.new_empty(shape)
        y = torch.empty_like(delta)
        call("scan_forward", T, b, D, delta, dx, A, B, C, y, hs)
        ctx.save_for_backward(delta, dx, A, B, C, hs)
        return y

    @staticmethod
    def backward(ctx, gy):
        delta, dx, A, B, C, hs = ctx.saved_tensors
        T, b, D = delta.shape
        g_delta, g_dx, g_B, g_C = (torch.empty_like(t) for t in (delta, dx, B, C))
        g_A = A.new_empty(b, D, 16)
        call("scan_backward", T, b, D, delta, dx, A, B, C, hs, gy.contiguous(), g_delta, g_dx, g_A, g_B, g_C)
        FREE.append(hs)
        return g_delta, g_dx, g_A.sum(0), g_B, g_C


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        return F.rms_norm(x, (HIDDEN,), self.weight, EPS)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj = nn.Linear(HIDDEN, 2 * INNER, bias=False)
        self.conv1d = nn.Conv1d(INNER, INNER, KCONV, groups=INNER, padding=KCONV - 1)
        self.x_proj = nn.Linear(INNER, DT_RANK + 2 * STATE, bias=False)
        self.dt_proj = nn.Linear(DT_RANK, INNER)
        self.A_log = nn.Parameter(torch.arange(1.0, STATE + 1).log().repeat(INNER, 1))
        self.D = nn.Parameter(torch.ones(INNER))
        self.out_proj = nn.Linear(INNER, HIDDEN, bias=False)
        with torch.no_grad():
            self.out_proj.weight /= math.sqrt(LAYERS)
            self.dt_proj.weight.uniform_(-DT_RANK**-0.5, DT_RANK**-0.5)
            dt = torch.exp(torch.rand(INNER) * (math.log(0.1) - math.log(1e-3)) + math.log(1e-3))
            self.dt_proj.bias.copy_(dt + torch.log(-torch.expm1(-dt)))

    def forward(self, u):  # [T,b,HIDDEN]
        T = u.shape[0]
        x, z = self.in_proj(u).chunk(2, -1)
        xp = F.pad(x, (0, 0, 0, 0, KCONV - 1, 0))
        c = self.conv1d.bias
        for j in range(KCONV):
            c = c + xp[j:j + T] * self.conv1d.weight[:, 0, j]
        x = F.silu(c)
        dt, B, C = self.x_proj(x).split([DT_RANK, STATE, STATE], -1)
        delta = F.softplus(self.dt_proj(dt))
        y = Scan.apply(delta.contiguous(), delta * x, -self.A_log.exp(), B.contiguous(), C.contiguous())
        return self.out_proj((y + x * self.D) * F.silu(z))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mixer = RMSNorm(), Mixer()

    def forward(self, x):
        return x + self.mixer(self.norm(x))


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = nn.Embedding(VOCAB, HIDDEN)
        nn.init.normal_(self.embeddings.weight, std=0.05)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm_f = RMSNorm()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()

    def forward(self, tokens):  # [b,T] -> logits [T,b,VOCAB]
        x = self.backbone.embeddings(tokens.t())
        for layer in self.backbone.layers:
            x = layer(x)
        return self.backbone.norm_f(x) @ self.backbone.embeddings.weight.t()


def make_tokenizer(chapters, path):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    tok.train_from_iterator(chapters, trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=[EOS], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    assert tok.get_vocab_size() == VOCAB and tok.token_to_id(EOS) == 0
    tok.save(path)
    return tok


def check_scan_gradient():
    """The hand-written backward pass against autograd through plain operations."""
    torch.manual_seed(1)
    T, b, D, N = 7, 2, 32, 16
    args = [torch.rand(T, b, D), torch.randn(T, b, D), -torch.rand(D, N), torch.randn(T, b, N),
            torch.randn(T, b, N)]
    grads = []
    for fast in (True, False):
        v = [t.clone().requires_grad_() for t in args]
        if fast:
            y = Scan.apply(*v)
        else:
            h, ys = torch.zeros(b, D, N), []
            for t in range(T):
                h = torch.exp(v[0][t][..., None] * v[2]) * h + v[1][t][..., None] * v[3][t][:, None]
                ys.append((h * v[4][t][:, None]).sum(-1))
            y = torch.stack(ys)
        y.sin().sum().backward()
        grads.append([y.detach()] + [t.grad for t in v])
    for x, y in zip(*grads):
        err = (x - y).abs().max() / y.abs().max()
        assert err < 1e-5, err


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("workdir")
    ap.add_argument("--steps", type=int, default=6000)
    ap.add_argument("--minutes", type=float, default=0, help="stop after this long, 0 = after the steps")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--length", type=int, default=160)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--out", default=os.path.join(HERE, "mamba-tiny"))
    args = ap.parse_args()
    os.makedirs(args.workdir, exist_ok=True)
    os.makedirs(args.out, exist_ok=True)
    torch.set_num_threads(args.threads)
    load_scan(args.workdir)
    check_scan_gradient()
    FREE.clear()

    chapters = kjv_text.chapters(args.workdir)
    tok = make_tokenizer(chapters, os.path.join(args.out, "tokenizer.json"))
    ids = [[0] + e.ids for e in tok.encode_batch(chapters)]
    train = torch.tensor([t for i, c in enumerate(ids) if i % 40 != 20 for t in c])
    val = torch.tensor([t for i, c in enumerate(ids) if i % 40 == 20 for t in c])
    nbytes = sum(len(c.encode()) for i, c in enumerate(chapters) if i % 40 == 20)
    print(f"tokens: train {len(train)}, validation {len(val)} ({nbytes / len(val):.3f} bytes each)",
          flush=True)

    torch.manual_seed(20240607)
    model = Model()
    print("parameters:", sum(p.numel() for p in model.parameters()), flush=True)
    decay = [p for n, p in model.named_parameters() if p.ndim >= 2 and "A_log" not in n and "conv1d" not in n]
    rest = [p for n, p in model.named_parameters() if not (p.ndim >= 2 and "A_log" not in n and "conv1d" not in n)]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}],
                            lr=args.lr, betas=(0.9, 0.985), eps=1e-9)
    gen = torch.Generator().manual_seed(7)

    def evaluate():
        with torch.no_grad():
            n = (len(val) - 1) // args.length
            n = min(n, 96)
            x = torch.stack([val[i * args.length:(i + 1) * args.length + 1] for i in range(n)])
            tot = 0.0
            for i in range(0, n, 16):
                lg = model(x[i:i + 16, :-1])
                tot += F.cross_entropy(lg.reshape(-1, VOCAB), x[i:i + 16, 1:].t().reshape(-1), reduction="sum").item()
        return tot / (n * args.length)

    start, run = time.time(), []
    warm = 80
    for step in range(args.steps):
        lr = args.lr * min(1.0, (step + 1) / warm)
        p = max(0.0, (step - warm) / (args.steps - warm))
        if args.minutes:  # a slow machine: shorten the schedule
            p = max(p, (time.time() - start) / 60 / args.minutes)
            if p >= 1:
                break
        lr *= 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * p))
        for grp in opt.param_groups:
            grp["lr"] = lr
        at = torch.randint(0, len(train) - args.length - 1, (args.batch,), generator=gen)
        x = torch.stack([train[i:i + args.length + 1] for i in at])
        loss = F.cross_entropy(model(x[:, :-1]).reshape(-1, VOCAB), x[:, 1:].t().reshape(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        run.append(loss.item())
        if step % 100 == 99:
            print(f"step {step + 1} loss {sum(run[-100:]) / len(run[-100:]):.4f} lr {lr:.2e} "
                  f"{(time.time() - start) / (step + 1):.3f} s/step", flush=True)
        if step % 1000 == 999:
            print(f"step {step + 1} validation {evaluate():.4f} nats/token", flush=True)
    print(f"step {len(run)} end: loss {sum(run[-100:]) / 100:.4f}, validation {evaluate():.4f} nats/token", flush=True)

    from safetensors.torch import save_file
    from transformers import GenerationConfig, MambaConfig, MambaForCausalLM
    cfg = MambaConfig(vocab_size=VOCAB, hidden_size=HIDDEN, state_size=STATE, num_hidden_layers=LAYERS,
                      expand=EXPAND, conv_kernel=KCONV, time_step_rank=DT_RANK, use_bias=False,
                      use_conv_bias=True, tie_word_embeddings=True, layer_norm_epsilon=EPS,
                      bos_token_id=0, eos_token_id=0, pad_token_id=0,
                      architectures=["MambaForCausalLM"], dtype="float32")
    cfg.save_pretrained(args.out)
    GenerationConfig(bos_token_id=0, eos_token_id=0, pad_token_id=0).save_pretrained(args.out)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()},
              os.path.join(args.out, "model.safetensors"), metadata={"format": "pt"})
    os.chmod(os.path.join(args.out, "model.safetensors"), 0o644)
    hf, info = MambaForCausalLM.from_pretrained(args.out, dtype=torch.float32, output_loading_info=True)
    print("loading:", {k: v for k, v in info.items() if v})
    hf.eval()
    with torch.no_grad():
        a = model(val[None, :100])[:, 0]
        b = hf(val[None, :100], use_cache=False).logits[0]
    print("logits against transformers: max difference", (a - b).abs().max().item(), "scale", b.abs().max().item())
    assert (a - b).abs().max() < 1e-3
    print(f"done in {(time.time() - start) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
