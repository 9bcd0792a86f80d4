/* SPDX-License-Identifier: MIT */
/* Contexts: the descriptor's rules, the environment, last_error, the experimental memory helpers, creating many. */
#define _POSIX_C_SOURCE 200809L
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

static struct call call;

/* The context must not come into being, for this reason. */
static void expect_none(const seqmix_ctx_desc *desc, seqmix_status expected, const char *text)
{
    const struct seqmix_api *api = seqmix_get_api(SEQMIX_ABI_VERSION);
    seqmix_ctx *ctx = (seqmix_ctx *)(uintptr_t)64;
    char why[256];
    ck_assert_int_eq(seqmix_ctx_create(api, desc, &ctx, why, sizeof why), expected);
    ck_assert_ptr_null(ctx);
    ck_assert_msg(strstr(why, text) != NULL, "\"%s\" does not say \"%s\"", why, text);
    char small[4] = "xxx";
    ck_assert_int_eq(seqmix_ctx_create(api, desc, &ctx, small, 3), expected);
    ck_assert(small[2] == '\0' && small[3] == '\0');
    ck_assert_int_eq(seqmix_ctx_create(api, desc, &ctx, NULL, 0), expected);
}

START_TEST(descriptor)
{
    const seqmix_ctx_desc good = {.struct_size = sizeof good};
    const seqmix_status bad = SEQMIX_ERR_INVALID_ARG;
    seqmix_ctx_desc d = good;
    expect_none(NULL, bad, "desc is NULL");
    d.backend = 7, expect_none(&d, bad, "desc.backend=7"), d = good;
    d.flags = 2, expect_none(&d, bad, "desc.flags=0x2"), d = good;
    d.device = -2, expect_none(&d, bad, "desc.device=-2"), d = good;
    d.device = 1, expect_none(&d, bad, "desc.device=1"), d = good;
    d.level_cap = -1, expect_none(&d, bad, "desc.level_cap=-1"), d = good;
    d.n_workers = -1, expect_none(&d, bad, "desc.n_workers=-1"), d = good;
    d.n_workers = 1025, expect_none(&d, bad, "desc.n_workers=1025"), d = good;
    d.max_seqs = -1, expect_none(&d, bad, "desc.max_seqs=-1"), d = good;
    d.max_seqs = INT32_MAX, expect_none(&d, bad, "desc.max_seqs=2147483647"), d = good;
    d.zero0 = 1, expect_none(&d, bad, "desc.zero0=1"), d = good;
    d.stream = &d, expect_none(&d, bad, "desc.stream"), d = good;
}
END_TEST

START_TEST(legal_descriptors)
{
    const seqmix_ctx_desc good[] = {
        {.struct_size = sizeof good[0], .flags = SEQMIX_CTX_FAST},
        {.struct_size = sizeof good[0], .device = -1, .level_cap = SEQMIX_LEVEL_CPU_REF},
        {.struct_size = sizeof good[0], .level_cap = 1000},
        {.struct_size = sizeof good[0], .n_workers = 3, .max_seqs = 1},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        seqmix_ctx *ctx = make_context(&good[i]);
        call_init(&call, &ops[9]);
        expect_success(ctx, &call);
        ck_assert_int_eq(seqmix_ctx_set_stream(ctx, NULL), SEQMIX_OK);
        ck_assert_int_eq(seqmix_ctx_set_stream(ctx, &call), SEQMIX_ERR_INVALID_ARG);
        ck_assert_ptr_nonnull(strstr(seqmix_last_error(ctx), "ctx_set_stream: "));
        seqmix_ctx_destroy(ctx);
    }
}
END_TEST

/* A library without that backend, or a machine without the device, says so. */
START_TEST(other_backend)
{
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc, .backend = SEQMIX_BACKEND_CUDA, .device = -1};
    seqmix_ctx *ctx = NULL;
    char why[256];
    const seqmix_status status = seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx, why, sizeof why);
    if (status == SEQMIX_OK) {
        ck_assert_ptr_nonnull(ctx);
        seqmix_ctx_destroy(ctx);
        return;
    }
    ck_assert_int_eq(status, SEQMIX_ERR_UNAVAILABLE);
    ck_assert_ptr_null(ctx);
    ck_assert_str_ne(why, "");
}
END_TEST

START_TEST(environment)
{
    const seqmix_ctx_desc plain = {.struct_size = sizeof plain};
    int32_t level = 0;
    ck_assert_int_eq(setenv("SEQMIX_LEVEL", "ref", 1), 0);
    seqmix_ctx *ctx = make_context(NULL);
    call_init(&call, &ops[4]);
    ck_assert_int_eq(seqmix_op_query(ctx, ops[4].id, &call.args, SEQMIX_QUERY_LEVEL, &level), SEQMIX_OK);
    ck_assert_int_eq(level, SEQMIX_LEVEL_CPU_REF);
    seqmix_ctx_destroy(ctx);
    ck_assert_int_eq(setenv("SEQMIX_LEVEL", "fast", 1), 0);
    expect_none(&plain, SEQMIX_ERR_INVALID_ARG, "SEQMIX_LEVEL=fast is no level");
    ck_assert_int_eq(setenv("SEQMIX_LEVEL", "", 1), 0);
    seqmix_ctx_destroy(make_context(NULL));
    ck_assert_int_eq(unsetenv("SEQMIX_LEVEL"), 0);
}
END_TEST

/* The sentence of the last failed call, "" after a success. */
START_TEST(last_error)
{
    seqmix_ctx *ctx = make_context(NULL);
    ck_assert_str_eq(seqmix_last_error(ctx), "");
    call_init(&call, &ops[9]);
    call.args.norm.eps = 0;
    ck_assert_int_eq(call_run(ctx, &call), SEQMIX_ERR_INVALID_ARG);
    ck_assert_str_eq(seqmix_last_error(ctx), "gated_rms_norm_rows: eps=0, must be above 0 and finite");
    call.args.norm.eps = 1;
    ck_assert_int_eq(call_run(ctx, &call), SEQMIX_OK);
    ck_assert_str_eq(seqmix_last_error(ctx), "");
    seqmix_ctx_destroy(ctx);
}
END_TEST

START_TEST(memory_helpers)
{
    seqmix_ctx *ctx = make_context(NULL);
    void *memory = NULL, *none = NULL;
    double ms = -1;
    char text[8] = "abcdefg", back[8];
    ck_assert_int_eq(seqmix_mem_alloc(ctx, sizeof text, &memory), SEQMIX_OK);
    ck_assert_uint_eq((uintptr_t)memory % SEQMIX_WORKSPACE_ALIGN, 0);
    ck_assert_int_eq(seqmix_mem_copy(ctx, memory, text, sizeof text), SEQMIX_OK);
    ck_assert_int_eq(seqmix_mem_copy(ctx, back, memory, sizeof back), SEQMIX_OK);
    ck_assert_str_eq(back, text);
    seqmix_mem_free(ctx, memory);
    ck_assert_int_eq(seqmix_mem_alloc(ctx, 0, &memory), SEQMIX_OK);
    seqmix_mem_free(ctx, memory);
    ck_assert_int_eq(seqmix_mem_alloc(ctx, SIZE_MAX, &none), SEQMIX_ERR_OUT_OF_MEMORY);
    ck_assert_ptr_null(none);
    seqmix_mem_free(ctx, NULL);
    ck_assert_int_eq(seqmix_sync(ctx), SEQMIX_OK);
    ck_assert_int_eq(seqmix_elapsed(ctx, &ms), SEQMIX_OK);
    ck_assert(ms >= 0);
    seqmix_ctx_destroy(ctx);
}
END_TEST

START_TEST(many)
{
    enum { N = 64 };
    static seqmix_ctx *ctxs[N];
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < N; i++) {
            const seqmix_ctx_desc desc = {.struct_size = sizeof desc, .n_workers = i % 4, .max_seqs = 1 + i};
            ctxs[i] = make_context(&desc);
        }
        for (int i = 0; i < N; i++) {
            call_init(&call, &ops[8 + i % 4]);
            expect_success(ctxs[i], &call);
            seqmix_ctx_destroy(ctxs[i]);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("context");
    TCase *tcase = tcase_create("contexts");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, descriptor);
    tcase_add_test(tcase, legal_descriptors);
    tcase_add_test(tcase, other_backend);
    tcase_add_test(tcase, environment);
    tcase_add_test(tcase, last_error);
    tcase_add_test(tcase, memory_helpers);
    tcase_add_test(tcase, many);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
