/* SPDX-License-Identifier: MIT */
/*
 * y = x*W^T + bias + residual as dot products along the inputs: both operands are contiguous there, so neither is packed. A
 * tile is OUTPUTS x ROWS accumulators; every accumulator runs over the inputs in one order, whatever its tile, so a row's bits
 * depend on nothing but the row. Task: a few outputs for all rows. 16-bit activations are widened once, into the workspace;
 * 16-bit weights in registers for few rows, else once per task into the worker's part of the workspace.
 */
#include "isa.h"
#include "parallel.h"
#include "rows.h"
#include "tune.h"
#include "workspace.h"

enum { OUTPUTS = 4, ROWS = 3 };

struct linear {
    const seqmix_linear_args *args;
    const float *x; /* [R][I], rows x_stride apart */
    int64_t x_stride;
    float *wide_x; /* workspace, or NULL */
    float *wide_w; /* [worker][TUNE_LINEAR_OUTPUTS][I], or NULL */
};

static inline __attribute__((always_inline)) vf weight_lanes(seqmix_dtype dtype, const void *row, int64_t i)
{
    if (dtype == SEQMIX_F32) return v_load((const float *)row + i);
    if (dtype == SEQMIX_BF16) return v_load_bf16((const uint16_t *)row + i);
    return v_load_f16((const uint16_t *)row + i);
}

static inline __attribute__((always_inline)) vf weight_tail(seqmix_dtype dtype, const void *row, int64_t i, int n)
{
    if (dtype == SEQMIX_F32) return v_load_n((const float *)row + i, n);
    if (dtype == SEQMIX_BF16) return v_load_bf16_n((const uint16_t *)row + i, n);
    return v_load_f16_n((const uint16_t *)row + i, n);
}

/* sums[o][r] = w[o] . x[r] over n inputs; n_out, n_rows and dtype are constants where it is inlined. */
static inline __attribute__((always_inline)) void dot_tile(const void *const w[OUTPUTS], seqmix_dtype dtype, int n_out,
                                                           const float *x, int64_t x_stride, int n_rows, int64_t n,
                                                           float sums[OUTPUTS][ROWS])
{
    vf acc[OUTPUTS][ROWS], xs[ROWS];
    int64_t i = 0;
    for (int o = 0; o < n_out; o++)
        for (int r = 0; r < n_rows; r++)
            acc[o][r] = v_zero();
    for (; i + V_LANES <= n; i += V_LANES) {
        for (int r = 0; r < n_rows; r++)
            xs[r] = v_load(x + r * x_stride + i);
        for (int o = 0; o < n_out; o++) {
            const vf weight = weight_lanes(dtype, w[o], i);
            for (int r = 0; r < n_rows; r++)
                acc[o][r] = v_fma(weight, xs[r], acc[o][r]);
        }
    }
    if (i < n) {
        const int tail = (int)(n - i);
        for (int r = 0; r < n_rows; r++)
            xs[r] = v_load_n(x + r * x_stride + i, tail);
        for (int o = 0; o < n_out; o++) {
            const vf weight = weight_tail(dtype, w[o], i, tail);
            for (int r = 0; r < n_rows; r++)
                acc[o][r] = v_fma(weight, xs[r], acc[o][r]);
        }
    }
    for (int o = 0; o < n_out; o++)
        for (int r = 0; r < n_rows; r++)
            sums[o][r] = v_sum(acc[o][r]);
}

static inline __attribute__((always_inline)) void dot_rows(const void *const w[OUTPUTS], seqmix_dtype dtype, int n_out,
                                                           const float *x, int64_t x_stride, int n_rows, int64_t n,
                                                           float sums[OUTPUTS][ROWS])
{
    switch (n_rows) {
    case 1:
        dot_tile(w, dtype, n_out, x, x_stride, 1, n, sums);
        break;
    case 2:
        dot_tile(w, dtype, n_out, x, x_stride, 2, n, sums);
        break;
    default:
        dot_tile(w, dtype, n_out, x, x_stride, 3, n, sums);
        break;
    }
}

/* Outputs beyond n_out repeat the last weight row; their sums are not used. */
static void dot(const void *const w[OUTPUTS], seqmix_dtype dtype, const float *x, int64_t x_stride, int n_rows,
                int64_t n, float sums[OUTPUTS][ROWS])
{
    switch (dtype) {
    case SEQMIX_F32:
        dot_rows(w, SEQMIX_F32, OUTPUTS, x, x_stride, n_rows, n, sums);
        break;
    case SEQMIX_BF16:
        dot_rows(w, SEQMIX_BF16, OUTPUTS, x, x_stride, n_rows, n, sums);
        break;
    default:
        dot_rows(w, SEQMIX_F16, OUTPUTS, x, x_stride, n_rows, n, sums);
        break;
    }
}

static void finish(const seqmix_linear_args *a, int64_t row, int n_rows, int64_t output, int n_out,
                   float sums[OUTPUTS][ROWS])
{
    for (int o = 0; o < n_out; o++) {
        const float bias = seqmix_present(&a->bias) ? seqmix_load_f32(&a->bias, (output + o) * a->bias.stride[0]) : 0;
        for (int r = 0; r < n_rows; r++) {
            float y = sums[o][r] + bias;
            if (seqmix_present(&a->residual))
                y += seqmix_load_f32(&a->residual, (row + r) * a->residual.stride[0] + output + o);
            seqmix_store_f32(&a->y, (row + r) * a->y.stride[0] + output + o, y);
        }
    }
}

static void linear_task(void *arg, int64_t task, int32_t worker)
{
    const struct linear *linear = arg;
    const seqmix_linear_args *a = linear->args;
    const int64_t rows = a->x.shape[0], inputs = a->x.shape[1], outputs = a->weight.shape[0];
    const int64_t begin = task * TUNE_LINEAR_OUTPUTS;
    const int64_t end = begin + TUNE_LINEAR_OUTPUTS < outputs ? begin + TUNE_LINEAR_OUTPUTS : outputs;
    float *wide = linear->wide_w != NULL ? linear->wide_w + worker * TUNE_LINEAR_OUTPUTS * inputs : NULL;
    const seqmix_dtype dtype = wide != NULL ? SEQMIX_F32 : a->weight.dtype;
    if (wide != NULL)
        for (int64_t o = begin; o < end; o++)
            row_load(&a->weight, o * a->weight.stride[0], inputs, wide + (o - begin) * inputs);

    for (int64_t row = 0; row < rows; row += ROWS) {
        const int n_rows = (int)(rows - row < ROWS ? rows - row : ROWS);
        for (int64_t output = begin; output < end; output += OUTPUTS) {
            const int n_out = (int)(end - output < OUTPUTS ? end - output : OUTPUTS);
            const void *w[OUTPUTS];
            float sums[OUTPUTS][ROWS];
            for (int i = 0; i < OUTPUTS; i++) {
                const int64_t o = output + (i < n_out ? i : n_out - 1);
                w[i] = wide != NULL ? (const void *)(wide + (o - begin) * inputs)
                                    : (const char *)a->weight.data +
                                          (size_t)(o * a->weight.stride[0]) * seqmix_dtype_size(a->weight.dtype);
            }
            dot(w, dtype, linear->x + row * linear->x_stride, linear->x_stride, n_rows, inputs, sums);
            finish(a, row, n_rows, output, n_out, sums);
        }
    }
}

static void widen_task(void *arg, int64_t row, int32_t worker)
{
    const struct linear *linear = arg;
    const seqmix_tensor *x = &linear->args->x;
    (void)worker;
    row_load(x, row * x->stride[0], x->shape[1], linear->wide_x + row * x->shape[1]);
}

static void layout(const struct seqmix_context *ctx, struct linear *linear, struct seqmix_cursor *cursor)
{
    const seqmix_linear_args *a = linear->args;
    const size_t rows = (size_t)a->x.shape[0], inputs = (size_t)a->x.shape[1];
    if (a->x.dtype != SEQMIX_F32) linear->wide_x = seqmix_take(cursor, rows * inputs * sizeof(float));
    if (a->weight.dtype != SEQMIX_F32 && a->x.shape[0] > TUNE_LINEAR_DIRECT)
        linear->wide_w = seqmix_take(cursor, (size_t)ctx->n_workers * TUNE_LINEAR_OUTPUTS * inputs * sizeof(float));
}

seqmix_status KERN(linear_plan)(const struct seqmix_context *ctx, const seqmix_linear_args *args,
                                struct seqmix_plan *plan)
{
    struct linear linear = {.args = args};
    struct seqmix_cursor cursor = {NULL, 0};
    layout(ctx, &linear, &cursor);
    plan->kernel = KERN_NAME("linear");
    plan->workspace = cursor.used;
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(linear)(struct seqmix_context *ctx, const seqmix_linear_args *args, void *workspace)
{
    struct linear linear = {.args = args, .x = args->x.data, .x_stride = args->x.stride[0]};
    struct seqmix_cursor cursor = {workspace, 0};
    layout(ctx, &linear, &cursor);
    if (linear.wide_x != NULL) {
        const seqmix_status status = seqmix_parallel_for(ctx, args->x.shape[0], widen_task, &linear);
        if (status != SEQMIX_OK) return status;
        linear.x = linear.wide_x;
        linear.x_stride = args->x.shape[1];
    }
    const int64_t tasks = (args->weight.shape[0] + TUNE_LINEAR_OUTPUTS - 1) / TUNE_LINEAR_OUTPUTS;
    return seqmix_parallel_for(ctx, tasks, linear_task, &linear);
}
