/* SPDX-License-Identifier: MIT */
/*
 * Configs of the hybrids: Nemotron-H ("nemotron_h"), Qwen3.5 ("qwen3_5", "qwen3_5_moe", their "_text" forms) and Qwen3-Next.
 * A multimodal config holds the text model's numbers in text_config (config.c).
 */
#include "config_reader.h"

static bool sizes(const seqmix_reader *r, const char *eps, seqmix_config *c)
{
    return seqmix_read_whole(r, "vocab_size", 1, SEQMIX_MAX_SIZE, &c->vocab) &&
           seqmix_read_whole(r, "hidden_size", 1, SEQMIX_MAX_SIZE, &c->hidden) &&
           seqmix_read_epsilon(r, eps, &c->eps) &&
           seqmix_read_optional(r, "max_position_embeddings", 1, INT64_C(1) << 40, &c->context) &&
           seqmix_read_stop_tokens(r, c->vocab, c);
}

static bool attention_heads(const seqmix_reader *r, seqmix_config *c)
{
    if (!seqmix_read_whole(r, "num_attention_heads", 1, 65536, &c->attention.heads)) return false;
    c->attention.kv_heads = c->attention.heads;
    c->attention.head_dim = c->hidden / c->attention.heads;
    const char *dim = seqmix_read_node(r, "attention_head_dim") != NULL ? "attention_head_dim" : "head_dim";
    return seqmix_read_optional(r, "num_key_value_heads", 1, 65536, &c->attention.kv_heads) &&
           seqmix_read_optional(r, dim, 1, 256, &c->attention.head_dim) &&
           seqmix_read_flag(r, "attention_bias", false, &c->attention.bias);
}

/* ---- kinds of layers ---- */

typedef struct kind_name {
    const char *name;
    seqmix_kind kind;
} kind_name;

static bool layer_list(const seqmix_reader *r, const char *key, const kind_name *names, size_t n, seqmix_config *c)
{
    const cJSON *list = seqmix_read_node(r, key);
    if (!cJSON_IsArray(list)) return seqmix_fail(r->why, "%s: %s is not a list", r->label, key);
    c->layers = 0;
    for (const cJSON *item = list->child; item != NULL; item = item->next) {
        const char *text = cJSON_IsString(item) ? item->valuestring : "?";
        size_t k = 0;
        while (k < n && strcmp(names[k].name, text) != 0)
            k++;
        if (k == n)
            return seqmix_fail(r->why, "%s: %s[%lld] '%.32s' is no kind of layer", r->label, key, (long long)c->layers,
                               text);
        if (c->layers == SEQMIX_MAX_LAYERS)
            return seqmix_fail(r->why, "%s: %s lists more than %d layers", r->label, key, SEQMIX_MAX_LAYERS);
        c->mixer[c->layers++] = (uint8_t)names[k].kind;
    }
    return c->layers > 0 || seqmix_fail(r->why, "%s: %s is empty", r->label, key);
}

static bool layer_pattern(const seqmix_reader *r, const char *key, seqmix_config *c)
{
    const cJSON *node = seqmix_read_node(r, key);
    if (!cJSON_IsString(node)) return seqmix_fail(r->why, "%s: %s is not a text", r->label, key);
    const char *pattern = node->valuestring;
    c->layers = 0;
    for (const char *at = pattern; *at != '\0'; at++) {
        seqmix_kind kind = *at == 'M'   ? SEQMIX_KIND_SSD
                           : *at == '-' ? SEQMIX_KIND_MLP
                           : *at == '*' ? SEQMIX_KIND_ATTENTION
                           : *at == 'E' ? SEQMIX_KIND_MOE
                                        : SEQMIX_KIND_NONE;
        if (kind == SEQMIX_KIND_NONE)
            return seqmix_fail(r->why, "%s: %s has '%c' at %lld, not one of M, -, *, E", r->label, key, *at,
                               (long long)(at - pattern));
        if (c->layers == SEQMIX_MAX_LAYERS)
            return seqmix_fail(r->why, "%s: %s has more than %d layers", r->label, key, SEQMIX_MAX_LAYERS);
        c->mixer[c->layers++] = (uint8_t)kind;
    }
    return c->layers > 0 || seqmix_fail(r->why, "%s: %s is empty", r->label, key);
}

/* num_hidden_layers, where it stands beside a list or a pattern, must be as many. */
static bool layer_count(const seqmix_reader *r, const char *key, const seqmix_config *c)
{
    int64_t said = c->layers;
    if (!seqmix_read_optional(r, "num_hidden_layers", 1, SEQMIX_MAX_LAYERS, &said)) return false;
    return said == c->layers || seqmix_fail(r->why, "%s: %s has %lld layers, num_hidden_layers is %lld", r->label, key,
                                            (long long)c->layers, (long long)said);
}

/* ---- Nemotron-H ---- */

static bool nemotron_layers(const seqmix_reader *r, seqmix_config *c)
{
    static const kind_name names[] = {{"mamba", SEQMIX_KIND_SSD}, {"linear_attention", SEQMIX_KIND_SSD},
                                      {"mlp", SEQMIX_KIND_MLP},   {"attention", SEQMIX_KIND_ATTENTION},
                                      {"moe", SEQMIX_KIND_MOE},   {"full_attention", SEQMIX_KIND_ATTENTION}};
    static const char *const keys[] = {"layers_block_type", "layer_types", "hybrid_override_pattern"};
    for (size_t i = 0; i < 3; i++) {
        if (seqmix_read_node(r, keys[i]) == NULL) continue;
        bool ok =
            i == 2 ? layer_pattern(r, keys[i], c) : layer_list(r, keys[i], names, sizeof names / sizeof names[0], c);
        return ok && layer_count(r, keys[i], c);
    }
    return seqmix_fail(r->why, "%s: hybrid_override_pattern is missing", r->label);
}

static bool nemotron_moe(const seqmix_reader *r, seqmix_config *c)
{
    c->moe.groups = c->moe.top_groups = 1;
    c->moe.scale = 1.0F;
    c->moe.sigmoid = true;
    int64_t shared = 1;
    if (!seqmix_read_whole(r, "n_routed_experts", 1, 1024, &c->moe.experts) ||
        !seqmix_read_whole(r, "num_experts_per_tok", 1, 65536, &c->moe.per_token) ||
        !seqmix_read_whole(r, "moe_intermediate_size", 1, SEQMIX_MAX_SIZE, &c->moe.width) ||
        !seqmix_read_optional(r, "n_shared_experts", 0, 65536, &shared) ||
        !seqmix_read_optional(r, "moe_latent_size", 1, SEQMIX_MAX_SIZE, &c->moe.latent) ||
        !seqmix_read_optional(r, "n_group", 1, 65536, &c->moe.groups) ||
        !seqmix_read_optional(r, "topk_group", 1, 65536, &c->moe.top_groups) ||
        !seqmix_read_number(r, "routed_scaling_factor", 1e-6, 1e6, &c->moe.scale) ||
        !seqmix_read_flag(r, "norm_topk_prob", true, &c->moe.renormalise))
        return false;
    return shared == 0 ||
           seqmix_read_whole(r, "moe_shared_expert_intermediate_size", 1, SEQMIX_MAX_SIZE, &c->moe.shared_width);
}

bool seqmix_config_nemotron_h(const seqmix_reader *r, seqmix_config *c)
{
    if (!sizes(r, "layer_norm_epsilon", c) || !nemotron_layers(r, c) || !attention_heads(r, c) ||
        !seqmix_read_flag(r, "tie_word_embeddings", false, &c->tied))
        return false;
    if (seqmix_config_has(c, SEQMIX_KIND_SSD) &&
        (!seqmix_read_whole(r, "mamba_num_heads", 1, 65536, &c->ssd.heads) ||
         !seqmix_read_whole(r, "mamba_head_dim", 1, 256, &c->ssd.head_dim) ||
         !seqmix_read_whole(r, "n_groups", 1, 65536, &c->ssd.groups) ||
         !seqmix_read_whole(r, "ssm_state_size", 1, 256, &c->ssd.state) ||
         !seqmix_read_whole(r, "conv_kernel", 1, 16, &c->ssd.conv) ||
         !seqmix_read_flag(r, seqmix_read_node(r, "use_bias") != NULL ? "use_bias" : "mamba_proj_bias", false,
                           &c->ssd.bias) ||
         !seqmix_read_flag(r, "use_conv_bias", true, &c->ssd.conv_bias) ||
         !seqmix_read_limits(r, "time_step_limit", &c->ssd.dt_min, &c->ssd.dt_max) ||
         !seqmix_read_fixed(r, "mamba_hidden_act", "silu")))
        return false;
    if (seqmix_config_has(c, SEQMIX_KIND_MLP) &&
        !seqmix_read_whole(r, "intermediate_size", 1, SEQMIX_MAX_SIZE, &c->mlp.width))
        return false;
    if (!seqmix_read_flag(r, "mlp_bias", false, &c->mlp.bias) || !seqmix_read_fixed(r, "mlp_hidden_act", "relu2"))
        return false;
    return !seqmix_config_has(c, SEQMIX_KIND_MOE) || nemotron_moe(r, c);
}

/* ---- Qwen3.5, Qwen3-Next ---- */

/* How many of the rotary pairs turn by time, height and width; by thirds where it is not said. */
static bool rope_sections(const seqmix_reader *r, seqmix_config *c)
{
    int64_t n = c->attention.rope_dims / 2, *out = c->attention.rope_sections;
    const cJSON *list = seqmix_read_node(r, "mrope_section");
    for (int64_t i = 0; list == NULL && i < 3; i++)
        out[i] = (n + 2 - i) / 3;
    if (list == NULL) return true;
    const cJSON *item = cJSON_IsArray(list) ? list->child : list;
    for (int64_t i = 0; item != NULL && i <= 4; i++, item = item->next)
        if (i == 4 || !seqmix_json_whole(item, 0, 256, &out[i]))
            return seqmix_fail(r->why, "%s: mrope_section is not a list of up to 4 numbers in [0, 256]", r->label);
    return true;
}

static bool rope(const seqmix_reader *r, seqmix_config *c)
{
    float factor = 0.25F;
    c->attention.rope_base = 10000.0F;
    const cJSON *nested = seqmix_read_node(r, "rope_parameters");
    if (nested != NULL && !cJSON_IsObject(nested))
        return seqmix_fail(r->why, "%s: rope_parameters is not an object", r->label);
    seqmix_reader inner = {nested != NULL ? nested : r->object, r->label, r->why};
    const cJSON *scaling = seqmix_read_node(r, "rope_scaling");
    seqmix_reader scaled = {scaling, r->label, r->why};
    if (!seqmix_read_number(r, "partial_rotary_factor", 0.0, 1.0, &factor) ||
        !seqmix_read_number(r, "rope_theta", 1.0, 1e30, &c->attention.rope_base) ||
        !seqmix_read_number(&inner, "partial_rotary_factor", 0.0, 1.0, &factor) ||
        !seqmix_read_number(&inner, "rope_theta", 1.0, 1e30, &c->attention.rope_base) ||
        !seqmix_read_fixed(&inner, "rope_type", "default") ||
        (cJSON_IsObject(scaling) && (!seqmix_read_fixed(&scaled, "rope_type", "default"))))
        return false;
    c->attention.rope_dims = (int64_t)((float)c->attention.head_dim * factor);
    return rope_sections(&inner, c);
}

static bool qwen_layers(const seqmix_reader *r, seqmix_config *c)
{
    static const kind_name names[] = {{"linear_attention", SEQMIX_KIND_DELTA},
                                      {"full_attention", SEQMIX_KIND_ATTENTION}};
    if (seqmix_read_node(r, "layer_types") != NULL)
        return layer_list(r, "layer_types", names, 2, c) && layer_count(r, "layer_types", c);
    int64_t interval = 4;
    if (!seqmix_read_whole(r, "num_hidden_layers", 1, SEQMIX_MAX_LAYERS, &c->layers) ||
        !seqmix_read_optional(r, "full_attention_interval", 1, SEQMIX_MAX_LAYERS, &interval))
        return false;
    for (int64_t i = 0; i < c->layers; i++)
        c->mixer[i] = (i + 1) % interval != 0 ? SEQMIX_KIND_DELTA : SEQMIX_KIND_ATTENTION;
    return true;
}

static bool qwen_base(const seqmix_reader *r, seqmix_config *c)
{
    c->mlp.gated = c->moe.gated = true;
    c->attention.gated = c->attention.qk_norm = true;
    return sizes(r, "rms_norm_eps", c) && qwen_layers(r, c) && attention_heads(r, c) && rope(r, c) &&
           seqmix_read_whole(r, "linear_num_key_heads", 1, 65536, &c->delta.key_heads) &&
           seqmix_read_whole(r, "linear_num_value_heads", 1, 65536, &c->delta.value_heads) &&
           seqmix_read_whole(r, "linear_key_head_dim", 1, 256, &c->delta.key_dim) &&
           seqmix_read_whole(r, "linear_value_head_dim", 1, 256, &c->delta.value_dim) &&
           seqmix_read_whole(r, "linear_conv_kernel_dim", 1, 16, &c->delta.conv) &&
           seqmix_read_flag(r, "tie_word_embeddings", false, &c->tied) && seqmix_read_fixed(r, "hidden_act", "silu");
}

static bool qwen_moe(const seqmix_reader *r, seqmix_config *c)
{
    c->moe.groups = c->moe.top_groups = 1;
    c->moe.scale = 1.0F;
    c->moe.shared_router = true;
    return seqmix_read_whole(r, "num_experts", 1, 1024, &c->moe.experts) &&
           seqmix_read_whole(r, "num_experts_per_tok", 1, 65536, &c->moe.per_token) &&
           seqmix_read_whole(r, "moe_intermediate_size", 1, SEQMIX_MAX_SIZE, &c->moe.width) &&
           seqmix_read_whole(r, "shared_expert_intermediate_size", 1, SEQMIX_MAX_SIZE, &c->moe.shared_width) &&
           seqmix_read_flag(r, "norm_topk_prob", true, &c->moe.renormalise);
}

bool seqmix_config_qwen3_5(const seqmix_reader *r, seqmix_config *c)
{
    if (!qwen_base(r, c) || !seqmix_read_whole(r, "intermediate_size", 1, SEQMIX_MAX_SIZE, &c->mlp.width)) return false;
    memset(c->ffn, SEQMIX_KIND_MLP, (size_t)c->layers);
    return true;
}

bool seqmix_config_qwen3_5_moe(const seqmix_reader *r, seqmix_config *c)
{
    if (!qwen_base(r, c) || !qwen_moe(r, c)) return false;
    memset(c->ffn, SEQMIX_KIND_MOE, (size_t)c->layers);
    return true;
}

/* Experts in every decoder_sparse_step-th layer but those of mlp_only_layers. */
bool seqmix_config_qwen3_next(const seqmix_reader *r, seqmix_config *c)
{
    int64_t step = 1, experts = 1;
    if (!qwen_base(r, c) || !seqmix_read_optional(r, "decoder_sparse_step", 1, SEQMIX_MAX_LAYERS, &step) ||
        !seqmix_read_optional(r, "num_experts", 0, 1024, &experts))
        return false;
    c->delta.fused = true;
    for (int64_t i = 0; i < c->layers; i++)
        c->ffn[i] = experts > 0 && (i + 1) % step == 0 ? SEQMIX_KIND_MOE : SEQMIX_KIND_MLP;
    const cJSON *only = seqmix_read_node(r, "mlp_only_layers");
    for (const cJSON *item = only != NULL ? only->child : NULL; item != NULL; item = item->next) {
        int64_t layer;
        if (!seqmix_json_whole(item, 0, c->layers - 1, &layer))
            return seqmix_fail(r->why, "%s: mlp_only_layers names a layer outside [0, %lld)", r->label,
                               (long long)c->layers);
        c->ffn[layer] = SEQMIX_KIND_MLP;
    }
    if (seqmix_config_has(c, SEQMIX_KIND_MLP) &&
        !seqmix_read_whole(r, "intermediate_size", 1, SEQMIX_MAX_SIZE, &c->mlp.width))
        return false;
    return !seqmix_config_has(c, SEQMIX_KIND_MOE) || qwen_moe(r, c);
}
