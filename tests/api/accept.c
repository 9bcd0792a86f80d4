/* SPDX-License-Identifier: MIT */
/* What must not be refused: every option, optional tensors absent one by one, dtypes, sizes of 0, free strides. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
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

/* A step of the walk over all values of a set of options. */
static bool count_up(int32_t *digit, int32_t base)
{
    *digit = (*digit + 1) % base;
    return *digit == 0;
}

START_TEST(deltanet_options)
{
    const int32_t chunks[] = {0, 16, 32, 64, 128, 256};
    int32_t gate = 0, beta = 0, norm = 0, map = 0, chunk = 0;
    for (;;) {
        call_init(&call, &ops[_i]);
        seqmix_deltanet_args *a = &call.args.deltanet;
        a->gate_kind = gate;
        a->beta_kind = beta;
        a->qk_l2norm = norm;
        a->head_map = map;
        a->chunk = chunks[chunk];
        if (norm == 0) a->eps = NAN; /* not used */
        a->gate_lower_bound = gate == SEQMIX_GATE_BOUNDED_SIGMOID ? -5.0f : NAN;
        if (gate < SEQMIX_GATE_SOFTPLUS) a->A.rank = a->dt_bias.rank = 0;
        if (gate == SEQMIX_GATE_NONE) a->gate.rank = 0;
        expect_success(ctx, &call);
        if (count_up(&gate, 5) && count_up(&beta, 3) && count_up(&norm, 2) && count_up(&map, 2) && count_up(&chunk, 6))
            break;
    }
}
END_TEST

/* Gate and bias ranks: [R,HV] with [HV]; [R,HV,DK] with either. */
START_TEST(deltanet_gate_ranks)
{
    for (int gate = 2; gate <= 3; gate++)
        for (int bias = 0; bias <= 2; bias++) {
            call_init(&call, &ops[_i]);
            seqmix_deltanet_args *a = &call.args.deltanet;
            a->gate.rank = gate;
            make_dense(&a->gate);
            a->dt_bias.rank = bias;
            make_dense(&a->dt_bias);
            if (gate == 2) a->gate.stride[1] = 3; /* per-head scalars may have any stride */
            a->beta.stride[1] = 0;
            a->scale = 0.25f;
            if (gate == 2 && bias == 2) continue;
            expect_success(ctx, &call);
        }
}
END_TEST

START_TEST(ssd_options)
{
    const int32_t chunks[] = {0, 16, 32, 64, 128, 256};
    const float bounds[][2] = {{0, 0}, {0.01f, 0}, {0, 0.5f}, {0.01f, 0.5f}, {0.5f, 0.5f}, {0, INFINITY}, {FLT_MAX, 0}};
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < sizeof bounds / sizeof bounds[0]; j++)
            for (int32_t softplus = 0; softplus < 2; softplus++) {
                call_init(&call, &ops[_i]);
                call.args.ssd.chunk = chunks[i];
                call.args.ssd.dt_min = bounds[j][0];
                call.args.ssd.dt_max = bounds[j][1];
                call.args.ssd.dt_softplus = softplus;
                call.args.ssd.skip.rank = 1 + softplus;
                make_dense(&call.args.ssd.skip);
                call.args.ssd.dt.stride[1] = 2;
                call.args.ssd.dt.stride[0] = 1;
                expect_success(ctx, &call);
            }
}
END_TEST

START_TEST(norm_options)
{
    const int32_t groups[] = {0, 1, 2, 4, 8};
    for (size_t i = 0; i < 5; i++)
        for (int32_t bits = 0; bits < 16; bits++) {
            call_init(&call, &ops[9]);
            seqmix_norm_args *a = &call.args.norm;
            a->group = groups[i];
            a->norm_before_gate = bits & 1;
            a->gate_act = bits >> 1 & 1;
            a->weight_plus_one = bits >> 2 & 1;
            if ((bits & 8) != 0 && groups[i] != 0) a->weight.shape[0] = groups[i];
            expect_success(ctx, &call);
        }
}
END_TEST

/* All subsets of the optional tensors. */
START_TEST(absent_tensors)
{
    const struct field *optional[MAX_FIELDS];
    int n = 0;
    for (const struct field *f = fields[ops[_i].family]; f->name != NULL; f++)
        if ((f->traits & F_OPTIONAL) != 0) optional[n++] = f;
    for (int set = 0; set < 1 << n; set++) {
        call_init(&call, &ops[_i]);
        for (int i = 0; i < n; i++)
            if ((set >> i & 1) != 0) memset(call_tensor(&call, optional[i]), 0, sizeof(seqmix_tensor));
        if (call_named(&call, "state") != NULL && call_named(&call, "state")->rank == 0) call.batch.n_checkpoints = 0;
        expect_success(ctx, &call);
    }
}
END_TEST

/* X in each dtype, the others in each dtype they may have. */
START_TEST(dtypes)
{
    const seqmix_dtype all[] = {SEQMIX_F32, SEQMIX_BF16, SEQMIX_F16};
    for (int x = 0; x < 3; x++)
        for (const struct field *f = fields[ops[_i].family]; f->name != NULL; f++)
            for (int other = 0; other < 3; other++) {
                call_init(&call, &ops[_i]);
                for (const struct field *g = fields[ops[_i].family]; g->name != NULL; g++)
                    if ((g->traits & F_X) != 0) call_tensor(&call, g)->dtype = all[x];
                if ((f->traits & (F_X | F_F32)) != 0) continue;
                if ((f->traits & F_X_OR_F32) != 0 && other != x && other != 0) continue;
                call_tensor(&call, f)->dtype = all[other];
                if (ops[_i].family == LINEAR) call.args.linear.residual.dtype = call.args.linear.y.dtype;
                expect_success(ctx, &call);
            }
}
END_TEST

/* Any axis of size 0, data NULL where that leaves no element; K, n and DK must be at least 1, and embed reads tokens. */
START_TEST(sizes_of_0)
{
    const char *axes = "RDNGHPheBIO";
    for (int i = 0; axes[i] != '\0'; i++) {
        call_init(&call, &ops[_i]);
        if (ops[_i].family == EMBED && axes[i] == 'R') continue;
        call_resize(&call, axes[i], 0);
        if (axes[i] == 'G') call_resize(&call, ops[_i].family == SCAN ? 'D' : 'H', 0);
        if (axes[i] == 'R') call.batch = (seqmix_batch){.struct_size = sizeof(seqmix_batch), .n_seqs = 0};
        for (const struct field *f = call_fields(&call); f->name != NULL; f++) {
            seqmix_tensor *t = call_tensor(&call, f);
            for (int axis = 0; axis < t->rank; axis++)
                if (t->shape[axis] == 0) t->data = NULL;
        }
        expect_success(ctx, &call);
    }
}
END_TEST

/* Axes beyond the rank are not looked at. */
START_TEST(unused_axes)
{
    call_init(&call, &ops[_i]);
    for (const struct field *f = call_fields(&call); f->name != NULL; f++)
        for (int axis = call_tensor(&call, f)->rank; axis < SEQMIX_MAX_RANK; axis++)
            call_tensor(&call, f)->shape[axis] = call_tensor(&call, f)->stride[axis] = axis % 2 == 0 ? -1 : INT64_MAX;
    expect_success(ctx, &call);
}
END_TEST

START_TEST(no_tokens)
{
    call_init(&call, &ops[11]);
    call_resize(&call, 'R', 0);
    call.args.embed.n_tokens = 0;
    call.args.embed.tokens = NULL;
    call.args.embed.y.data = NULL;
    expect_success(ctx, &call);
}
END_TEST

START_TEST(matrix_ranks)
{
    for (int rank = 2; rank <= SEQMIX_MAX_RANK; rank++) {
        call_init(&call, &ops[8]);
        seqmix_tensor *a = &call.args.inverse.a, *inv = &call.args.inverse.inv;
        for (int axis = 0; axis < rank; axis++)
            a->shape[axis] = axis >= rank - 2 ? 2 : 1;
        a->rank = rank;
        make_dense(a);
        void *data = inv->data;
        *inv = *a;
        inv->data = data;
        expect_success(ctx, &call);
    }
}
END_TEST

START_TEST(largest_numbers)
{
    call_init(&call, &ops[_i]);
    call.args.deltanet.scale = FLT_MAX;
    call.args.deltanet.eps = FLT_MAX;
    call.args.deltanet.gate_kind = SEQMIX_GATE_BOUNDED_SIGMOID;
    call.args.deltanet.gate_lower_bound = -FLT_MAX;
    expect_success(ctx, &call);
}
END_TEST

/* The stride of an axis of size 1 means nothing, whatever the tensor. */
START_TEST(strides_of_size_1)
{
    const char *axes = "RDKkNGHPdheBnIOV";
    call_init(&call, &ops[_i]);
    for (int i = 0; axes[i] != '\0'; i++) {
        const bool history = ops[_i].family == CONV && axes[i] == 'K';
        call_resize(&call, axes[i], history ? 2 : 1);
    }
    call.batch = (seqmix_batch){.struct_size = sizeof(seqmix_batch)};
    memset(call.tokens, 0, sizeof call.tokens);
    if (ops[_i].family == EMBED) call.args.embed.n_tokens = 1;
    if (ops[_i].family == NORM) call.args.norm.group = 0;
    for (const struct field *f = call_fields(&call); f->name != NULL; f++)
        for (int axis = 0; axis < call_tensor(&call, f)->rank; axis++)
            if (call_tensor(&call, f)->shape[axis] == 1)
                call_tensor(&call, f)->stride[axis] = axis % 2 == 0 ? INT64_MAX : 0;
    expect_success(ctx, &call);
}
END_TEST

/* Inputs may be broadcast along rows. */
START_TEST(broadcast_rows)
{
    for (const struct field *f = fields[ops[_i].family]; f->name != NULL; f++) {
        if ((f->traits & F_WRITTEN) != 0) continue;
        call_init(&call, &ops[_i]);
        call_tensor(&call, f)->stride[0] = 0;
        expect_success(ctx, &call);
    }
}
END_TEST

/* A pool in any stride order: axes reversed, and slots apart. */
START_TEST(pool_strides)
{
    static float memory[4096], reference[4096];
    for (int order = 0; order < 3; order++) {
        call_init(&call, &ops[_i]);
        seqmix_tensor *state = call_named(&call, "state");
        memset(memory, 0, sizeof memory);
        state->data = memory;
        int64_t stride = 1;
        if (order == 1)
            for (int axis = 0; axis < state->rank; axis++) {
                state->stride[axis] = stride;
                stride *= state->shape[axis];
            }
        if (order == 2) state->stride[0] += 17;
        expect_success(ctx, &call);
        const seqmix_tensor *out = call_named(&call, ops[_i].family == DELTANET ? "o" : "y");
        const size_t bytes = (size_t)(out->shape[0] * out->stride[0]) * sizeof(float);
        if (order == 0)
            memcpy(reference, out->data, bytes);
        else
            ck_assert_mem_eq(reference, out->data, bytes);
    }
}
END_TEST

START_TEST(limits_reached)
{
    static float memory[1 << 18];
    const char *axes = "KkNPde";
    for (int i = 0; axes[i] != '\0'; i++) {
        const bool conv = ops[_i].family == CONV;
        if ((axes[i] == 'K' || axes[i] == 'k') != conv || axes[i] == 'k') continue;
        call_init(&call, &ops[_i]);
        call_resize(&call, axes[i], axes[i] == 'K' ? 16 : 256);
        if (conv) call_resize(&call, 'k', 15);
        float *at = memory;
        for (const struct field *f = call_fields(&call); f->name != NULL; f++) {
            seqmix_tensor *t = call_tensor(&call, f);
            int64_t count = 1;
            for (int axis = 0; axis < t->rank; axis++)
                count *= t->shape[axis];
            t->data = at;
            at += count;
        }
        ck_assert_int_le(at - memory, 1 << 18);
        expect_success(ctx, &call);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("accept");
    TCase *tcase = tcase_create("legal calls");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, ssd_options, 4, 6);
    tcase_add_loop_test(tcase, deltanet_options, 6, 8);
    tcase_add_loop_test(tcase, deltanet_gate_ranks, 6, 8);
    tcase_add_test(tcase, norm_options);
    tcase_add_loop_test(tcase, absent_tensors, 0, N_OPS);
    tcase_add_loop_test(tcase, dtypes, 0, N_OPS);
    tcase_add_loop_test(tcase, sizes_of_0, 0, N_OPS);
    tcase_add_loop_test(tcase, unused_axes, 0, N_OPS);
    tcase_add_test(tcase, no_tokens);
    tcase_add_test(tcase, matrix_ranks);
    tcase_add_loop_test(tcase, largest_numbers, 6, 8);
    tcase_add_loop_test(tcase, strides_of_size_1, 0, N_OPS);
    tcase_add_loop_test(tcase, broadcast_rows, 0, N_OPS);
    tcase_add_loop_test(tcase, pool_strides, 0, N_STATE_OPS);
    tcase_add_loop_test(tcase, limits_reached, 0, N_STATE_OPS);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
