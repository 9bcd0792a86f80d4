/* SPDX-License-Identifier: MIT */
/*
 * config.json to numbers (see config.h). A key that is missing, of the wrong kind or out of range is named with its range;
 * ranges are wide, but keep every later product of two sizes far from overflow.
 */
#define _POSIX_C_SOURCE 200809L

#include "config.h"

#include "file.h"

#define MAX_SIZE (INT64_C(1) << 24) /* of any one dimension */

typedef struct reader {
    const cJSON *object;
    const char *label;
    seqmix_why why;
} reader;

static const cJSON *find(const reader *r, const char *key)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(r->object, key);
    return cJSON_IsNull(node) ? NULL : node;
}

static bool whole(const reader *r, const char *key, int64_t low, int64_t high, int64_t *out)
{
    const cJSON *node = find(r, key);
    if (node == NULL) return seqmix_fail(r->why, "%s: %s is missing", r->label, key);
    if (seqmix_json_whole(node, low, high, out)) return true;
    if (!cJSON_IsNumber(node)) return seqmix_fail(r->why, "%s: %s is not a number", r->label, key);
    return seqmix_fail(r->why, "%s: %s=%.17g is not a whole number in [%lld, %lld]", r->label, key, node->valuedouble,
                       (long long)low, (long long)high);
}

static bool flag(const reader *r, const char *key, bool fallback, bool *out)
{
    const cJSON *node = find(r, key);
    *out = node != NULL ? cJSON_IsTrue(node) != 0 : fallback;
    return node == NULL || cJSON_IsBool(node) || seqmix_fail(r->why, "%s: %s is neither true nor false", r->label, key);
}

static bool epsilon(const reader *r, const char *key, float *out)
{
    const cJSON *node = find(r, key);
    if (node == NULL) return seqmix_fail(r->why, "%s: %s is missing", r->label, key);
    if (!cJSON_IsNumber(node) || !(node->valuedouble >= 1e-30 && node->valuedouble <= 1.0))
        return seqmix_fail(r->why, "%s: %s is not a number in [1e-30, 1]", r->label, key);
    *out = (float)node->valuedouble;
    return true;
}

/* eos_token_id: a number, a list of numbers, or nothing. Negative ids, as some files have, mean none. */
static bool stop_tokens(const reader *r, int64_t vocab, seqmix_config *c)
{
    const cJSON *node = find(r, "eos_token_id");
    const cJSON *item = cJSON_IsArray(node) ? node->child : node;
    int32_t n = 0;
    for (; item != NULL; item = cJSON_IsArray(node) ? item->next : NULL) {
        int64_t id;
        if (n == SEQMIX_MAX_STOP)
            return seqmix_fail(r->why, "%s: eos_token_id lists more than %d tokens", r->label, SEQMIX_MAX_STOP);
        if (!seqmix_json_whole(item, -1, vocab - 1, &id))
            return seqmix_fail(r->why, "%s: eos_token_id is not in [0, vocab_size=%lld)", r->label, (long long)vocab);
        if (id >= 0) c->stop[n++] = (int32_t)id;
    }
    if (n > 0) c->n_stop = n;
    return true;
}

/* "auto" is ceil(hidden / 16). */
static bool time_step_rank(const reader *r, const char *key, int64_t hidden, int64_t *out)
{
    const cJSON *node = find(r, key);
    if (node == NULL || (cJSON_IsString(node) && strcmp(node->valuestring, "auto") == 0)) {
        *out = (hidden + 15) / 16;
        return true;
    }
    if (seqmix_json_whole(node, 1, MAX_SIZE, out)) return true;
    return seqmix_fail(r->why, "%s: %s is neither \"auto\" nor a whole number in [1, %lld]", r->label, key,
                       (long long)MAX_SIZE);
}

/* hidden * expand, where expand may be a fraction. */
static bool inner_size(const reader *r, int64_t hidden, int64_t *out)
{
    if (find(r, "intermediate_size") != NULL) return whole(r, "intermediate_size", 1, MAX_SIZE, out);
    const cJSON *expand = find(r, "expand");
    double factor = expand == NULL ? 2.0 : cJSON_IsNumber(expand) ? expand->valuedouble : 0.0;
    double inner = factor * (double)hidden;
    if (!(inner >= 1.0 && inner <= (double)MAX_SIZE))
        return seqmix_fail(r->why, "%s: expand is not a number that makes hidden_size*expand one of [1, %lld]",
                           r->label, (long long)MAX_SIZE);
    *out = (int64_t)inner;
    return true;
}

static bool parse_mamba(const reader *r, seqmix_config *c)
{
    if (!whole(r, "vocab_size", 1, MAX_SIZE, &c->vocab) || !whole(r, "hidden_size", 1, MAX_SIZE, &c->hidden) ||
        !whole(r, "num_hidden_layers", 1, 4096, &c->layers) || !whole(r, "state_size", 1, 256, &c->mamba.state) ||
        !whole(r, "conv_kernel", 1, 16, &c->mamba.conv) || !epsilon(r, "layer_norm_epsilon", &c->eps) ||
        !inner_size(r, c->hidden, &c->mamba.inner) ||
        !time_step_rank(r, "time_step_rank", c->hidden, &c->mamba.dt_rank) ||
        !flag(r, "use_bias", false, &c->mamba.bias) || !flag(r, "use_conv_bias", true, &c->mamba.conv_bias) ||
        !flag(r, "residual_in_fp32", true, &c->mamba.residual_f32) || !flag(r, "tie_word_embeddings", true, &c->tied) ||
        !stop_tokens(r, c->vocab, c))
        return false;
    const cJSON *act = find(r, "hidden_act");
    if (act != NULL && (!cJSON_IsString(act) || strcmp(act->valuestring, "silu") != 0))
        return seqmix_fail(r->why, "%s: hidden_act '%.32s' is not supported (only silu)", r->label,
                           cJSON_IsString(act) ? act->valuestring : "?");
    return true;
}

/* state-spaces' own file names sizes otherwise and leaves the mixer's to defaults. */
static bool parse_mamba_original(const reader *r, seqmix_config *c)
{
    c->original_layout = true;
    c->eps = 1e-5F;
    int64_t multiple = 8;
    if (!whole(r, "vocab_size", 1, MAX_SIZE, &c->vocab) || !whole(r, "d_model", 1, MAX_SIZE, &c->hidden) ||
        !whole(r, "n_layer", 1, 4096, &c->layers) || !flag(r, "tie_embeddings", true, &c->tied) ||
        !flag(r, "residual_in_fp32", true, &c->mamba.residual_f32))
        return false;
    if (find(r, "pad_vocab_size_multiple") != NULL && !whole(r, "pad_vocab_size_multiple", 1, 65536, &multiple))
        return false;
    c->vocab = (c->vocab + multiple - 1) / multiple * multiple;
    bool rms;
    if (!flag(r, "rms_norm", true, &rms)) return false;
    if (!rms) return seqmix_fail(r->why, "%s: rms_norm=false is not supported", r->label);

    reader s = {find(r, "ssm_cfg"), r->label, r->why};
    const cJSON *layer = find(&s, "layer");
    if (layer != NULL && (!cJSON_IsString(layer) || strcmp(layer->valuestring, "Mamba1") != 0))
        return seqmix_fail(r->why, "%s: ssm_cfg.layer '%.32s' is not supported (only Mamba1)", r->label,
                           cJSON_IsString(layer) ? layer->valuestring : "?");
    c->mamba.state = 16;
    c->mamba.conv = 4;
    return (find(&s, "d_state") == NULL || whole(&s, "d_state", 1, 256, &c->mamba.state)) &&
           (find(&s, "d_conv") == NULL || whole(&s, "d_conv", 1, 16, &c->mamba.conv)) &&
           inner_size(&s, c->hidden, &c->mamba.inner) && time_step_rank(&s, "dt_rank", c->hidden, &c->mamba.dt_rank) &&
           flag(&s, "bias", false, &c->mamba.bias) && flag(&s, "conv_bias", true, &c->mamba.conv_bias);
}

static const struct {
    const char *model_type;
    seqmix_family_id family;
    bool (*parse)(const reader *r, seqmix_config *c);
} families[] = {
    {"mamba", SEQMIX_FAMILY_MAMBA, parse_mamba},
};
#define N_FAMILIES (sizeof families / sizeof families[0])

static bool parse_object(const reader *r, seqmix_config *c)
{
    if (!cJSON_IsObject(r->object)) return seqmix_fail(r->why, "%s: not a JSON object", r->label);
    const cJSON *type = find(r, "model_type");
    if (type == NULL && find(r, "d_model") != NULL && find(r, "n_layer") != NULL) {
        c->family = SEQMIX_FAMILY_MAMBA;
        c->family_name = "mamba";
        return parse_mamba_original(r, c);
    }
    if (!cJSON_IsString(type)) return seqmix_fail(r->why, "%s: model_type is missing", r->label);
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (strcmp(families[i].model_type, type->valuestring) != 0) continue;
        c->family = families[i].family;
        c->family_name = families[i].model_type;
        return families[i].parse(r, c);
    }
    return seqmix_fail(r->why, "%s: model_type '%.64s' is not supported (only: mamba)", r->label, type->valuestring);
}

static cJSON *parse_text(const void *bytes, size_t size, const char *label, seqmix_why why)
{
    char reason[128] = "";
    cJSON *tree = seqmix_json_parse(bytes, size, (seqmix_why){reason, sizeof reason});
    if (tree == NULL) (void)seqmix_fail(why, "%s: %s", label, reason);
    return tree;
}

bool seqmix_config_parse(const void *bytes, size_t size, const char *label, seqmix_config *config, seqmix_why why)
{
    *config = (seqmix_config){0};
    cJSON *tree = parse_text(bytes, size, label, why);
    if (tree == NULL) return false;
    reader r = {tree, label, why};
    bool ok = parse_object(&r, config);
    cJSON_Delete(tree);
    return ok;
}

static bool open_generation(const char *path, seqmix_config *config, seqmix_why why)
{
    static const char label[] = "generation_config.json";
    seqmix_file file;
    if (!seqmix_file_exists(path)) return true;
    if (!seqmix_file_map(path, &file, why)) return false;
    cJSON *tree = parse_text(file.bytes, file.size, label, why);
    seqmix_file_unmap(&file);
    reader r = {tree, label, why};
    bool ok = tree != NULL && stop_tokens(&r, config->vocab, config);
    cJSON_Delete(tree);
    return ok;
}

bool seqmix_config_open(const char *dir, seqmix_config *config, seqmix_why why)
{
    *config = (seqmix_config){0};
    size_t room = strlen(dir) + 32;
    char *path = malloc(room);
    if (path == NULL) return seqmix_fail(why, "%s: no memory", dir);
    seqmix_file file;
    (void)snprintf(path, room, "%s/config.json", dir);
    bool ok = seqmix_file_map(path, &file, why);
    if (ok) {
        ok = seqmix_config_parse(file.bytes, file.size, "config.json", config, why);
        seqmix_file_unmap(&file);
    }
    (void)snprintf(path, room, "%s/generation_config.json", dir);
    ok = ok && open_generation(path, config, why);
    free(path);
    return ok;
}
