/* SPDX-License-Identifier: MIT */
/* The rules every tensor of every op obeys: presence, rank, dtype, shape, strides, data. One loop over all fields each. */
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

static struct call call;
static seqmix_ctx *ctx;

static void setup(void)
{
    ctx = make_context(NULL);
}

static void teardown(void)
{
    seqmix_ctx_destroy(ctx);
}

/* A fresh legal call, and the field's tensor in it. */
static seqmix_tensor *fresh(int op, const struct field *f)
{
    call_init(&call, &ops[op]);
    return call_tensor(&call, f);
}

static const char *text(const char *format, const char *name, int axis)
{
    static char buffer[64];
    snprintf(buffer, sizeof buffer, format, name, axis);
    return buffer;
}

static bool is_named(const struct field *f, enum family family, const char *name)
{
    return f >= fields[family] && f <= fields[family] + MAX_FIELDS && strcmp(f->name, name) == 0;
}

static int min_rank(const struct field *f)
{
    const int full = (int)strlen(f->axes);
    const bool shorter = is_named(f, SSD, "skip") || is_named(f, DELTANET, "gate") || is_named(f, DELTANET, "dt_bias");
    return is_named(f, INVERSE, "a") ? 2 : shorter ? full - 1 : full;
}

static int max_rank(const struct field *f)
{
    return is_named(f, INVERSE, "a") ? SEQMIX_MAX_RANK : (int)strlen(f->axes);
}

START_TEST(absence)
{
    for (const struct field *f = fields[ops[_i].family]; f->name != NULL; f++) {
        fresh(_i, f)->rank = 0;
        if ((f->traits & F_OPTIONAL) == 0) {
            expect_refusal(ctx, &call, true, SEQMIX_ERR_INVALID_ARG,
                           text("%s is missing (its rank is %d)", f->name, 0));
            continue;
        }
        if (strcmp(f->name, "state") == 0) call.batch.n_checkpoints = 0;
        expect_success(ctx, &call);
    }
}
END_TEST

START_TEST(ranks)
{
    for (const struct field *f = fields[ops[_i].family]; f->name != NULL; f++)
        for (int r = -1; r <= SEQMIX_MAX_RANK + 1; r++) {
            if (r == 0 || (r >= min_rank(f) && r <= max_rank(f))) continue;
            char must[96];
            const int lowest = min_rank(f), highest = max_rank(f);
            fresh(_i, f)->rank = r;
            if (lowest == highest)
                snprintf(must, sizeof must, ": %s.rank=%d, must be %d", f->name, r, highest);
            else
                snprintf(must, sizeof must, ": %s.rank=%d, must be %d to %d", f->name, r, lowest, highest);
            expect_refusal(ctx, &call, true, SEQMIX_ERR_SHAPE, must);
        }
    const struct field *f = fields[ops[_i].family];
    fresh(_i, f)->rank = INT32_MIN;
    expect_refusal(ctx, &call, true, SEQMIX_ERR_SHAPE, text("%s.rank=-2147483648, must be ", f->name, 0));
}
END_TEST

START_TEST(dtype_unknown)
{
    const int32_t none[] = {0, -1, 4, 64, INT32_MAX};
    for (const struct field *f = fields[ops[_i].family]; f->name != NULL; f++)
        for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
            fresh(_i, f)->dtype = none[i];
            expect_refusal(ctx, &call, true, SEQMIX_ERR_DTYPE, text("%s.dtype=%d is none of", f->name, none[i]));
        }
}
END_TEST

/* Gives X and the fields bound to it a 16-bit dtype. */
static void set_x(seqmix_dtype dtype)
{
    for (const struct field *f = call_fields(&call); f->name != NULL; f++)
        if ((f->traits & F_X) != 0) call_tensor(&call, f)->dtype = dtype;
}

START_TEST(dtype_mixed)
{
    const struct field *first = fields[ops[_i].family];
    for (const struct field *f = first; f->name != NULL; f++) {
        seqmix_tensor *t = fresh(_i, f);
        if (ops[_i].family == LINEAR && f == first) continue; /* nothing else is bound to x */
        if ((f->traits & F_X) != 0) {
            t->dtype = SEQMIX_BF16;
            expect_refusal(ctx, &call, true, SEQMIX_ERR_DTYPE,
                           f == first ? ".dtype=f32" : text("%s.dtype=bf16", f->name, 0));
        } else if ((f->traits & F_F32) != 0) {
            set_x(SEQMIX_BF16);
            t->dtype = SEQMIX_BF16;
            expect_refusal(ctx, &call, true, SEQMIX_ERR_DTYPE, text("%s.dtype=bf16, must be f32", f->name, 0));
        } else if ((f->traits & F_X_OR_F32) != 0) {
            set_x(SEQMIX_BF16);
            t->dtype = SEQMIX_F16;
            expect_refusal(ctx, &call, true, SEQMIX_ERR_DTYPE, text("%s.dtype=f16, must be f32 or ", f->name, 0));
        }
    }
}
END_TEST

START_TEST(shape)
{
    for (const struct field *f = fields[ops[_i].family]; f->name != NULL; f++)
        for (int axis = 0; f->axes[axis] != '\0'; axis++) {
            fresh(_i, f)->shape[axis] = -1;
            expect_refusal(ctx, &call, true, SEQMIX_ERR_SHAPE, text("%s.shape[%d]=-1 is negative", f->name, axis));
            fresh(_i, f)->shape[axis] = INT64_MIN;
            expect_refusal(ctx, &call, true, SEQMIX_ERR_SHAPE,
                           text("%s.shape[%d]=-9223372036854775808", f->name, axis));
            if (f->axes[axis] == 'S' || f->axes[axis] == 'V') continue; /* no other field has that axis */
            const char *why = is_named(f, NORM, "weight") ? "neither D=8 nor the group size 4" : " differs from ";
            fresh(_i, f)->shape[axis]++;
            expect_refusal(ctx, &call, true, SEQMIX_ERR_SHAPE, why);
            fresh(_i, f)->shape[axis] = 0;
            expect_refusal(ctx, &call, true, SEQMIX_ERR_SHAPE, why);
        }
}
END_TEST

START_TEST(stride_sign)
{
    for (const struct field *f = fields[ops[_i].family]; f->name != NULL; f++)
        for (int axis = 0; f->axes[axis] != '\0'; axis++) {
            fresh(_i, f)->stride[axis] = -1;
            expect_refusal(ctx, &call, true, SEQMIX_ERR_STRIDE, text("%s.stride[%d]=-1 is negative", f->name, axis));
            fresh(_i, f)->stride[axis] = INT64_MIN;
            expect_refusal(ctx, &call, true, SEQMIX_ERR_STRIDE,
                           text("%s.stride[%d]=-9223372036854775808", f->name, axis));
        }
}
END_TEST

START_TEST(stride_last)
{
    for (const struct field *f = fields[ops[_i].family]; f->name != NULL; f++) {
        const int last = (int)strlen(f->axes) - 1;
        if ((f->traits & F_ROWS) == 0) continue;
        fresh(_i, f)->stride[last] = 2;
        expect_refusal(ctx, &call, true, SEQMIX_ERR_STRIDE, text("%s.stride[%d]=2, must be 1", f->name, last));
        fresh(_i, f)->stride[last] = 0;
        expect_refusal(ctx, &call, true, SEQMIX_ERR_STRIDE, text("%s.stride[%d]=0, must be 1", f->name, last));
    }
}
END_TEST

START_TEST(stride_nesting)
{
    for (const struct field *f = fields[ops[_i].family]; f->name != NULL; f++) {
        if ((f->traits & F_WRITTEN) == 0) continue;
        const int rank = (int)strlen(f->axes);
        for (int axis = 0; axis < rank - 1; axis++) {
            fresh(_i, f)->stride[axis] = 0;
            expect_refusal(ctx, &call, true, SEQMIX_ERR_STRIDE,
                           text("%s.stride[%d]=0 is below the span", f->name, axis));
            fresh(_i, f)->stride[axis]--;
            expect_refusal(ctx, &call, true, SEQMIX_ERR_STRIDE, "below the span");
        }
    }
}
END_TEST

START_TEST(stride_overflow)
{
    const int64_t strides[] = {INT64_MAX, INT64_MAX / 2, INT64_MAX / 4, INT64_MAX / 4 - 2};
    for (const struct field *f = fields[ops[_i].family]; f->name != NULL; f++)
        for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++) {
            seqmix_tensor *t = fresh(_i, f);
            if (t->rank == 1 && i == 3) continue; /* a pointer difference that just fits */
            if ((f->traits & F_ROWS) != 0 && t->rank == 1) continue;
            t->stride[0] = strides[i];
            expect_refusal(ctx, &call, true, SEQMIX_ERR_STRIDE,
                           text("%s: its shape and strides span more than", f->name, 0));
        }
}
END_TEST

/* A row axis broadcast by stride 0 hides how many elements there are, not that they are too many to count. */
START_TEST(count_overflow)
{
    call_init(&call, &ops[_i]);
    if (ops[_i].family == INVERSE || ops[_i].family == EMBED) return;
    const enum family family = ops[_i].family;
    call_resize(&call, 'R', INT32_MAX);
    call_resize(&call, family == LINEAR ? 'I' : family == DELTANET ? 'k' : family == SSD ? 'H' : 'D', (int64_t)1 << 32);
    call_resize(&call, 'G', (int64_t)1 << 32);
    call_resize(&call, 'h', (int64_t)1 << 32);
    call.batch = (seqmix_batch){.struct_size = sizeof(seqmix_batch), .max_rows = ops[_i].step ? 16 : 0};
    for (const struct field *f = call_fields(&call); f->name != NULL; f++)
        if ((f->traits & F_WRITTEN) == 0) call_tensor(&call, f)->stride[0] = 0;
    expect_refusal(ctx, &call, true, SEQMIX_ERR_STRIDE,
                   text("%s: its shape and strides span", call_fields(&call)->name, 0));
}
END_TEST

/* Without elements there is still no size that offsets could not reach. */
START_TEST(count_overflow_of_nothing)
{
    call_init(&call, &ops[9]);
    call_resize(&call, 'D', (int64_t)1 << 62);
    call_resize(&call, 'R', 0);
    expect_refusal(ctx, &call, true, SEQMIX_ERR_STRIDE, "x: its shape and strides span more than");
}
END_TEST

START_TEST(data)
{
    for (const struct field *f = fields[ops[_i].family]; f->name != NULL; f++) {
        size_t bytes;
        seqmix_tensor *t = fresh(_i, f);
        t->data = NULL;
        ck_assert_int_eq(call_size(ctx, &call, &bytes), SEQMIX_OK);
        expect_refusal(ctx, &call, false, SEQMIX_ERR_INVALID_ARG, text("%s.data is NULL", f->name, 0));
        t = fresh(_i, f);
        t->data = (char *)t->data + 2;
        expect_refusal(ctx, &call, false, SEQMIX_ERR_INVALID_ARG, text("%s.data is not aligned", f->name, 0));
        fresh(_i, f)->data = (void *)(UINTPTR_MAX - 3);
        expect_refusal(ctx, &call, false, SEQMIX_ERR_STRIDE,
                       text("%s: its shape and strides reach beyond", f->name, 0));
    }
}
END_TEST

/* A query reads no pointer at all, and answers what it answers for the same call with data. */
START_TEST(query_without_data)
{
    size_t with = 1, without = 2;
    call_init(&call, &ops[_i]);
    ck_assert_int_eq(call_size(ctx, &call, &with), SEQMIX_OK);
    for (const struct field *f = call_fields(&call); f->name != NULL; f++)
        call_tensor(&call, f)->data = NULL;
    call.batch.row_begin = call.batch.read_slot = call.batch.write_slot = NULL;
    call.batch.ckpt_seq = call.batch.ckpt_row = call.batch.ckpt_slot = NULL;
    if (ops[_i].family == EMBED) call.args.embed.tokens = NULL;
    ck_assert_int_eq(call_size(ctx, &call, &without), SEQMIX_OK);
    ck_assert_uint_eq(with, without);

    const char *kernel = NULL;
    int64_t grain = -1;
    int32_t level = -1;
    ck_assert_int_eq(seqmix_op_query(ctx, ops[_i].id, &call.args, SEQMIX_QUERY_KERNEL, &kernel), SEQMIX_OK);
    ck_assert_int_eq(seqmix_op_query(ctx, ops[_i].id, &call.args, SEQMIX_QUERY_GRAIN, &grain), SEQMIX_OK);
    ck_assert_int_eq(seqmix_op_query(ctx, ops[_i].id, &call.args, SEQMIX_QUERY_LEVEL, &level), SEQMIX_OK);
    ck_assert_ptr_nonnull(kernel);
    ck_assert_int_ge(grain, 1);
    ck_assert_int_ge(level, SEQMIX_LEVEL_CPU_REF);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fields");
    TCase *tcase = tcase_create("every field of every op");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, absence, 0, N_OPS);
    tcase_add_loop_test(tcase, ranks, 0, N_OPS);
    tcase_add_loop_test(tcase, dtype_unknown, 0, N_OPS);
    tcase_add_loop_test(tcase, dtype_mixed, 0, N_OPS);
    tcase_add_loop_test(tcase, shape, 0, N_OPS);
    tcase_add_loop_test(tcase, stride_sign, 0, N_OPS);
    tcase_add_loop_test(tcase, stride_last, 0, N_OPS);
    tcase_add_loop_test(tcase, stride_nesting, 0, N_OPS);
    tcase_add_loop_test(tcase, stride_overflow, 0, N_OPS);
    tcase_add_loop_test(tcase, count_overflow, 0, N_OPS);
    tcase_add_test(tcase, count_overflow_of_nothing);
    tcase_add_loop_test(tcase, data, 0, N_OPS);
    tcase_add_loop_test(tcase, query_without_data, 0, N_OPS);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
