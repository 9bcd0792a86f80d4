/* SPDX-License-Identifier: MIT */
/*
 * The attention block. With HQ heads of queries and HKV of keys, D channels each:
 *   q = W_q n, k = W_k n, v = W_v n (+ biases);  q, k normed per head and turned by their positions, where the model does so
 *   y = causal softmax(q k / sqrt(D)) v over the cache, times sigmoid(gate) where there is one;  h = h + W_o y (+ bias)
 * A gate comes out of W_q, behind each head's query. A sequence's cache is one page per layer; rows past its position are not
 * looked at, so what a failed pass left there does no harm.
 */
#include "layers.h"

void seqmix_bind_attention(seqmix_binder *b, const seqmix_config *c, seqmix_attention_block *l)
{
    int64_t D = c->hidden, HD = c->attention.head_dim, Q = c->attention.heads * HD, KV = c->attention.kv_heads * HD;
    int64_t QG = c->attention.gated ? 2 * Q : Q;
    bool bias = c->attention.bias;
    l->q = seqmix_bind_matrix(b, "q_proj.weight", "attn_q.weight", QG, D);
    l->k = seqmix_bind_matrix(b, "k_proj.weight", "attn_k.weight", KV, D);
    l->v = seqmix_bind_matrix(b, "v_proj.weight", "attn_v.weight", KV, D);
    l->out = seqmix_bind_matrix(b, "o_proj.weight", "attn_output.weight", D, Q);
    /* Qwen3.5 has no biases; llama.cpp leaves out those of a file that does. */
    if (!(b->weights->is_gguf && c->attention.gated)) {
        l->q_bias = seqmix_bind_bias(b, "q_proj.bias", "attn_q.bias", QG, bias);
        l->k_bias = seqmix_bind_bias(b, "k_proj.bias", "attn_k.bias", KV, bias);
        l->v_bias = seqmix_bind_bias(b, "v_proj.bias", "attn_v.bias", KV, bias);
        l->out_bias = seqmix_bind_bias(b, "o_proj.bias", "attn_output.bias", D, bias);
    }
    if (!c->attention.qk_norm) return;
    l->q_norm = seqmix_bind_vector(b, "q_norm.weight", "attn_q_norm.weight", HD, SEQMIX_WIDEN_PLUS_ONE);
    l->k_norm = seqmix_bind_vector(b, "k_norm.weight", "attn_k_norm.weight", HD, SEQMIX_WIDEN_PLUS_ONE);
}

int64_t seqmix_cache_floats(const seqmix_config *c, int64_t context)
{
    return 2 * context * c->attention.kv_heads * c->attention.head_dim;
}

/* The heads of all rows as rows of their own: they follow each other at one distance. */
static seqmix_tensor heads_as_rows(seqmix_tensor t)
{
    t.rank = 2;
    t.shape[0] *= t.shape[1];
    t.stride[0] = t.stride[1];
    t.shape[1] = t.shape[2];
    t.stride[1] = t.stride[2];
    return t;
}

/* Norms and turns in place. */
static seqmix_status prepare(seqmix_pass *p, const seqmix_config *c, seqmix_tensor x, seqmix_tensor norm)
{
    seqmix_status s = SEQMIX_OK;
    if (norm.rank > 0) s = seqmix_layer_norm(p, c->eps, heads_as_rows(x), norm, heads_as_rows(x));
    if (s != SEQMIX_OK || c->attention.rope_dims == 0) return s;
    seqmix_rope_args args = {.struct_size = sizeof args,
                             .pairing = SEQMIX_ROPE_NEOX,
                             .n_dims = (int32_t)c->attention.rope_dims,
                             .theta = c->attention.rope_base,
                             .positions = p->ops.positions,
                             .x = x,
                             .y = x};
    return seqmix_call(p->caller, SEQMIX_OP_ROPE_ROWS, &args);
}

static seqmix_tensor pages(const seqmix_pass *p, const seqmix_config *c, int64_t cache, int64_t which)
{
    int64_t H = c->attention.kv_heads, D = c->attention.head_dim, all = p->n_caches * p->context * H * D;
    return (seqmix_tensor){.data = p->cache != NULL ? p->cache + (2 * cache + which) * all : NULL,
                           .dtype = SEQMIX_F32,
                           .rank = 4,
                           .shape = {p->n_caches, p->context, H, D},
                           .stride = {p->context * H * D, H * D, D, 1}};
}

seqmix_status seqmix_forward_attention(seqmix_pass *p, const seqmix_config *c, const seqmix_block *block,
                                       seqmix_tensor n, seqmix_tensor h)
{
    const seqmix_attention_block *l = &block->u.attention;
    const seqmix_tensor none = {0};
    int64_t R = p->rows, HQ = c->attention.heads, HKV = c->attention.kv_heads, D = c->attention.head_dim;
    int64_t Q = HQ * D, KV = HKV * D, QG = c->attention.gated ? 2 * Q : Q;
    float *q = seqmix_take(p, R, QG), *k = seqmix_take(p, R, KV), *v = seqmix_take(p, R, KV), *y = seqmix_take(p, R, Q);
    seqmix_batch batch = seqmix_layer_batch(p);
    seqmix_attention_args args = {.struct_size = sizeof args,
                                  .max_pages = 1,
                                  .batch = &batch,
                                  .page_table = p->ops.cache_of,
                                  .start = p->ops.start,
                                  .q = seqmix_view3(q, R, QG, 0, HQ, QG),
                                  .k = seqmix_view3(k, R, KV, 0, HKV, KV),
                                  .v = seqmix_view3(v, R, KV, 0, HKV, KV),
                                  .k_pages = pages(p, c, block->cache, 0),
                                  .v_pages = pages(p, c, block->cache, 1),
                                  .y = seqmix_view3(y, R, Q, 0, HQ, Q)};
    args.q.shape[2] = D;
    if (c->attention.gated) {
        args.gate = args.q;
        if (q != NULL) args.gate.data = q + D;
    }
    seqmix_status s = seqmix_layer_linear(p, n, l->q, l->q_bias, none, seqmix_view2(q, R, QG, 0, QG));
    if (s == SEQMIX_OK) s = seqmix_layer_linear(p, n, l->k, l->k_bias, none, seqmix_view2(k, R, KV, 0, KV));
    if (s == SEQMIX_OK) s = seqmix_layer_linear(p, n, l->v, l->v_bias, none, seqmix_view2(v, R, KV, 0, KV));
    if (s == SEQMIX_OK) s = prepare(p, c, args.q, l->q_norm);
    if (s == SEQMIX_OK) s = prepare(p, c, args.k, l->k_norm);
    if (s == SEQMIX_OK) s = seqmix_call(p->caller, SEQMIX_OP_ATTENTION_ROWS, &args);
    if (s == SEQMIX_OK) s = seqmix_layer_linear(p, seqmix_view2(y, R, Q, 0, Q), l->out, l->out_bias, h, h);
    return s;
}
