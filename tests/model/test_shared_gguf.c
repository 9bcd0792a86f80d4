/* SPDX-License-Identifier: MIT */
/*
 * GGUF files of three families beside the checkout (../shared/data/gguf), where they are, against the logits another engine
 * computed for 96 tokens: in one prefill, cut, and row by row.
 */
#include <math.h>
#include <sys/stat.h>

#include "support.h"

#define N_TOKENS 96
#define BOUND    2e-4

static const char *const names[] = {"mamba-dense", "nemotron_h-dense", "qwen35-dense"};

static bool is_there(void)
{
    struct stat about;
    return stat(SEQMIX_SHARED_DIR, &about) == 0;
}

static void collect(void *user, const float *logits, int64_t rows, int64_t vocab)
{
    float **at = user;
    memcpy(*at, logits, (size_t)(rows * vocab) * sizeof **at);
    *at += rows * vocab;
}

START_TEST(against_another_engine)
{
    static const int64_t widths[] = {96, 17, 1};
    char path[512], why[512] = "";
    static float got[N_TOKENS * 128];
    int32_t tokens[N_TOKENS];
    if (!is_there()) return;
    seqmix_bytes text = read_file(in_dir(SEQMIX_SHARED_DIR, "tokens.txt"));
    ck_assert(seqmix_bytes_add(&text, "", 1));
    char *at = (char *)text.data;
    for (int i = 0; i < N_TOKENS; i++)
        tokens[i] = (int32_t)strtol(at, &at, 10);
    (void)snprintf(path, sizeof path, "%s/%s.logits.f32", SEQMIX_SHARED_DIR, names[_i]);
    seqmix_bytes wanted = read_file(path);
    ck_assert_int_eq((int64_t)wanted.n, (int64_t)sizeof got);
    (void)snprintf(path, sizeof path, "%s/%s.gguf", SEQMIX_SHARED_DIR, names[_i]);
    for (int k = 0; k < COUNT(widths); k++) {
        opened o = open_model_all_logits(path, widths[k]);
        float *end = got;
        seqmix_watch watch = {.user = &end, .sink = collect};
        ck_assert_int_eq(o.model->config.vocab, 128);
        ck_assert_msg(seqmix_session_eval(o.session, tokens, N_TOKENS, &watch, (seqmix_why){why, sizeof why}), "%s",
                      why);
        double scale = 0.0, worst = 0.0;
        for (size_t i = 0; i < N_TOKENS * 128; i++) {
            double want = (double)((const float *)(const void *)wanted.data)[i];
            scale = fmax(scale, fabs(want));
            worst = fmax(worst, fabs(want - (double)got[i]));
        }
        (void)printf("%s, %d rows a step: logits within %.2e of their scale %.3g\n", names[_i], (int)widths[k],
                     worst / scale, scale);
        ck_assert_msg(worst <= BOUND * scale, "%s: %.3g of %.3g", names[_i], worst, scale);
        close_model(&o);
    }
    free(text.data);
    free(wanted.data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shared gguf");
    TCase *cases = tcase_create("shared gguf");
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, against_another_engine, 0, COUNT(names));
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
