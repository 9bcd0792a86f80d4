/* SPDX-License-Identifier: MIT */
/*
 * tokenizer.json as GGUF metadata (see export.h). GGUF has a list of tokens with their types, merges, the name of the pattern
 * that cuts words, and the tokens around a text. Where that says less than the file, the file itself goes in besides, under
 * the key that the format has for it, and our reader prefers it. Rows of the embedding without a token get unused ones.
 */
#define _POSIX_C_SOURCE 200809L

#include <utf8proc.h>

#include "export.h"
#include "file.h"
#include "tokenizer_build.h"

enum { TYPE_NORMAL = 1, TYPE_CONTROL = 3, TYPE_USER = 4, TYPE_UNUSED = 5 };

typedef struct source {
    const void *bytes; /* the file */
    size_t size;
    const seqmix_tokenizer *t; /* of the same file: so all that is looked at below is as it should be */
    const cJSON *root, *model;
    const seqmix_config *c;
    const char **keys; /* [vocab], as the file writes them; NULL: none */
    int64_t *types;    /* [vocab] */
} source;

static const cJSON *item(const cJSON *object, const char *key)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNull(node) ? NULL : node;
}

static bool is_true(const cJSON *object, const char *key)
{
    return cJSON_IsTrue(item(object, key)) != 0;
}

static const cJSON *children(const cJSON *object, const char *key)
{
    const cJSON *list = item(object, key);
    return list != NULL ? list->child : NULL;
}

/* ---- does GGUF say it all? ---- */

/* The pattern of a pre-tokenizer that is one cut and the bytes' alphabet; NULL for any other. */
static const char *one_pattern(const cJSON *pre)
{
    const cJSON *first = children(pre, "pretokenizers"), *last = first != NULL ? first->next : NULL;
    const cJSON *bytes = first == NULL ? pre : last != NULL ? last : first;
    const cJSON *kind = item(bytes, "type"), *blank = item(bytes, "add_prefix_space"), *own = item(bytes, "use_regex");
    if (bytes->next != NULL && first != NULL) return NULL;
    if (!cJSON_IsString(kind) || strcmp(kind->valuestring, "ByteLevel") != 0 || !cJSON_IsFalse(blank)) return NULL;
    if (last == NULL) return cJSON_IsFalse(own) ? NULL : seqmix_gpt2_pattern;
    const cJSON *cut = item(first, "type"), *how = item(first, "behavior");
    const cJSON *pattern = item(item(first, "pattern"), "Regex");
    const bool plain = cJSON_IsFalse(own) && cJSON_IsString(cut) && strcmp(cut->valuestring, "Split") == 0 &&
                       cJSON_IsString(pattern) && cJSON_IsString(how) && strcmp(how->valuestring, "Isolated") == 0 &&
                       !is_true(first, "invert");
    return plain ? pattern->valuestring : NULL;
}

static bool is_ascii(const char *text)
{
    while (*text != '\0' && (unsigned char)*text < 0x80)
        text++;
    return *text == '\0';
}

/* Added tokens that are found wherever they stand, and no unknown token. */
static bool plain_tokens(const source *s)
{
    for (const cJSON *node = children(s->root, "added_tokens"); node != NULL; node = node->next) {
        const bool changed = !cJSON_IsFalse(item(node, "normalized")) && s->t->n_normalizers > 0 &&
                             !is_ascii(item(node, "content")->valuestring);
        if (changed || is_true(node, "single_word") || is_true(node, "lstrip") || is_true(node, "rstrip")) return false;
    }
    return item(s->model, "unk_token") == NULL;
}

static bool same_ids(const seqmix_ids *a, const seqmix_ids *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->data, b->data, a->n * sizeof *a->data) == 0);
}

/* Reads the values back, as those of a file without tensors. */
static bool reads_back(const source *s, const seqmix_draft *d)
{
    seqmix_draft values = {.values = d->values, .n_values = d->n_values, .alignment = d->alignment};
    seqmix_bytes head;
    seqmix_gguf g;
    bool same = false;
    if (seqmix_draft_head(&values, &head) &&
        seqmix_gguf_parse(head.data, head.n, "values", &g, (seqmix_why){NULL, 0})) {
        seqmix_tokenizer *t = seqmix_tokenizer_from_gguf(&g, "values", (seqmix_why){NULL, 0});
        same = t != NULL && same_ids(&t->before, &s->t->before) && same_ids(&t->after, &s->t->after);
        seqmix_tokenizer_free(t);
        seqmix_gguf_close(&g);
    }
    free(head.data);
    return same;
}

/* ---- tokens and merges ---- */

static bool collect(source *s, seqmix_why why)
{
    const size_t vocab = (size_t)s->c->vocab;
    if (s->t->n_tokens > s->c->vocab)
        return seqmix_fail(why, "tokenizer.json has ids up to %ld, the embedding %lld rows", (long)s->t->n_tokens - 1,
                           (long long)s->c->vocab);
    s->keys = calloc(vocab, sizeof *s->keys);
    s->types = calloc(vocab, sizeof *s->types);
    if (s->keys == NULL || s->types == NULL) return seqmix_fail(why, "no memory for %zu tokens", vocab);
    for (size_t id = 0; id < vocab; id++)
        s->types[id] = TYPE_UNUSED;
    for (const cJSON *node = children(s->model, "vocab"); node != NULL; node = node->next) {
        s->keys[(size_t)node->valuedouble] = node->string;
        s->types[(size_t)node->valuedouble] = TYPE_NORMAL;
    }
    for (const cJSON *node = children(s->root, "added_tokens"); node != NULL; node = node->next) {
        const size_t id = (size_t)item(node, "id")->valuedouble;
        s->keys[id] = item(node, "content")->valuestring;
        s->types[id] = is_true(node, "special") ? TYPE_CONTROL : TYPE_USER;
    }
    return true;
}

static void add_tokens(const source *s, seqmix_draft *d)
{
    seqmix_draft_texts(d, "tokenizer.ggml.tokens", (uint64_t)s->c->vocab);
    for (int64_t id = 0; id < s->c->vocab; id++) {
        char name[40];
        (void)snprintf(name, sizeof name, "[PAD%lld]", (long long)id);
        const char *key = s->keys[id] != NULL ? s->keys[id] : name;
        seqmix_draft_next_text(d, key, strlen(key));
    }
    seqmix_draft_i32s(d, "tokenizer.ggml.token_type", s->types, s->c->vocab);
}

/* "a b". A half with a blank in it is outside of the alphabet, so that nothing comes of its merge. */
static bool merge_text(const cJSON *node, seqmix_bytes *out, bool *made)
{
    out->n = 0;
    *made = true;
    if (cJSON_IsString(node)) return seqmix_bytes_add(out, node->valuestring, strlen(node->valuestring));
    const char *left = node->child->valuestring, *right = node->child->next->valuestring;
    *made = strchr(left, ' ') == NULL && strchr(right, ' ') == NULL;
    return seqmix_bytes_add(out, left, strlen(left)) && seqmix_bytes_add(out, " ", 1) &&
           seqmix_bytes_add(out, right, strlen(right));
}

static bool add_merges(const source *s, seqmix_draft *d)
{
    seqmix_bytes text = {0};
    bool ok = true, made;
    uint64_t n = 0;
    for (const cJSON *node = children(s->model, "merges"); ok && node != NULL; node = node->next) {
        ok = merge_text(node, &text, &made);
        n += made;
    }
    seqmix_draft_texts(d, "tokenizer.ggml.merges", n);
    for (const cJSON *node = children(s->model, "merges"); ok && node != NULL; node = node->next) {
        ok = merge_text(node, &text, &made);
        if (ok && made) seqmix_draft_next_text(d, text.data, text.n);
    }
    free(text.data);
    return ok;
}

/* ---- the tokens around a text ---- */

static void add_ids(const source *s, seqmix_draft *d, seqmix_why note)
{
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    const seqmix_ids *before = &s->t->before, *after = &s->t->after;
    const int32_t bos = before->n > 0 ? before->data[0] : s->c->bos;
    if (bos >= 0) seqmix_draft_u32(d, "tokenizer.ggml.bos_token_id", bos);
    for (int32_t i = 0; i < s->c->n_stop && i < 3; i++)
        seqmix_draft_u32(d, ends[i], s->c->stop[i]);
    seqmix_draft_bool(d, "tokenizer.ggml.add_bos_token", before->n > 0);
    if (s->c->n_stop > 3) (void)seqmix_fail(note, "only 3 of %d tokens that end a text", (int)s->c->n_stop);
    if (after->n > 0) seqmix_draft_bool(d, "tokenizer.ggml.add_eos_token", true);
}

static bool add_all(source *s, seqmix_draft *d, seqmix_why note, seqmix_why why)
{
    bool exact = false;
    const bool nfc = s->t->n_normalizers == 1 && s->t->normalizers[0] == (UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    const char *pattern = one_pattern(item(s->root, "pre_tokenizer"));
    const char *pre =
        pattern != NULL ? seqmix_tokenizer_gguf_pre(pattern, nfc, is_true(s->model, "ignore_merges"), &exact) : NULL;
    if (!collect(s, why)) return false;
    seqmix_draft_word(d, "tokenizer.ggml.model", "gpt2");
    seqmix_draft_word(d, "tokenizer.ggml.pre", pre != NULL ? pre : "default");
    add_tokens(s, d);
    if (!add_merges(s, d)) return seqmix_fail(why, "no memory for the merges");
    add_ids(s, d, note);
    exact = exact && (nfc || s->t->n_normalizers == 0) && plain_tokens(s) && reads_back(s, d);
    if (exact) return true;
    (void)seqmix_fail(note, "tokenizer.json is inside, because %s",
                      pre != NULL ? "GGUF's words do not say all of it" : "GGUF has no name for its pattern");
    seqmix_draft_text(d, SEQMIX_TOKENIZER_JSON_KEY, s->bytes, s->size);
    return true;
}

/* ---- the chat template, for others: ours are built in ---- */

/* DIR/chat_template.jinja, or that of DIR/tokenizer_config.json. */
static void add_template(const char *dir, seqmix_draft *d)
{
    static const char *const names[] = {"chat_template.jinja", "tokenizer_config.json"};
    const seqmix_why quiet = {NULL, 0};
    for (int i = 0; i < 2; i++) {
        char path[4200];
        seqmix_file file;
        (void)snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (!seqmix_file_exists(path) || !seqmix_file_map(path, &file, quiet)) continue;
        cJSON *tree = i == 1 ? seqmix_json_parse(file.bytes, file.size, quiet) : NULL;
        const cJSON *inside = item(tree, "chat_template");
        const char *text = cJSON_IsString(inside) ? inside->valuestring : "";
        if (i == 0)
            seqmix_draft_text(d, "tokenizer.chat_template", file.bytes, file.size);
        else if (text[0] != '\0')
            seqmix_draft_word(d, "tokenizer.chat_template", text);
        cJSON_Delete(tree);
        seqmix_file_unmap(&file);
        if (i == 0) return;
    }
}

bool seqmix_export_tokenizer_json(const void *bytes, size_t size, const seqmix_config *c, seqmix_draft *d,
                                  seqmix_why note, seqmix_why why)
{
    char reason[256] = "";
    seqmix_tokenizer *t = seqmix_tokenizer_parse(bytes, size, "tokenizer.json", (seqmix_why){reason, sizeof reason});
    if (t == NULL) (void)seqmix_fail(why, "%s (where that file is absent, a model goes without a tokenizer)", reason);
    cJSON *root = t != NULL ? seqmix_json_parse(bytes, size, why) : NULL;
    source s = {.bytes = bytes, .size = size, .t = t, .root = root, .model = item(root, "model"), .c = c};
    const bool ok = root != NULL && add_all(&s, d, note, why);
    free((void *)s.keys);
    free(s.types);
    cJSON_Delete(root);
    seqmix_tokenizer_free(t);
    return ok;
}

bool seqmix_export_tokenizer(const char *dir, const seqmix_config *c, seqmix_draft *d, seqmix_why note, seqmix_why why)
{
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    if (n < 0 || (size_t)n >= sizeof path) return seqmix_fail(why, "the name of the directory is too long");
    if (!seqmix_file_exists(path)) {
        (void)seqmix_fail(note, "without a tokenizer, because there is no tokenizer.json");
        seqmix_draft_word(d, "tokenizer.ggml.model", "no_vocab");
        return true;
    }
    seqmix_file file;
    if (!seqmix_file_map(path, &file, why)) return false;
    const bool ok = seqmix_export_tokenizer_json(file.bytes, file.size, c, d, note, why);
    if (ok) add_template(dir, d);
    seqmix_file_unmap(&file);
    return ok;
}
