/* SPDX-License-Identifier: MIT */
/*
 * The trained tiny Mamba against transformers: greedy tokens and logits, for weights in f32, bf16, f16 and in shards, for
 * every way to cut the prompt.
 */
#include <math.h>

#include "support.h"
#include "tokenizer.h"

#define N_GREEDY 200

/* How far to go: with f32 weights, and with the others; a sanitizer is slow. */
#ifdef SEQMIX_SHORT
#    define N_FULL  40
#    define N_OTHER 16
#else
#    define N_FULL  N_GREEDY
#    define N_OTHER 64
#endif

/* Against transformers in f32: largest absolute error of a logit, relative to the logits' largest absolute value. */
#define LOGIT_BOUND 2e-4

static const struct {
    const char *model, *expected; /* model NULL: the shards made beside this test */
} variants[] = {{"mamba-tiny", "mamba-tiny"},
                {"mamba-tiny-bf16", "mamba-tiny-bf16"},
                {"mamba-tiny-f16", "mamba-tiny-f16"},
                {NULL, "mamba-tiny-f16"}};
#define N_VARIANTS (int)(sizeof variants / sizeof variants[0])

static const char *model_dir(int variant)
{
    return variants[variant].model != NULL ? golden(variants[variant].model) : SEQMIX_SHARDS_DIR;
}

static cJSON *read_expected(int variant)
{
    char name[128], why[128] = "";
    (void)snprintf(name, sizeof name, "%s/expected.json", variants[variant].expected);
    seqmix_bytes raw = read_file(golden(name));
    cJSON *tree = seqmix_json_parse(raw.data, raw.n, (seqmix_why){why, sizeof why});
    ck_assert_msg(tree != NULL, "%s: %s", name, why);
    free(raw.data);
    return tree;
}

static int64_t read_ids(const cJSON *object, const char *key, int32_t *ids, int64_t room)
{
    int64_t n = 0;
    const cJSON *list = cJSON_GetObjectItem(object, key);
    for (const cJSON *node = list != NULL ? list->child : NULL; node != NULL && n < room; node = node->next)
        ids[n++] = node->valueint;
    ck_assert_int_gt(n, 0);
    return n;
}

static void check_greedy(const cJSON *prompt, opened *o, int64_t prefill_rows, int64_t n)
{
    int32_t tokens[1024], wanted[N_GREEDY], got[N_GREEDY];
    char why[256] = "";
    int64_t n_prompt = read_ids(prompt, "tokens", tokens, 1024),
            n_wanted = read_ids(prompt, "greedy", wanted, N_GREEDY);
    ck_assert_int_eq(n_wanted, N_GREEDY);
    ck_assert_msg(seqmix_session_reset(o->session, (seqmix_why){why, sizeof why}), "%s", why);
    greedy(o->session, o->model->config.vocab, tokens, n_prompt, got, n);
    for (int i = 0; i < n; i++)
        ck_assert_msg(got[i] == wanted[i], "prefill rows %d, token %d is %d, wanted %d", (int)prefill_rows, i, got[i],
                      wanted[i]);
}

/* All tokens at one width; where the prefill is cut otherwise its outcome shows in the first tokens. */
START_TEST(greedy_tokens)
{
    static const int64_t widths[] = {64, 1, 7, 512};
    cJSON *expected = read_expected(_i);
    for (size_t k = 0; k < sizeof widths / sizeof widths[0]; k++) {
        opened o = open_model(model_dir(_i), widths[k], 1);
        ck_assert_int_eq(o.model->weights.st.n_parts, variants[_i].model != NULL ? 1 : 3);
        for (const cJSON *prompt = cJSON_GetObjectItem(expected, "prompts")->child; prompt != NULL;
             prompt = prompt->next)
            check_greedy(prompt, &o, widths[k], k == 0 && _i == 0 ? N_FULL : k == 0 ? N_OTHER : 8);
        close_model(&o);
    }
    cJSON_Delete(expected);
}
END_TEST

/* The logits at the recorded positions of the first prompt with its greedy tokens. */
START_TEST(logits)
{
    char name[128], why[256] = "";
    int32_t tokens[1024];
    cJSON *expected = read_expected(_i);
    const cJSON *prompt = cJSON_GetObjectItem(expected, "prompts")->child;
    int64_t n = read_ids(prompt, "tokens", tokens, 512);
    n += read_ids(prompt, "greedy", tokens + n, 512);
    (void)snprintf(name, sizeof name, "%s/expected_logits.safetensors", variants[_i].expected);
    seqmix_safetensors st;
    ck_assert_msg(seqmix_st_open(golden(name), &st, (seqmix_why){why, sizeof why}), "%s", why);
    const seqmix_st_tensor *wanted = seqmix_st_find(&st, "logits"), *positions = seqmix_st_find(&st, "positions");
    ck_assert(wanted != NULL && positions != NULL && positions->dtype == SEQMIX_ST_I32 &&
              wanted->dtype == SEQMIX_ST_F32);
    opened o = open_model(model_dir(_i), 16, 1);
    int64_t vocab = o.model->config.vocab, done = 0;
    ck_assert(wanted->rank == 2 && wanted->shape[1] == vocab && wanted->shape[0] == positions->shape[0]);
    double scale = 0.0, worst = 0.0;
    for (int64_t i = 0; i < wanted->shape[0] * vocab; i++)
        scale = fmax(scale, fabs((double)((const float *)wanted->data)[i]));
    for (int64_t i = 0; i < positions->shape[0]; i++) {
        int64_t at = ((const int32_t *)positions->data)[i];
        ck_assert(at >= done && at < n);
        ck_assert_msg(seqmix_session_eval(o.session, tokens + done, at + 1 - done, NULL, (seqmix_why){why, sizeof why}),
                      "%s", why);
        done = at + 1;
        for (int64_t v = 0; v < vocab; v++)
            worst = fmax(worst, fabs((double)seqmix_session_logits(o.session)[v] -
                                     (double)((const float *)wanted->data)[i * vocab + v]));
    }
    ck_assert_msg(worst <= LOGIT_BOUND * scale, "logits differ by %.3g of %.3g", worst, scale);
    (void)printf("%s: logits within %.2e of their scale %.3g\n",
                 variants[_i].model != NULL ? variants[_i].model : "shards", worst / scale, scale);
    close_model(&o);
    seqmix_st_close(&st);
    cJSON_Delete(expected);
}
END_TEST

/* Text in, text out. */
START_TEST(texts)
{
    char why[256] = "";
    cJSON *expected = read_expected(_i);
    seqmix_tokenizer *t = seqmix_tokenizer_open(model_dir(_i), (seqmix_why){why, sizeof why});
    ck_assert_msg(t != NULL, "%s", why);
    for (const cJSON *prompt = cJSON_GetObjectItem(expected, "prompts")->child; prompt != NULL; prompt = prompt->next) {
        const char *text = cJSON_GetObjectItem(prompt, "text")->valuestring;
        const char *wanted = cJSON_GetObjectItem(prompt, "greedy_text")->valuestring;
        int32_t tokens[1024];
        int64_t n = read_ids(prompt, "tokens", tokens, 1024);
        seqmix_ids ids = {0};
        ck_assert(seqmix_tokenizer_encode(t, text, strlen(text), true, &ids, (seqmix_why){why, sizeof why}));
        ck_assert(ids.n == (size_t)n && memcmp(ids.data, tokens, ids.n * sizeof *tokens) == 0);
        n = read_ids(prompt, "greedy", tokens, 1024);
        seqmix_utf8_stream stream = {0};
        seqmix_bytes out = {0};
        ck_assert(seqmix_tokenizer_decode(t, &stream, tokens, (size_t)n, false, true, &out));
        ck_assert(out.n == strlen(wanted) && memcmp(out.data, wanted, out.n) == 0);
        free(ids.data);
        free(out.data);
    }
    seqmix_tokenizer_free(t);
    cJSON_Delete(expected);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("parity");
    TCase *cases = tcase_create("parity");
    tcase_set_timeout(cases, 600);
    tcase_add_loop_test(cases, greedy_tokens, 0, N_VARIANTS);
    tcase_add_loop_test(cases, logits, 0, N_VARIANTS);
    tcase_add_loop_test(cases, texts, 0, N_VARIANTS);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
