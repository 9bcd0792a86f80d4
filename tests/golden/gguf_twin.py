# SPDX-License-Identifier: MIT
"""GGUF twins of checkpoints: llama.cpp's conversion, written from the facts it documents (tensor names, orders, transforms).

write(path, model, config, tokenizer.json, generation config, kind) -> writes the file and puts the
dequantised weights back into the transformers model, so that its logits are those of the file.

Transforms: A = -exp(A_log); conv1d squeezed; zero-centred norms + 1; Qwen3.5's value heads from grouped
(h of key head h/(HV/HK)) to tiled order (h of key head h % HK), rows and columns alike; Qwen3-Next's qkvz taken apart;
experts stacked. Always F32: what has one dimension, norms, conv1d, A, D, routers. The rest by kind:
f32, f16, bf16, q8_0; q4_k: Q4_K with Q6_K for the head and down projections, Q5_0 and Q8_0 where rows are no
multiple of 256; mix: every other type in turn.
"""
import json

import gguf
import numpy as np
import torch

import gguf_quant

MIX = ["Q4_0", "Q5_0", "Q5_1", "IQ4_NL", "Q8_0", "BF16", "F16"]
MIX_K = ["Q5_K", "Q4_K", "Q6_K"]


class Twin:
    def __init__(self, model, kind):
        self.state = {k: v.data for k, v in list(model.named_parameters()) + list(model.named_buffers())}
        self.kind, self.tensors, self.turn = kind, [], 0

    def f32(self, name, value):
        """A tensor that stays F32: nothing to put back."""
        self.tensors.append((name, value.float().numpy(), "F32"))

    def pick(self, name, width):
        if self.kind in ("f32", "f16", "bf16", "q8_0"):
            return self.kind.upper() if width % 32 == 0 or "q" not in self.kind else "F16"
        if self.kind == "mix":
            self.turn += 1
            kinds = MIX + MIX_K if width % 256 == 0 else MIX
            t = kinds[self.turn % len(kinds)]
            return t if width % 32 == 0 or t in ("F16", "BF16") else "F16"
        heavy = name.startswith(("output", "token_embd")) or "down" in name
        if width % 32:
            return "F16"
        return ("Q6_K" if heavy else "Q4_K") if width % 256 == 0 else "Q8_0" if heavy else "Q5_0"

    def weight(self, name, value, rows=None, cols=None):
        """value[rows][:, cols] in the type of the kind; the dequantised numbers go back to where they came from."""
        rows = torch.arange(value.shape[-2]) if rows is None else torch.as_tensor(rows)
        cols = torch.arange(value.shape[-1]) if cols is None else torch.as_tensor(cols)
        a = value[..., rows, :][..., cols].float().numpy()
        kind = self.pick(name, a.shape[-1])
        if kind == "F32":
            data = a
        elif kind == "F16":
            data = a.astype(np.float16)
        else:
            data = gguf_quant.quantize(a, kind)
        back = data.astype(np.float32) if kind in ("F32", "F16") else gguf.dequantize(data, gguf.GGMLQuantizationType[kind])
        value[..., rows[:, None], cols[None, :]] = torch.from_numpy(back).to(value.dtype)
        self.tensors.append((name, data, kind))


def tiled(hk, hv, width=1):
    """Old indices in the new order: value head j*HK + i is old head i*(HV/HK) + j, each of width rows."""
    r = hv // hk
    heads = [i * r + j for j in range(r) for i in range(hk)]
    return [h * width + d for h in heads for d in range(width)]


def mamba(t, m, b, c):
    t.weight(b + "ssm_in.weight", t.state[m + "in_proj.weight"])
    t.f32(b + "ssm_conv1d.weight", t.state[m + "conv1d.weight"][:, 0])
    t.f32(b + "ssm_conv1d.bias", t.state[m + "conv1d.bias"])
    a, d = -t.state[m + "A_log"].exp(), t.state[m + "D"]
    if a.ndim == 1:  # Mamba-2
        groups = c.n_groups
        t.f32(b + "ssm_dt.bias", t.state[m + "dt_bias"])
        t.f32(b + "ssm_norm.weight", t.state[m + "norm.weight"].view(groups, -1))
        a, d = a[:, None], d[:, None]
    else:
        t.weight(b + "ssm_x.weight", t.state[m + "x_proj.weight"])
        t.weight(b + "ssm_dt.weight", t.state[m + "dt_proj.weight"])
        t.f32(b + "ssm_dt.bias", t.state[m + "dt_proj.bias"])
    t.f32(b + "ssm_a", a)
    t.f32(b + "ssm_d", d)
    t.weight(b + "ssm_out.weight", t.state[m + "out_proj.weight"])


def mamba_model(t, c):
    t.weight("token_embd.weight", t.state["backbone.embeddings.weight"])
    t.f32("output_norm.weight", t.state["backbone.norm_f.weight"])
    for i in range(c.num_hidden_layers):
        t.f32(f"blk.{i}.attn_norm.weight", t.state[f"backbone.layers.{i}.norm.weight"])
        mamba(t, f"backbone.layers.{i}.mixer.", f"blk.{i}.", c)


def attention(t, m, b):
    for ours, theirs in (("attn_q", "q_proj"), ("attn_k", "k_proj"), ("attn_v", "v_proj"), ("attn_output", "o_proj")):
        t.weight(f"{b}{ours}.weight", t.state[f"{m}{theirs}.weight"])


def nemotron_model(t, c):
    t.weight("token_embd.weight", t.state["model.embeddings.weight"])
    t.f32("output_norm.weight", t.state["model.norm_f.weight"])
    for i, kind in enumerate(c.layers_block_type):
        m, b = f"model.layers.{i}.mixer.", f"blk.{i}."
        t.f32(b + "attn_norm.weight", t.state[f"model.layers.{i}.norm.weight"])
        if kind == "linear_attention":
            mamba(t, m, b, c)
        elif kind == "full_attention":
            attention(t, m, b)
        elif kind == "mlp":
            t.weight(b + "ffn_up.weight", t.state[m + "up_proj.weight"])
            t.weight(b + "ffn_down.weight", t.state[m + "down_proj.weight"])
        else:
            t.f32(b + "ffn_gate_inp.weight", t.state[m + "gate.weight"])
            t.f32(b + "exp_probs_b.bias", t.state[m + "gate.e_score_correction_bias"])
            for w in ("up", "down"):
                t.weight(f"{b}ffn_{w}_exps.weight", t.state[f"{m}experts.{w}_proj"])
                t.weight(f"{b}ffn_{w}_shexp.weight", t.state[f"{m}shared_experts.{w}_proj.weight"])
            if c.moe_latent_size is not None:
                t.weight(b + "ffn_latent_down.weight", t.state[m + "fc1_latent_proj.weight"])
                t.weight(b + "ffn_latent_up.weight", t.state[m + "fc2_latent_proj.weight"])


def delta_layer(t, m, b, c, next_gen):
    hk, hv, dk, dv = (c.linear_num_key_heads, c.linear_num_value_heads, c.linear_key_head_dim, c.linear_value_head_dim)
    nk, r = hk * dk, hv // hk
    heads, rows = tiled(hk, hv), tiled(hk, hv, dv)
    if next_gen:  # heads stay grouped; per key head: q, k, its values, their gates
        w, per = t.state[m + "in_proj_qkvz.weight"], 2 * dk + 2 * r * dv
        def part(first, n):
            return [h * per + first + d for h in range(hk) for d in range(n)]
        t.weight(b + "attn_qkv.weight", w, part(0, dk) + part(dk, dk) + part(2 * dk, r * dv))
        t.weight(b + "attn_gate.weight", w, part(2 * dk + r * dv, r * dv))
        t.weight(b + "ssm_ba.weight", t.state[m + "in_proj_ba.weight"])
        heads, rows = list(range(hv)), list(range(hv * dv))
    else:
        t.weight(b + "attn_qkv.weight", t.state[m + "in_proj_qkv.weight"], list(range(2 * nk)) + [2 * nk + i for i in rows])
        t.weight(b + "attn_gate.weight", t.state[m + "in_proj_z.weight"], rows)
        t.weight(b + "ssm_beta.weight", t.state[m + "in_proj_b.weight"], heads)
        t.weight(b + "ssm_alpha.weight", t.state[m + "in_proj_a.weight"], heads)
    t.f32(b + "ssm_conv1d.weight", t.state[m + "conv1d.weight"][list(range(2 * nk)) + [2 * nk + i for i in rows], 0])
    t.f32(b + "ssm_dt.bias", t.state[m + "dt_bias"][heads])
    t.f32(b + "ssm_a", -t.state[m + "A_log"].exp()[heads])
    t.f32(b + "ssm_norm.weight", t.state[m + "norm.weight"])
    t.weight(b + "ssm_out.weight", t.state[m + "out_proj.weight"], None, rows)


def qwen_model(t, c, next_gen):
    t.weight("token_embd.weight", t.state["model.embed_tokens.weight"])
    t.f32("output_norm.weight", t.state["model.norm.weight"] + 1)
    for i, kind in enumerate(c.layer_types):
        m, b = f"model.layers.{i}.", f"blk.{i}."
        t.f32(b + "attn_norm.weight", t.state[m + "input_layernorm.weight"] + 1)
        t.f32(b + "post_attention_norm.weight", t.state[m + "post_attention_layernorm.weight"] + 1)
        if kind == "linear_attention":
            delta_layer(t, m + "linear_attn.", b, c, next_gen)
        else:
            attention(t, m + "self_attn.", b)
            for x in "qk":
                t.f32(f"{b}attn_{x}_norm.weight", t.state[f"{m}self_attn.{x}_norm.weight"] + 1)
        m += "mlp."
        if m + "gate.weight" not in t.state:
            for w in ("gate", "up", "down"):
                t.weight(f"{b}ffn_{w}.weight", t.state[f"{m}{w}_proj.weight"])
            continue
        t.f32(b + "ffn_gate_inp.weight", t.state[m + "gate.weight"])
        t.f32(b + "ffn_gate_inp_shexp.weight", t.state[m + "shared_expert_gate.weight"][0])
        both, ff = t.state[m + "experts.gate_up_proj"], c.moe_intermediate_size
        t.weight(b + "ffn_gate_exps.weight", both[:, :ff])
        t.weight(b + "ffn_up_exps.weight", both[:, ff:])
        t.weight(b + "ffn_down_exps.weight", t.state[m + "experts.down_proj"])
        for w in ("gate", "up", "down"):
            t.weight(f"{b}ffn_{w}_shexp.weight", t.state[f"{m}shared_expert.{w}_proj.weight"])


def vocabulary(w, spec, generation, pre, add_bos):
    vocab = dict(spec["model"]["vocab"])
    added = {t["content"]: t for t in spec["added_tokens"]}
    for s, t in added.items():
        vocab[s] = t["id"]
    tokens = sorted(vocab, key=vocab.get)
    assert [vocab[s] for s in tokens] == list(range(len(tokens)))
    kinds = [1 if s not in added else 3 if added[s]["special"] else 4 for s in tokens]
    merges = [m if isinstance(m, str) else " ".join(m) for m in spec["model"]["merges"]]
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(pre)
    w.add_token_list([s.encode() for s in tokens])
    w.add_token_types(kinds)
    w.add_token_merges(merges)
    eos = generation["eos_token_id"]
    if "bos_token_id" in generation:
        w.add_bos_token_id(generation["bos_token_id"])
    w.add_eos_token_id(eos[0] if isinstance(eos, list) else eos)
    w.add_add_bos_token(add_bos)


def ssm(w, c, inner, state, rank, groups=None, kernel=4):
    w.add_ssm_conv_kernel(kernel)
    w.add_ssm_inner_size(inner)
    w.add_ssm_state_size(state)
    w.add_ssm_time_step_rank(rank)
    if groups is not None:
        w.add_ssm_group_count(groups)


def metadata(w, c, arch):
    w.add_context_length(4096)
    w.add_embedding_length(c.hidden_size)
    w.add_block_count(c.num_hidden_layers)
    w.add_vocab_size(c.vocab_size)
    if arch in ("mamba", "mamba2"):
        w.add_feed_forward_length(0)
        w.add_head_count(0)
        w.add_layer_norm_rms_eps(c.layer_norm_epsilon)
        inner = c.expand * c.hidden_size
        if arch == "mamba":
            ssm(w, c, inner, c.state_size, c.time_step_rank)
            w.add_ssm_dt_b_c_rms(False)
        else:
            ssm(w, c, inner, c.state_size, inner // c.head_dim, c.n_groups)
        return
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_head_count(c.num_attention_heads)
    if arch.startswith("nemotron"):
        kinds = c.layers_block_type
        w.add_head_count_kv([c.num_key_value_heads if k == "full_attention" else 0 for k in kinds])
        ff = c.moe_intermediate_size if arch.endswith("moe") else c.intermediate_size
        w.add_feed_forward_length([ff if k in ("mlp", "moe") else 0 for k in kinds])
        w.add_layer_norm_rms_eps(c.layer_norm_epsilon)
        w.add_layer_norm_eps(c.layer_norm_epsilon)
        w.add_rope_dimension_count(c.head_dim)
        ssm(w, c, c.mamba_num_heads * c.mamba_head_dim, c.ssm_state_size, c.mamba_num_heads, c.n_groups)
        if arch.endswith("moe"):
            w.add_expert_shared_feed_forward_length(c.moe_shared_expert_intermediate_size)
            w.add_expert_shared_count(c.n_shared_experts)
            w.add_expert_weights_norm(c.norm_topk_prob)
            w.add_expert_weights_scale(c.routed_scaling_factor)
            w.add_expert_group_count(c.n_group)
            if c.moe_latent_size is not None:
                w.add_moe_latent_size(c.moe_latent_size)
            experts(w, c.n_routed_experts, c)
        return
    rotary = int(c.head_dim * c.rope_parameters["partial_rotary_factor"])
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_rope_freq_base(c.rope_parameters["rope_theta"])
    w.add_rope_dimension_count(rotary)
    if arch != "qwen3next":
        w.add_rope_dimension_sections((c.rope_parameters["mrope_section"] + [0])[:4])
    w.add_full_attention_interval(c.layer_types.index("full_attention") + 1)
    ssm(w, c, c.linear_num_value_heads * c.linear_value_head_dim, c.linear_key_head_dim, c.linear_num_value_heads,
        c.linear_num_key_heads, c.linear_conv_kernel_dim)
    w.add_feed_forward_length(getattr(c, "intermediate_size", None) or c.moe_intermediate_size)
    if arch != "qwen35":
        w.add_expert_shared_feed_forward_length(c.shared_expert_intermediate_size)
        experts(w, c.num_experts, c)


def experts(w, n, c):
    w.add_expert_count(n)
    w.add_expert_used_count(c.num_experts_per_tok)
    w.add_expert_feed_forward_length(c.moe_intermediate_size)


def architecture(c):
    kind = c.model_type.removesuffix("_text")
    if kind == "nemotron_h" and "moe" in c.layers_block_type:
        return "nemotron_h_moe"
    return {"qwen3_5": "qwen35", "qwen3_5_moe": "qwen35moe", "qwen3_next": "qwen3next"}.get(kind, kind)


PRE = {"mamba": "gpt-2", "mamba2": "gpt-2", "nemotron_h": "pixtral", "nemotron_h_moe": "pixtral", "qwen35": "qwen35",
       "qwen35moe": "qwen35", "qwen3next": "qwen2"}


def write(path, model, spec, generation, kind, pre=None):
    c, arch = model.config, architecture(model.config)
    t = Twin(model, kind)
    if arch in ("mamba", "mamba2"):
        mamba_model(t, c)
    elif arch.startswith("nemotron"):
        nemotron_model(t, c)
    else:
        qwen_model(t, c, arch == "qwen3next")
    if not c.tie_word_embeddings:
        t.weight("output.weight", t.state["lm_head.weight"])
    w = gguf.GGUFWriter(path, arch)
    w.add_file_type({"f32": 0, "f16": 1, "q8_0": 7, "bf16": 32}.get(kind, 15))
    w.add_quantization_version(2)
    metadata(w, c, arch)
    vocabulary(w, spec, generation, pre or PRE[arch], bool(spec.get("post_processor")) and arch.startswith("nemotron"))
    for name, data, ty in t.tensors:
        w.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType[ty])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return sorted({ty for _, _, ty in t.tensors})
