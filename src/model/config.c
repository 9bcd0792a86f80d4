/* SPDX-License-Identifier: MIT */
/* config.json to numbers (see config.h): which family it is, and what holds for all of them. */
#define _POSIX_C_SOURCE 200809L

#include "config.h"

#include "config_reader.h"
#include "file.h"

const char *const seqmix_kind_names[SEQMIX_N_KINDS] = {"none", "scan", "ssd", "delta", "attention", "mlp", "moe"};

static const struct {
    const char *model_type, *family_name;
    seqmix_family_id family;
    bool (*parse)(const seqmix_reader *r, seqmix_config *c);
} families[] = {
    {"mamba", "mamba", SEQMIX_FAMILY_MAMBA, seqmix_config_mamba},
    {"mamba2", "mamba2", SEQMIX_FAMILY_MAMBA2, seqmix_config_mamba2},
    {"nemotron_h", "nemotron_h", SEQMIX_FAMILY_NEMOTRON_H, seqmix_config_nemotron_h},
    {"qwen3_5", "qwen3_5", SEQMIX_FAMILY_QWEN3_5, seqmix_config_qwen3_5},
    {"qwen3_5_text", "qwen3_5", SEQMIX_FAMILY_QWEN3_5, seqmix_config_qwen3_5},
    {"qwen3_5_moe", "qwen3_5_moe", SEQMIX_FAMILY_QWEN3_5, seqmix_config_qwen3_5_moe},
    {"qwen3_5_moe_text", "qwen3_5_moe", SEQMIX_FAMILY_QWEN3_5, seqmix_config_qwen3_5_moe},
    {"qwen3_next", "qwen3_next", SEQMIX_FAMILY_QWEN3_5, seqmix_config_qwen3_next},
};
#define N_FAMILIES (sizeof families / sizeof families[0])

bool seqmix_config_has(const seqmix_config *c, seqmix_kind kind)
{
    return memchr(c->mixer, (int)kind, (size_t)c->layers) != NULL ||
           memchr(c->ffn, (int)kind, (size_t)c->layers) != NULL;
}

static bool divides(int64_t part, const char *part_name, int64_t whole, const char *whole_name, const char *label,
                    seqmix_why why)
{
    return whole % part == 0 || seqmix_fail(why, "%s: %s=%lld does not divide %s=%lld", label, part_name,
                                            (long long)part, whole_name, (long long)whole);
}

static bool check_moe(const seqmix_config *c, const char *label, seqmix_why why)
{
    if (c->moe.per_token > c->moe.experts || c->moe.top_groups > c->moe.groups)
        return seqmix_fail(why, "%s: %lld of %lld experts and %lld of %lld groups a token are more than there are",
                           label, (long long)c->moe.per_token, (long long)c->moe.experts, (long long)c->moe.top_groups,
                           (long long)c->moe.groups);
    if (!divides(c->moe.groups, "the groups of experts", c->moe.experts, "the experts", label, why)) return false;
    int64_t reachable = c->moe.experts / c->moe.groups * c->moe.top_groups;
    return c->moe.per_token <= reachable || seqmix_fail(why, "%s: %lld experts a token, but only %lld can be chosen",
                                                        label, (long long)c->moe.per_token, (long long)reachable);
}

bool seqmix_config_check(const seqmix_config *c, const char *label, seqmix_why why)
{
    if (seqmix_config_has(c, SEQMIX_KIND_SSD) &&
        !divides(c->ssd.groups, "the groups", c->ssd.heads, "the heads", label, why))
        return false;
    if (seqmix_config_has(c, SEQMIX_KIND_DELTA) &&
        !divides(c->delta.key_heads, "the key heads", c->delta.value_heads, "the value heads", label, why))
        return false;
    if (seqmix_config_has(c, SEQMIX_KIND_ATTENTION)) {
        if (!divides(c->attention.kv_heads, "the heads of keys", c->attention.heads, "the heads of queries", label,
                     why))
            return false;
        if (c->attention.head_dim < 1 || c->attention.rope_dims > c->attention.head_dim ||
            c->attention.rope_dims % 2 != 0)
            return seqmix_fail(why, "%s: %lld rotary of %lld dimensions a head", label,
                               (long long)c->attention.rope_dims, (long long)c->attention.head_dim);
    }
    return !seqmix_config_has(c, SEQMIX_KIND_MOE) || check_moe(c, label, why);
}

/* Of a multimodal checkpoint: the text part, whose keys those beside it complete. */
static bool parse_nested(const seqmix_reader *r, size_t family, seqmix_config *c)
{
    seqmix_reader text = {seqmix_read_node(r, "text_config"), r->label, r->why};
    if (!cJSON_IsObject(text.object)) return families[family].parse(r, c);
    if (!families[family].parse(&text, c)) return false;
    if (c->n_stop == 0 && !seqmix_read_stop_tokens(r, c->vocab, c)) return false;
    return seqmix_read_flag(r, "tie_word_embeddings", c->tied, &c->tied);
}

/* An id that is none is as good as no id. */
static void read_bos(const seqmix_reader *r, seqmix_config *c)
{
    int64_t id;
    if (seqmix_json_whole(seqmix_read_node(r, "bos_token_id"), 0, c->vocab - 1, &id)) c->bos = (int32_t)id;
}

static bool parse_object(const seqmix_reader *r, seqmix_config *c)
{
    c->bos = -1;
    if (!cJSON_IsObject(r->object)) return seqmix_fail(r->why, "%s: not a JSON object", r->label);
    const cJSON *type = seqmix_read_node(r, "model_type");
    if (type == NULL && seqmix_read_node(r, "d_model") != NULL && seqmix_read_node(r, "n_layer") != NULL)
        return seqmix_config_mamba_original(r, c) && seqmix_config_check(c, r->label, r->why);
    if (!cJSON_IsString(type)) return seqmix_fail(r->why, "%s: model_type is missing", r->label);
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (strcmp(families[i].model_type, type->valuestring) != 0) continue;
        c->family = families[i].family;
        c->family_name = families[i].family_name;
        if (!parse_nested(r, i, c)) return false;
        read_bos(r, c);
        read_bos(&(seqmix_reader){seqmix_read_node(r, "text_config"), r->label, r->why}, c);
        return seqmix_config_check(c, r->label, r->why);
    }
    return seqmix_fail(r->why,
                       "%s: model_type '%.64s' is not supported (only mamba, mamba2, nemotron_h, qwen3_5, qwen3_5_moe "
                       "and qwen3_next)",
                       r->label, type->valuestring);
}

/* Python writes Infinity, which is no JSON; outside of texts it becomes a number of the same length that reads as one. */
static void replace_infinity(char *text, size_t size)
{
    static const char word[] = "Infinity", number[] = "1e999   ";
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted && size - i >= 8 && memcmp(text + i, word, 8) == 0)
            memcpy(text + i, number, 8);
    }
}

static cJSON *parse_text(const void *bytes, size_t size, const char *label, seqmix_why why)
{
    char reason[128] = "";
    char *copy = malloc(size + 1);
    if (copy == NULL) {
        (void)seqmix_fail(why, "%s: no memory for %zu bytes", label, size);
        return NULL;
    }
    if (size > 0) memcpy(copy, bytes, size);
    replace_infinity(copy, size);
    cJSON *tree = seqmix_json_parse(copy, size, (seqmix_why){reason, sizeof reason});
    free(copy);
    if (tree == NULL) (void)seqmix_fail(why, "%s: %s", label, reason);
    return tree;
}

bool seqmix_config_parse(const void *bytes, size_t size, const char *label, seqmix_config *config, seqmix_why why)
{
    *config = (seqmix_config){0};
    cJSON *tree = parse_text(bytes, size, label, why);
    if (tree == NULL) return false;
    seqmix_reader r = {tree, label, why};
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
    seqmix_reader r = {tree, label, why};
    bool ok = tree != NULL && seqmix_read_stop_tokens(&r, config->vocab, config);
    if (ok) read_bos(&r, config);
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
