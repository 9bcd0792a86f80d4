/* SPDX-License-Identifier: MIT */
/*
 * GGUF metadata to a config (see config_gguf.h). Keys begin with the architecture's name. Kinds of layers: Nemotron-H from
 * head_count_kv and feed_forward_length per layer, Qwen from recurrent_layers or full_attention_interval, experts from their
 * router's tensor; every choice is held against the tensors of the layer.
 */
#include "config_gguf.h"

typedef struct meta {
    const seqmix_gguf *g;
    const char *label, *arch;
    seqmix_why why;
} meta;

typedef char key_text[128];

static const char *key(const meta *m, const char *tail, key_text out)
{
    (void)snprintf(out, sizeof(key_text), "%s.%s", m->arch, tail);
    return out;
}

static bool has_key(const meta *m, const char *tail)
{
    key_text k;
    return seqmix_gguf_value_of(m->g, key(m, tail, k)) != NULL;
}

static bool has_tensor(const meta *m, int64_t layer, const char *name)
{
    key_text full;
    (void)snprintf(full, sizeof full, "blk.%lld.%s", (long long)layer, name);
    return seqmix_gguf_find(m->g, full) != NULL;
}

/* Prefixes what the reader of the file says with the file's name. */
static bool blame(const meta *m, const char *reason)
{
    return seqmix_fail(m->why, "%s: %s", m->label, reason);
}

static bool whole(const meta *m, const char *tail, int64_t low, int64_t high, int64_t *out)
{
    key_text k;
    char reason[192] = "";
    return seqmix_gguf_int(m->g, key(m, tail, k), low, high, out, (seqmix_why){reason, sizeof reason}) ||
           blame(m, reason);
}

/* A missing key leaves *out alone. */
static bool optional(const meta *m, const char *tail, int64_t low, int64_t high, int64_t *out)
{
    return !has_key(m, tail) || whole(m, tail, low, high, out);
}

static bool per_layer(const meta *m, const char *tail, int64_t n, int64_t high, int64_t *out)
{
    key_text k;
    char reason[192] = "";
    return seqmix_gguf_ints(m->g, key(m, tail, k), n, 0, high, out, (seqmix_why){reason, sizeof reason}) ||
           blame(m, reason);
}

static bool number(const meta *m, const char *tail, double low, double high, float *out)
{
    key_text k;
    char reason[192] = "";
    double value;
    if (!seqmix_gguf_number(m->g, key(m, tail, k), &value, (seqmix_why){reason, sizeof reason}))
        return blame(m, reason);
    if (!(value >= low && value <= high))
        return seqmix_fail(m->why, "%s: %s=%g is not in [%g, %g]", m->label, k, value, low, high);
    *out = (float)value;
    return true;
}

/* Some files have the key of a thing that the model has not: as 0. */
static bool number_or(const meta *m, const char *tail, double low, double high, float fallback, float *out)
{
    float value = 0.0F;
    *out = fallback;
    if (!has_key(m, tail) || !number(m, tail, -1e30, 1e30, &value)) return !has_key(m, tail);
    return value == 0.0F || number(m, tail, low, high, out);
}

/* ---- what all have ---- */

static bool sizes(const meta *m, seqmix_config *c)
{
    const seqmix_gguf_tensor *table = seqmix_gguf_find(m->g, "token_embd.weight");
    int64_t extra = 0;
    if (table == NULL || table->rank != 2) return blame(m, "tensor 'token_embd.weight' is missing or no matrix");
    c->vocab = table->shape[0];
    if (c->vocab < 1 || c->vocab > SEQMIX_MAX_SIZE)
        return seqmix_fail(m->why, "%s: a vocabulary of %lld is not in [1, %lld]", m->label, (long long)c->vocab,
                           (long long)SEQMIX_MAX_SIZE);
    c->tied = seqmix_gguf_find(m->g, "output.weight") == NULL;
    if (!whole(m, "embedding_length", 1, SEQMIX_MAX_SIZE, &c->hidden) ||
        !whole(m, "block_count", 1, SEQMIX_MAX_LAYERS, &c->layers) ||
        !optional(m, "nextn_predict_layers", 0, SEQMIX_MAX_LAYERS, &extra) ||
        !optional(m, "context_length", 0, INT64_C(1) << 40, &c->context) ||
        !number(m, "attention.layer_norm_rms_epsilon", 1e-30, 1.0, &c->eps))
        return false;
    /* Blocks that predict further tokens come last and are counted. */
    c->layers -= extra;
    return c->layers >= 1 ||
           seqmix_fail(m->why, "%s: none of %lld blocks is left but those of nextn_predict_layers=%lld", m->label,
                       (long long)(c->layers + extra), (long long)extra);
}

/* Ids beyond the vocabulary stand for none. */
static void stop_tokens(const meta *m, seqmix_config *c)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int64_t id;
        bool known = false;
        if (!seqmix_gguf_int(m->g, keys[i], 0, c->vocab - 1, &id, (seqmix_why){NULL, 0})) continue;
        for (int32_t k = 0; k < c->n_stop; k++)
            known = known || c->stop[k] == id;
        if (!known) c->stop[c->n_stop++] = (int32_t)id;
    }
}

static bool ssd_sizes(const meta *m, seqmix_config *c)
{
    int64_t inner;
    if (!whole(m, "ssm.inner_size", 1, SEQMIX_MAX_SIZE, &inner) ||
        !whole(m, "ssm.time_step_rank", 1, 65536, &c->ssd.heads) ||
        !whole(m, "ssm.group_count", 1, 65536, &c->ssd.groups) || !whole(m, "ssm.state_size", 1, 256, &c->ssd.state) ||
        !whole(m, "ssm.conv_kernel", 1, 16, &c->ssd.conv))
        return false;
    c->ssd.head_dim = inner / c->ssd.heads;
    return (inner % c->ssd.heads == 0 && c->ssd.head_dim <= 256) ||
           seqmix_fail(m->why, "%s: an inner size of %lld does not make %lld heads of at most 256", m->label,
                       (long long)inner, (long long)c->ssd.heads);
}

static bool attention_sizes(const meta *m, seqmix_config *c)
{
    int64_t heads[SEQMIX_MAX_LAYERS], kv_heads[SEQMIX_MAX_LAYERS], values;
    if (!per_layer(m, "attention.head_count", c->layers, 65536, heads) ||
        !per_layer(m, "attention.head_count_kv", c->layers, 65536, kv_heads))
        return false;
    for (int64_t i = 0; i < c->layers; i++) {
        if (c->mixer[i] != SEQMIX_KIND_ATTENTION) continue;
        if (c->attention.heads == 0) c->attention.heads = heads[i];
        if (c->attention.kv_heads == 0) c->attention.kv_heads = kv_heads[i];
        if (heads[i] != c->attention.heads || kv_heads[i] != c->attention.kv_heads || heads[i] < 1 || kv_heads[i] < 1)
            return seqmix_fail(m->why,
                               "%s: layer %lld has %lld heads of queries and %lld of keys; the first such has "
                               "%lld and %lld",
                               m->label, (long long)i, (long long)heads[i], (long long)kv_heads[i],
                               (long long)c->attention.heads, (long long)c->attention.kv_heads);
    }
    c->attention.head_dim = c->attention.heads > 0 ? c->hidden / c->attention.heads : 0;
    if (!optional(m, "attention.key_length", 1, 256, &c->attention.head_dim)) return false;
    values = c->attention.head_dim;
    if (!optional(m, "attention.value_length", 1, 256, &values)) return false;
    return values == c->attention.head_dim ||
           seqmix_fail(m->why, "%s: keys of %lld and values of %lld channels a head are not supported", m->label,
                       (long long)c->attention.head_dim, (long long)values);
}

static bool moe_sizes(const meta *m, seqmix_config *c)
{
    int64_t gating = 0, shared = 1;
    key_text k;
    c->moe.groups = c->moe.top_groups = 1;
    if (!whole(m, "expert_count", 1, 1024, &c->moe.experts) ||
        !whole(m, "expert_used_count", 1, 1024, &c->moe.per_token) ||
        !whole(m, "expert_feed_forward_length", 1, SEQMIX_MAX_SIZE, &c->moe.width) ||
        !optional(m, "expert_shared_feed_forward_length", 0, SEQMIX_MAX_SIZE, &c->moe.shared_width) ||
        !optional(m, "expert_shared_count", 0, 1024, &shared) ||
        !optional(m, "moe_latent_size", 0, SEQMIX_MAX_SIZE, &c->moe.latent) ||
        !optional(m, "expert_latent_length", 0, SEQMIX_MAX_SIZE, &c->moe.latent) ||
        !optional(m, "expert_group_count", 0, 64, &c->moe.groups) ||
        !optional(m, "expert_group_used_count", 0, 64, &c->moe.top_groups) ||
        !optional(m, "expert_gating_func", 0, 16, &gating) ||
        !number_or(m, "expert_weights_scale", 1e-6, 1e6, 1.0F, &c->moe.scale))
        return false;
    if (c->moe.groups == 0) c->moe.groups = 1;
    if (c->moe.top_groups == 0) c->moe.top_groups = c->moe.groups;
    if (gating > 2)
        return seqmix_fail(m->why, "%s: expert_gating_func=%lld is not supported", m->label, (long long)gating);
    if (gating != 0) c->moe.sigmoid = gating == 2;
    c->moe.renormalise = true;
    return !has_key(m, "expert_weights_norm") ||
           seqmix_gguf_bool(m->g, key(m, "expert_weights_norm", k), &c->moe.renormalise, m->why);
}

/* ---- families ---- */

static bool mamba(const meta *m, seqmix_config *c)
{
    memset(c->mixer, SEQMIX_KIND_SCAN, (size_t)c->layers);
    return whole(m, "ssm.inner_size", 1, SEQMIX_MAX_SIZE, &c->mamba.inner) &&
           whole(m, "ssm.state_size", 1, 256, &c->mamba.state) && whole(m, "ssm.conv_kernel", 1, 16, &c->mamba.conv) &&
           whole(m, "ssm.time_step_rank", 1, SEQMIX_MAX_SIZE, &c->mamba.dt_rank);
}

static bool mamba2(const meta *m, seqmix_config *c)
{
    memset(c->mixer, SEQMIX_KIND_SSD, (size_t)c->layers);
    return ssd_sizes(m, c);
}

/* The tensor by which a layer of that kind is known. */
static bool kind_agrees(const meta *m, const seqmix_config *c, int64_t layer)
{
    static const char *const marks[SEQMIX_N_KINDS] = {[SEQMIX_KIND_SSD] = "ssm_in.weight",
                                                      [SEQMIX_KIND_ATTENTION] = "attn_output.weight",
                                                      [SEQMIX_KIND_MLP] = "ffn_up.weight",
                                                      [SEQMIX_KIND_MOE] = "ffn_gate_inp.weight",
                                                      [SEQMIX_KIND_DELTA] = "ssm_conv1d.weight"};
    seqmix_kind kind = c->mixer[layer];
    return has_tensor(m, layer, marks[kind]) ||
           seqmix_fail(m->why, "%s: the metadata make layer %lld one of kind %s, but 'blk.%lld.%s' is missing",
                       m->label, (long long)layer, seqmix_kind_names[kind], (long long)layer, marks[kind]);
}

static bool nemotron_h(const meta *m, seqmix_config *c)
{
    int64_t kv_heads[SEQMIX_MAX_LAYERS], width[SEQMIX_MAX_LAYERS];
    if (!per_layer(m, "attention.head_count_kv", c->layers, 65536, kv_heads) ||
        !per_layer(m, "feed_forward_length", c->layers, SEQMIX_MAX_SIZE, width))
        return false;
    for (int64_t i = 0; i < c->layers; i++) {
        bool experts = has_tensor(m, i, "ffn_gate_inp.weight");
        c->mixer[i] = (uint8_t)(width[i] == 0 && !experts ? (kv_heads[i] == 0 ? SEQMIX_KIND_SSD : SEQMIX_KIND_ATTENTION)
                                                          : (experts ? SEQMIX_KIND_MOE : SEQMIX_KIND_MLP));
        if (!kind_agrees(m, c, i)) return false;
        if (c->mixer[i] != SEQMIX_KIND_MLP) continue;
        if (c->mlp.width == 0) c->mlp.width = width[i];
        if (width[i] != c->mlp.width)
            return seqmix_fail(m->why, "%s: layer %lld has an MLP of %lld, an earlier one of %lld", m->label,
                               (long long)i, (long long)width[i], (long long)c->mlp.width);
    }
    c->moe.sigmoid = true;
    return (!seqmix_config_has(c, SEQMIX_KIND_SSD) || ssd_sizes(m, c)) &&
           (!seqmix_config_has(c, SEQMIX_KIND_ATTENTION) || attention_sizes(m, c)) &&
           (!seqmix_config_has(c, SEQMIX_KIND_MOE) || moe_sizes(m, c));
}

/* recurrent_layers counts where the file has it for every layer; else the interval. */
static bool qwen_layers(const meta *m, seqmix_config *c)
{
    key_text k;
    const seqmix_gguf_value *list = seqmix_gguf_value_of(m->g, key(m, "attention.recurrent_layers", k));
    int64_t interval = 4;
    bool listed = list != NULL && list->type == SEQMIX_GGUF_ARRAY && list->element < SEQMIX_GGUF_STRING &&
                  list->element != SEQMIX_GGUF_F32;
    if (listed && list->n < (uint64_t)c->layers)
        return seqmix_fail(m->why, "%s: %s has %llu entries for %lld layers", m->label, k, (unsigned long long)list->n,
                           (long long)c->layers);
    if (!listed && !optional(m, "full_attention_interval", 1, SEQMIX_MAX_LAYERS, &interval)) return false;
    for (int64_t i = 0; i < c->layers; i++) {
        bool recurrent = listed ? seqmix_gguf_int_at(list, (uint64_t)i) != 0 : (i + 1) % interval != 0;
        c->mixer[i] = (uint8_t)(recurrent ? SEQMIX_KIND_DELTA : SEQMIX_KIND_ATTENTION);
        c->ffn[i] = (uint8_t)(has_tensor(m, i, "ffn_gate_inp.weight") ? SEQMIX_KIND_MOE : SEQMIX_KIND_MLP);
        if (!kind_agrees(m, c, i)) return false;
    }
    return true;
}

static bool qwen(const meta *m, seqmix_config *c)
{
    int64_t inner;
    c->mlp.gated = c->moe.gated = c->moe.shared_router = true;
    c->attention.gated = c->attention.qk_norm = true;
    c->delta.tiled = strcmp(m->arch, "qwen3next") != 0;
    if (!qwen_layers(m, c) || !attention_sizes(m, c) || !whole(m, "ssm.group_count", 1, 65536, &c->delta.key_heads) ||
        !whole(m, "ssm.time_step_rank", 1, 65536, &c->delta.value_heads) ||
        !whole(m, "ssm.state_size", 1, 256, &c->delta.key_dim) ||
        !whole(m, "ssm.inner_size", 1, SEQMIX_MAX_SIZE, &inner) ||
        !whole(m, "ssm.conv_kernel", 1, 16, &c->delta.conv) ||
        !number(m, "rope.freq_base", 1.0, 1e30, &c->attention.rope_base))
        return false;
    c->attention.rope_dims = c->attention.head_dim;
    if (!optional(m, "rope.dimension_count", 0, 256, &c->attention.rope_dims)) return false;
    c->delta.value_dim = inner / c->delta.value_heads;
    if (inner % c->delta.value_heads != 0 || c->delta.value_dim > 256)
        return seqmix_fail(m->why, "%s: an inner size of %lld does not make %lld heads of at most 256", m->label,
                           (long long)inner, (long long)c->delta.value_heads);
    for (int64_t i = 0; i < c->layers; i++)
        if (c->mixer[i] == SEQMIX_KIND_DELTA) c->delta.fused = has_tensor(m, i, "ssm_ba.weight");
    return (!seqmix_config_has(c, SEQMIX_KIND_MLP) ||
            whole(m, "feed_forward_length", 1, SEQMIX_MAX_SIZE, &c->mlp.width)) &&
           (!seqmix_config_has(c, SEQMIX_KIND_MOE) || moe_sizes(m, c));
}

static const struct {
    const char *arch, *family_name;
    seqmix_family_id family;
    bool (*parse)(const meta *m, seqmix_config *c);
} architectures[] = {
    {"mamba", "mamba", SEQMIX_FAMILY_MAMBA, mamba},
    {"mamba2", "mamba2", SEQMIX_FAMILY_MAMBA2, mamba2},
    {"nemotron_h", "nemotron_h", SEQMIX_FAMILY_NEMOTRON_H, nemotron_h},
    {"nemotron_h_moe", "nemotron_h", SEQMIX_FAMILY_NEMOTRON_H, nemotron_h},
    {"qwen35", "qwen3_5", SEQMIX_FAMILY_QWEN3_5, qwen},
    {"qwen35moe", "qwen3_5_moe", SEQMIX_FAMILY_QWEN3_5, qwen},
    {"qwen3next", "qwen3_next", SEQMIX_FAMILY_QWEN3_5, qwen},
};

/* The architectures of one family without experts come before those with. */
const char *seqmix_config_gguf_arch(const seqmix_config *c)
{
    const char *arch = NULL;
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++)
        if (strcmp(architectures[i].family_name, c->family_name) == 0 &&
            (arch == NULL || seqmix_config_has(c, SEQMIX_KIND_MOE)))
            arch = architectures[i].arch;
    return arch;
}

bool seqmix_config_gguf(const seqmix_gguf *g, const char *label, seqmix_config *c, seqmix_why why)
{
    char reason[192] = "";
    seqmix_gguf_text arch;
    meta m = {g, label, "?", why};
    *c = (seqmix_config){0};
    if (!seqmix_gguf_string(g, "general.architecture", &arch, (seqmix_why){reason, sizeof reason}))
        return blame(&m, reason);
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++) {
        if (!seqmix_gguf_text_is(arch, architectures[i].arch)) continue;
        m.arch = architectures[i].arch;
        c->family = architectures[i].family;
        c->family_name = architectures[i].family_name;
        if (!sizes(&m, c)) return false;
        stop_tokens(&m, c);
        int64_t bos = -1;
        (void)seqmix_gguf_int(g, "tokenizer.ggml.bos_token_id", 0, c->vocab - 1, &bos, (seqmix_why){NULL, 0});
        c->bos = (int32_t)bos;
        return architectures[i].parse(&m, c) && seqmix_config_check(c, label, why);
    }
    return seqmix_fail(why,
                       "%s: architecture '%.*s' is not supported (only mamba, mamba2, nemotron_h, nemotron_h_moe, "
                       "qwen35, qwen35moe and qwen3next)",
                       label, (int)(arch.n < 48 ? arch.n : 48), arch.bytes);
}
