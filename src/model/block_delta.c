/* SPDX-License-Identifier: MIT */
/*
 * The gated delta rule block of Qwen3.5 and Qwen3-Next (arXiv:2412.06464). With HK key heads of DK, HV value heads of DV:
 *   [q | k | v] = silu(conv(W_qkv n));  z = W_z n;  [b | a] = W_ba n
 *   o = delta(q, k normed, v, exp(A softplus(a + b_dt)), sigmoid(b));  y = norm of each head (o) silu(z);  h = h + W_out y
 * Which key head a value head belongs to depends on the file: the GGUF converter of Qwen3.5 reorders the value heads so that
 * it is h % HK, all else says h / (HV/HK).
 */
#include "layers.h"

static int64_t key_width(const seqmix_config *c)
{
    return c->delta.key_heads * c->delta.key_dim;
}

static int64_t value_width(const seqmix_config *c)
{
    return c->delta.value_heads * c->delta.value_dim;
}

/* Fused: for each key head its q, k, then the v and the z of its value heads; and its betas, then its gates. */
static void bind_fused(seqmix_binder *b, const seqmix_config *c, seqmix_delta_block *l)
{
    int64_t HK = c->delta.key_heads, share = c->delta.value_heads / HK, values = share * c->delta.value_dim;
    int64_t qkv = 2 * key_width(c) + value_width(c);
    const seqmix_regroup ba = {HK, 2, {share, share}};
    l->ba = seqmix_bind_regrouped(b, "in_proj_ba.weight", "ssm_ba.weight", &ba, c->hidden, true);
    if (b->weights->is_gguf && seqmix_bind_has(b, NULL, "attn_qkv.weight")) {
        l->qkv = seqmix_bind_matrix(b, NULL, "attn_qkv.weight", qkv, c->hidden);
        l->z = seqmix_bind_matrix(b, NULL, "attn_gate.weight", value_width(c), c->hidden);
        return;
    }
    const seqmix_regroup parts = {HK, 4, {c->delta.key_dim, c->delta.key_dim, values, values}};
    seqmix_tensor all = seqmix_bind_regrouped(b, "in_proj_qkvz.weight", "ssm_in.weight", &parts, c->hidden, false);
    if (b->failed) return;
    l->qkv = seqmix_rows_of(all, 0, qkv);
    l->z = seqmix_rows_of(all, qkv, value_width(c));
}

void seqmix_bind_delta(seqmix_binder *b, const seqmix_config *c, seqmix_delta_block *l)
{
    static const char *const st_ba[2] = {"in_proj_b.weight", "in_proj_a.weight"};
    static const char *const gguf_ba[2] = {"ssm_beta.weight", "ssm_alpha.weight"};
    int64_t HV = c->delta.value_heads, C = 2 * key_width(c) + value_width(c);
    if (c->delta.fused) {
        bind_fused(b, c, l);
    } else {
        l->qkv = seqmix_bind_matrix(b, "in_proj_qkv.weight", "attn_qkv.weight", C, c->hidden);
        l->z = seqmix_bind_matrix(b, "in_proj_z.weight", "attn_gate.weight", value_width(c), c->hidden);
        l->ba = seqmix_bind_pair(b, st_ba, gguf_ba, HV, c->hidden);
    }
    l->conv = seqmix_bind_wide(b, "conv1d.weight", "ssm_conv1d.weight", C, c->delta.conv, SEQMIX_WIDEN_PLAIN);
    l->A = seqmix_bind_vector(b, "A_log", "ssm_a", HV, SEQMIX_WIDEN_NEG_EXP);
    l->dt_bias = seqmix_bind_vector(b, "dt_bias", "ssm_dt.bias", HV, SEQMIX_WIDEN_PLAIN);
    l->norm = seqmix_bind_vector(b, "norm.weight", "ssm_norm.weight", c->delta.value_dim, SEQMIX_WIDEN_PLAIN);
    l->out_proj = seqmix_bind_matrix(b, "out_proj.weight", "ssm_out.weight", c->hidden, value_width(c));
}

static seqmix_status delta(seqmix_pass *p, const seqmix_config *c, const seqmix_block *block, float *qkv, float *ba,
                           float *o)
{
    const seqmix_delta_block *l = &block->u.delta;
    int64_t R = p->rows, HK = c->delta.key_heads, HV = c->delta.value_heads, DK = c->delta.key_dim;
    int64_t K = key_width(c), V = value_width(c), C = 2 * K + V;
    seqmix_deltanet_args args = {.struct_size = sizeof args,
                                 .gate_kind = SEQMIX_GATE_SOFTPLUS,
                                 .beta_kind = SEQMIX_BETA_SIGMOID,
                                 .qk_l2norm = 1,
                                 .head_map = c->delta.tiled ? SEQMIX_HEADS_TILED : SEQMIX_HEADS_GROUPED,
                                 .eps = 1e-6F,
                                 .q = seqmix_view3(qkv, R, C, 0, HK, K),
                                 .k = seqmix_view3(qkv, R, C, K, HK, K),
                                 .v = seqmix_view3(qkv, R, C, 2 * K, HV, V),
                                 .gate = seqmix_view2(ba, R, 2 * HV, HV, HV),
                                 .beta = seqmix_view2(ba, R, 2 * HV, 0, HV),
                                 .A = l->A,
                                 .dt_bias = l->dt_bias,
                                 .state = seqmix_layer_state(p, block->state_at, HV, DK, c->delta.value_dim),
                                 .o = seqmix_view3(o, R, V, 0, HV, V)};
    seqmix_mixer_call call = {.rows_op = SEQMIX_OP_DELTANET_CHUNK_FORWARD,
                              .step_op = SEQMIX_OP_DELTANET_STEP,
                              .args = &args,
                              .batch = &args.batch,
                              .tensors = {&args.q, &args.k, &args.v, &args.gate, &args.beta, &args.o}};
    return seqmix_layer_mix(p, &call);
}

seqmix_status seqmix_forward_delta(seqmix_pass *p, const seqmix_config *c, const seqmix_block *block, seqmix_tensor n,
                                   seqmix_tensor h)
{
    const seqmix_delta_block *l = &block->u.delta;
    const seqmix_tensor none = {0};
    int64_t R = p->rows, HV = c->delta.value_heads, V = value_width(c), C = 2 * key_width(c) + V;
    float *raw = seqmix_take(p, R, C), *qkv = seqmix_take(p, R, C), *z = seqmix_take(p, R, V);
    float *ba = seqmix_take(p, R, 2 * HV), *o = seqmix_take(p, R, V);
    seqmix_status s = seqmix_layer_linear(p, n, l->qkv, none, none, seqmix_view2(raw, R, C, 0, C));
    if (s == SEQMIX_OK) s = seqmix_layer_linear(p, n, l->z, none, none, seqmix_view2(z, R, V, 0, V));
    if (s == SEQMIX_OK) s = seqmix_layer_linear(p, n, l->ba, none, none, seqmix_view2(ba, R, 2 * HV, 0, 2 * HV));
    if (s == SEQMIX_OK)
        s = seqmix_layer_conv(p, block, l->conv, none, seqmix_view2(raw, R, C, 0, C), seqmix_view2(qkv, R, C, 0, C));
    if (s == SEQMIX_OK) s = delta(p, c, block, qkv, ba, o);
    seqmix_norm_args gate = {.struct_size = sizeof gate,
                             .group = (int32_t)c->delta.value_dim,
                             .norm_before_gate = 1,
                             .eps = c->eps,
                             .x = seqmix_view2(o, R, V, 0, V),
                             .z = seqmix_view2(z, R, V, 0, V),
                             .weight = l->norm,
                             .y = seqmix_view2(o, R, V, 0, V)};
    if (s == SEQMIX_OK) s = seqmix_call(p->caller, SEQMIX_OP_GATED_RMS_NORM_ROWS, &gate);
    if (s == SEQMIX_OK) s = seqmix_layer_linear(p, gate.y, l->out_proj, none, h, h);
    return s;
}
