/* SPDX-License-Identifier: MIT */
/*
 * The forward pass of every model: h = embed(tokens); per block h = h + block(norm(h)); logits = head(norm(h)) for the rows
 * that need them. Activations are f32, the residual too, whatever residual_in_fp32 says.
 */
#include "layers.h"
#include "model.h"

static seqmix_status forward_block(seqmix_pass *p, const seqmix_config *c, const seqmix_block *b, seqmix_tensor n,
                                   seqmix_tensor h)
{
    switch (b->kind) {
    case SEQMIX_KIND_SCAN:
        return seqmix_forward_scan(p, c, b, n, h);
    case SEQMIX_KIND_SSD:
        return seqmix_forward_ssd(p, c, b, n, h);
    case SEQMIX_KIND_DELTA:
        return seqmix_forward_delta(p, c, b, n, h);
    case SEQMIX_KIND_ATTENTION:
        return seqmix_forward_attention(p, c, b, n, h);
    case SEQMIX_KIND_MLP:
        return seqmix_forward_mlp(p, c, b, n, h);
    default:
        return seqmix_forward_moe(p, c, b, n, h);
    }
}

static seqmix_status embed(seqmix_pass *p, const int32_t *rows, int64_t n, seqmix_tensor table, seqmix_tensor y)
{
    seqmix_embed_args args = {
        .struct_size = sizeof args, .n_tokens = (int32_t)n, .tokens = rows, .table = table, .y = y};
    return seqmix_call(p->caller, SEQMIX_OP_EMBED_ROWS, &args);
}

static bool consecutive(const int32_t *rows, int64_t n)
{
    return rows[n - 1] - rows[0] == n - 1;
}

/* Rows that do not follow each other are gathered, as an embedding whose table is h. */
static seqmix_status head(const seqmix_model *m, seqmix_pass *p, float *h, seqmix_tensor normed)
{
    const seqmix_config *c = &m->config;
    const seqmix_tensor none = {0};
    int64_t n = p->n_logits, D = c->hidden;
    seqmix_status s = SEQMIX_OK;
    seqmix_tensor rows = normed;
    if (consecutive(p->host.logit_rows, n))
        rows = seqmix_view2(h != NULL ? h + p->host.logit_rows[0] * D : NULL, n, D, 0, D);
    else
        s = embed(p, p->ops.logit_rows, n, seqmix_view2(h, p->rows, D, 0, D), normed);
    if (s == SEQMIX_OK) s = seqmix_layer_norm(p, c->eps, rows, m->final_norm, normed);
    if (s == SEQMIX_OK)
        s = seqmix_layer_linear(p, normed, m->head, none, none, seqmix_view2(p->logits, n, c->vocab, 0, c->vocab));
    return s;
}

seqmix_status seqmix_model_forward(const seqmix_model *m, seqmix_pass *p)
{
    const seqmix_config *c = &m->config;
    int64_t R = p->rows, D = c->hidden;
    float *h = seqmix_take(p, R, D), *n = seqmix_take(p, R, D);
    seqmix_tensor residual = seqmix_view2(h, R, D, 0, D), normed = seqmix_view2(n, R, D, 0, D);
    size_t scratch = p->buffers.used;
    p->caller->kind = SEQMIX_KIND_NONE;
    seqmix_status s = embed(p, p->ops.tokens, R, m->embedding, residual);
    for (int64_t i = 0; s == SEQMIX_OK && i < m->n_blocks; i++) {
        p->caller->kind = m->blocks[i].kind;
        p->buffers.used = scratch;
        s = seqmix_layer_norm(p, c->eps, residual, m->blocks[i].norm, normed);
        if (s == SEQMIX_OK) s = forward_block(p, c, &m->blocks[i], normed, residual);
    }
    p->caller->kind = SEQMIX_KIND_NONE;
    if (s != SEQMIX_OK || p->n_logits == 0) return s;
    return head(m, p, h, seqmix_view2(n, p->n_logits, D, 0, D));
}
