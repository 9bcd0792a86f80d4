/* SPDX-License-Identifier: MIT */
/*
 * Tokenizers from GGUF metadata: the golden tokenizers as the converter would store them, through every golden case; what
 * the metadata can say about the first token; and metadata that are wrong.
 */
#include <stdio.h>

#include "gguf.h"
#include "support.h"
#include "tokenizer_cases.h"

static void put(seqmix_bytes *b, const void *bytes, size_t n)
{
    ck_assert(seqmix_bytes_add(b, bytes, n));
}

static void put_u32(seqmix_bytes *b, uint32_t value)
{
    put(b, &value, 4);
}

static void put_text(seqmix_bytes *b, const char *text)
{
    uint64_t n = strlen(text);
    put(b, &n, 8);
    put(b, text, (size_t)n);
}

static void put_key(seqmix_bytes *b, const char *key, uint32_t type)
{
    put_text(b, key);
    put_u32(b, type);
}

static void put_string(seqmix_bytes *b, const char *key, const char *text)
{
    put_key(b, key, SEQMIX_GGUF_STRING);
    put_text(b, text);
}

static void put_array(seqmix_bytes *b, const char *key, uint32_t element, size_t n)
{
    uint64_t count = n;
    put_key(b, key, SEQMIX_GGUF_ARRAY);
    put_u32(b, element);
    put(b, &count, 8);
}

/* The tokenizer of a file without tensors and with these values; NULL, and `why` judged, where one sentence is wanted. */
static seqmix_tokenizer *from_values(const seqmix_bytes *values, uint64_t n_values, const char *wanted)
{
    char why[256] = "";
    uint64_t counts[2] = {0, n_values};
    seqmix_bytes file = {0};
    seqmix_gguf g;
    put(&file, "GGUF\3\0\0\0", 8);
    put(&file, counts, sizeof counts);
    put(&file, values->data, values->n);
    ck_assert_msg(seqmix_gguf_parse(file.data, file.n, "test", &g, (seqmix_why){why, sizeof why}), "%s", why);
    seqmix_tokenizer *t = seqmix_tokenizer_from_gguf(&g, "test", (seqmix_why){why, sizeof why});
    judge(t != NULL, why, wanted, "tokenizer of a GGUF file");
    seqmix_gguf_close(&g);
    free(file.data);
    return t;
}

/* A tokenizer.json as the metadata the converter makes of it: tokens by id, control tokens 3, other added ones 4. */
static seqmix_tokenizer *through_gguf(const char *dir, const char *pre)
{
    char why[128] = "", path[256], merge[256];
    (void)snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    seqmix_bytes raw = read_file(golden(path)), values = {0};
    cJSON *root = seqmix_json_parse(raw.data, raw.n, (seqmix_why){why, sizeof why});
    ck_assert_msg(root != NULL, "%s", why);
    const cJSON *model = cJSON_GetObjectItem(root, "model"), *added = cJSON_GetObjectItem(root, "added_tokens");
    const char *keys[4096] = {0};
    int32_t types[4096] = {0};
    size_t n = 0;
    for (const cJSON *v = cJSON_GetObjectItem(model, "vocab")->child; v != NULL; v = v->next) {
        keys[v->valueint] = v->string;
        types[v->valueint] = 1;
    }
    for (const cJSON *a = added->child; a != NULL; a = a->next) {
        int id = cJSON_GetObjectItem(a, "id")->valueint;
        keys[id] = cJSON_GetObjectItem(a, "content")->valuestring;
        types[id] = cJSON_IsTrue(cJSON_GetObjectItem(a, "special")) ? 3 : 4;
    }
    while (n < 4096 && keys[n] != NULL)
        n++;
    put_string(&values, "tokenizer.ggml.model", "gpt2");
    put_string(&values, "tokenizer.ggml.pre", pre);
    put_array(&values, "tokenizer.ggml.tokens", SEQMIX_GGUF_STRING, n);
    for (size_t i = 0; i < n; i++)
        put_text(&values, keys[i]);
    put_array(&values, "tokenizer.ggml.token_type", SEQMIX_GGUF_I32, n);
    put(&values, types, n * sizeof *types);
    const cJSON *merges = cJSON_GetObjectItem(model, "merges");
    put_array(&values, "tokenizer.ggml.merges", SEQMIX_GGUF_STRING, (size_t)cJSON_GetArraySize(merges));
    for (const cJSON *m = merges->child; m != NULL; m = m->next) {
        if (cJSON_IsArray(m))
            (void)snprintf(merge, sizeof merge, "%s %s", m->child->valuestring, m->child->next->valuestring);
        put_text(&values, cJSON_IsArray(m) ? merge : m->valuestring);
    }
    seqmix_tokenizer *t = from_values(&values, 5, NULL);
    cJSON_Delete(root);
    free(raw.data);
    free(values.data);
    return t;
}

START_TEST(golden_cases_from_gguf)
{
    seqmix_tokenizer *t = through_gguf(golden_tokenizers[_i].dir, golden_tokenizers[_i].pre);
    check_golden_cases(t, _i);
    seqmix_tokenizer_free(t);
}
END_TEST

/* Small metadata with one thing changed. */
typedef struct small {
    const char *model, *pre, *merge, *wanted;
    int32_t n_types, type, bos, add_bos; /* n_types 0: absent; bos, add_bos -1: absent */
} small;

static seqmix_tokenizer *make_small(const small *s)
{
    static const char *const tokens[] = {"a", "b", "ab", "<s>", "[PAD4]"};
    const int32_t types[] = {1, 1, s->type, 3, 5, 1, 1, 1};
    seqmix_bytes v = {0};
    uint64_t n = 2;
    if (s->model != NULL) put_string(&v, "tokenizer.ggml.model", s->model);
    n += s->model != NULL;
    if (s->pre != NULL) put_string(&v, "tokenizer.ggml.pre", s->pre);
    n += s->pre != NULL;
    put_array(&v, "tokenizer.ggml.tokens", SEQMIX_GGUF_STRING, 5);
    for (int i = 0; i < 5; i++)
        put_text(&v, tokens[i]);
    put_array(&v, "tokenizer.ggml.merges", SEQMIX_GGUF_STRING, 1);
    put_text(&v, s->merge);
    if (s->n_types > 0) {
        n++;
        put_array(&v, "tokenizer.ggml.token_type", SEQMIX_GGUF_I32, (size_t)s->n_types);
        put(&v, types, (size_t)s->n_types * sizeof *types);
    }
    if (s->bos >= 0) {
        n++;
        put_key(&v, "tokenizer.ggml.bos_token_id", SEQMIX_GGUF_U32);
        put_u32(&v, (uint32_t)s->bos);
    }
    if (s->add_bos >= 0) {
        n++;
        put_key(&v, "tokenizer.ggml.add_bos_token", SEQMIX_GGUF_BOOL);
        put(&v, s->add_bos > 0 ? "\1" : "\0", 1);
    }
    seqmix_tokenizer *t = from_values(&v, n, s->wanted);
    free(v.data);
    return t;
}

START_TEST(bad_metadata)
{
    static const small cases[] = {
        {"llama", "default", "a b", "tokenizer.ggml.model 'llama' is not supported", 5, 1, -1, -1},
        {NULL, "gpt-2", "a b", "tokenizer.ggml.model", 5, 1, -1, -1},
        {"gpt2", NULL, "a b", "tokenizer.ggml.pre", 5, 1, -1, -1},
        {"gpt2", "dbrx", "a b", "tokenizer.ggml.pre 'dbrx' is not supported", 5, 1, -1, -1},
        {"gpt2", "gpt-2", "ab", "merge 0 is not \"a b\"", 5, 1, -1, -1},
        {"gpt2", "gpt-2", "a b c", "merge 0 is not \"a b\"", 5, 1, -1, -1},
        {"gpt2", "gpt-2", "a c", "the right half is not in the vocabulary", 5, 1, -1, -1},
        {"gpt2", "gpt-2", "b a", "the whole is not in the vocabulary", 5, 1, -1, -1},
        {"gpt2", "gpt-2", "a b", "token_type holds 4 values for 5 tokens", 4, 1, -1, -1},
        {"gpt2", "gpt-2", "a b", "token_type of token 2 is 6", 5, 6, -1, -1},
        {"gpt2", "gpt-2", "a b", "tokenizer.ggml.bos_token_id", 5, 1, 5, 1},
        {"gpt2", "gpt-2", "a b", "tokenizer.ggml.bos_token_id", 5, 1, -1, 1},
    };
    ck_assert_ptr_null(make_small(&cases[_i]));
}
END_TEST
#define N_BAD_METADATA 12

START_TEST(metadata_options)
{
    static const small cases[] = {
        {"gpt2", "gpt-2", "a b", NULL, 5, 1, 3, -1},    {"gpt2", "gpt-2", "a b", NULL, 5, 1, 3, 1},
        {"gpt2", "pixtral", "a b", NULL, 5, 1, 3, -1},  {"gpt2", "pixtral", "a b", NULL, 5, 1, 3, 0},
        {"gpt2", "pixtral", "a b", NULL, 5, 1, -1, -1}, {"gpt2", "gpt-2", "a b", NULL, 0, 1, -1, -1},
    };
    static const char *const wanted[] = {"2 3 0 ", "3 2 3 0 ", "3 2 3 0 ", "2 3 0 ", "2 3 0 ", "2 0 "};
    seqmix_tokenizer *t = make_small(&cases[_i]);
    char why[128] = "", got[64];
    const char *text = _i == 5 ? "aba" : "ab<s>a";
    seqmix_ids ids = {0};
    ck_assert_msg(seqmix_tokenizer_encode(t, text, strlen(text), true, &ids, (seqmix_why){why, sizeof why}), "%s", why);
    print_ids(&ids, got, sizeof got);
    ck_assert_str_eq(got, wanted[_i]);
    free(ids.data);
    ck_assert_int_eq(seqmix_tokenizer_find(t, "<s>"), _i == 5 ? -1 : 3);
    seqmix_tokenizer_free(t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer_gguf");
    TCase *cases = tcase_create("tokenizer_gguf");
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, golden_cases_from_gguf, 0, N_GOLDEN_TOKENIZERS);
    tcase_add_loop_test(cases, bad_metadata, 0, N_BAD_METADATA);
    tcase_add_loop_test(cases, metadata_options, 0, 6);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
