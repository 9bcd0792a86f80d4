/* SPDX-License-Identifier: MIT */
/*
 * The library fetched at run time: this program links neither form of it, takes seqmix_get_api by dlsym, and everything else
 * in the header works. Usage: dlopen LIBRARY
 */
#define _POSIX_C_SOURCE 200809L
#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <seqmix/seqmix.h>

static const char *library;

static seqmix_get_api_fn find_get_api(void *handle)
{
    seqmix_get_api_fn get_api;
    void *symbol = dlsym(handle, "seqmix_get_api");
    ck_assert_msg(symbol != NULL, "%s", dlerror());
    memcpy(&get_api, &symbol, sizeof get_api); /* ISO C has no conversion */
    return get_api;
}

static void use(const struct seqmix_api *api)
{
    /* one row, one head of 1 x 2: S = 0.5 * S + d * x B with d = 1, A = -log 2 */
    float x = 2, dt = 1, A = -0.693147180559945f, B[2] = {1, 3}, C[2] = {1, 0.5f}, state[2] = {4, 8}, y = 0;
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc};
    const seqmix_ssd_args args = {.struct_size = sizeof args,
                                  .x = {&x, SEQMIX_F32, 3, {1, 1, 1}, {1, 1, 1}},
                                  .dt = {&dt, SEQMIX_F32, 2, {1, 1}, {1, 1}},
                                  .A = {&A, SEQMIX_F32, 1, {1}, {1}},
                                  .B = {B, SEQMIX_F32, 3, {1, 1, 2}, {2, 2, 1}},
                                  .C = {C, SEQMIX_F32, 3, {1, 1, 2}, {2, 2, 1}},
                                  .state = {state, SEQMIX_F32, 4, {1, 1, 1, 2}, {2, 2, 2, 1}},
                                  .y = {&y, SEQMIX_F32, 3, {1, 1, 1}, {1, 1, 1}}};
    seqmix_ctx *ctx;
    char why[256];
    ck_assert_msg(seqmix_ctx_create(api, &desc, &ctx, why, sizeof why) == SEQMIX_OK, "%s", why);
    ck_assert_msg(seqmix_ssd_step(ctx, &args, NULL, 0) == SEQMIX_OK, "%s", seqmix_last_error(ctx));
    ck_assert(fabsf(state[0] - 4) < 1e-5f && fabsf(state[1] - 10) < 1e-5f && fabsf(y - 9) < 1e-5f);
    ck_assert_str_eq(seqmix_status_name(api, SEQMIX_ERR_ALIAS), "SEQMIX_ERR_ALIAS");
    seqmix_ctx_destroy(ctx);
}

START_TEST(fetched_at_run_time)
{
    for (int round = 0; round < 3; round++) {
        void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        ck_assert_msg(handle != NULL, "%s", dlerror());
        const seqmix_get_api_fn get_api = find_get_api(handle);
        ck_assert_ptr_null(get_api(SEQMIX_ABI_VERSION + 0x10000));
        const struct seqmix_api *api = get_api(SEQMIX_ABI_VERSION);
        ck_assert_ptr_nonnull(api);
        use(api);
        ck_assert_int_eq(dlclose(handle), 0);
    }
}
END_TEST

int main(int argc, char **argv)
{
    if (argc != 2) return EXIT_FAILURE;
    library = argv[1];
    Suite *suite = suite_create("dlopen");
    TCase *tcase = tcase_create("dlopen");
    tcase_add_test(tcase, fetched_at_run_time);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
