/* SPDX-License-Identifier: MIT */
/*
 * Aliasing: outputs overlap nothing, decided on elements. Lists of views that must be accepted and refused, and random small
 * views judged by marking every byte.
 */
#include <check.h>
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

static const struct op *find_op(int32_t id)
{
    for (int i = 0; i < N_OPS; i++)
        if (ops[i].id == id) return &ops[i];
    abort();
}

static bool may_coincide(const struct op *op, const char *out, const char *other)
{
    if (op->id == SEQMIX_OP_SHORT_CONV_STEP) return strcmp(out, "y") == 0 && strcmp(other, "x") == 0;
    if (op->family == INVERSE) return true;
    if (op->family == NORM) return strcmp(out, "y") == 0 && strcmp(other, "weight") != 0;
    return op->family == LINEAR && strcmp(out, "y") == 0 && strcmp(other, "residual") == 0;
}

static size_t bytes_of(const seqmix_tensor *t)
{
    size_t n = 4;
    for (int axis = 0; axis < t->rank; axis++)
        n *= (size_t)t->shape[axis];
    return n;
}

/* Every written field laid over every other: at the same place, one element in, over its last element. */
START_TEST(every_pair)
{
    const struct field *list = fields[ops[_i].family];
    for (const struct field *out = list; out->name != NULL; out++)
        for (const struct field *other = list; other->name != NULL; other++) {
            if (out == other || (out->traits & F_WRITTEN) == 0) continue;
            for (int place = 0; place < 3; place++) {
                call_init(&call, &ops[_i]);
                seqmix_tensor *t = call_tensor(&call, out), *under = call_tensor(&call, other);
                const size_t last = bytes_of(under) - 4;
                t->data = (char *)under->data + (place == 0 ? 0 : place == 1 ? 4 : last);
                if (place == 0 && may_coincide(&ops[_i], out->name, other->name))
                    expect_success(ctx, &call);
                else
                    expect_refusal(ctx, &call, false, SEQMIX_ERR_ALIAS, "overlaps ");
            }
        }
}
END_TEST

/* In place is the same view, not only the same address. */
START_TEST(in_place_is_exact)
{
    call_init(&call, find_op(SEQMIX_OP_UNIT_LOWER_INVERSE));
    seqmix_inverse_args *inverse = &call.args.inverse;
    inverse->inv = inverse->a;
    inverse->inv.stride[1] = 1;
    inverse->inv.stride[2] = 3;
    expect_refusal(ctx, &call, false, SEQMIX_ERR_ALIAS, "inv overlaps a without being exactly it");

    call_init(&call, find_op(SEQMIX_OP_GATED_RMS_NORM_ROWS));
    call.args.norm.y = call.args.norm.x;
    call.args.norm.y.stride[0] = 16;
    expect_refusal(ctx, &call, false, SEQMIX_ERR_ALIAS, "y overlaps x without being exactly it");

    /* the stride of an axis of size 1 means nothing */
    call_init(&call, find_op(SEQMIX_OP_GATED_RMS_NORM_ROWS));
    call_resize(&call, 'R', 1);
    call.args.norm.y = call.args.norm.x;
    call.args.norm.y.stride[0] = 1234;
    expect_success(ctx, &call);
}
END_TEST

/* Rows of x (8 wide) and y (8 wide) in one buffer of floats: where each begins, and its row stride. */
// clang-format off
static const struct {
    int64_t x, x_stride, y, y_stride;
    bool overlap;
} placements[] = {
    {0, 24, 8, 24, false}, /* slices of a packed projection */
    {8, 24, 0, 24, false},
    {0, 24, 16, 24, false},
    {0, 24, 7, 24, true},
    {0, 24, 17, 24, true}, /* wraps into the next row of x */
    {0, 16, 8, 16, false},
    {0, 16, 8, 32, false}, /* every other row, in the gap */
    {0, 16, 4, 32, true},
    {0, 32, 8, 16, false},
    {0, 32, 12, 16, true}, /* its second row, 28..36, meets x's 32..40 */
    {0, 100, 8, 8, false}, /* dense y in the first gap of x */
    {0, 100, 52, 8, false},
    {0, 100, 53, 8, true},
    {60, 8, 0, 100, true}, /* dense x across the second row of y */
    {8, 8, 0, 100, false},
    {0, 8, 48, 8, false}, /* one right after the other */
    {0, 8, 47, 8, true},
    {48, 8, 0, 8, false},
    {0, 0, 8, 8, false}, /* one row of x for all */
    {0, 0, 7, 8, true},
    {4, 3, 27, 8, false}, /* overlapping rows of an input: 4..27 */
    {4, 3, 26, 8, true},
    {0, 40, 8, 24, true}, /* a common grid of 8, filled by both */
    {0, 48, 8, 24, false}, /* a common grid of 24, shared */
    {0, 48, 16, 24, false},
    {0, 48, 15, 24, false},
    {0, 48, 17, 24, true},
};
// clang-format on

START_TEST(slices)
{
    static float buffer[4096];
    bool marked[4096] = {false}, overlap = false;
    call_init(&call, find_op(SEQMIX_OP_GATED_RMS_NORM_ROWS));
    seqmix_norm_args *norm = &call.args.norm;
    norm->x.data = buffer + placements[_i].x;
    norm->x.stride[0] = placements[_i].x_stride;
    norm->y.data = buffer + placements[_i].y;
    norm->y.stride[0] = placements[_i].y_stride;
    for (int64_t r = 0; r < 6; r++)
        for (int64_t d = 0; d < 8; d++)
            marked[placements[_i].x + r * placements[_i].x_stride + d] = true;
    for (int64_t r = 0; r < 6; r++)
        for (int64_t d = 0; d < 8; d++)
            overlap = overlap || marked[placements[_i].y + r * placements[_i].y_stride + d];
    ck_assert_int_eq(overlap, placements[_i].overlap);
    if (overlap)
        expect_refusal(ctx, &call, false, SEQMIX_ERR_ALIAS, "y overlaps x");
    else
        expect_success(ctx, &call);
}
END_TEST

/* q, k, v, gate, beta and o as column slices of one buffer give the bits of the dense call. */
START_TEST(packed_projection)
{
    enum { WIDTH = 96 };
    static struct call packed;
    static float buffer[6 * WIDTH];
    float *at = buffer;
    call_init(&call, &ops[_i]);
    call_init(&packed, &ops[_i]);
    for (const struct field *f = call_fields(&packed); f->name != NULL; f++) {
        seqmix_tensor *t = call_tensor(&packed, f);
        int64_t width = 1;
        if (f->axes[0] != 'R') continue;
        for (int axis = 1; axis < t->rank; axis++)
            width *= t->shape[axis];
        for (int64_t r = 0; r < 6; r++)
            memcpy(at + r * WIDTH, (float *)t->data + r * width, (size_t)width * sizeof *at);
        t->data = at;
        t->stride[0] = WIDTH;
        at += width;
    }
    ck_assert_int_le(at - buffer, WIDTH);
    expect_success(ctx, &call);
    expect_success(ctx, &packed);
    const char *name = ops[_i].family == DELTANET ? "o" : "y";
    const seqmix_tensor *dense = call_named(&call, name), *sliced = call_named(&packed, name);
    const int64_t width = dense->stride[0];
    for (int64_t r = 0; r < 6; r++)
        ck_assert_mem_eq((const float *)dense->data + r * width, (const float *)sliced->data + r * WIDTH,
                         (size_t)width * sizeof(float));
}
END_TEST

/* Tensors without elements overlap nothing, and need no data. */
START_TEST(nothing_overlaps_nothing)
{
    if (ops[_i].family == INVERSE || ops[_i].family == EMBED) {
        call_init(&call, &ops[_i]);
        call_resize(&call, ops[_i].family == INVERSE ? 'B' : 'D', 0);
    } else {
        call_init(&call, &ops[_i]);
        call_resize(&call, 'R', 0);
    }
    call.batch = (seqmix_batch){.struct_size = sizeof(seqmix_batch)};
    for (const struct field *f = call_fields(&call); f->name != NULL; f++)
        if (bytes_of(call_tensor(&call, f)) == 0) call_tensor(&call, f)->data = NULL;
    expect_success(ctx, &call);
    void *somewhere = call.arena; /* better: a tensor that has elements */
    for (const struct field *f = call_fields(&call); f->name != NULL; f++)
        if (bytes_of(call_tensor(&call, f)) != 0) somewhere = call_tensor(&call, f)->data;
    for (const struct field *f = call_fields(&call); f->name != NULL; f++)
        if (bytes_of(call_tensor(&call, f)) == 0) call_tensor(&call, f)->data = somewhere;
    expect_success(ctx, &call);
}
END_TEST

static uint32_t draw_state;

static int64_t draw(int64_t n)
{
    draw_state = draw_state * 1664525u + 1013904223u;
    return (int64_t)(draw_state >> 8) % n;
}

/* Random strides: of any kind for an input, nested in random order for an output. */
static void draw_strides(seqmix_tensor *t, bool nested)
{
    if (!nested) {
        for (int axis = 0; axis < t->rank; axis++)
            t->stride[axis] = draw(4) == 0 ? draw(24) : (1 + draw(4)) * (1 + draw(4));
        return;
    }
    int64_t span = 1;
    bool done[SEQMIX_MAX_RANK] = {false};
    for (int n = 0; n < t->rank; n++) {
        int axis = (int)draw(t->rank);
        while (done[axis])
            axis = axis + 1 < t->rank ? axis + 1 : 0;
        done[axis] = true;
        t->stride[axis] = span + draw(3) * draw(5);
        span += (t->shape[axis] - 1) * t->stride[axis];
    }
}

/* Adds 1 to each byte of each element of t, relative to base; returns whether one had a mark before. */
static bool mark(const seqmix_tensor *t, const unsigned char *base, unsigned char *marks, size_t n_marks)
{
    const size_t size = t->dtype == SEQMIX_F32 ? 4 : 2;
    bool met = false;
    int64_t index[SEQMIX_MAX_RANK] = {0};
    for (int axis = 0; axis >= 0;) {
        size_t at = (size_t)((const unsigned char *)t->data - base);
        for (int k = 0; k < t->rank; k++)
            at += (size_t)(index[k] * t->stride[k]) * size;
        for (size_t b = 0; b < size; b++) {
            ck_assert_uint_lt(at + b, n_marks);
            met = met || marks[at + b] != 0;
        }
        for (size_t b = 0; b < size; b++)
            marks[at + b] = 1;
        for (axis = t->rank - 1; axis >= 0 && ++index[axis] == t->shape[axis]; axis--)
            index[axis] = 0;
    }
    return met;
}

enum { SPACE = 1 << 14 };

static bool is_same(const seqmix_tensor *a, const seqmix_tensor *b)
{
    bool same = a->data == b->data;
    for (int axis = 0; axis < a->rank; axis++)
        same = same && (a->shape[axis] == 1 || a->stride[axis] == b->stride[axis]);
    return same;
}

/* The verdict on out and in must be that of the marks. */
static int judge(const seqmix_tensor *in, const seqmix_tensor *out, const unsigned char *space)
{
    static unsigned char marks[SPACE];
    memset(marks, 0, sizeof marks);
    mark(in, space, marks, sizeof marks);
    const bool in_place = call.op->family == INVERSE && is_same(in, out);
    const bool overlap = mark(out, space, marks, sizeof marks) && !in_place;
    const seqmix_status status = call_run(ctx, &call), expected = overlap ? SEQMIX_ERR_ALIAS : SEQMIX_OK;
    ck_assert_msg(status == expected, "draw %u: status %d (%s), by elements %d", (unsigned)draw_state, (int)status,
                  seqmix_last_error(ctx), (int)expected);
    return overlap;
}

START_TEST(random_matrices)
{
    static _Alignas(64) unsigned char space[SPACE];
    int overlaps = 0;
    draw_state = 1u + (uint32_t)_i;
    for (int round = 0; round < 1000; round++) {
        call_init(&call, find_op(SEQMIX_OP_UNIT_LOWER_INVERSE));
        seqmix_tensor *a = &call.args.inverse.a, *inv = &call.args.inverse.inv;
        a->rank = 2 + (int32_t)draw(5);
        a->dtype = draw(2) == 0 ? SEQMIX_F32 : SEQMIX_BF16;
        for (int axis = 0; axis < a->rank; axis++)
            a->shape[axis] = 1 + draw(a->rank > 4 ? 2 : 3);
        a->shape[a->rank - 1] = a->shape[a->rank - 2];
        *inv = *a;
        draw_strides(a, draw(2) == 0);
        draw_strides(inv, true);
        a->data = space + 4 * draw(48);
        inv->data = space + 4 * draw(48);
        overlaps += judge(a, inv, space);
    }
    ck_assert_int_gt(overlaps, 100); /* both verdicts are common */
    ck_assert_int_lt(overlaps, 900);
}
END_TEST

START_TEST(random_tables)
{
    static _Alignas(64) unsigned char space[SPACE];
    int overlaps = 0;
    draw_state = 77u + (uint32_t)_i;
    for (int round = 0; round < 1000; round++) {
        const seqmix_dtype dtypes[3] = {SEQMIX_F32, SEQMIX_BF16, SEQMIX_F16};
        call_init(&call, find_op(SEQMIX_OP_EMBED_ROWS));
        seqmix_tensor *table = &call.args.embed.table, *y = &call.args.embed.y;
        memset(call.tokens, 0, sizeof call.tokens);
        table->dtype = dtypes[draw(3)];
        y->dtype = dtypes[draw(3)];
        table->shape[0] = 1 + draw(9);
        table->shape[1] = y->shape[1] = 1 + draw(4);
        y->shape[0] = call.args.embed.n_tokens = 1 + (int32_t)draw(6);
        table->stride[1] = y->stride[1] = 1;
        table->stride[0] = draw(24);
        y->stride[0] = y->shape[1] + draw(12);
        table->data = space + 4 * draw(40);
        y->data = space + 4 * draw(40);
        overlaps += judge(table, y, space);
    }
    ck_assert_int_gt(overlaps, 100);
    ck_assert_int_lt(overlaps, 900);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("alias");
    TCase *tcase = tcase_create("overlap on elements");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, every_pair, 0, N_OPS);
    tcase_add_test(tcase, in_place_is_exact);
    tcase_add_loop_test(tcase, slices, 0, (int)(sizeof placements / sizeof placements[0]));
    tcase_add_loop_test(tcase, packed_projection, 0, N_STATE_OPS);
    tcase_add_loop_test(tcase, nothing_overlaps_nothing, 0, N_OPS);
    tcase_add_loop_test(tcase, random_matrices, 0, 4);
    tcase_add_loop_test(tcase, random_tables, 0, 4);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
