/* SPDX-License-Identifier: MIT */
/*
 * tokenizer.json to a tokenizer. What is not supported is refused by name rather than skipped: a wrong cut is a wrong model.
 */
#define _POSIX_C_SOURCE 200809L

#include <utf8proc.h>

#include "file.h"
#include "tokenizer_build.h"

#define MAX_ID    SEQMIX_TOKENIZER_MAX_ID
#define MAX_DEPTH 8

typedef struct loader {
    seqmix_builder b;
    seqmix_tokenizer *t; /* b.t */
    const cJSON *root;
    const char **keys; /* by id, as the file writes them; NULL = none */
    bool byte_level;
    seqmix_why why;
} loader;

static const cJSON *item(const cJSON *object, const char *key)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNull(node) ? NULL : node;
}

static const char *text_of(const cJSON *object, const char *key)
{
    const cJSON *node = item(object, key);
    return cJSON_IsString(node) ? node->valuestring : "";
}

static bool truth(const cJSON *object, const char *key, bool fallback)
{
    const cJSON *node = item(object, key);
    return node != NULL ? cJSON_IsTrue(node) != 0 : fallback;
}

static bool no_memory(const loader *l)
{
    return seqmix_fail(l->why, "no memory");
}

/* ---- vocabulary ---- */

static bool load_vocab(loader *l, const cJSON *vocab)
{
    for (const cJSON *node = vocab->child; node != NULL; node = node->next) {
        int64_t id = (int64_t)node->valuedouble; /* checked by count_ids */
        if (l->keys[id] != NULL)
            return seqmix_fail(l->why, "tokens '%.64s' and '%.64s' both have id %lld", l->keys[id], node->string,
                               (long long)id);
        l->keys[id] = node->string;
        if (!seqmix_builder_token(&l->b, id, node->string, strlen(node->string))) return false;
    }
    return true;
}

/* The two halves of a merge, "a b" or ["a", "b"]. */
static bool merge_halves(const loader *l, const cJSON *node, int64_t rank, const char **left, size_t *left_n,
                         const char **right)
{
    const cJSON *a = cJSON_IsArray(node) ? node->child : NULL, *b = a != NULL ? a->next : NULL;
    if (cJSON_IsString(node)) {
        const char *blank = strchr(node->valuestring, ' ');
        if (blank != NULL && strchr(blank + 1, ' ') == NULL) {
            *left = node->valuestring;
            *left_n = (size_t)(blank - node->valuestring);
            *right = blank + 1;
            return true;
        }
    } else if (cJSON_IsString(a) && cJSON_IsString(b) && b->next == NULL) {
        *left = a->valuestring;
        *left_n = strlen(a->valuestring);
        *right = b->valuestring;
        return true;
    }
    return seqmix_fail(l->why, "merge %lld is neither \"a b\" nor [\"a\", \"b\"]", (long long)rank);
}

static bool load_merge(loader *l, const cJSON *node, int64_t rank)
{
    const char *left = "", *right = "";
    size_t left_n = 0;
    return merge_halves(l, node, rank, &left, &left_n, &right) &&
           seqmix_builder_merge(&l->b, rank, left, left_n, right, strlen(right));
}

/* Every id of the vocabulary and of the added tokens is checked here; *count gets the highest plus one. */
static bool count_ids(const loader *l, const cJSON *vocab, const cJSON *added, int64_t *count)
{
    *count = 0;
    for (const cJSON *node = vocab->child; node != NULL; node = node->next) {
        int64_t id;
        if (!seqmix_json_whole(node, 0, MAX_ID, &id))
            return seqmix_fail(l->why, "the id of token '%.64s' is not a whole number in [0, %lld]", node->string,
                               (long long)MAX_ID);
        if (id >= *count) *count = id + 1;
    }
    for (const cJSON *node = cJSON_IsArray(added) ? added->child : NULL; node != NULL; node = node->next) {
        int64_t id;
        if (!cJSON_IsString(item(node, "content")) || !seqmix_json_whole(item(node, "id"), 0, MAX_ID, &id))
            return seqmix_fail(l->why, "an added token lacks its content, or an id in [0, %lld]", (long long)MAX_ID);
        if (id >= *count) *count = id + 1;
    }
    return true;
}

static bool model_options(const loader *l, const cJSON *model)
{
    int32_t unknown = -1;
    const cJSON *dropout = item(model, "dropout");
    if (dropout != NULL && !(cJSON_IsNumber(dropout) && dropout->valuedouble <= 0.0))
        return seqmix_fail(l->why, "model.dropout is not supported");
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++)
        if (text_of(model, affixes[i])[0] != '\0') return seqmix_fail(l->why, "model.%s is not supported", affixes[i]);
    const char *name = text_of(model, "unk_token");
    for (int32_t id = 0; name[0] != '\0' && id < l->t->n_tokens; id++)
        if (l->keys[id] != NULL && strcmp(l->keys[id], name) == 0) unknown = id;
    seqmix_bpe_options(l->t->bpe, unknown, truth(model, "fuse_unk", false), truth(model, "ignore_merges", false));
    return true;
}

static bool load_model(loader *l)
{
    const cJSON *model = item(l->root, "model"), *added = item(l->root, "added_tokens");
    const cJSON *vocab = item(model, "vocab"), *merges = item(model, "merges");
    if (!cJSON_IsObject(model)) return seqmix_fail(l->why, "model is missing");
    if (item(model, "type") != NULL && strcmp(text_of(model, "type"), "BPE") != 0)
        return seqmix_fail(l->why, "model.type '%.32s' is not supported (only BPE)", text_of(model, "type"));
    if (!cJSON_IsObject(vocab) || vocab->child == NULL)
        return seqmix_fail(l->why, "model.vocab is not an object with tokens");
    if (!cJSON_IsArray(merges)) return seqmix_fail(l->why, "model.merges is not an array");
    if (added != NULL && !cJSON_IsArray(added)) return seqmix_fail(l->why, "added_tokens is not an array");
    int64_t count;
    if (!count_ids(l, vocab, added, &count)) return false;
    l->keys = calloc((size_t)count, sizeof *l->keys);
    if (l->keys == NULL) return no_memory(l);
    if (!seqmix_builder_room(&l->b, count, (size_t)cJSON_GetArraySize(vocab), (size_t)cJSON_GetArraySize(merges)))
        return false;
    if (!load_vocab(l, vocab)) return false;
    int64_t rank = 0;
    for (const cJSON *node = merges->child; node != NULL; node = node->next)
        if (!load_merge(l, node, rank++)) return false;
    return model_options(l, model);
}

/* ---- added tokens ---- */

static bool load_added(loader *l, const cJSON *node)
{
    const char *content = item(node, "content")->valuestring;
    int64_t id = (int64_t)item(node, "id")->valuedouble; /* checked by count_ids */
    if (l->keys[id] != NULL && strcmp(l->keys[id], content) != 0)
        return seqmix_fail(l->why, "added token '%.64s' has id %lld, which is that of '%.64s'", content, (long long)id,
                           l->keys[id]);
    l->keys[id] = content;
    bool special = truth(node, "special", false);
    seqmix_added options = {.id = (int32_t)id,
                            .single_word = truth(node, "single_word", false),
                            .lstrip = truth(node, "lstrip", false),
                            .rstrip = truth(node, "rstrip", false),
                            .normalized = truth(node, "normalized", !special)};
    return seqmix_builder_added(&l->b, &options, content, strlen(content), special);
}

static bool load_all_added(loader *l)
{
    const cJSON *list = item(l->root, "added_tokens");
    int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (n == 0) return true;
    l->t->added = calloc((size_t)n, sizeof *l->t->added);
    if (l->t->added == NULL) return no_memory(l);
    for (const cJSON *node = list->child; node != NULL; node = node->next)
        if (!load_added(l, node)) return false;
    seqmix_builder_sort_added(&l->b);
    return true;
}

/* ---- the steps around the model ---- */

static bool load_normalizer(loader *l, const cJSON *node, int depth)
{
    static const struct {
        const char *type;
        int options;
    } forms[] = {{"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
                 {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
                 {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
                 {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
    if (node == NULL) return true;
    const char *type = text_of(node, "type");
    if (strcmp(type, "Sequence") == 0 && cJSON_IsArray(item(node, "normalizers"))) {
        if (depth == MAX_DEPTH) return seqmix_fail(l->why, "normalizer: sequences nested deeper than %d", MAX_DEPTH);
        for (const cJSON *part = item(node, "normalizers")->child; part != NULL; part = part->next)
            if (!load_normalizer(l, part, depth + 1)) return false;
        return true;
    }
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (strcmp(type, forms[i].type) != 0) continue;
        if (l->t->n_normalizers == SEQMIX_MAX_NORMALIZERS)
            return seqmix_fail(l->why, "normalizer: more than %d steps", SEQMIX_MAX_NORMALIZERS);
        l->t->normalizers[l->t->n_normalizers++] = forms[i].options;
        return true;
    }
    return seqmix_fail(l->why, "normalizer '%.32s' is not supported", type);
}

static bool load_split(loader *l, const cJSON *node)
{
    static const struct {
        const char *name;
        seqmix_split split;
    } behaviours[] = {{"Isolated", SEQMIX_SPLIT_ISOLATED},
                      {"Removed", SEQMIX_SPLIT_REMOVED},
                      {"Contiguous", SEQMIX_SPLIT_CONTIGUOUS},
                      {"MergedWithPrevious", SEQMIX_SPLIT_WITH_PREVIOUS},
                      {"MergedWithNext", SEQMIX_SPLIT_WITH_NEXT}};
    const cJSON *pattern = item(node, "pattern");
    bool literal = cJSON_IsString(item(pattern, "String"));
    if (!literal && !cJSON_IsString(item(pattern, "Regex")))
        return seqmix_fail(l->why, "pre_tokenizer Split: pattern is neither a Regex nor a String");
    for (size_t i = 0; i < sizeof behaviours / sizeof behaviours[0]; i++)
        if (strcmp(text_of(node, "behavior"), behaviours[i].name) == 0)
            return seqmix_pretokenizer_add_split(l->t->pretokenizer, text_of(pattern, literal ? "String" : "Regex"),
                                                 literal, behaviours[i].split, truth(node, "invert", false), l->why);
    return seqmix_fail(l->why, "pre_tokenizer Split: behavior '%.32s' is not known", text_of(node, "behavior"));
}

static bool load_pretokenizer(loader *l, const cJSON *node, int depth)
{
    seqmix_pretokenizer *p = l->t->pretokenizer;
    const char *type = text_of(node, "type");
    if (l->byte_level) return seqmix_fail(l->why, "pre_tokenizer: '%.32s' after ByteLevel is not supported", type);
    if (strcmp(type, "Sequence") == 0 && cJSON_IsArray(item(node, "pretokenizers"))) {
        if (depth == MAX_DEPTH) return seqmix_fail(l->why, "pre_tokenizer: sequences nested deeper than %d", MAX_DEPTH);
        for (const cJSON *part = item(node, "pretokenizers")->child; part != NULL; part = part->next)
            if (!load_pretokenizer(l, part, depth + 1)) return false;
        return true;
    }
    if (strcmp(type, "Split") == 0) return load_split(l, node);
    if (strcmp(type, "Digits") == 0)
        return seqmix_pretokenizer_add_split(
            p, "\\p{N}", false,
            truth(node, "individual_digits", false) ? SEQMIX_SPLIT_ISOLATED : SEQMIX_SPLIT_CONTIGUOUS, false, l->why);
    if (strcmp(type, "ByteLevel") == 0) {
        l->byte_level = true;
        return (!truth(node, "add_prefix_space", true) || seqmix_pretokenizer_add_prefix_space(p, l->why)) &&
               (!truth(node, "use_regex", true) ||
                seqmix_pretokenizer_add_split(p, seqmix_gpt2_pattern, false, SEQMIX_SPLIT_ISOLATED, false, l->why));
    }
    return seqmix_fail(l->why, "pre_tokenizer '%.32s' is not supported", type);
}

/* The ids of a special token of a template. */
static bool template_token(loader *l, const cJSON *special, const cJSON *tokens, seqmix_ids *to)
{
    const char *name = text_of(special, "id");
    const cJSON *ids = item(item(tokens, name), "ids");
    if (!cJSON_IsArray(ids)) return seqmix_fail(l->why, "post_processor: token '%.64s' has no ids", name);
    for (const cJSON *node = ids->child; node != NULL; node = node->next) {
        int64_t id;
        if (!seqmix_json_whole(node, 0, l->t->n_tokens - 1, &id) || !l->t->tokens[id].present)
            return seqmix_fail(l->why, "post_processor: an id of '%.64s' is no token", name);
        if (!seqmix_ids_add(to, (int32_t)id)) return no_memory(l);
    }
    return true;
}

static bool load_template(loader *l, const cJSON *node)
{
    const cJSON *single = item(node, "single");
    seqmix_ids *to = &l->t->before;
    if (!cJSON_IsArray(single)) return seqmix_fail(l->why, "post_processor: single is not an array");
    for (const cJSON *part = single->child; part != NULL; part = part->next) {
        const cJSON *special = item(part, "SpecialToken");
        if (special != NULL) {
            if (!template_token(l, special, item(node, "special_tokens"), to)) return false;
        } else if (to == &l->t->before && strcmp(text_of(item(part, "Sequence"), "id"), "A") == 0) {
            to = &l->t->after;
        } else {
            return seqmix_fail(l->why, "post_processor: single does not hold the text exactly once");
        }
    }
    return to == &l->t->after || seqmix_fail(l->why, "post_processor: single does not hold the text exactly once");
}

static bool load_postprocessor(loader *l, const cJSON *node, int depth)
{
    if (node == NULL) return true;
    const char *type = text_of(node, "type");
    if (strcmp(type, "ByteLevel") == 0) return true; /* concerns offsets only */
    if (strcmp(type, "Sequence") == 0 && cJSON_IsArray(item(node, "processors"))) {
        if (depth == MAX_DEPTH)
            return seqmix_fail(l->why, "post_processor: sequences nested deeper than %d", MAX_DEPTH);
        for (const cJSON *part = item(node, "processors")->child; part != NULL; part = part->next)
            if (!load_postprocessor(l, part, depth + 1)) return false;
        return true;
    }
    if (strcmp(type, "TemplateProcessing") == 0) {
        if (l->t->before.n + l->t->after.n > 0) return seqmix_fail(l->why, "post_processor: more than one template");
        return load_template(l, node);
    }
    return seqmix_fail(l->why, "post_processor '%.32s' is not supported", type);
}

static bool check_decoder(const loader *l)
{
    const cJSON *node = item(l->root, "decoder");
    if (node == NULL || strcmp(text_of(node, "type"), "ByteLevel") == 0) return true;
    return seqmix_fail(l->why, "decoder '%.32s' is not supported (only ByteLevel)", text_of(node, "type"));
}

static bool load(loader *l)
{
    if (!cJSON_IsObject(l->root)) return seqmix_fail(l->why, "not a JSON object");
    if (!load_normalizer(l, item(l->root, "normalizer"), 0) || !load_model(l) || !load_all_added(l) ||
        !load_pretokenizer(l, item(l->root, "pre_tokenizer"), 0) ||
        !load_postprocessor(l, item(l->root, "post_processor"), 0) || !check_decoder(l))
        return false;
    return l->byte_level || seqmix_fail(l->why, "pre_tokenizer has no ByteLevel; other tokenizers are not supported");
}

seqmix_tokenizer *seqmix_tokenizer_parse(const void *bytes, size_t size, const char *label, seqmix_why why)
{
    char reason[256] = "";
    loader l = {.why = {reason, sizeof reason}};
    cJSON *root = seqmix_json_parse(bytes, size, l.why);
    bool ok = root != NULL;
    if (ok) {
        l.root = root;
        ok = seqmix_builder_begin(&l.b, l.why);
        l.t = l.b.t;
        ok = ok && load(&l);
    }
    if (!ok) (void)seqmix_fail(why, "%s: %s", label, reason);
    free(l.keys);
    cJSON_Delete(root);
    return seqmix_builder_end(&l.b, ok);
}

seqmix_tokenizer *seqmix_tokenizer_open(const char *dir, seqmix_why why)
{
    static const char name[] = "tokenizer.json";
    size_t room = strlen(dir) + sizeof name + 1;
    char *path = malloc(room);
    if (path == NULL) {
        (void)seqmix_fail(why, "%s: no memory", dir);
        return NULL;
    }
    (void)snprintf(path, room, "%s/%s", dir, name);
    seqmix_file file;
    seqmix_tokenizer *t = NULL;
    if (seqmix_file_map(path, &file, why)) {
        t = seqmix_tokenizer_parse(file.bytes, file.size, name, why);
        seqmix_file_unmap(&file);
    }
    free(path);
    return t;
}
