/* SPDX-License-Identifier: MIT */
/*
 * Older and newer callers and libraries: the struct_size rule on args, batch and descriptor, other ABI numbers, and a table
 * that ends before the wanted slot.
 */
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

static struct call call, plain;
static seqmix_ctx *ctx;

static void setup(void)
{
    ctx = make_context(NULL);
}

static void teardown(void)
{
    seqmix_ctx_destroy(ctx);
}

enum { GROWTH = 72 };

/* Runs an op on a caller's struct of another size, which lies alone on the heap. */
static seqmix_status run_with(const void *args, uint32_t size, const struct op *op)
{
    static _Alignas(SEQMIX_WORKSPACE_ALIGN) unsigned char workspace[1 << 20];
    const struct seqmix_api *api = ctx->api;
    const struct seqmix_api_experimental *more = seqmix_experimental(api);
    seqmix_status status = SEQMIX_ERR_INTERNAL;
    void *copy = malloc(size > sizeof(uint32_t) ? size : sizeof(uint32_t));
    memcpy(copy, args, size > sizeof(uint32_t) ? size : sizeof(uint32_t));
    memcpy(copy, &size, sizeof size);
    switch (op->id) {
#define CASE(ID, table, name)                                                                                          \
    case SEQMIX_OP_##ID:                                                                                               \
        status = (table)->name(ctx, copy, workspace, sizeof workspace);                                                \
        break;
        CASE(SHORT_CONV_ROWS, api, short_conv_rows)
        CASE(SHORT_CONV_STEP, api, short_conv_step)
        CASE(SELECTIVE_SCAN_ROWS, api, selective_scan_rows)
        CASE(SELECTIVE_SCAN_STEP, api, selective_scan_step)
        CASE(SSD_CHUNK_FORWARD, api, ssd_chunk_forward)
        CASE(SSD_STEP, api, ssd_step)
        CASE(DELTANET_CHUNK_FORWARD, api, deltanet_chunk_forward)
        CASE(DELTANET_STEP, api, deltanet_step)
        CASE(UNIT_LOWER_INVERSE, api, unit_lower_inverse)
        CASE(GATED_RMS_NORM_ROWS, api, gated_rms_norm_rows)
        CASE(LINEAR, more, linear)
        CASE(EMBED_ROWS, more, embed_rows)
#undef CASE
    default:
        break;
    }
    free(copy);
    return status;
}

/* The last field, whose absence shows that a missing tail counts as zero. */
static const struct field *last_field(void)
{
    const struct field *f = call_fields(&call);
    while (f[1].name != NULL)
        f++;
    return f;
}

START_TEST(older_args)
{
    char expected[64] = "";
    call_init(&call, &ops[_i]);
    const struct field *last = last_field();
    strcat(strcat(strcat(strcat(expected, ops[_i].name), ": "), last->name), " is missing (its rank is 0)");
    ck_assert_int_eq(run_with(&call.args, (uint32_t)last->offset, &ops[_i]), SEQMIX_ERR_INVALID_ARG);
    ck_assert_str_eq(seqmix_last_error(ctx), expected);
    /* a cut inside the last tensor's strides leaves zeros there */
    seqmix_tensor *t = call_tensor(&call, last);
    const uint32_t cut =
        (uint32_t)(last->offset + offsetof(seqmix_tensor, stride) + (size_t)t->rank * sizeof t->stride[0]);
    ck_assert_int_eq(run_with(&call.args, cut, &ops[_i]), SEQMIX_OK);
    call_init(&plain, &ops[_i]);
    expect_success(ctx, &plain);
    ck_assert_mem_eq(call.arena, plain.arena, ARENA);
}
END_TEST

START_TEST(newer_args)
{
    static unsigned char larger[sizeof(union any_args) + GROWTH];
    call_init(&call, &ops[_i]);
    call_init(&plain, &ops[_i]);
    const uint32_t size = call.args.struct_size;
    memset(larger, 0, sizeof larger);
    memcpy(larger, &call.args, size);
    larger[size] = 1;
    ck_assert_int_eq(run_with(larger, size + GROWTH, &ops[_i]), SEQMIX_ERR_STRUCT_TOO_NEW);
    ck_assert_ptr_nonnull(strstr(seqmix_last_error(ctx), "struct_size="));
    larger[size] = 0;
    larger[size + GROWTH - 1] = 0x80;
    ck_assert_int_eq(run_with(larger, size + GROWTH, &ops[_i]), SEQMIX_ERR_STRUCT_TOO_NEW);
    ck_assert_mem_eq(call.arena, plain.arena, ARENA);
    larger[size + GROWTH - 1] = 0;
    ck_assert_int_eq(run_with(larger, size + GROWTH, &ops[_i]), SEQMIX_OK);
    expect_success(ctx, &plain);
    ck_assert_mem_eq(call.arena, plain.arena, ARENA);
}
END_TEST

START_TEST(absurd_args)
{
    const uint32_t sizes[] = {0, 1, 3, 1u << 16, UINT32_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        call_init(&call, &ops[_i]);
        call.args.struct_size = sizes[i];
        expect_refusal(ctx, &call, true, SEQMIX_ERR_INVALID_ARG, "args.struct_size=");
    }
    call_init(&call, &ops[_i]);
    ck_assert_int_eq(run_with(&call.args, 4, &ops[_i]), SEQMIX_ERR_INVALID_ARG); /* all fields absent */
}
END_TEST

START_TEST(batch_sizes)
{
    struct {
        seqmix_batch batch;
        unsigned char tail[GROWTH];
    } larger;
    memset(&larger, 0, sizeof larger);
    call_init(&call, &ops[_i]);
    larger.batch = call.batch;
    larger.batch.struct_size = sizeof larger;
    const seqmix_batch *pointer = &larger.batch;
    switch (ops[_i].family) {
    case CONV:
        call.args.conv.batch = pointer;
        break;
    case SCAN:
        call.args.scan.batch = pointer;
        break;
    case SSD:
        call.args.ssd.batch = pointer;
        break;
    default:
        call.args.deltanet.batch = pointer;
        break;
    }
    larger.tail[GROWTH - 1] = 1;
    expect_refusal(ctx, &call, true, SEQMIX_ERR_STRUCT_TOO_NEW, "batch.struct_size=136");
    larger.tail[GROWTH - 1] = 0;
    larger.batch.struct_size = 0;
    expect_refusal(ctx, &call, true, SEQMIX_ERR_INVALID_ARG, "batch.struct_size=0");
    larger.batch.struct_size =
        offsetof(seqmix_batch, ckpt_seq); /* n_checkpoints is set, its arrays are beyond the end */
    expect_refusal(ctx, &call, false, SEQMIX_ERR_INVALID_ARG, "batch.ckpt_seq is NULL with n_checkpoints=1");
    larger.batch.struct_size = sizeof larger;
    expect_success(ctx, &call);
}
END_TEST

START_TEST(descriptor_sizes)
{
    const struct seqmix_api *api = seqmix_get_api(SEQMIX_ABI_VERSION);
    struct {
        seqmix_ctx_desc desc;
        unsigned char tail[GROWTH];
    } larger;
    seqmix_ctx *other;
    char why[256];
    memset(&larger, 0, sizeof larger);
    larger.desc.struct_size = sizeof larger;
    ck_assert_int_eq(seqmix_ctx_create(api, &larger.desc, &other, why, sizeof why), SEQMIX_OK);
    seqmix_ctx_destroy(other);
    larger.tail[0] = 1;
    ck_assert_int_eq(seqmix_ctx_create(api, &larger.desc, &other, why, sizeof why), SEQMIX_ERR_STRUCT_TOO_NEW);
    ck_assert_ptr_null(other);
    ck_assert_ptr_nonnull(strstr(why, "desc.struct_size="));
    larger.desc.struct_size = 0;
    ck_assert_int_eq(seqmix_ctx_create(api, &larger.desc, &other, NULL, 0), SEQMIX_ERR_INVALID_ARG);
    ck_assert_ptr_null(other);
    larger.desc.struct_size = sizeof(uint32_t);
    larger.desc.n_workers = -5; /* beyond the end of this older struct */
    ck_assert_int_eq(seqmix_ctx_create(api, &larger.desc, &other, why, sizeof why), SEQMIX_OK);
    seqmix_ctx_destroy(other);
}
END_TEST

START_TEST(abi_numbers)
{
    const struct seqmix_api *api = seqmix_get_api(SEQMIX_ABI_VERSION);
    const uint32_t major = (uint32_t)SEQMIX_ABI_MAJOR << 16;
    seqmix_ctx *other = ctx;
    char why[64] = "old text";
    ck_assert_ptr_nonnull(api);
    ck_assert_uint_eq(api->abi_version, SEQMIX_ABI_VERSION);
    ck_assert_uint_ge(api->struct_size, sizeof *api);
    for (uint32_t minor = 0; minor <= 0xffff; minor += 0x1111)
        ck_assert_ptr_eq(seqmix_get_api(major | minor), api);
    ck_assert_ptr_null(seqmix_get_api(major + 0x10000));
    ck_assert_ptr_null(seqmix_get_api(UINT32_MAX));
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc};
    ck_assert_int_eq(seqmix_ctx_create(NULL, &desc, &other, why, sizeof why), SEQMIX_ERR_UNAVAILABLE);
    ck_assert_ptr_null(other);
    ck_assert_str_eq(why, "");
    ck_assert_ptr_nonnull(api->experimental(SEQMIX_EXPERIMENTAL_VERSION));
    ck_assert_ptr_null(api->experimental(SEQMIX_EXPERIMENTAL_VERSION + 1));
    ck_assert_ptr_null(api->experimental(0));
}
END_TEST

/* A table cut before the slots of op _i: earlier ops work, later ones are unavailable. */
START_TEST(older_table)
{
    const size_t cuts[] = {
        offsetof(struct seqmix_api, short_conv_rows),        offsetof(struct seqmix_api, short_conv_step),
        offsetof(struct seqmix_api, selective_scan_rows),    offsetof(struct seqmix_api, selective_scan_step),
        offsetof(struct seqmix_api, ssd_chunk_forward),      offsetof(struct seqmix_api, ssd_step),
        offsetof(struct seqmix_api, deltanet_chunk_forward), offsetof(struct seqmix_api, deltanet_step),
        offsetof(struct seqmix_api, unit_lower_inverse),     offsetof(struct seqmix_api, gated_rms_norm_rows)};
    const struct seqmix_api *whole = ctx->api;
    struct seqmix_api cut = *whole;
    cut.struct_size = (uint32_t)cuts[_i];
    memset((char *)&cut + cuts[_i], 0, sizeof cut - cuts[_i]);
    ctx->api = &cut;
    for (int i = 0; i < 10; i++) {
        size_t bytes = 1;
        call_init(&call, &ops[i]);
        call_init(&plain, &ops[i]);
        if (i < _i) {
            expect_success(ctx, &call);
            continue;
        }
        ck_assert_int_eq(call_size(ctx, &call, &bytes), SEQMIX_ERR_UNAVAILABLE);
        ck_assert_int_eq(call_op(ctx, &call, NULL, 0), SEQMIX_ERR_UNAVAILABLE);
        ck_assert_mem_eq(call.arena, plain.arena, ARENA);
    }
    ck_assert_int_eq(SEQMIX_API_HAS(&cut, gated_rms_norm_rows), 0);
    ck_assert_int_eq(SEQMIX_API_HAS(whole, gated_rms_norm_rows_workspace), 1);
    ctx->api = whole;
}
END_TEST

/* A slot half inside the table is not there; without the experimental half its wrappers say so. */
START_TEST(table_edges)
{
    const struct seqmix_api *whole = ctx->api;
    struct seqmix_api cut = *whole;
    size_t bytes;
    cut.struct_size = (uint32_t)(offsetof(struct seqmix_api, ssd_step) + sizeof cut.ssd_step - 1);
    ck_assert_int_eq(SEQMIX_API_HAS(&cut, ssd_step), 0);
    cut.struct_size++;
    ck_assert_int_eq(SEQMIX_API_HAS(&cut, ssd_step), 1);

    cut.struct_size = (uint32_t)offsetof(struct seqmix_api, experimental);
    ctx->api = &cut;
    for (int i = 10; i < N_OPS; i++) {
        call_init(&call, &ops[i]);
        ck_assert_int_eq(call_size(ctx, &call, &bytes), SEQMIX_ERR_UNAVAILABLE);
        ck_assert_int_eq(call_op(ctx, &call, NULL, 0), SEQMIX_ERR_UNAVAILABLE);
    }
    void *memory = ctx;
    double ms;
    ck_assert_int_eq(seqmix_mem_alloc(ctx, 1, &memory), SEQMIX_ERR_UNAVAILABLE);
    ck_assert_ptr_null(memory);
    ck_assert_int_eq(seqmix_mem_copy(ctx, &cut, whole, 1), SEQMIX_ERR_UNAVAILABLE);
    ck_assert_int_eq(seqmix_sync(ctx), SEQMIX_ERR_UNAVAILABLE);
    ck_assert_int_eq(seqmix_elapsed(ctx, &ms), SEQMIX_ERR_UNAVAILABLE);
    seqmix_mem_free(ctx, NULL);
    ctx->api = whole;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("skew");
    TCase *tcase = tcase_create("other versions");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, older_args, 0, N_OPS);
    tcase_add_loop_test(tcase, newer_args, 0, N_OPS);
    tcase_add_loop_test(tcase, absurd_args, 0, N_OPS);
    tcase_add_loop_test(tcase, batch_sizes, 0, N_STATE_OPS);
    tcase_add_test(tcase, descriptor_sizes);
    tcase_add_test(tcase, abi_numbers);
    tcase_add_loop_test(tcase, older_table, 0, 10);
    tcase_add_test(tcase, table_edges);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
