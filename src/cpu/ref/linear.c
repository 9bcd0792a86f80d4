/* SPDX-License-Identifier: MIT */
/*
 * y = x*W^T + bias + residual, block-quantised weights widened as they are read. Task: a block of outputs for all rows. Every
 * sum has one order whatever the number of rows, so a row's bits don't depend on the others.
 */
#include "blocks.h"
#include "ref.h"

enum { OUTPUTS = 16, ROWS = 8, DEPTH = 256, PARTIAL = 16 }; /* a tile: outputs x rows, summed DEPTH inputs at a time */

struct tile {
    real x[ROWS][DEPTH], weight[DEPTH];
    real sum[OUTPUTS][ROWS][PARTIAL];
};

static void load_row(const seqmix_tensor *t, int64_t offset, int64_t n, real *out)
{
    float wide[DEPTH];
    const bool blocks = seqmix_dtype_block(t->dtype) > 1;
    if (blocks) seqmix_widen_run(t->dtype, t->data, offset, n, wide);
    for (int64_t i = 0; i < n; i++)
        out[i] = blocks ? (real)wide[i] : ref_get(t, offset + i);
    for (int64_t i = n; i < DEPTH; i++)
        out[i] = 0;
}

static void add_products(const real *x, const real *weight, real *sum)
{
    for (int64_t i = 0; i < DEPTH; i += PARTIAL)
        for (int lane = 0; lane < PARTIAL; lane++)
            sum[lane] += x[i + lane] * weight[i + lane];
}

static void finish(const seqmix_linear_args *a, int64_t t, int64_t o, real *sum)
{
    for (int width = PARTIAL / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; lane++)
            sum[lane] += sum[lane + width];
    real y = sum[0] + ref_get_or(&a->bias, o * a->bias.stride[0], 0);
    if (seqmix_present(&a->residual)) y += ref_get(&a->residual, t * a->residual.stride[0] + o);
    ref_put(&a->y, t * a->y.stride[0] + o, y);
}

static void linear_task(void *arg, int64_t task, int32_t worker)
{
    const seqmix_linear_args *a = arg;
    const int64_t rows = a->x.shape[0], inputs = a->x.shape[1], outputs = a->weight.shape[0];
    const int64_t first = task * OUTPUTS, n_outputs = outputs - first < OUTPUTS ? outputs - first : OUTPUTS;
    struct tile tile;
    (void)worker;
    for (int64_t t = 0; t < rows; t += ROWS) {
        const int64_t n_rows = rows - t < ROWS ? rows - t : ROWS;
        memset(tile.sum, 0, sizeof tile.sum);
        for (int64_t i = 0; i < inputs; i += DEPTH) {
            const int64_t depth = inputs - i < DEPTH ? inputs - i : DEPTH;
            for (int64_t r = 0; r < n_rows; r++)
                load_row(&a->x, (t + r) * a->x.stride[0] + i, depth, tile.x[r]);
            for (int64_t o = 0; o < n_outputs; o++) {
                load_row(&a->weight, (first + o) * a->weight.stride[0] + i, depth, tile.weight);
                for (int64_t r = 0; r < n_rows; r++)
                    add_products(tile.x[r], tile.weight, tile.sum[o][r]);
            }
        }
        for (int64_t o = 0; o < n_outputs; o++)
            for (int64_t r = 0; r < n_rows; r++)
                finish(a, t + r, first + o, tile.sum[o][r]);
    }
}

seqmix_status REF(linear_plan)(const struct seqmix_context *ctx, const seqmix_linear_args *args,
                               struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    return ref_plan(plan, REF_RUNG "/linear", 0);
}

seqmix_status REF(linear)(struct seqmix_context *ctx, const seqmix_linear_args *args, void *workspace)
{
    seqmix_linear_args copy = *args;
    (void)workspace;
    return seqmix_parallel_for(ctx, (args->weight.shape[0] + OUTPUTS - 1) / OUTPUTS, linear_task, &copy);
}
