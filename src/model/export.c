/* SPDX-License-Identifier: MIT */
/*
 * Tensors of a checkpoint in the Hugging Face layout as GGUF has them (see export.h). Their names, shapes and values come from
 * the binding; what GGUF does otherwise than the model's own layout are these rules:
 *
 *     split    gate and up of experts in one matrix; the delta rule's q, k, v and z interleaved by key head
 *     shape    A and D of Mamba-2 as columns, its norm by groups, the shared expert's router as a vector
 *     order    of Qwen3.5's value heads: j HK + i is old i HV/HK + j, in rows, vectors and the output's columns
 */
#include "export.h"

#include "config_gguf.h"

typedef struct exporter {
    const seqmix_config *config;
    seqmix_draft *draft;
} exporter;

/* The name below the block. */
static const char *tail_of(const char *name)
{
    const char *dot = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;
    return dot != NULL ? dot + 1 : name;
}

/* A tensor like the one bound, under another name below the same block if one is given. */
static seqmix_draft_tensor *start(const exporter *e, const seqmix_bound *b, const char *tail, int64_t n_parts,
                                  seqmix_why why)
{
    seqmix_draft_tensor *t = seqmix_draft_tensor_add(e->draft, n_parts);
    if (t == NULL) {
        (void)seqmix_fail(why, "no memory for tensor '%s'", b->name);
        return NULL;
    }
    const int block = (int)(tail_of(b->name) - b->name);
    (void)snprintf(t->name, sizeof t->name, "%.*s%s", block, b->name, tail != NULL ? tail : b->name + block);
    t->rank = b->rank;
    memcpy(t->shape, b->shape, sizeof b->shape);
    t->from = b->dtype;
    t->how = b->how;
    for (int64_t i = 0; i < n_parts; i++)
        t->parts[i] = b->data;
    return t;
}

static int64_t *numbers(int64_t n, seqmix_why why)
{
    int64_t *out = malloc((size_t)n * sizeof *out);
    if (out == NULL) (void)seqmix_fail(why, "no memory for the order of %lld rows", (long long)n);
    return out;
}

/* ---- split ---- */

/* Of each expert's [2 F, D], rows [0, F) and [F, 2 F). */
static bool split_experts(const exporter *e, const seqmix_bound *b, seqmix_why why)
{
    static const char *const tails[2] = {"ffn_gate_exps.weight", "ffn_up_exps.weight"};
    const size_t half = seqmix_dtype_bytes(b->dtype, b->shape[1] / 2 * b->shape[2]);
    for (int k = 0; k < 2; k++) {
        seqmix_draft_tensor *t = start(e, b, tails[k], b->shape[0], why);
        if (t == NULL) return false;
        t->shape[1] = b->shape[1] / 2;
        for (int64_t i = 0; i < t->n_parts; i++)
            t->parts[i] = (const char *)b->data + (size_t)(2 * i + k) * half;
    }
    return true;
}

/* Runs [first, last) of the groups as a matrix of their own. */
static bool take_runs(const exporter *e, const seqmix_bound *b, const char *tail, int64_t first, int64_t last,
                      seqmix_why why)
{
    const seqmix_regroup *g = b->groups;
    int64_t group_rows = 0, before = 0, n = 0;
    seqmix_draft_tensor *t = start(e, b, tail, 1, why);
    if (t == NULL || (t->rows = numbers(b->shape[0], why)) == NULL) return false;
    for (int64_t p = 0; p < g->parts; p++)
        group_rows += g->rows[p];
    for (int64_t p = 0; p < last; before += g->rows[p++])
        for (int64_t i = 0; p >= first && i < g->groups * g->rows[p]; i++)
            t->rows[n++] = i / g->rows[p] * group_rows + before + i % g->rows[p];
    t->shape[0] = n;
    return true;
}

/* ---- shape ---- */

static void reshape(const seqmix_config *c, const char *tail, seqmix_draft_tensor *t)
{
    const bool ssd = seqmix_config_has(c, SEQMIX_KIND_SSD);
    if (strcmp(tail, "ffn_gate_inp_shexp.weight") == 0) {
        t->rank = 1;
        t->shape[0] = c->hidden;
    } else if (ssd && (strcmp(tail, "ssm_a") == 0 || strcmp(tail, "ssm_d") == 0)) {
        t->rank = 2;
        t->shape[1] = 1;
    } else if (ssd && strcmp(tail, "ssm_norm.weight") == 0) {
        t->rank = 2;
        t->shape[1] = t->shape[0] / c->ssd.groups;
        t->shape[0] = c->ssd.groups;
    }
}

/* ---- order ---- */

/* Where a tensor has value heads: which axis, whether q and k come first, and whether a head is one element or value_dim. */
static const struct {
    const char *tail;
    bool columns, behind_keys, wide;
} value_heads[] = {
    {"attn_qkv.weight", false, true, true},   {"attn_gate.weight", false, false, true},
    {"ssm_beta.weight", false, false, false}, {"ssm_alpha.weight", false, false, false},
    {"ssm_conv1d.weight", false, true, true}, {"ssm_a", true, false, false},
    {"ssm_dt.bias", true, false, false},      {"ssm_out.weight", true, false, true},
};

static bool reorder(const seqmix_config *c, const char *tail, seqmix_draft_tensor *t, seqmix_why why)
{
    const int64_t HK = c->delta.key_heads, share = HK > 0 ? c->delta.value_heads / HK : 1;
    size_t i = 0;
    if (c->family != SEQMIX_FAMILY_QWEN3_5 || c->delta.fused || share == 1) return true;
    while (i < sizeof value_heads / sizeof value_heads[0] && strcmp(value_heads[i].tail, tail) != 0)
        i++;
    if (i == sizeof value_heads / sizeof value_heads[0]) return true;
    const int64_t keys = value_heads[i].behind_keys ? 2 * HK * c->delta.key_dim : 0;
    const int64_t width = value_heads[i].wide ? c->delta.value_dim : 1, n = keys + HK * share * width;
    int64_t *order = numbers(n, why);
    if (order == NULL) return false;
    for (int64_t k = 0; k < n; k++) {
        const int64_t head = (k - keys) / width, old = head % HK * share + head / HK;
        order[k] = k < keys ? k : keys + old * width + (k - keys) % width;
    }
    *(value_heads[i].columns ? &t->columns : &t->rows) = order;
    return true;
}

/* ---- the whole ---- */

static bool add_tensor(void *listener, const seqmix_bound *b, seqmix_why why)
{
    const exporter *e = listener;
    const char *tail = tail_of(b->name);
    if (b->expert > 0) {
        e->draft->tensors[e->draft->n_tensors - 1]->parts[b->expert] = b->data;
        return true;
    }
    if (strcmp(tail, "ffn_gate_up_exps.weight") == 0) return split_experts(e, b, why);
    if (b->groups != NULL && strcmp(tail, "ssm_in.weight") == 0)
        return take_runs(e, b, "attn_qkv.weight", 0, 3, why) && take_runs(e, b, "attn_gate.weight", 3, 4, why);
    seqmix_draft_tensor *t = start(e, b, NULL, b->expert == 0 ? b->shape[0] : 1, why);
    if (t == NULL) return false;
    reshape(e->config, tail, t);
    return reorder(e->config, tail, t, why);
}

bool seqmix_export(seqmix_model *model, const char *dir, seqmix_draft *draft, seqmix_why note, seqmix_why why)
{
    exporter e = {&model->config, draft};
    return seqmix_export_config(&model->config, draft, why) &&
           seqmix_export_tokenizer(dir, &model->config, draft, note, why) &&
           seqmix_model_each_tensor(model, add_tensor, &e, why);
}

bool seqmix_export_check(const char *path, seqmix_why why)
{
    seqmix_gguf g;
    seqmix_config config;
    if (!seqmix_gguf_open(path, &g, why)) return false;
    const bool ok = seqmix_config_gguf(&g, path, &config, why);
    seqmix_gguf_close(&g);
    return ok;
}
