/* SPDX-License-Identifier: MIT */
/*
 * GGUF metadata to a tokenizer: tokenizer.ggml.model "gpt2" (byte-level BPE) with tokens, token_type, merges, pre and
 * add_bos_token. The pattern that cuts words is not in the file, only its name (`pre`); the patterns here are those of the
 * tokenizer.json files the names stand for, and NFC where those have it. An unknown name is refused: a wrong cut is a wrong
 * model. A file that holds the tokenizer.json itself (tokenizer.huggingface.json) is believed before all that.
 */
#include <utf8proc.h>

#include "gguf.h"
#include "tokenizer_build.h"

/* Values of tokenizer.ggml.token_type. */
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER = 4, TYPE_UNUSED = 5 };

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define REST         "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char qwen2[] = CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" REST;
static const char qwen35[] =
    CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" REST;
static const char llama3[] =
    CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" REST;
static const char tekken[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
    "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" REST;

static const struct pre {
    const char *name, *pattern;
    bool nfc, whole_words, add_bos;
} pres[] = {
    {"gpt-2", seqmix_gpt2_pattern, false, false, false},
    {"olmo", seqmix_gpt2_pattern, true, false, false},
    {"mpt", seqmix_gpt2_pattern, true, false, false},
    {"qwen2", qwen2, true, false, false},
    {"qwen35", qwen35, true, false, false},
    {"llama-bpe", llama3, false, true, true},
    {"llama3", llama3, false, true, true},
    {"llama-v3", llama3, false, true, true},
    {"pixtral", llama3, false, true, true},
    {"tekken", tekken, false, true, true},
};

static const struct pre *find_pre(const seqmix_gguf *g, seqmix_why why)
{
    seqmix_gguf_text name;
    if (!seqmix_gguf_string(g, "tokenizer.ggml.pre", &name, why)) return NULL;
    for (size_t i = 0; i < sizeof pres / sizeof pres[0]; i++)
        if (seqmix_gguf_text_is(name, pres[i].name)) return &pres[i];
    (void)seqmix_fail(why, "tokenizer.ggml.pre '%.*s' is not supported", name.n < 32 ? (int)name.n : 32, name.bytes);
    return NULL;
}

/* A normal token by its key; the others by their text, which is looked for before words are cut, unless unused. */
static bool load_token(seqmix_builder *b, int64_t id, int64_t type, seqmix_gguf_text key)
{
    if (type == TYPE_CONTROL || type == TYPE_USER || type == TYPE_UNKNOWN) {
        seqmix_added options = {.id = (int32_t)id};
        return seqmix_builder_added(b, &options, key.bytes, key.n, type != TYPE_USER);
    }
    if (type == TYPE_UNUSED) return seqmix_builder_text(b, id, key.bytes, key.n);
    if (type == TYPE_NORMAL) return seqmix_builder_token(b, id, key.bytes, key.n);
    return seqmix_fail(b->why, "tokenizer.ggml.token_type of token %lld is %lld, which byte-level BPE does not have",
                       (long long)id, (long long)type);
}

static bool load_tokens(seqmix_builder *b, const seqmix_gguf *g, size_t n_merges)
{
    const seqmix_gguf_value *tokens, *types = NULL;
    if (!seqmix_gguf_array(g, "tokenizer.ggml.tokens", SEQMIX_GGUF_STRING, &tokens, b->why)) return false;
    if (tokens->n == 0 || tokens->n > (uint64_t)SEQMIX_TOKENIZER_MAX_ID + 1)
        return seqmix_fail(b->why, "tokenizer.ggml.tokens holds %llu tokens (1 to %lld)", (unsigned long long)tokens->n,
                           (long long)SEQMIX_TOKENIZER_MAX_ID + 1);
    if (seqmix_gguf_value_of(g, "tokenizer.ggml.token_type") != NULL) {
        if (!seqmix_gguf_array(g, "tokenizer.ggml.token_type", SEQMIX_GGUF_I32, &types, b->why)) return false;
        if (types->n != tokens->n)
            return seqmix_fail(b->why, "tokenizer.ggml.token_type holds %llu values for %llu tokens",
                               (unsigned long long)types->n, (unsigned long long)tokens->n);
    }
    if (!seqmix_builder_room(b, (int64_t)tokens->n, (size_t)tokens->n, n_merges)) return false;
    b->t->added = calloc((size_t)tokens->n, sizeof *b->t->added);
    if (b->t->added == NULL) return seqmix_builder_no_memory(b);
    size_t at = 0;
    seqmix_gguf_text key;
    for (int64_t id = 0; seqmix_gguf_next_string(tokens, &at, &key); id++)
        if (!load_token(b, id, types != NULL ? seqmix_gguf_int_at(types, (uint64_t)id) : TYPE_NORMAL, key))
            return false;
    seqmix_builder_sort_added(b);
    return true;
}

static bool load_merges(seqmix_builder *b, const seqmix_gguf_value *merges)
{
    size_t at = 0;
    seqmix_gguf_text merge;
    for (int64_t rank = 0; seqmix_gguf_next_string(merges, &at, &merge); rank++) {
        const char *blank = merge.n > 0 ? memchr(merge.bytes, ' ', merge.n) : NULL;
        size_t left = blank != NULL ? (size_t)(blank - merge.bytes) : 0;
        if (blank == NULL || memchr(blank + 1, ' ', merge.n - left - 1) != NULL)
            return seqmix_fail(b->why, "tokenizer.ggml.merges: merge %lld is not \"a b\"", (long long)rank);
        if (!seqmix_builder_merge(b, rank, merge.bytes, left, blank + 1, merge.n - left - 1)) return false;
    }
    return true;
}

/* The tokens around a text. */
static bool load_around(seqmix_builder *b, const seqmix_gguf *g, bool add_bos)
{
    static const char *const flags[] = {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token"};
    static const char *const ids[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"};
    seqmix_ids *sides[] = {&b->t->before, &b->t->after};
    for (int i = 0; i < 2; i++) {
        bool wanted = i == 0 && add_bos;
        bool stated = seqmix_gguf_value_of(g, flags[i]) != NULL;
        if (stated && !seqmix_gguf_bool(g, flags[i], &wanted, b->why)) return false;
        if (!wanted || (!stated && seqmix_gguf_value_of(g, ids[i]) == NULL)) continue;
        int64_t id;
        if (!seqmix_gguf_int(g, ids[i], 0, b->t->n_tokens - 1, &id, b->why)) return false;
        if (!seqmix_ids_add(sides[i], (int32_t)id)) return seqmix_builder_no_memory(b);
    }
    return true;
}

static bool load(seqmix_builder *b, const seqmix_gguf *g)
{
    seqmix_gguf_text model;
    const seqmix_gguf_value *merges;
    if (!seqmix_gguf_string(g, "tokenizer.ggml.model", &model, b->why)) return false;
    if (!seqmix_gguf_text_is(model, "gpt2"))
        return seqmix_fail(b->why,
                           "tokenizer.ggml.model '%.*s' is not supported (only gpt2, byte-level BPE; llama is "
                           "SentencePiece)",
                           model.n < 32 ? (int)model.n : 32, model.bytes);
    const struct pre *pre = find_pre(g, b->why);
    if (pre == NULL) return false;
    if (!seqmix_gguf_array(g, "tokenizer.ggml.merges", SEQMIX_GGUF_STRING, &merges, b->why)) return false;
    if (merges->n > INT32_MAX)
        return seqmix_fail(b->why, "tokenizer.ggml.merges holds %llu merges", (unsigned long long)merges->n);
    if (pre->nfc) b->t->normalizers[b->t->n_normalizers++] = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    if (!load_tokens(b, g, (size_t)merges->n) || !load_merges(b, merges)) return false;
    seqmix_bpe_options(b->t->bpe, -1, false, pre->whole_words);
    return seqmix_pretokenizer_add_split(b->t->pretokenizer, pre->pattern, false, SEQMIX_SPLIT_ISOLATED, false,
                                         b->why) &&
           load_around(b, g, pre->add_bos);
}

const char *seqmix_tokenizer_gguf_pre(const char *pattern, bool nfc, bool whole_words, bool *exact)
{
    const char *near = NULL;
    *exact = false;
    for (size_t i = 0; i < sizeof pres / sizeof pres[0] && !*exact; i++) {
        if (strcmp(pres[i].pattern, pattern) != 0) continue;
        *exact = pres[i].nfc == nfc && pres[i].whole_words == whole_words;
        if (near == NULL || *exact) near = pres[i].name;
    }
    return near;
}

seqmix_tokenizer *seqmix_tokenizer_from_gguf(const seqmix_gguf *g, const char *label, seqmix_why why)
{
    char reason[256] = "";
    seqmix_builder b;
    seqmix_gguf_text json;
    seqmix_tokenizer *whole = NULL;
    if (seqmix_gguf_string(g, SEQMIX_TOKENIZER_JSON_KEY, &json, (seqmix_why){NULL, 0}))
        whole = seqmix_tokenizer_parse(json.bytes, json.n, SEQMIX_TOKENIZER_JSON_KEY, (seqmix_why){NULL, 0});
    if (whole != NULL) return whole;
    bool ok = seqmix_builder_begin(&b, (seqmix_why){reason, sizeof reason}) && load(&b, g);
    if (!ok) (void)seqmix_fail(why, "%s: %s", label, reason);
    return seqmix_builder_end(&b, ok);
}
