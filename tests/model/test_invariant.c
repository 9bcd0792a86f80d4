/* SPDX-License-Identifier: MIT */
/*
 * Invariant sessions on a checkpoint of every family and of every kind of weights: whatever the cut into passes and whatever
 * the company, the logits, the state and what comes after have the same bits. And without it: batches, failures and limits of
 * the context on models with attention.
 */
#include <math.h>

#include "support.h"

#define N_PROMPT 150
#define N_MORE   5

static const char *const models[] = {"models/mamba2",
                                     "models/mamba2-groups",
                                     "models/nemotron-h",
                                     "models/nemotron-h-moe",
                                     "models/nemotron-h-latent",
                                     "models/qwen35",
                                     "models/qwen35-moe",
                                     "models/qwen3-next",
                                     "models/gguf/qwen35-tied-mix.gguf",
                                     "models/gguf/nemotron-h-q8_0.gguf",
                                     "mamba-tiny-bf16"};

typedef struct lab {
    seqmix_model *model;
    seqmix_ctx *ctx;
    int64_t vocab;
    int32_t tokens[3][N_PROMPT + N_MORE];
} lab;

static lab open_lab(const char *name)
{
    char why[512] = "";
    lab l = {.model = seqmix_model_open(golden(name), (seqmix_why){why, sizeof why})};
    ck_assert_msg(l.model != NULL, "%s: %s", name, why);
    seqmix_ctx_desc desc = {.struct_size = sizeof desc};
    ck_assert_msg(seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &l.ctx, why, sizeof why) == SEQMIX_OK,
                  "%s", why);
    l.vocab = l.model->config.vocab;
    for (int32_t s = 0; s < 3; s++)
        for (int32_t i = 0; i < N_PROMPT + N_MORE; i++)
            l.tokens[s][i] = (int32_t)((i * (37 + s) + i * i * 11 + s * 5 + 1) % l.vocab);
    return l;
}

static void close_lab(lab *l)
{
    seqmix_ctx_destroy(l->ctx);
    seqmix_model_close(l->model);
}

static seqmix_session *session(const lab *l, int64_t rows, int32_t n_seqs, int64_t context, bool invariant)
{
    char why[512] = "";
    seqmix_session_desc desc = {.model = l->model,
                                .ctx = l->ctx,
                                .prefill_rows = rows,
                                .n_seqs = n_seqs,
                                .context = context,
                                .invariant = invariant};
    seqmix_session *s = seqmix_session_create(&desc, (seqmix_why){why, sizeof why});
    ck_assert_msg(s != NULL, "%s", why);
    return s;
}

static void must_eval(seqmix_session *s, const seqmix_piece *pieces, int32_t n)
{
    char why[512] = "";
    ck_assert_msg(seqmix_session_eval_batch(s, pieces, n, NULL, (seqmix_why){why, sizeof why}), "%s", why);
}

/* Logits after n rows of a sequence's prompt and after each of N_MORE further rows, as a session of one gives them. */
static float *solo(const lab *l, int32_t seq, int64_t n, int64_t rows, bool invariant)
{
    size_t row = (size_t)l->vocab;
    float *out = malloc((N_MORE + 1) * row * sizeof *out);
    ck_assert_ptr_nonnull(out);
    seqmix_session *s = session(l, rows, 1, 256, invariant);
    for (int32_t i = 0; i <= N_MORE; i++) {
        const seqmix_piece piece = {0, i == 0 ? l->tokens[seq] : &l->tokens[seq][n + i - 1], i == 0 ? n : 1};
        must_eval(s, &piece, 1);
        memcpy(out + (size_t)i * row, seqmix_session_logits(s), row * sizeof *out);
    }
    seqmix_session_free(s);
    return out;
}

START_TEST(any_cut)
{
    static const int64_t widths[] = {1, 3, 16, 64, 128, 512};
    lab l = open_lab(models[_i]);
    size_t bytes = (N_MORE + 1) * (size_t)l.vocab * sizeof(float);
    float *whole = solo(&l, 0, N_PROMPT, N_PROMPT, true);
    for (int k = 0; k < COUNT(widths); k++) {
        float *cut = solo(&l, 0, N_PROMPT, widths[k], true);
        ck_assert_msg(memcmp(whole, cut, bytes) == 0, "%s: %d rows a step", models[_i], (int)widths[k]);
        free(cut);
    }
    free(whole);
    close_lab(&l);
}
END_TEST

/* Three prompts of different lengths, prefilled and decoded together; the rows of a pass are those of all. */
static void check_company(const char *name, bool invariant, double bound)
{
    static const int64_t lengths[3] = {37, 9, N_PROMPT}; /* two end in the first pass */
    lab l = open_lab(name);
    size_t row = (size_t)l.vocab;
    seqmix_session *s = session(&l, 64, 3, 256, invariant);
    float *alone[3];
    for (int32_t q = 0; q < 3; q++)
        alone[q] = solo(&l, q, lengths[q], 100, invariant);
    for (int32_t i = 0; i <= N_MORE; i++) {
        seqmix_piece pieces[3];
        for (int32_t q = 0; q < 3; q++)
            pieces[q] =
                (seqmix_piece){q, i == 0 ? l.tokens[q] : &l.tokens[q][lengths[q] + i - 1], i == 0 ? lengths[q] : 1};
        must_eval(s, pieces, 3);
        for (int32_t q = 0; q < 3; q++) {
            const float *got = seqmix_session_logits_of(s, q), *wanted = alone[q] + (size_t)i * row;
            double scale = 0.0, worst = 0.0;
            for (size_t v = 0; v < row; v++) {
                scale = fmax(scale, fabs((double)wanted[v]));
                worst = fmax(worst, fabs((double)wanted[v] - (double)got[v]));
            }
            ck_assert_msg(worst <= bound * scale, "%s: sequence %d, row %d: %.3g of %.3g", name, q, i, worst, scale);
            ck_assert_msg(!invariant || memcmp(got, wanted, row * sizeof *got) == 0, "%s: bits", name);
        }
    }
    for (int32_t q = 0; q < 3; q++)
        free(alone[q]);
    seqmix_session_free(s);
    close_lab(&l);
}

START_TEST(any_company)
{
    check_company(models[_i], true, 0.0);
    check_company(models[_i], false, 2e-4);
}
END_TEST

/* ---- models with attention: the context ---- */

START_TEST(context_limit)
{
    char why[256] = "";
    lab l = open_lab("models/qwen35");
    seqmix_session *s = session(&l, 16, 1, 40, false);
    ck_assert(!seqmix_session_eval(s, l.tokens[0], 41, NULL, (seqmix_why){why, sizeof why}));
    ck_assert_str_eq(why, "41 rows after 0 do not fit into a context of 40");
    ck_assert_int_eq(seqmix_session_position(s), 0);
    ck_assert_msg(seqmix_session_eval(s, l.tokens[0], 40, NULL, (seqmix_why){why, sizeof why}), "%s", why);
    ck_assert(!seqmix_session_eval(s, l.tokens[0], 1, NULL, (seqmix_why){why, sizeof why}));
    ck_assert_str_eq(why, "1 rows after 40 do not fit into a context of 40");
    seqmix_session_free(s);
    int64_t available = 1 << 20;
    seqmix_session_desc desc = {
        .model = l.model, .ctx = l.ctx, .prefill_rows = 16, .context = 1 << 24, .available = &available};
    ck_assert_ptr_null(seqmix_session_create(&desc, (seqmix_why){why, sizeof why}));
    ck_assert_msg(strstr(why, "of memory needed") != NULL && strstr(why, "cache 8192.0") != NULL, "%s", why);
    close_lab(&l);
}
END_TEST

static bool stop_soon(void *user, int64_t done, int64_t rows)
{
    int64_t *limit = user;
    (void)rows;
    return done < *limit;
}

/* A cancelled prefill has written the cache beyond the position; what follows must not see it. */
START_TEST(cancelled_prefill)
{
    char why[256] = "";
    lab l = open_lab(models[_i]);
    int64_t limit = 32;
    seqmix_watch watch = {.user = &limit, .progress = stop_soon};
    seqmix_session *s = session(&l, 16, 1, 256, true), *fresh = session(&l, 16, 1, 256, true);
    const seqmix_piece first = {0, l.tokens[0], 20}, rest = {0, l.tokens[0] + 20, 30};
    must_eval(s, &first, 1);
    ck_assert(!seqmix_session_eval(s, l.tokens[1], 100, &watch, (seqmix_why){why, sizeof why}));
    ck_assert_str_eq(why, "cancelled after 32 of 100 rows");
    ck_assert_int_eq(seqmix_session_position(s), 20);
    must_eval(s, &rest, 1);
    const seqmix_piece whole = {0, l.tokens[0], 50};
    must_eval(fresh, &whole, 1);
    ck_assert_msg(memcmp(seqmix_session_logits(s), seqmix_session_logits(fresh), (size_t)l.vocab * sizeof(float)) == 0,
                  "%s", models[_i]);
    seqmix_session_free(s);
    seqmix_session_free(fresh);
    close_lab(&l);
}
END_TEST

START_TEST(wrong_pieces)
{
    char why[256] = "";
    lab l = open_lab("models/mamba2");
    seqmix_session *s = session(&l, 16, 2, 0, false);
    const seqmix_piece twice[2] = {{1, l.tokens[0], 3}, {1, l.tokens[0], 3}}, other = {2, l.tokens[0], 3};
    ck_assert(!seqmix_session_eval_batch(s, twice, 2, NULL, (seqmix_why){why, sizeof why}));
    ck_assert_str_eq(why, "sequence 1 is named twice");
    ck_assert(!seqmix_session_eval_batch(s, &other, 1, NULL, (seqmix_why){why, sizeof why}));
    ck_assert_str_eq(why, "sequence 2 is not in [0, 2)");
    ck_assert(!seqmix_session_eval_batch(s, &other, 0, NULL, (seqmix_why){why, sizeof why}));
    seqmix_session_free(s);
    close_lab(&l);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("invariant");
    TCase *cases = tcase_create("invariant");
    tcase_set_timeout(cases, 300);
    tcase_add_loop_test(cases, any_cut, 0, COUNT(models));
    tcase_add_loop_test(cases, any_company, 0, COUNT(models));
    tcase_add_loop_test(cases, cancelled_prefill, 0, COUNT(models));
    tcase_add_test(cases, context_limit);
    tcase_add_test(cases, wrong_pieces);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
