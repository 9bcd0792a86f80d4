/* SPDX-License-Identifier: MIT */
/*
 * Configs of Mamba-1 and Mamba-2: of transformers ("mamba", "mamba2") and state-spaces' own, which has no model_type, names
 * sizes otherwise and leaves the mixer's to defaults.
 */
#include "config_reader.h"

/* "auto" is ceil(hidden / 16). */
static bool time_step_rank(const seqmix_reader *r, const char *key, int64_t hidden, int64_t *out)
{
    const cJSON *node = seqmix_read_node(r, key);
    if (node == NULL || (cJSON_IsString(node) && strcmp(node->valuestring, "auto") == 0)) {
        *out = (hidden + 15) / 16;
        return true;
    }
    if (seqmix_json_whole(node, 1, SEQMIX_MAX_SIZE, out)) return true;
    return seqmix_fail(r->why, "%s: %s is neither \"auto\" nor a whole number in [1, %lld]", r->label, key,
                       (long long)SEQMIX_MAX_SIZE);
}

/* hidden * expand, where expand may be a fraction. */
static bool inner_size(const seqmix_reader *r, int64_t hidden, int64_t *out)
{
    if (seqmix_read_node(r, "intermediate_size") != NULL)
        return seqmix_read_whole(r, "intermediate_size", 1, SEQMIX_MAX_SIZE, out);
    const cJSON *expand = seqmix_read_node(r, "expand");
    double factor = expand == NULL ? 2.0 : cJSON_IsNumber(expand) ? expand->valuedouble : 0.0;
    double inner = factor * (double)hidden;
    if (!(inner >= 1.0 && inner <= (double)SEQMIX_MAX_SIZE))
        return seqmix_fail(r->why, "%s: expand is not a number that makes hidden_size*expand one of [1, %lld]",
                           r->label, (long long)SEQMIX_MAX_SIZE);
    *out = (int64_t)inner;
    return true;
}

static void all_layers(seqmix_config *c, seqmix_kind kind)
{
    memset(c->mixer, (int)kind, (size_t)c->layers);
}

static bool common_sizes(const seqmix_reader *r, seqmix_config *c)
{
    return seqmix_read_whole(r, "vocab_size", 1, SEQMIX_MAX_SIZE, &c->vocab) &&
           seqmix_read_whole(r, "hidden_size", 1, SEQMIX_MAX_SIZE, &c->hidden) &&
           seqmix_read_whole(r, "num_hidden_layers", 1, SEQMIX_MAX_LAYERS, &c->layers);
}

bool seqmix_config_mamba(const seqmix_reader *r, seqmix_config *c)
{
    if (!common_sizes(r, c) || !seqmix_read_whole(r, "state_size", 1, 256, &c->mamba.state) ||
        !seqmix_read_whole(r, "conv_kernel", 1, 16, &c->mamba.conv) ||
        !seqmix_read_epsilon(r, "layer_norm_epsilon", &c->eps) || !inner_size(r, c->hidden, &c->mamba.inner) ||
        !time_step_rank(r, "time_step_rank", c->hidden, &c->mamba.dt_rank) ||
        !seqmix_read_flag(r, "use_bias", false, &c->mamba.bias) ||
        !seqmix_read_flag(r, "use_conv_bias", true, &c->mamba.conv_bias) ||
        !seqmix_read_flag(r, "residual_in_fp32", true, &c->mamba.residual_f32) ||
        !seqmix_read_flag(r, "tie_word_embeddings", true, &c->tied) || !seqmix_read_stop_tokens(r, c->vocab, c))
        return false;
    all_layers(c, SEQMIX_KIND_SCAN);
    return seqmix_read_fixed(r, "hidden_act", "silu");
}

/* norm_before_gate of such a config is not looked at, as transformers does not: the gate always comes first there. */
bool seqmix_config_mamba2(const seqmix_reader *r, seqmix_config *c)
{
    if (!common_sizes(r, c) || !seqmix_read_whole(r, "num_heads", 1, 65536, &c->ssd.heads) ||
        !seqmix_read_whole(r, "head_dim", 1, 256, &c->ssd.head_dim) ||
        !seqmix_read_whole(r, "n_groups", 1, 65536, &c->ssd.groups) ||
        !seqmix_read_whole(r, "state_size", 1, 256, &c->ssd.state) ||
        !seqmix_read_whole(r, "conv_kernel", 1, 16, &c->ssd.conv) ||
        !seqmix_read_epsilon(r, "layer_norm_epsilon", &c->eps) ||
        !seqmix_read_flag(r, "use_bias", false, &c->ssd.bias) ||
        !seqmix_read_flag(r, "use_conv_bias", true, &c->ssd.conv_bias) ||
        !seqmix_read_limits(r, "time_step_limit", &c->ssd.dt_min, &c->ssd.dt_max) ||
        !seqmix_read_flag(r, "tie_word_embeddings", false, &c->tied) || !seqmix_read_stop_tokens(r, c->vocab, c))
        return false;
    all_layers(c, SEQMIX_KIND_SSD);
    int64_t inner;
    if (seqmix_read_node(r, "expand") != NULL &&
        (!inner_size(r, c->hidden, &inner) ||
         (inner != c->ssd.heads * c->ssd.head_dim &&
          !seqmix_fail(r->why, "%s: num_heads*head_dim=%lld is not hidden_size*expand=%lld", r->label,
                       (long long)(c->ssd.heads * c->ssd.head_dim), (long long)inner))))
        return false;
    return seqmix_read_fixed(r, "hidden_act", "silu");
}

static bool original_mamba2(const seqmix_reader *s, seqmix_config *c)
{
    int64_t inner;
    c->family = SEQMIX_FAMILY_MAMBA2;
    c->family_name = "mamba2";
    c->ssd.state = 128;
    c->ssd.conv = 4;
    c->ssd.head_dim = 64;
    c->ssd.groups = 1;
    all_layers(c, SEQMIX_KIND_SSD);
    if (!seqmix_read_optional(s, "d_state", 1, 256, &c->ssd.state) ||
        !seqmix_read_optional(s, "d_conv", 1, 16, &c->ssd.conv) ||
        !seqmix_read_optional(s, "headdim", 1, 256, &c->ssd.head_dim) ||
        !seqmix_read_optional(s, "ngroups", 1, 65536, &c->ssd.groups) || !inner_size(s, c->hidden, &inner) ||
        !seqmix_read_flag(s, "bias", false, &c->ssd.bias) ||
        !seqmix_read_flag(s, "conv_bias", true, &c->ssd.conv_bias) ||
        !seqmix_read_flag(s, "norm_before_gate", false, &c->ssd.norm_before_gate) ||
        !seqmix_read_limits(s, "dt_limit", &c->ssd.dt_min, &c->ssd.dt_max))
        return false;
    if (inner % c->ssd.head_dim != 0)
        return seqmix_fail(s->why, "%s: headdim=%lld does not divide the inner size %lld", s->label,
                           (long long)c->ssd.head_dim, (long long)inner);
    c->ssd.heads = inner / c->ssd.head_dim;
    return true;
}

static bool original_mamba1(const seqmix_reader *s, seqmix_config *c)
{
    c->family = SEQMIX_FAMILY_MAMBA;
    c->family_name = "mamba";
    c->mamba.state = 16;
    c->mamba.conv = 4;
    all_layers(c, SEQMIX_KIND_SCAN);
    return seqmix_read_optional(s, "d_state", 1, 256, &c->mamba.state) &&
           seqmix_read_optional(s, "d_conv", 1, 16, &c->mamba.conv) && inner_size(s, c->hidden, &c->mamba.inner) &&
           time_step_rank(s, "dt_rank", c->hidden, &c->mamba.dt_rank) &&
           seqmix_read_flag(s, "bias", false, &c->mamba.bias) &&
           seqmix_read_flag(s, "conv_bias", true, &c->mamba.conv_bias);
}

bool seqmix_config_mamba_original(const seqmix_reader *r, seqmix_config *c)
{
    c->original_layout = true;
    c->eps = 1e-5F;
    int64_t multiple = 8;
    if (!seqmix_read_whole(r, "vocab_size", 1, SEQMIX_MAX_SIZE, &c->vocab) ||
        !seqmix_read_whole(r, "d_model", 1, SEQMIX_MAX_SIZE, &c->hidden) ||
        !seqmix_read_whole(r, "n_layer", 1, SEQMIX_MAX_LAYERS, &c->layers) ||
        !seqmix_read_flag(r, "tie_embeddings", true, &c->tied) ||
        !seqmix_read_flag(r, "residual_in_fp32", true, &c->mamba.residual_f32) ||
        !seqmix_read_optional(r, "pad_vocab_size_multiple", 1, 65536, &multiple))
        return false;
    c->vocab = (c->vocab + multiple - 1) / multiple * multiple;
    bool rms;
    if (!seqmix_read_flag(r, "rms_norm", true, &rms)) return false;
    if (!rms) return seqmix_fail(r->why, "%s: rms_norm=false is not supported", r->label);

    seqmix_reader s = {seqmix_read_node(r, "ssm_cfg"), r->label, r->why};
    const cJSON *layer = seqmix_read_node(&s, "layer");
    const char *name = layer == NULL ? "Mamba1" : cJSON_IsString(layer) ? layer->valuestring : "?";
    if (strcmp(name, "Mamba1") == 0) return original_mamba1(&s, c);
    if (strcmp(name, "Mamba2") == 0) return original_mamba2(&s, c);
    return seqmix_fail(r->why, "%s: ssm_cfg.layer '%.32s' is not supported (only Mamba1 and Mamba2)", r->label, name);
}
