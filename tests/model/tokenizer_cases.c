/* SPDX-License-Identifier: MIT */
/* The golden cases of tokenizers (see tokenizer_cases.h). */
#include "tokenizer_cases.h"

#include <stdio.h>

#include "support.h"

/* A NUL in a text, which cJSON cannot carry, travels as U+F8FF. */
static const char nul_stand_in[] = "\xEF\xA3\xBF";

static cJSON *read_cases(const char *path)
{
    seqmix_bytes raw = read_file(path), plain = {0};
    for (size_t i = 0; i < raw.n;) {
        bool nul = raw.n - i >= 6 && memcmp(raw.data + i, "\\u0000", 6) == 0;
        ck_assert(seqmix_bytes_add(&plain, nul ? (const void *)nul_stand_in : raw.data + i, nul ? 3 : 1));
        i += nul ? 6 : 1;
    }
    char why[128] = "";
    cJSON *tree = seqmix_json_parse(plain.data, plain.n, (seqmix_why){why, sizeof why});
    ck_assert_msg(tree != NULL, "%s: %s", path, why);
    free(raw.data);
    free(plain.data);
    return tree;
}

static seqmix_bytes unescape(const char *text)
{
    seqmix_bytes out = {0};
    while (*text != '\0') {
        bool nul = strncmp(text, nul_stand_in, 3) == 0;
        ck_assert(seqmix_bytes_add(&out, nul ? "" : text, 1));
        text += nul ? 3 : 1;
    }
    return out;
}

static seqmix_ids ids_of(const cJSON *list)
{
    seqmix_ids ids = {0};
    for (const cJSON *node = list->child; node != NULL; node = node->next)
        ck_assert(seqmix_ids_add(&ids, node->valueint));
    return ids;
}

void print_ids(const seqmix_ids *ids, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < ids->n && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%d ", ids->data[i]);
}

static bool same_ids(const seqmix_ids *a, const seqmix_ids *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->data, b->data, a->n * sizeof *a->data) == 0);
}

static bool same_bytes(const seqmix_bytes *a, const seqmix_bytes *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->data, b->data, a->n) == 0);
}

static void check_decoding(const seqmix_tokenizer *t, const cJSON *one, const char *path)
{
    seqmix_ids ids = ids_of(cJSON_GetObjectItem(one, "tokens"));
    seqmix_bytes wanted = unescape(cJSON_GetObjectItem(one, "decoded")->valuestring), whole = {0}, pieces = {0};
    seqmix_utf8_stream stream = {0}, slow = {0};
    ck_assert(seqmix_tokenizer_decode(t, &stream, ids.data, ids.n, false, true, &whole));
    for (size_t i = 0; i < ids.n; i++) {
        ck_assert(seqmix_tokenizer_decode(t, &slow, ids.data + i, 1, false, false, &pieces));
        ck_assert_msg(seqmix_utf8_check(pieces.data, pieces.n) == pieces.n, "%s: half a character was passed on", path);
    }
    ck_assert(seqmix_tokenizer_decode(t, &slow, NULL, 0, false, true, &pieces));
    ck_assert_msg(same_bytes(&whole, &wanted), "%s: decoded '%.*s', wanted '%s'", path, (int)whole.n,
                  (const char *)whole.data, cJSON_GetObjectItem(one, "decoded")->valuestring);
    ck_assert_msg(same_bytes(&pieces, &whole), "%s: streaming differs", path);
    free(ids.data);
    free(wanted.data);
    free(whole.data);
    free(pieces.data);
}

static void check_encoding(seqmix_tokenizer *t, const cJSON *one, const char *path)
{
    char why[256] = "", got[2048], expected[2048];
    seqmix_bytes text = unescape(cJSON_GetObjectItem(one, "text")->valuestring);
    seqmix_ids wanted = ids_of(cJSON_GetObjectItem(one, "tokens")), ids = {0};
    ck_assert_msg(seqmix_tokenizer_encode(t, text.data, text.n, false, &ids, (seqmix_why){why, sizeof why}), "%s: %s",
                  path, why);
    print_ids(&ids, got, sizeof got);
    print_ids(&wanted, expected, sizeof expected);
    ck_assert_msg(same_ids(&ids, &wanted), "%s: '%.*s'\n  gives  %s\n  wanted %s", path, (int)text.n,
                  (const char *)text.data, got, expected);
    free(text.data);
    free(ids.data);
    free(wanted.data);
}

const golden_tokenizer golden_tokenizers[N_GOLDEN_TOKENIZERS] = {
    {"mamba-tiny", "tokenizer_cases.json", "gpt-2"},  {"tokenizers/neox", "cases.json", "olmo"},
    {"tokenizers/qwen2", "cases.json", "qwen2"},      {"tokenizers/qwen35", "cases.json", "qwen35"},
    {"tokenizers/llama3", "cases.json", "llama-bpe"}, {"tokenizers/tekken", "cases.json", "tekken"},
};

void check_golden_cases(seqmix_tokenizer *t, int i)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", golden_tokenizers[i].dir, golden_tokenizers[i].cases);
    cJSON *tree = read_cases(golden(path));
    const cJSON *cases = cJSON_GetObjectItem(tree, "cases"), *decodings = cJSON_GetObjectItem(tree, "decode_cases");
    ck_assert_int_ge(cJSON_GetArraySize(cases), 50);
    ck_assert_int_ge(cJSON_GetArraySize(decodings), 5);
    for (const cJSON *one = cases->child; one != NULL; one = one->next) {
        check_encoding(t, one, path);
        check_decoding(t, one, path);
    }
    for (const cJSON *one = decodings->child; one != NULL; one = one->next)
        check_decoding(t, one, path);
    cJSON_Delete(tree);
}
