/* SPDX-License-Identifier: MIT */
/* Typed look-ups in a config (see config_reader.h). */
#include "config_reader.h"

const cJSON *seqmix_read_node(const seqmix_reader *r, const char *key)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(r->object, key);
    return cJSON_IsNull(node) ? NULL : node;
}

bool seqmix_read_whole(const seqmix_reader *r, const char *key, int64_t low, int64_t high, int64_t *out)
{
    const cJSON *node = seqmix_read_node(r, key);
    if (node == NULL) return seqmix_fail(r->why, "%s: %s is missing", r->label, key);
    if (seqmix_json_whole(node, low, high, out)) return true;
    if (!cJSON_IsNumber(node)) return seqmix_fail(r->why, "%s: %s is not a number", r->label, key);
    return seqmix_fail(r->why, "%s: %s=%.17g is not a whole number in [%lld, %lld]", r->label, key, node->valuedouble,
                       (long long)low, (long long)high);
}

bool seqmix_read_optional(const seqmix_reader *r, const char *key, int64_t low, int64_t high, int64_t *out)
{
    return seqmix_read_node(r, key) == NULL || seqmix_read_whole(r, key, low, high, out);
}

bool seqmix_read_flag(const seqmix_reader *r, const char *key, bool fallback, bool *out)
{
    const cJSON *node = seqmix_read_node(r, key);
    *out = node != NULL ? cJSON_IsTrue(node) != 0 : fallback;
    return node == NULL || cJSON_IsBool(node) || seqmix_fail(r->why, "%s: %s is neither true nor false", r->label, key);
}

bool seqmix_read_number(const seqmix_reader *r, const char *key, double low, double high, float *out)
{
    const cJSON *node = seqmix_read_node(r, key);
    if (node == NULL) return true;
    if (!cJSON_IsNumber(node) || !(node->valuedouble >= low && node->valuedouble <= high))
        return seqmix_fail(r->why, "%s: %s is not a number in [%g, %g]", r->label, key, low, high);
    *out = (float)node->valuedouble;
    return true;
}

bool seqmix_read_epsilon(const seqmix_reader *r, const char *key, float *out)
{
    if (seqmix_read_node(r, key) == NULL) return seqmix_fail(r->why, "%s: %s is missing", r->label, key);
    return seqmix_read_number(r, key, 1e-30, 1.0, out);
}

bool seqmix_read_fixed(const seqmix_reader *r, const char *key, const char *wanted)
{
    const cJSON *node = seqmix_read_node(r, key);
    if (node == NULL || (cJSON_IsString(node) && strcmp(node->valuestring, wanted) == 0)) return true;
    return seqmix_fail(r->why, "%s: %s '%.32s' is not supported (only %s)", r->label, key,
                       cJSON_IsString(node) ? node->valuestring : "?", wanted);
}

bool seqmix_read_stop_tokens(const seqmix_reader *r, int64_t vocab, seqmix_config *c)
{
    const cJSON *node = seqmix_read_node(r, "eos_token_id");
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

/* JSON has no infinity. Files say it as a number beyond all (config.c makes one of a bare Infinity) or as {"__float__": ...}. */
static bool is_infinite(const cJSON *node)
{
    const cJSON *text = cJSON_IsObject(node) ? cJSON_GetObjectItemCaseSensitive(node, "__float__") : node;
    if (cJSON_IsString(text)) return strcmp(text->valuestring, "Infinity") == 0;
    return cJSON_IsNumber(node) && node->valuedouble > 1e30;
}

bool seqmix_read_limits(const seqmix_reader *r, const char *key, float *low, float *high)
{
    const cJSON *node = seqmix_read_node(r, key);
    if (node == NULL) return true;
    const cJSON *first = cJSON_IsArray(node) ? node->child : NULL, *second = first != NULL ? first->next : NULL;
    if (second == NULL || second->next != NULL || !cJSON_IsNumber(first) ||
        !(first->valuedouble >= 0.0 && first->valuedouble < 1e30) || !(is_infinite(second) || cJSON_IsNumber(second)))
        return seqmix_fail(r->why, "%s: %s is not a pair of a lower and an upper bound", r->label, key);
    *low = (float)first->valuedouble;
    *high = 0.0F;
    if (is_infinite(second)) return true;
    if (!(second->valuedouble > 0.0 && second->valuedouble >= first->valuedouble))
        return seqmix_fail(r->why, "%s: %s has an upper bound of %g below its lower one of %g", r->label, key,
                           second->valuedouble, first->valuedouble);
    *high = (float)second->valuedouble;
    return true;
}
