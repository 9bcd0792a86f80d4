/* SPDX-License-Identifier: MIT */
/*
 * tokenizer.json as metadata of GGUF: the same tokens, also where GGUF's words do not say it all, and unused ones for the rows of
 * the embedding that have none; the tokens around a text; the chat template; what is refused.
 */
#include "quantize.h"
#include "support.h"
#include "tokenizer.h"

static bool convert(const char *in, const char *dir, const char *out, seqmix_quantized *done, char why[512])
{
    char from[1024], to[1024];
    (void)snprintf(from, sizeof from, "%s", in);
    (void)snprintf(to, sizeof to, "%s", in_dir(dir, out));
    why[0] = '\0';
    return seqmix_quantize_file("F32", from, to, 1, done, (seqmix_why){why, 512});
}

/* The file made of a directory, opened. */
static void open_converted(const char *in, seqmix_gguf *g, seqmix_quantized *done)
{
    char why[512];
    const char *dir = temporary_dir();
    ck_assert_msg(convert(in, dir, "a.gguf", done, why), "%s: %s", in, why);
    ck_assert_msg(seqmix_gguf_open(in_dir(dir, "a.gguf"), g, (seqmix_why){why, sizeof why}), "%s", why);
}

static const struct {
    const char *dir;
    bool whole_json; /* GGUF does not say all of its tokenizer */
} models[] = {
    {"mamba-tiny", false},
    {"mamba-tiny-f16", false},
    {"mamba-tiny-bf16", false},
    {"nemotron-tiny", true},
    {"qwen35-tiny", true},
    {"models/mamba2", false},
    {"models/mamba2-groups", false},
    {"models/mamba2-original", false},
    {"models/nemotron-h", false},
    {"models/nemotron-h-f16", false},
    {"models/nemotron-h-latent", false},
    {"models/nemotron-h-moe", false},
    {"models/qwen3-next", true},
    {"models/qwen35", true},
    {"models/qwen35-moe", true},
    {"models/qwen35-tied", true},
};

static const char sentence[] =
    "In the beginning 1234 (x+y)\n\n  It's \xC3\xA9t\xC3\xA9, we'll e\xCC\x81 <|im_end|></s> done\t.";

START_TEST(same_tokens)
{
    char why[512] = "";
    const seqmix_why to = {why, sizeof why};
    seqmix_gguf g;
    seqmix_quantized done;
    open_converted(golden(models[_i].dir), &g, &done);
    ck_assert((seqmix_gguf_value_of(&g, "tokenizer.huggingface.json") != NULL) == models[_i].whole_json);
    seqmix_tokenizer *a = seqmix_tokenizer_open(golden(models[_i].dir), to),
                     *b = seqmix_tokenizer_from_gguf(&g, "a", to);
    ck_assert_msg(a != NULL && b != NULL, "%s", why);
    seqmix_gguf_close(&g);
    for (int around = 0; around < 2; around++) {
        seqmix_ids x = {0}, y = {0};
        ck_assert(seqmix_tokenizer_encode(a, sentence, sizeof sentence - 1, around != 0, &x, to) &&
                  seqmix_tokenizer_encode(b, sentence, sizeof sentence - 1, around != 0, &y, to));
        ck_assert(x.n == y.n && x.n > 0 && memcmp(x.data, y.data, x.n * sizeof *x.data) == 0);
        free(x.data);
        free(y.data);
    }
    for (int32_t id = 0; id < seqmix_tokenizer_size(a); id++) {
        size_t n, m;
        const unsigned char *p = seqmix_tokenizer_token(a, id, &n), *q = seqmix_tokenizer_token(b, id, &m);
        ck_assert(p == NULL || (q != NULL && n == m && (n == 0 || memcmp(p, q, n) == 0)));
        ck_assert(seqmix_tokenizer_is_special(a, id) == seqmix_tokenizer_is_special(b, id));
    }
    seqmix_tokenizer_free(a);
    seqmix_tokenizer_free(b);
}
END_TEST

#define TOKENIZER(added, pre)                                                                                          \
    "{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]},\"added_tokens\":[" added                  \
    "],\"pre_tokenizer\":{" pre "}}"
#define BYTES "\"type\":\"ByteLevel\",\"add_prefix_space\":false"

static void has_template(const char *dir, const char *wanted)
{
    seqmix_gguf g;
    seqmix_quantized done;
    seqmix_gguf_text text;
    const seqmix_why why = {NULL, 0};
    open_converted(dir, &g, &done);
    const bool there = seqmix_gguf_string(&g, "tokenizer.chat_template", &text, why);
    ck_assert(there == (wanted != NULL) && (!there || seqmix_gguf_text_is(text, wanted)));
    seqmix_gguf_close(&g);
}

/* The tokens that begin and end a text are generation_config.json's. */
static void has_ends(const char *dir)
{
    static const char *const keys[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.eot_token_id"};
    seqmix_gguf g;
    seqmix_quantized done;
    write_text(dir, "generation_config.json", "{\"bos_token_id\":3,\"eos_token_id\":[4,5]}");
    open_converted(dir, &g, &done);
    for (int i = 0; i < 3; i++) {
        int64_t id = -1;
        ck_assert(seqmix_gguf_int(&g, keys[i], 0, 47, &id, (seqmix_why){NULL, 0}) && id == 3 + i);
    }
    seqmix_gguf_close(&g);
}

static void refused(const char *dir, const char *wanted)
{
    char why[512];
    seqmix_quantized done;
    judge(convert(dir, dir, "a.gguf", &done, why), why, wanted, wanted);
}

START_TEST(tokenizers)
{
    static const struct {
        const char *json, *note, *pre;
    } cases[] = {
        {NULL, "without a tokenizer", NULL},
        {TOKENIZER("", BYTES), "", "gpt-2"},
        {TOKENIZER("{\"id\":5,\"content\":\"<x>\",\"special\":true,\"lstrip\":true}", BYTES), "do not say all",
         "gpt-2"},
        {TOKENIZER("{\"id\":2,\"content\":\"ab\",\"special\":false}", BYTES), "do not say all", "gpt-2"},
        {TOKENIZER("", "\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x\"},"
                       "\"behavior\":\"Isolated\"},{" BYTES ",\"use_regex\":false}]"),
         "no name for its pattern", "default"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        char why[512] = "";
        seqmix_quantized done;
        seqmix_gguf g;
        seqmix_gguf_text pre;
        const seqmix_gguf_value *tokens, *types;
        const char *dir = temporary_dir();
        write_tiny(dir, &tiny_default);
        if (cases[i].json != NULL) write_text(dir, "tokenizer.json", cases[i].json);
        open_converted(dir, &g, &done);
        ck_assert_msg(cases[i].note[0] == '\0' ? done.note[0] == '\0' : strstr(done.note, cases[i].note) != NULL,
                      "case %d: '%s'", i, done.note);
        if (cases[i].pre != NULL) {
            ck_assert(seqmix_gguf_string(&g, "tokenizer.ggml.pre", &pre, (seqmix_why){why, sizeof why}) &&
                      seqmix_gguf_text_is(pre, cases[i].pre));
            ck_assert(seqmix_gguf_array(&g, "tokenizer.ggml.tokens", SEQMIX_GGUF_STRING, &tokens, (seqmix_why){0}) &&
                      seqmix_gguf_array(&g, "tokenizer.ggml.token_type", SEQMIX_GGUF_I32, &types, (seqmix_why){0}));
            /* Every row of the embedding has a token; this one is unused. */
            ck_assert(tokens->n == 48 && types->n == 48 && seqmix_gguf_int_at(types, 47) == 5);
            seqmix_tokenizer *t = seqmix_tokenizer_from_gguf(&g, "a", (seqmix_why){why, sizeof why});
            ck_assert_msg(t != NULL, "case %d: %s", i, why);
            seqmix_ids ids = {0};
            ck_assert(seqmix_tokenizer_encode(t, "ab", 2, true, &ids, (seqmix_why){why, sizeof why}) && ids.n == 1 &&
                      ids.data[0] == 2);
            free(ids.data);
            seqmix_tokenizer_free(t);
        }
        seqmix_gguf_close(&g);
    }
    const char *dir = temporary_dir();
    write_tiny(dir, &tiny_default);
    write_text(dir, "tokenizer.json", cases[1].json);
    has_template(dir, NULL);
    write_text(dir, "tokenizer_config.json", "{\"chat_template\":\"one\"}");
    has_template(dir, "one");
    write_text(dir, "chat_template.jinja", "two\n");
    has_template(dir, "two\n");
    has_ends(dir);
    write_text(dir, "tokenizer.json", TOKENIZER("{\"id\":48,\"content\":\"<x>\"}", BYTES));
    refused(dir, "ids up to 48, the embedding 48 rows");
    write_text(dir, "tokenizer.json", TOKENIZER("", "\"type\":\"Metaspace\""));
    refused(dir, "'Metaspace' is not supported (where that file is absent, a model goes without");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("export tokenizer");
    TCase *cases = tcase_create("export tokenizer");
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, same_tokens, 0, COUNT(models));
    tcase_add_test(cases, tokenizers);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
