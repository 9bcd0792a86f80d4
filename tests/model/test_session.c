/* SPDX-License-Identifier: MIT */
/*
 * Sessions on a tiny random Mamba: the outcome does not depend on how a prompt is cut, layouts and options of checkpoints,
 * failures in the middle leave everything as it was, poison, reset, cancelling, memory, sampling.
 */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "session.h"

#include <math.h>
#include <stdlib.h>

#include "sample.h"
#include "support.h"

#define N_PROMPT 100

static int32_t prompt[N_PROMPT];
static const char *dir;

static void setup(void)
{
    for (int32_t i = 0; i < N_PROMPT; i++)
        prompt[i] = (i * i * 7 + i * 3 + 1) % 48;
    dir = temporary_dir();
    write_tiny(dir, &tiny_default);
}

static bool eval(seqmix_session *s, const int32_t *tokens, int64_t n, const seqmix_watch *watch, char why[256])
{
    why[0] = '\0';
    return seqmix_session_eval(s, tokens, n, watch, (seqmix_why){why, 256});
}

static void must(bool ok, const char *why)
{
    ck_assert_msg(ok, "%s", why);
}

/* A copy of logits and state, to be compared bit for bit later. */
typedef struct snapshot {
    float logits[48];
    void *state;
    size_t bytes;
    int64_t position;
} snapshot;

static snapshot take(const seqmix_session *s)
{
    snapshot shot = {.position = seqmix_session_position(s)};
    if (shot.position > 0) memcpy(shot.logits, seqmix_session_logits(s), sizeof shot.logits);
    const void *state = seqmix_session_state(s, &shot.bytes);
    shot.state = malloc(shot.bytes);
    ck_assert_ptr_nonnull(shot.state);
    memcpy(shot.state, state, shot.bytes);
    return shot;
}

/* Frees the snapshot. */
static void expect_same(snapshot shot, const seqmix_session *s, const char *when)
{
    size_t bytes;
    const void *state = seqmix_session_state(s, &bytes);
    ck_assert_msg(shot.position == seqmix_session_position(s), "%s: position", when);
    ck_assert_msg(shot.position == 0 || memcmp(shot.logits, seqmix_session_logits(s), sizeof shot.logits) == 0,
                  "%s: logits", when);
    ck_assert_msg(bytes == shot.bytes && memcmp(state, shot.state, bytes) == 0, "%s: state", when);
    free(shot.state);
}

/* The reference rung computes row by row, so every cut gives the same bits. Faster ones have other forms for few rows. */
static void cap_at_reference(void)
{
    ck_assert_int_eq(setenv("SEQMIX_LEVEL", "ref", 1), 0);
}

START_TEST(any_prefill_rows)
{
    cap_at_reference();
    static const int64_t widths[] = {1, 2, 3, 7, 64, 99, 100, 128, 512};
    char why[256];
    opened whole = open_model(dir, 100, 1);
    must(eval(whole.session, prompt, N_PROMPT, NULL, why), why);
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        opened cut = open_model(dir, widths[i], (int32_t)(1 + i % 2));
        must(eval(cut.session, prompt, N_PROMPT, NULL, why), why);
        expect_same(take(whole.session), cut.session, "another number of rows per step");
        close_model(&cut);
    }
    close_model(&whole);
}
END_TEST

static void collect(void *user, const float *logits, int64_t rows, int64_t vocab)
{
    float **at = user;
    memcpy(*at, logits, (size_t)(rows * vocab) * sizeof **at);
    *at += rows * vocab;
}

START_TEST(logits_of_every_row)
{
    cap_at_reference();
    static float all[N_PROMPT * 48];
    float *end = all;
    char why[256];
    opened o = open_model_all_logits(dir, 13);
    seqmix_watch watch = {.user = &end, .sink = collect};
    must(eval(o.session, prompt, N_PROMPT, &watch, why), why);
    ck_assert(end == all + N_PROMPT * 48);
    opened step = open_model(dir, 1, 1);
    for (int i = 0; i < N_PROMPT; i++) {
        must(eval(step.session, &prompt[i], 1, NULL, why), why);
        ck_assert_msg(memcmp(seqmix_session_logits(step.session), all + i * 48, 48 * sizeof(float)) == 0, "row %d", i);
    }
    close_model(&step);
    close_model(&o);
}
END_TEST

/* What a checkpoint may say about itself without changing what it computes, and what must change it. */
START_TEST(layouts_and_options)
{
    char why[256];
    opened plain = open_model(dir, 16, 1);
    must(eval(plain.session, prompt, N_PROMPT, NULL, why), why);
    tiny variants[5];
    for (int i = 0; i < 5; i++)
        variants[i] = tiny_default;
    variants[0].original_names = true;
    variants[1].bias = true;
    variants[2].conv_bias = false;
    variants[3].tied = false;
    variants[4].conv = 1;
    for (int i = 0; i < 5; i++) {
        const char *other = temporary_dir();
        write_tiny(other, &variants[i]);
        opened o = open_model(other, 16, 1);
        must(eval(o.session, prompt, N_PROMPT, NULL, why), why);
        bool same =
            memcmp(seqmix_session_logits(o.session), seqmix_session_logits(plain.session), 48 * sizeof(float)) == 0;
        ck_assert_msg(same == (i == 0), "variant %d", i);
        close_model(&o);
    }
    close_model(&plain);
}
END_TEST

START_TEST(token_out_of_range)
{
    char why[256];
    opened o = open_model(dir, 4, 1);
    must(eval(o.session, prompt, 10, NULL, why), why);
    snapshot before = take(o.session);
    int32_t bad[9] = {1, 2, 3, 4, 5, 6, 7, 48, 8};
    ck_assert(!eval(o.session, bad, 9, NULL, why));
    ck_assert_str_eq(why, "token 7 is 48, not in [0, 48)");
    bad[7] = -1;
    ck_assert(!eval(o.session, bad, 9, NULL, why));
    ck_assert_str_eq(why, "token 7 is -1, not in [0, 48)");
    ck_assert(!eval(o.session, bad, 0, NULL, why));
    expect_same(before, o.session, "after refused tokens");
    close_model(&o);
}
END_TEST

/* ---- failures in the middle: the context's function table is replaced by one whose scan fails at the n-th call ---- */

static struct seqmix_api faulty;
static const struct seqmix_api *sound;
static int calls_left;
static seqmix_status fault;

static seqmix_status faulty_scan(seqmix_ctx *ctx, const seqmix_scan_args *args, void *workspace, size_t bytes)
{
    seqmix_status status = sound->selective_scan_rows(ctx, args, workspace, bytes);
    return calls_left-- == 0 ? fault : status;
}

static void break_scan(seqmix_ctx *ctx, int after, seqmix_status status)
{
    sound = ctx->api;
    faulty = *sound;
    faulty.selective_scan_rows = faulty_scan;
    ctx->api = &faulty;
    calls_left = after;
    fault = status;
}

static bool go_on(void *user, int64_t done, int64_t rows)
{
    int64_t *limit = user;
    (void)rows;
    return done < *limit;
}

START_TEST(failure_in_the_middle)
{
    char why[256];
    opened o = open_model(dir, 8, 1);
    must(eval(o.session, prompt, 20, NULL, why), why);
    /* Of 5 passes with 2 scans each, each in turn fails after it has written its state. */
    for (int after = 0; after < 10; after++) {
        snapshot before = take(o.session);
        break_scan(o.ctx, after, SEQMIX_ERR_OUT_OF_MEMORY);
        ck_assert(!eval(o.session, prompt + 20, 40, NULL, why));
        ck_assert_msg(strstr(why, "OUT_OF_MEMORY") != NULL, "%s", why);
        o.ctx->api = sound;
        ck_assert(!seqmix_session_poisoned(o.session));
        expect_same(before, o.session, "after a failure");
    }
    must(eval(o.session, prompt + 20, 80, NULL, why), why);
    opened whole = open_model(dir, 8, 1);
    must(eval(whole.session, prompt, N_PROMPT, NULL, why), why);
    expect_same(take(whole.session), o.session, "going on after failures");
    close_model(&whole);
    close_model(&o);
}
END_TEST

START_TEST(cancelled)
{
    char why[256];
    opened o = open_model(dir, 8, 1);
    must(eval(o.session, prompt, 20, NULL, why), why);
    snapshot before = take(o.session);
    int64_t limit = 16;
    seqmix_watch watch = {.user = &limit, .progress = go_on};
    ck_assert(!eval(o.session, prompt + 20, 80, &watch, why));
    ck_assert_str_eq(why, "cancelled after 16 of 80 rows");
    expect_same(before, o.session, "after cancelling");
    close_model(&o);
}
END_TEST

START_TEST(poisoned_until_reset)
{
    char why[256];
    opened o = open_model(dir, 8, 1);
    must(eval(o.session, prompt, 20, NULL, why), why);
    break_scan(o.ctx, 1, SEQMIX_ERR_INTERNAL);
    ck_assert(!eval(o.session, prompt, 20, NULL, why));
    o.ctx->api = sound;
    ck_assert(seqmix_session_poisoned(o.session));
    ck_assert(!eval(o.session, prompt, 20, NULL, why));
    ck_assert_msg(strstr(why, "poisoned") != NULL, "%s", why);
    ck_assert(seqmix_session_reset(o.session, (seqmix_why){why, sizeof why}));
    size_t bytes;
    const unsigned char *state = seqmix_session_state(o.session, &bytes);
    for (size_t i = 0; i < bytes; i++)
        ck_assert_int_eq(state[i], 0);
    ck_assert_ptr_null(seqmix_session_logits(o.session));
    must(eval(o.session, prompt, N_PROMPT, NULL, why), why);
    opened fresh = open_model(dir, 8, 1);
    must(eval(fresh.session, prompt, N_PROMPT, NULL, why), why);
    expect_same(take(fresh.session), o.session, "after a reset");
    close_model(&fresh);
    close_model(&o);
}
END_TEST

START_TEST(logits_not_finite)
{
    char why[256];
    tiny t = tiny_default;
    t.poison = "backbone.layers.1.mixer.D";
    const char *other = temporary_dir();
    write_tiny(other, &t);
    opened o = open_model(other, 8, 1);
    ck_assert(!eval(o.session, prompt, 20, NULL, why));
    ck_assert_str_eq(why, "the logits at position 19 are not finite");
    ck_assert_int_eq(seqmix_session_position(o.session), 0);
    close_model(&o);
}
END_TEST

START_TEST(memory_refused)
{
    char why[256] = "";
    int64_t available = 1000;
    opened o = open_model(dir, 8, 1);
    size_t total = seqmix_memory_total(seqmix_session_memory(o.session));
    seqmix_session_desc desc = {.model = o.model, .ctx = o.ctx, .prefill_rows = 8, .available = &available};
    ck_assert_ptr_null(seqmix_session_create(&desc, (seqmix_why){why, sizeof why}));
    ck_assert_msg(strstr(why, "of memory needed (weights ") != NULL && strstr(why, "but 0.0 MiB available") != NULL,
                  "%s", why);
    available = -1;
    ck_assert_ptr_null(seqmix_session_create(&desc, (seqmix_why){why, sizeof why}));
    ck_assert_msg(strstr(why, "unknown") != NULL, "%s", why);
    available = (int64_t)total - 1;
    ck_assert_ptr_null(seqmix_session_create(&desc, (seqmix_why){why, sizeof why}));
    available = (int64_t)total;
    seqmix_session *s = seqmix_session_create(&desc, (seqmix_why){why, sizeof why});
    ck_assert_msg(s != NULL, "%s", why);
    seqmix_session_free(s);
    desc.prefill_rows = 0;
    ck_assert_ptr_null(seqmix_session_create(&desc, (seqmix_why){why, sizeof why}));
    ck_assert_msg(strstr(why, "prefill rows 0") != NULL, "%s", why);
    close_model(&o);
    ck_assert_int_eq(seqmix_memory_parse("MemTotal: 5 kB\nMemAvailable:    123 kB\n"), 123 * 1024);
    ck_assert_int_eq(seqmix_memory_parse("MemTotal: 5 kB\n"), -1);
    ck_assert_int_eq(seqmix_memory_parse("MemAvailable: many kB\n"), -1);
}
END_TEST

/* ---- sampling ---- */

static void draw(seqmix_sampler s, const float *logits, int64_t n, int32_t *out, int count)
{
    for (int i = 0; i < count; i++)
        out[i] = seqmix_sample(&s, logits, n);
    seqmix_sampler_free(&s);
}

START_TEST(sampling)
{
    float logits[64];
    int32_t first[500], second[500], counts[64] = {0};
    for (int i = 0; i < 64; i++)
        logits[i] = (float)((i * 37) % 64) * 0.05F;
    seqmix_sampler s = {.temperature = 0.7F, .top_p = 1.0F, .state = 11};
    draw(s, logits, 64, first, 500);
    draw(s, logits, 64, second, 500);
    ck_assert_msg(memcmp(first, second, sizeof first) == 0, "the same seed");
    s.state = 12;
    draw(s, logits, 64, second, 500);
    ck_assert_msg(memcmp(first, second, sizeof first) != 0, "another seed");
    /* The best three are those whose (i * 37) % 64 is 63, 62, 61. */
    s.top_k = 3;
    draw(s, logits, 64, first, 500);
    for (int i = 0; i < 500; i++) {
        ck_assert_int_ge((first[i] * 37) % 64, 61);
        counts[first[i]]++;
    }
    for (int i = 0; i < 64; i++)
        ck_assert_msg((counts[i] > 100) == ((i * 37) % 64 >= 61), "token %d drawn %d times", i, counts[i]);
    s.top_p = 1e-6F;
    draw(s, logits, 64, first, 500);
    s.top_k = 0;
    draw(s, logits, 64, second, 500);
    for (int i = 0; i < 500; i++)
        ck_assert(first[i] == seqmix_greedy_token(logits, 64) && second[i] == first[i]);
    s = (seqmix_sampler){.top_p = 1.0F};
    draw(s, logits, 64, first, 1);
    ck_assert_int_eq(first[0], seqmix_greedy_token(logits, 64));
}
END_TEST

/* Probabilities 0.5, 0.25, 0.25 with top-p 0.6 leave the first two, with 0.76 all. */
START_TEST(nucleus)
{
    const float logits[4] = {0.0F, logf(0.25F), logf(0.5F), logf(0.25F)};
    float shifted[4];
    int32_t drawn[2000];
    int counts[2][4] = {{0}};
    for (int i = 0; i < 4; i++)
        shifted[i] = i == 0 ? -40.0F : logits[i];
    for (int k = 0; k < 2; k++) {
        seqmix_sampler s = {.temperature = 1.0F, .top_p = k == 0 ? 0.6F : 0.76F, .state = 5};
        draw(s, shifted, 4, drawn, 2000);
        for (int i = 0; i < 2000; i++)
            counts[k][drawn[i]]++;
    }
    /* Half the temperature squares the ratios: 1/6, 2/3, 1/6. */
    seqmix_sampler cold = {.temperature = 0.5F, .top_p = 1.0F, .state = 5};
    int squared = 0;
    draw(cold, shifted, 4, drawn, 2000);
    for (int i = 0; i < 2000; i++)
        squared += drawn[i] == 2;
    ck_assert(abs(squared - 1333) < 100);
    ck_assert_int_eq(counts[0][3] + counts[0][0], 0);
    ck_assert(abs(counts[0][2] - 1333) < 100);
    ck_assert(abs(counts[1][2] - 1000) < 100 && abs(counts[1][1] - 500) < 100 && abs(counts[1][3] - 500) < 100);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("session");
    TCase *cases = tcase_create("session");
    tcase_set_timeout(cases, 120);
    tcase_add_checked_fixture(cases, setup, NULL);
    tcase_add_test(cases, any_prefill_rows);
    tcase_add_test(cases, logits_of_every_row);
    tcase_add_test(cases, layouts_and_options);
    tcase_add_test(cases, token_out_of_range);
    tcase_add_test(cases, failure_in_the_middle);
    tcase_add_test(cases, cancelled);
    tcase_add_test(cases, poisoned_until_reset);
    tcase_add_test(cases, logits_not_finite);
    tcase_add_test(cases, memory_refused);
    tcase_add_test(cases, sampling);
    tcase_add_test(cases, nucleus);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
