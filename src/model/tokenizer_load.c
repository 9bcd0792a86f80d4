/* SPDX-License-Identifier: MIT */
/*
 * tokenizer.json to a tokenizer. Vocabulary keys are written with one printable character per byte (GPT-2's alphabet); they
 * become bytes here, once. A key with characters outside that alphabet cannot come out of the merges and is kept for
 * decoding only. What is not supported is refused by name rather than skipped: a wrong cut is a wrong model.
 */
#define _POSIX_C_SOURCE 200809L

#include <utf8proc.h>

#include "file.h"
#include "tokenizer_impl.h"

#define MAX_ID    ((INT64_C(1) << 24) - 1)
#define MAX_DEPTH 8

typedef struct loader {
    seqmix_tokenizer *t;
    const cJSON *root;
    const char **keys; /* by id, as the file writes them; NULL = none */
    seqmix_bytes scratch;
    int16_t byte_of[324]; /* character of the alphabet -> byte, or -1 */
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

static void fill_alphabet(loader *l)
{
    int spare = 256;
    for (int i = 0; i < 324; i++)
        l->byte_of[i] = -1;
    for (int b = 0; b < 256; b++) {
        bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        l->byte_of[printable ? b : spare++] = (int16_t)b;
    }
}

/* The bytes of n bytes of key, into scratch. False, with scratch holding the key itself, when it is not of the alphabet. */
static bool key_to_bytes(loader *l, const char *key, size_t n, bool *mapped)
{
    const unsigned char *s = (const unsigned char *)key;
    *mapped = true;
    l->scratch.n = 0;
    for (size_t at = 0; at < n && *mapped;) {
        uint32_t code = 0;
        int length = seqmix_utf8_next(s + at, n - at, &code);
        *mapped = length > 0 && code < 324 && l->byte_of[code] >= 0;
        if (!*mapped) break;
        unsigned char byte = (unsigned char)l->byte_of[code];
        if (!seqmix_bytes_add(&l->scratch, &byte, 1)) return no_memory(l);
        at += (size_t)length;
    }
    if (*mapped) return true;
    l->scratch.n = 0;
    return seqmix_bytes_add(&l->scratch, key, n) || no_memory(l);
}

static bool set_token(loader *l, int64_t id, const void *text, size_t n)
{
    seqmix_token *token = &l->t->tokens[id];
    token->offset = l->t->text.n;
    token->n = n;
    token->present = true;
    return seqmix_bytes_add(&l->t->text, text, n) || no_memory(l);
}

static bool load_vocab(loader *l, const cJSON *vocab)
{
    for (const cJSON *node = vocab->child; node != NULL; node = node->next) {
        int64_t id = (int64_t)node->valuedouble; /* checked by count_ids */
        if (l->keys[id] != NULL)
            return seqmix_fail(l->why, "tokens '%.64s' and '%.64s' both have id %lld", l->keys[id], node->string,
                               (long long)id);
        l->keys[id] = node->string;
        bool mapped, known = false;
        if (!key_to_bytes(l, node->string, strlen(node->string), &mapped)) return false;
        if (!set_token(l, id, l->scratch.data, l->scratch.n)) return false;
        if (!mapped || l->scratch.n == 0) continue;
        if (!seqmix_bpe_add_token(l->t->bpe, l->scratch.data, l->scratch.n, (int32_t)id, &known))
            return known ? seqmix_fail(l->why, "token '%.64s' occurs twice", node->string) : no_memory(l);
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
    bool left_mapped, right_mapped;
    if (!merge_halves(l, node, rank, &left, &left_n, &right)) return false;
    seqmix_bytes both = {0};
    bool ok = key_to_bytes(l, left, left_n, &left_mapped) &&
              (seqmix_bytes_add(&both, l->scratch.data, l->scratch.n) || no_memory(l));
    size_t cut = both.n;
    ok = ok && key_to_bytes(l, right, strlen(right), &right_mapped) &&
         (seqmix_bytes_add(&both, l->scratch.data, l->scratch.n) || no_memory(l));
    if (ok && left_mapped && right_mapped) {
        int32_t a = cut > 0 ? seqmix_bpe_find(l->t->bpe, both.data, cut) : -1;
        int32_t b = both.n > cut ? seqmix_bpe_find(l->t->bpe, both.data + cut, both.n - cut) : -1;
        int32_t whole = a >= 0 && b >= 0 ? seqmix_bpe_find(l->t->bpe, both.data, both.n) : -1;
        if (whole >= 0)
            seqmix_bpe_add_merge(l->t->bpe, a, b, (int32_t)rank, whole);
        else
            ok = seqmix_fail(l->why, "merge %lld ('%.32s' with '%.32s'): %s is not in the vocabulary", (long long)rank,
                             left, right,
                             a < 0   ? "the left half"
                             : b < 0 ? "the right half"
                                     : "the whole");
    }
    free(both.data);
    return ok;
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
    l->t->n_tokens = (int32_t)count;
    l->t->tokens = calloc((size_t)count, sizeof *l->t->tokens);
    l->keys = calloc((size_t)count, sizeof *l->keys);
    l->t->bpe = seqmix_bpe_create((size_t)cJSON_GetArraySize(vocab), (size_t)cJSON_GetArraySize(merges));
    if (l->t->tokens == NULL || l->keys == NULL || l->t->bpe == NULL) return no_memory(l);
    if (!load_vocab(l, vocab)) return false;
    int64_t rank = 0;
    for (const cJSON *node = merges->child; node != NULL; node = node->next)
        if (!load_merge(l, node, rank++)) return false;
    return model_options(l, model);
}

/* ---- added tokens ---- */

static bool load_added(loader *l, const cJSON *node, seqmix_added *a)
{
    const cJSON *content = item(node, "content");
    int64_t id = (int64_t)item(node, "id")->valuedouble; /* checked by count_ids */
    const unsigned char *text = (const unsigned char *)content->valuestring;
    size_t n = strlen(content->valuestring);
    if (seqmix_utf8_check(text, n) < n) return seqmix_fail(l->why, "added token %lld is not UTF-8", (long long)id);
    if (l->keys[id] != NULL && strcmp(l->keys[id], content->valuestring) != 0)
        return seqmix_fail(l->why, "added token '%.64s' has id %lld, which is that of '%.64s'", content->valuestring,
                           (long long)id, l->keys[id]);
    l->keys[id] = content->valuestring;
    bool special = truth(node, "special", false);
    *a = (seqmix_added){.id = (int32_t)id,
                        .single_word = truth(node, "single_word", false),
                        .lstrip = truth(node, "lstrip", false),
                        .rstrip = truth(node, "rstrip", false),
                        .normalized = truth(node, "normalized", !special)};
    /* Its text is its content, whatever the alphabet would make of it. */
    if (!set_token(l, id, text, n)) return false;
    l->t->tokens[id].special = special;
    if (a->normalized) return seqmix_tokenizer_normalize(l->t, text, n, &a->text, &a->n, l->why);
    a->text = malloc(n + 1);
    if (a->text == NULL) return no_memory(l);
    memcpy(a->text, text, n + 1);
    a->n = n;
    return true;
}

static int by_first_byte(const void *a, const void *b)
{
    const seqmix_added *x = a, *y = b;
    if (x->text[0] != y->text[0]) return x->text[0] < y->text[0] ? -1 : 1;
    if (x->n != y->n) return x->n > y->n ? -1 : 1;
    int order = memcmp(x->text, y->text, x->n);
    return order != 0 ? order : x->id < y->id ? -1 : x->id > y->id;
}

static bool load_all_added(loader *l)
{
    const cJSON *list = item(l->root, "added_tokens");
    seqmix_tokenizer *t = l->t;
    int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (n == 0) return true;
    t->added = calloc((size_t)n, sizeof *t->added);
    if (t->added == NULL) return no_memory(l);
    for (const cJSON *node = list->child; node != NULL; node = node->next) {
        seqmix_added *a = &t->added[t->n_added];
        if (!load_added(l, node, a)) return false;
        /* Nothing to look for. */
        if (a->n == 0)
            free(a->text);
        else
            t->n_added++;
    }
    if (t->n_added > 0) qsort(t->added, t->n_added, sizeof *t->added, by_first_byte);
    size_t at = 0;
    for (unsigned b = 0; b < 256; b++) {
        t->first_added[b] = at;
        while (at < t->n_added && t->added[at].text[0] == b)
            at++;
    }
    t->first_added[256] = at;
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
    l->t->pretokenizer = seqmix_pretokenizer_create();
    if (l->t->pretokenizer == NULL) return no_memory(l);
    fill_alphabet(l);
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
        l.t = calloc(1, sizeof *l.t);
        ok = l.t != NULL ? load(&l) : no_memory(&l);
    }
    if (!ok) {
        (void)seqmix_fail(why, "%s: %s", label, reason);
        seqmix_tokenizer_free(l.t);
        l.t = NULL;
    }
    free(l.keys);
    free(l.scratch.data);
    cJSON_Delete(root);
    return l.t;
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
