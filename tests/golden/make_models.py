#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random tiny checkpoints of every family, their GGUF twins, and what transformers says about them.

    make_models.py [--twins] [NAME...]     all, or those named (--twins: their GGUF twins only); --list prints the names

Writes models/NAME/{config.json,generation_config.json,tokenizer.json,model.safetensors} in the layout of the published
checkpoints, then expected.json and expected_logits.safetensors (as for mamba-tiny; here the logits of
every prompt row and of the greedy rows). For the two trained models of train_hybrid_tiny.py only the
expectations are written. GGUF twins (gguf_twin.py): models/gguf/NAME-KIND.{gguf,expected.json,
expected_logits.safetensors}, with transformers' answers for the dequantised weights, and llama.cpp's logits beside.

Sizes are the least that keep every feature alive: several groups, shared heads, partial rotary, gates, biases,
norms away from one. Seeds are tried until neither a greedy token nor an expert choice is a close call, so
anything that computes well enough must choose the same.
"""
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import st  # noqa: E402

OUT = os.path.join(HERE, "models")
VOCAB, N_GREEDY, ROUTE_GAP, TOKEN_GAP, SELF_ERROR = 320, 32, 5e-5, 2e-3, 2e-5
TEXT = ("The LORD is my shepherd; I shall not want.\nHe maketh me to lie down in green pastures: he leadeth me beside the "
        "still waters.\nHe restoreth my soul: he leadeth me in the paths of righteousness for his name's sake.\n"
        "Yea, though I walk through the valley of the shadow of death, I will fear no evil: for thou art with me; thy rod "
        "and thy staff they comfort me.\nThou preparest a table before me in the presence of mine enemies: thou anointest "
        "my head with oil; my cup runneth over.\nSurely goodness and mercy shall follow me all the days of my life: and I "
        "will dwell in the house of the LORD for ever.\n")
PROMPTS = [TEXT[:262], "In the beginning was 1 Word", "a"]
CONTR = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
REGEX = {
    "qwen2": CONTR + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL,
    "qwen35": CONTR + r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + TAIL,
    "pixtral": CONTR + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL,
}

MAMBA2 = dict(model_type="mamba2", architectures=["Mamba2ForCausalLM"], vocab_size=VOCAB, hidden_size=64, expand=2,
              num_hidden_layers=3, conv_kernel=4, hidden_act="silu", layer_norm_epsilon=1e-5, use_bias=False,
              use_conv_bias=True, rms_norm=True, residual_in_fp32=True, chunk_size=64, time_step_limit=[0.0, math.inf],
              time_step_rank=4, bos_token_id=0, eos_token_id=0, pad_token_id=0, torch_dtype="float32")
NEMO = dict(model_type="nemotron_h", architectures=["NemotronHForCausalLM"], vocab_size=VOCAB, hidden_size=64,
            num_attention_heads=4, num_key_value_heads=2, head_dim=24, attention_bias=False, mlp_hidden_act="relu2",
            mlp_bias=False, intermediate_size=96, conv_kernel=4, use_conv_bias=True, use_bias=False,
            mamba_proj_bias=False, mamba_hidden_act="silu", chunk_size=64, expand=2, time_step_limit=[0.0, math.inf],
            time_step_min=1e-9, layer_norm_epsilon=1e-5, tie_word_embeddings=False, residual_in_fp32=False,
            bos_token_id=1, eos_token_id=2, pad_token_id=0, torch_dtype="float32")
NEMO_MOE = dict(NEMO, num_hidden_layers=6, hybrid_override_pattern="MEM*EM", mamba_num_heads=8, mamba_head_dim=16, n_groups=4,
                ssm_state_size=16, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1, n_group=1, topk_group=1,
                moe_intermediate_size=32, moe_shared_expert_intermediate_size=48, norm_topk_prob=True,
                routed_scaling_factor=2.5)
ROPE = dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25, mrope_interleaved=True,
            mrope_section=[2, 1, 1])
QWEN = dict(vocab_size=VOCAB, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
            hidden_act="silu", rms_norm_eps=1e-6, attention_bias=False, full_attention_interval=4,
            layer_types=["linear_attention"] * 3 + ["full_attention"], linear_conv_kernel_dim=4,
            linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4,
            max_position_embeddings=4096, eos_token_id=VOCAB - 5, tie_word_embeddings=False, dtype="float32")
MOE = dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=48,
           norm_topk_prob=True)


def nested(kind, text):
    """A checkpoint of the vision-language model, as Qwen3.5 is published: the text model's numbers under text_config."""
    return dict(model_type=kind, architectures=[{"qwen3_5": "Qwen3_5ForConditionalGeneration",
                                                 "qwen3_5_moe": "Qwen3_5MoeForConditionalGeneration"}[kind]],
                text_config=dict(text, model_type=kind + "_text"), tie_word_embeddings=text["tie_word_embeddings"],
                image_token_id=VOCAB - 1, video_token_id=VOCAB - 1, vision_start_token_id=VOCAB - 1,
                vision_end_token_id=VOCAB - 1)


# name: (config, tokenizer, stored dtype)
MODELS = {
    "mamba2": (dict(MAMBA2, num_heads=8, head_dim=16, n_groups=1, state_size=16, tie_word_embeddings=True), "gpt2", "float32"),
    "mamba2-original": (dict(MAMBA2, num_heads=8, head_dim=16, n_groups=1, state_size=16, tie_word_embeddings=True,
                             num_hidden_layers=2, torch_dtype="float16"), "gpt2", "float16"),
    # Codestral's shape. Its config.json says norm_before_gate, which no implementation follows: the gate comes first.
    "mamba2-groups": (dict(MAMBA2, num_heads=16, head_dim=8, n_groups=8, state_size=16, tie_word_embeddings=False,
                           norm_before_gate=True, bos_token_id=1, eos_token_id=2, torch_dtype="float16"), "gpt2", "float16"),
    "nemotron-h": (dict(NEMO, num_hidden_layers=6, hybrid_override_pattern="M-M*-*", mamba_num_heads=4, mamba_head_dim=80,
                        n_groups=2, ssm_state_size=16), "pixtral", "float32"),
    "nemotron-h-f16": (dict(NEMO, num_hidden_layers=5, hybrid_override_pattern="*-M-M", mamba_num_heads=6, mamba_head_dim=16,
                            n_groups=3, ssm_state_size=32, torch_dtype="float16"), "pixtral", "float16"),
    "nemotron-h-moe": (dict(NEMO_MOE, torch_dtype="bfloat16"), "pixtral", "bfloat16"),
    "nemotron-h-latent": (dict(NEMO_MOE, hybrid_override_pattern="ME*EM", num_hidden_layers=5, moe_latent_size=32,
                               num_experts_per_tok=2, torch_dtype="bfloat16"), "pixtral", "bfloat16"),
    "qwen35": (dict(QWEN, model_type="qwen3_5_text", architectures=["Qwen3_5ForCausalLM"], intermediate_size=96,
                    rope_parameters=ROPE), "qwen35", "float32"),
    "qwen35-tied": (nested("qwen3_5", dict(QWEN, hidden_size=256, num_hidden_layers=2, full_attention_interval=2,
                                           layer_types=["linear_attention", "full_attention"], intermediate_size=128,
                                           dtype="bfloat16", linear_num_key_heads=2, linear_num_value_heads=6, tie_word_embeddings=True,
                                           rope_parameters=ROPE)), "qwen35", "bfloat16"),
    "qwen35-moe": (nested("qwen3_5_moe", dict(QWEN, **MOE, rope_parameters=ROPE, dtype="bfloat16")), "qwen35", "bfloat16"),
    "qwen3-next": (dict(QWEN, **MOE, model_type="qwen3_next", architectures=["Qwen3NextForCausalLM"], intermediate_size=96,
                        decoder_sparse_step=1, mlp_only_layers=[], rope_theta=10000.0, partial_rotary_factor=0.25,
                        dtype="float16"), "qwen2", "float16"),
}
TRAINED = {"qwen35-tiny": ["In the beginning", "The LORD is my shepherd; I shall not want.\n",
                           "<|im_start|>user\nIn the beginning was the Word, and the Word was with God, and the Word was God."
                           "<|im_end|>\n<|im_start|>assistant\n<think>\n"],
           "nemotron-tiny": ["In the beginning", "The LORD is my shepherd; I shall not want.\n",
                             "<SPECIAL_10>System\n\n<SPECIAL_11>User\nIn the beginning God created the heaven and the earth.\n"
                             "<SPECIAL_11>Assistant\n<think>\n"]}
# checkpoint: the kinds of its GGUF twins (gguf_twin.py)
TWINS = {"mamba-tiny": ["q4_k"], "mamba2": ["f32"], "mamba2-groups": ["q8_0"], "nemotron-h": ["q8_0"], "nemotron-h-moe": ["mix"],
         "nemotron-h-latent": ["q8_0"], "qwen35": ["f16"], "qwen35-tied": ["q4_k", "mix"], "qwen35-moe": ["q8_0"],
         "qwen3-next": ["q8_0"], "qwen35-tiny": ["q4_k"], "nemotron-tiny": ["q8_0"]}


def tokenizer(kind):
    """256 bytes, merges of the prompt's text, five added tokens: first for gpt2 and pixtral, last for Qwen."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    byte = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "gpt2")
    tok = Tokenizer(models.BPE(ignore_merges=kind == "pixtral"))
    tok.pre_tokenizer = byte if kind == "gpt2" else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(REGEX[kind]), behavior="isolated"), byte])
    tok.decoder = decoders.ByteLevel()
    first = {"gpt2": ["<|endoftext|>", "<s>", "</s>", "<|padding|>", "<|x|>"],
             "pixtral": ["<unk>", "<s>", "</s>", "<SPECIAL_11>", "<SPECIAL_12>"]}.get(kind, [])
    tok.train_from_iterator([TEXT], trainers.BpeTrainer(
        vocab_size=VOCAB if first else VOCAB - 5, special_tokens=first, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    if not first:
        tok.add_special_tokens([AddedToken(t, normalized=False, special=True)
                                for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
        tok.add_tokens([AddedToken(t, normalized=False, special=False) for t in ("<think>", "</think>")])
    if kind == "pixtral":
        tok.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    assert tok.get_vocab_size() == VOCAB
    return tok


def fill(model, gen):
    """Random weights, each kind alive: no norm is one, no bias nought, decays from slow to fast."""
    def normal(p, std, mean=0.0):
        p.copy_(mean + std * torch.randn(p.shape, generator=gen))

    def uniform(p, lo, hi):
        p.copy_(lo + (hi - lo) * torch.rand(p.shape, generator=gen))
    centred = "Qwen3" in type(model).__name__
    with torch.no_grad():
        for k, p in list(model.named_parameters()) + list(model.named_buffers()):
            if k.endswith("inv_freq"):
                continue
            if k.endswith("A_log"):
                uniform(p, math.log(0.3), math.log(8))
            elif k.endswith("dt_bias"):
                uniform(p, math.log(0.01), math.log(0.5))
                p.copy_(p.exp() + torch.log(-torch.expm1(-p.exp())))
            elif k.endswith(".D"):
                normal(p, 0.3, 1.0)
            elif "conv1d.weight" in k:
                uniform(p, -0.8, 0.8)
            elif k.endswith("e_score_correction_bias"):
                normal(p, 0.2)
            elif k.endswith("bias"):
                normal(p, 0.2)
            elif "norm" in k and centred and "linear_attn.norm" not in k:
                normal(p, 0.3)
            elif "norm" in k:
                normal(p, 0.3, 1.0)
            elif "embed" in k:
                normal(p, 0.3)
            else:
                normal(p, (2.0 if any(w in k for w in ("lm_head", "gate.weight", "out_proj", "o_proj", "down_proj")) else 1.0)
                       / math.sqrt(p.shape[-1]))


def publish(name, state, cfg):
    """Tensor names and shapes of the published checkpoints."""
    out = {}
    for k, v in state.items():
        if k == "lm_head.weight" and cfg.get("tie_word_embeddings"):
            continue
        if name.startswith("nemotron"):
            k = k.replace("model.", "backbone.", 1)
        elif "text_config" in cfg:
            k = k.replace("model.", "model.language_model.", 1)
        if ".experts." in k and "text_config" not in cfg:  # one tensor per expert
            base, what = k.rsplit(".", 1)
            for e in range(v.shape[0]):
                parts = {"gate_proj": v[e].chunk(2)[0], "up_proj": v[e].chunk(2)[1]} if what == "gate_up_proj" else {what: v[e]}
                out.update({f"{base}.{e}.{w}.weight": t for w, t in parts.items()})
        else:
            out[k] = v
    if name == "qwen35-tied":  # what a text model must pass over
        out["mtp.fc.weight"] = torch.ones(2, 2, dtype=v.dtype)
        out["model.visual.patch_embed.proj.bias"] = torch.ones(2, dtype=v.dtype)
    return out


def state_spaces(path, cfg):
    """Turns a Mamba-2 directory into the layout of the state-spaces checkpoints."""
    tensors, meta = st.read(os.path.join(path, "model.safetensors"))
    out = {k.replace("backbone.embeddings.", "backbone.embedding."): v for k, v in tensors.items()}
    out["lm_head.weight"] = out["backbone.embedding.weight"]
    st.write(os.path.join(path, "model.safetensors"), out, meta)
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump(dict(d_model=cfg["hidden_size"], d_intermediate=0, n_layer=cfg["num_hidden_layers"], vocab_size=VOCAB,
                       ssm_cfg=dict(layer="Mamba2", d_state=cfg["state_size"], headdim=cfg["head_dim"],
                                    ngroups=cfg["n_groups"]),
                       attn_layer_idx=[], attn_cfg={}, rms_norm=True, residual_in_fp32=True, fused_add_norm=True,
                       pad_vocab_size_multiple=16, tie_embeddings=True), f, indent=1)
        f.write("\n")
    os.remove(os.path.join(path, "generation_config.json"))


def model_class(cfg):
    import transformers
    kind = cfg["model_type"]
    return getattr(transformers, {"mamba2": "Mamba2ForCausalLM", "nemotron_h": "NemotronHForCausalLM",
                                  "mamba": "MambaForCausalLM", "qwen3_5": "Qwen3_5ForCausalLM",
                                  "qwen3_5_text": "Qwen3_5ForCausalLM", "qwen3_5_moe": "Qwen3_5MoeForCausalLM",
                                  "qwen3_next": "Qwen3NextForCausalLM"}[kind])


def load(path):
    """transformers' model of a directory, in f32."""
    from transformers import AutoConfig
    with open(os.path.join(path, "config.json")) as f:
        cfg = json.load(f)
    model, info = model_class(cfg).from_pretrained(path, config=AutoConfig.from_pretrained(path).get_text_config(),
                                                   dtype=torch.float32, output_loading_info=True)
    assert not info["missing_keys"] and not info["mismatched_keys"], info
    return model.eval(), cfg


class RouteGap:
    """The least distance between the last expert chosen and the first not chosen."""

    def __init__(self, model):
        self.gap, self.hooks = math.inf, []
        for m in model.modules():
            if type(m).__name__.endswith("TopkRouter") or type(m).__name__.endswith("TopKRouter"):
                self.hooks.append(m.register_forward_hook(self.see))

    def see(self, m, _, out):
        s = out[0].sigmoid() + m.e_score_correction_bias if hasattr(m, "e_score_correction_bias") else out[0].softmax(-1)
        top = s.topk(m.top_k + 1, -1).values
        self.gap = min(self.gap, float((top[:, -2] - top[:, -1]).min()))

    def close(self):
        for h in self.hooks:
            h.remove()
        return self.gap


def greedy(model, tokens, n):
    """(greedy tokens, logits of every input position, in order)"""
    with torch.no_grad():
        res = model(input_ids=torch.tensor([tokens]), use_cache=True)
        rows, out = [res.logits[0]], []
        while True:
            out.append(int(rows[-1][-1].argmax()))
            if len(out) == n:
                return out, torch.cat(rows).float()
            res = model(input_ids=torch.tensor([[out[-1]]]), cache=getattr(res, "cache", None), use_cache=True)
            rows.append(res.logits[0])


def expect(model, tok, eos, prompts, n):
    """(items for expected.json, logits of prompt 0, least gap of a token, of a route)"""
    items, first, margin, route = [], None, math.inf, RouteGap(model)
    for text in prompts:
        ids = tok.encode(text).ids
        out, logits = greedy(model, ids, n)
        with torch.no_grad():  # the same rows in one call: how far transformers agrees with itself
            whole = model(input_ids=torch.tensor([ids + out[:-1]]), use_cache=False).logits[0].float()
        err = float((whole - logits).abs().max() / whole.abs().max())
        top = logits[len(ids) - 1:].topk(2, -1).values
        m = float((top[:, 0] - top[:, 1]).min())
        margin = min(margin, m)
        stop = [i for i, t in enumerate(out) if t in eos]
        items.append({"text": text, "tokens": ids, "greedy": out, "min_margin": round(m, 6), "self_error": float(f"{err:.1e}"),
                      "eos_at": stop[0] if stop else -1, "greedy_text": tok.decode(out, skip_special_tokens=False)})
        if first is None:
            first = (logits, len(ids))
    return items, first, margin, route.close()


def write_expected(prefix, items, first, n, more=None):
    """prefix + expected.json and expected_logits.safetensors: the prompt's rows, and some of the greedy tokens'."""
    logits, n_prompt = first
    pos = sorted(set(range(n_prompt)) | {p for p in (n_prompt, n_prompt + 1, n_prompt + 30, n_prompt + 99) if p < len(logits)})
    if more is not None or n > 64:  # a twin or a trained model: not every row
        pos = [p for p in pos if p % 16 == 0 or p >= n_prompt - 1]
    out = {"logits": logits[pos], "positions": torch.tensor(pos, dtype=torch.int32)}
    if more is not None and len(more):
        out["llamacpp"] = torch.tensor(more)[pos]
    st.write(prefix + "expected_logits.safetensors", st.from_torch(out), {"prompt": "0", "prompt_tokens": str(n_prompt)})
    with open(prefix + "expected.json", "w", encoding="utf-8") as f:
        f.write('{"prompts": [\n' + ",\n".join(json.dumps(i, ensure_ascii=False) for i in items) + "\n]}\n")


def stop_tokens(path):
    with open(os.path.join(path, "generation_config.json")) as f:
        eos = json.load(f)["eos_token_id"]
    return eos if isinstance(eos, list) else [eos]


def make(name):
    """One random checkpoint and its expectations."""
    from transformers import AutoConfig
    cfg, kind, dtype = MODELS[name]
    path = os.path.join(tempfile.mkdtemp(), name)
    os.makedirs(path)
    tok = tokenizer(kind)
    with open(os.path.join(path, "tokenizer.json"), "w", encoding="utf-8") as f:
        f.write(json.dumps(json.loads(tok.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
    text = cfg.get("text_config", cfg)
    eos = {k: text[k] for k in ("bos_token_id", "eos_token_id") if k in text}
    for file, value in (("config.json", cfg), ("generation_config.json", eos)):
        with open(os.path.join(path, file), "w") as f:
            json.dump(value, f, indent=1)
            f.write("\n")
    dt = getattr(torch, dtype)
    for seed in range(1, 200):
        torch.manual_seed(seed)
        model = model_class(cfg)(AutoConfig.from_pretrained(path).get_text_config())
        fill(model, torch.Generator().manual_seed(seed))
        state = {k: v.to(dt) for k, v in model.state_dict().items()}
        st.write(os.path.join(path, "model.safetensors"), st.from_torch(publish(name, state, cfg)), {"format": "pt"})
        loaded, _ = load(path)
        for k, v in loaded.state_dict().items():
            assert k == "lm_head.weight" and text["tie_word_embeddings"] or torch.equal(v, state[k].float()), k
        items, first, margin, gap = expect(loaded, tok, stop_tokens(path), PROMPTS, N_GREEDY)
        if margin > TOKEN_GAP and gap > ROUTE_GAP and max(i["self_error"] for i in items) < SELF_ERROR:
            break
    else:
        sys.exit(f"{name}: no seed without a close call")
    write_expected(os.path.join(path, ""), items, first, N_GREEDY)
    if name == "mamba2-original":
        state_spaces(path, cfg)
    os.makedirs(os.path.join(OUT, name), exist_ok=True)
    for file in os.listdir(path):
        shutil.move(os.path.join(path, file), os.path.join(OUT, name, file))
    os.rmdir(path)
    path = os.path.join(OUT, name)
    size = sum(os.path.getsize(os.path.join(path, f)) for f in os.listdir(path))
    print(f"{name}: seed {seed}, {size >> 10} KB, margin {margin:.4f}, route gap {gap:.4f}, logits up to "
          f"{first[0].abs().max():.2f}, self error {max(i['self_error'] for i in items):.1e}", flush=True)


def directory(name):
    """Of a checkpoint: the random ones lie under models/, the trained ones beside this script."""
    return os.path.join(OUT if name in MODELS else HERE, name)


def trained(name):
    """The expectations of a trained model."""
    from tokenizers import Tokenizer
    path = directory(name)
    tok = Tokenizer.from_file(os.path.join(path, "tokenizer.json"))
    model, _ = load(path)
    items, first, margin, _ = expect(model, tok, stop_tokens(path), TRAINED[name], 200)
    for i in items:
        print(f"{name}: {len(i['tokens'])} tokens, margin {i['min_margin']}, self error {i['self_error']}", repr(i["greedy_text"][:300]))
    assert margin > TOKEN_GAP, "choose another prompt"
    write_expected(os.path.join(path, ""), items, first, 200)


def llamacpp(path, tokens):
    """llama.cpp's logits of each token, or nothing where it cannot say."""
    with tempfile.TemporaryDirectory() as tmp:
        out, key = os.path.join(tmp, "logits.npy"), b"mamba2.attention.head_count"
        with open(path, "rb") as f:
            data = f.read()
        if key in data:  # some versions take the number of heads from here; the converter leaves it 0
            at, rank = data.index(key) + len(key) + 4, data.index(b"mamba2.ssm.time_step_rank") + 25 + 4
            path = os.path.join(tmp, "heads.gguf")
            with open(path, "wb") as f:
                f.write(data[:at] + data[rank:rank + 4] + data[at + 4:])
        run = subprocess.run([sys.executable, os.path.join(HERE, "llamacpp_logits.py"), path, out, *map(str, tokens)],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if run.returncode != 0:
            print(run.stdout.decode("utf-8", "replace")[-600:])
            return []
        import numpy as np
        return np.load(out)


def twin(name, kind):
    """One GGUF file: transformers' logits with its dequantised weights, and llama.cpp's."""
    import gguf_twin
    from tokenizers import Tokenizer
    src, n = directory(name), 200 if name not in MODELS else N_GREEDY
    prefix = os.path.join(OUT, "gguf", f"{name}-{kind}.")
    os.makedirs(os.path.dirname(prefix), exist_ok=True)
    with open(os.path.join(src, "tokenizer.json"), encoding="utf-8") as f:
        spec = json.load(f)
    with open(os.path.join(src, "generation_config.json")) as f:
        generation = json.load(f)
    with open(os.path.join(src, "expected.json"), encoding="utf-8") as f:
        prompts = [p["text"] for p in json.load(f)["prompts"]]
    model, _ = load(src)
    types = gguf_twin.write(prefix + "gguf", model, spec, generation, kind)
    tok = Tokenizer.from_file(os.path.join(src, "tokenizer.json"))
    items, first, margin, gap = expect(model, tok, stop_tokens(src), prompts, n)
    theirs = llamacpp(prefix + "gguf", (items[0]["tokens"] + items[0]["greedy"])[:len(first[0])])
    write_expected(prefix, items, first, n, theirs)
    scale = float(first[0].abs().max())
    far = float((torch.tensor(theirs) - first[0]).abs().max()) / scale if len(theirs) else -1
    print(f"{name}-{kind}: {os.path.getsize(prefix + 'gguf') >> 10} KB of {' '.join(types)}, margin {margin:.4f}, "
          f"route gap {gap:.5f}, llama.cpp within {far:.1e} of the scale {scale:.1f}", flush=True)


def main():
    torch.set_num_threads(1)
    names = sys.argv[1:] or list(MODELS) + list(TRAINED) + ["mamba-tiny"]
    if names == ["--list"]:
        return print("\n".join(list(MODELS) + list(TRAINED)))
    only = names[0] == "--twins"
    for name in names[only:]:
        if not only and name != "mamba-tiny":
            (make if name in MODELS else trained)(name)
        for kind in TWINS.get(name, []):
            twin(name, kind)


if __name__ == "__main__":
    main()
