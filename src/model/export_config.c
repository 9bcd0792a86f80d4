/* SPDX-License-Identifier: MIT */
/*
 * A config as GGUF metadata (see export.h): what config_gguf.c reads, under the keys of llama.cpp's converter. What those do not
 * say of a model is refused, because the file would be another model.
 */
#include "export.h"

#include "config_gguf.h"

typedef struct keys {
    seqmix_draft *d;
    const seqmix_config *c;
    const char *arch;
    char full[128];
} keys;

static const char *key(keys *k, const char *tail)
{
    (void)snprintf(k->full, sizeof k->full, "%s.%s", k->arch, tail);
    return k->full;
}

static void whole(keys *k, const char *tail, int64_t value)
{
    seqmix_draft_u32(k->d, key(k, tail), value);
}

static void number(keys *k, const char *tail, float value)
{
    seqmix_draft_f32(k->d, key(k, tail), value);
}

static void ssm(keys *k, int64_t conv, int64_t inner, int64_t state, int64_t rank, int64_t groups)
{
    whole(k, "ssm.conv_kernel", conv);
    whole(k, "ssm.inner_size", inner);
    whole(k, "ssm.state_size", state);
    whole(k, "ssm.time_step_rank", rank);
    if (groups > 0) whole(k, "ssm.group_count", groups);
}

static void ssd(keys *k)
{
    const seqmix_config *c = k->c;
    ssm(k, c->ssd.conv, c->ssd.heads * c->ssd.head_dim, c->ssd.state, c->ssd.heads, c->ssd.groups);
}

static void attention(keys *k)
{
    whole(k, "attention.key_length", k->c->attention.head_dim);
    whole(k, "attention.value_length", k->c->attention.head_dim);
    whole(k, "attention.head_count", k->c->attention.heads);
}

static void experts(keys *k)
{
    const seqmix_config *c = k->c;
    whole(k, "expert_count", c->moe.experts);
    whole(k, "expert_used_count", c->moe.per_token);
    whole(k, "expert_feed_forward_length", c->moe.width);
    if (c->moe.shared_width > 0) whole(k, "expert_shared_feed_forward_length", c->moe.shared_width);
    if (c->moe.latent > 0) whole(k, "moe_latent_size", c->moe.latent);
    if (!c->moe.sigmoid && c->moe.renormalise) return;
    whole(k, "expert_shared_count", c->moe.shared_width > 0 ? 1 : 0);
    seqmix_draft_bool(k->d, key(k, "expert_weights_norm"), c->moe.renormalise);
    number(k, "expert_weights_scale", c->moe.scale);
    whole(k, "expert_group_count", c->moe.groups);
    whole(k, "expert_group_used_count", c->moe.top_groups);
}

static void mamba(keys *k)
{
    whole(k, "feed_forward_length", 0);
    /* The converter says 0, but llama.cpp, at least b9190, takes Mamba-2's number of heads from here. */
    whole(k, "attention.head_count", k->c->family == SEQMIX_FAMILY_MAMBA2 ? k->c->ssd.heads : 0);
    if (k->c->family == SEQMIX_FAMILY_MAMBA2) {
        ssd(k);
    } else {
        ssm(k, k->c->mamba.conv, k->c->mamba.inner, k->c->mamba.state, k->c->mamba.dt_rank, 0);
        seqmix_draft_bool(k->d, key(k, "ssm.dt_b_c_rms"), false);
    }
}

/* Kinds of layers by two arrays: attention has heads of keys, MLP and MoE a width, Mamba-2 neither. */
static void nemotron(keys *k)
{
    const seqmix_config *c = k->c;
    int64_t kv_heads[SEQMIX_MAX_LAYERS], width[SEQMIX_MAX_LAYERS];
    for (int64_t i = 0; i < c->layers; i++) {
        kv_heads[i] = c->mixer[i] == SEQMIX_KIND_ATTENTION ? c->attention.kv_heads : 0;
        width[i] = c->mixer[i] == SEQMIX_KIND_MLP ? c->mlp.width : c->mixer[i] == SEQMIX_KIND_MOE ? c->moe.width : 0;
    }
    attention(k);
    seqmix_draft_i32s(k->d, key(k, "attention.head_count_kv"), kv_heads, c->layers);
    seqmix_draft_i32s(k->d, key(k, "feed_forward_length"), width, c->layers);
    number(k, "attention.layer_norm_epsilon", c->eps);
    whole(k, "rope.dimension_count", c->attention.head_dim); /* wanted, though no layer turns anything */
    if (seqmix_config_has(c, SEQMIX_KIND_SSD)) ssd(k);
    if (seqmix_config_has(c, SEQMIX_KIND_MOE)) experts(k);
}

/* Full attention in every n-th layer as n; what is not so regular layer by layer, as well. */
static void qwen_layers(keys *k)
{
    const seqmix_config *c = k->c;
    unsigned char recurrent[SEQMIX_MAX_LAYERS];
    int64_t interval = 0;
    bool regular = true;
    for (int64_t i = c->layers - 1; i >= 0; i--) {
        recurrent[i] = c->mixer[i] == SEQMIX_KIND_DELTA;
        if (!recurrent[i]) interval = i + 1;
    }
    for (int64_t i = 0; i < c->layers && interval > 0; i++)
        regular = regular && recurrent[i] == ((i + 1) % interval != 0);
    if (interval > 0) whole(k, "full_attention_interval", interval);
    if (interval > 0 && regular) return;
    const seqmix_gguf_value list = {.key = key(k, "attention.recurrent_layers"),
                                    .type = SEQMIX_GGUF_ARRAY,
                                    .element = SEQMIX_GGUF_BOOL,
                                    .n = (uint64_t)c->layers,
                                    .data = recurrent,
                                    .bytes = (size_t)c->layers};
    seqmix_draft_value(k->d, &list);
}

static void qwen(keys *k)
{
    const seqmix_config *c = k->c;
    attention(k);
    whole(k, "attention.head_count_kv", c->attention.kv_heads);
    number(k, "rope.freq_base", c->attention.rope_base);
    whole(k, "rope.dimension_count", c->attention.rope_dims);
    if (!c->delta.fused) seqmix_draft_i32s(k->d, key(k, "rope.dimension_sections"), c->attention.rope_sections, 4);
    qwen_layers(k);
    ssm(k, c->delta.conv, c->delta.value_heads * c->delta.value_dim, c->delta.key_dim, c->delta.value_heads,
        c->delta.key_heads);
    whole(k, "feed_forward_length", c->mlp.width > 0 ? c->mlp.width : c->moe.width);
    if (seqmix_config_has(c, SEQMIX_KIND_MOE)) experts(k);
}

static bool expressible(const seqmix_config *c, seqmix_why why)
{
    const char *what = NULL;
    if (seqmix_config_has(c, SEQMIX_KIND_SSD)) {
        if (c->ssd.norm_before_gate) what = "a norm before the gate (norm_before_gate)";
        if (c->ssd.dt_min > 0.0F || c->ssd.dt_max > 0.0F) what = "bounds of the time step (time_step_limit)";
    }
    if (c->attention.gated && c->attention.bias) what = "biases of Qwen's attention (attention_bias)";
    return what == NULL || seqmix_fail(why, "a GGUF file has no place for %s", what);
}

bool seqmix_export_config(const seqmix_config *c, seqmix_draft *d, seqmix_why why)
{
    keys k = {.d = d, .c = c, .arch = seqmix_config_gguf_arch(c)};
    if (!expressible(c, why)) return false;
    seqmix_draft_word(d, "general.architecture", k.arch);
    seqmix_draft_word(d, "general.type", "model");
    /* Wanted even where nothing bounds it. */
    const int64_t context = c->context > 0 ? c->context : INT64_C(1) << 20;
    whole(&k, "context_length", context <= INT32_MAX ? context : INT32_MAX);
    whole(&k, "embedding_length", c->hidden);
    whole(&k, "block_count", c->layers);
    whole(&k, "vocab_size", c->vocab);
    number(&k, "attention.layer_norm_rms_epsilon", c->eps);
    if (c->family == SEQMIX_FAMILY_NEMOTRON_H)
        nemotron(&k);
    else if (c->family == SEQMIX_FAMILY_QWEN3_5)
        qwen(&k);
    else
        mamba(&k);
    return !d->failed || seqmix_fail(why, "no memory for the metadata");
}
