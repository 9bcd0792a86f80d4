/* SPDX-License-Identifier: MIT */
/*
 * y = x*W^T + bias + residual for x and W of bf16 on AMX tiles (tile.h), as W*x^T: W's rows are left operands, and x is turned
 * into right ones once, times SCALE, since tiles would flush its subnormals. Each sum runs over the inputs in one order from
 * zero, whatever the call holds: a row's bits depend on nothing but the row.
 * Task: OUTPUTS x ROWS sums, in passes over DEPTH inputs, so that both operands and the sums stay in L2. A pass packs the
 * weights of a square: rows of W lie multiples of 4 KiB apart, where a tile's lines would push each other out of the cache.
 */
#include "../kern/isa.h"
#include "../kern/rows.h"
#include "pack.h"
#include "parallel.h"
#include "workspace.h"

#define SCALE   0x1p40f
#define UNSCALE 0x1p-40f

enum { OUTPUTS = 128, ROWS = 256, DEPTH = 32 /* tiles of 32 inputs */ };

struct linear {
    const seqmix_linear_args *args;
    int64_t rows, outputs, blocks; /* blocks of 32 inputs, zeros behind */
    uint16_t *x;                   /* right operands [rows/32][blocks][2] */
    char *workers;                 /* their parts of the workspace */
    size_t worker_size;
};

struct buffers {
    uint16_t *weights; /* left operand, a square's outputs x DEPTH */
    float *sums;       /* [OUTPUTS][ROWS] */
};

static int64_t parts(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* 32 rows of x. */
static void turn_task(void *arg, int64_t task, int32_t worker)
{
    const struct linear *l = arg;
    const seqmix_tensor *x = &l->args->x;
    const vf scale = v_set1(SCALE);
    const int64_t begin = task * SQUARE, n = least(l->rows - begin, SQUARE);
    uint16_t *right = l->x + task * l->blocks * 2 * TILE, left[TILE];
    (void)worker;
    for (int64_t b = 0; b < l->blocks; b++)
        for (int64_t top = 0; top < n; top += TILE_SIDE, right += TILE) {
            const int64_t inputs = x->shape[1] - b * TILE_DEPTH;
            for (int64_t i = 0; i < TILE_SIDE; i++) {
                const uint16_t *from = (const uint16_t *)x->data + (begin + top + i) * x->stride[0] + b * TILE_DEPTH;
                vf low = v_zero(), high = v_zero();
                if (top + i < n) low = v_load_bf16_n(from, lanes_left(inputs, 0));
                if (top + i < n && inputs > V_LANES) high = v_load_bf16_n(from + V_LANES, lanes_left(inputs, V_LANES));
                pack_left(left + i * TILE_DEPTH, 0, v_mul(scale, low), v_mul(scale, high));
            }
            tile_turn(left, right);
        }
}

/* Tiles from input block b on of the outputs from `output` on. */
static void pack_weights(const seqmix_tensor *weight, int64_t output, int64_t b, int64_t depth, uint16_t *left)
{
    for (int64_t i = 0; i < SQUARE; i++) {
        uint16_t *to = left + i / TILE_SIDE * depth * TILE + i % TILE_SIDE * TILE_DEPTH;
        if (output + i >= weight->shape[0]) {
            for (int64_t k = 0; k < depth; k++)
                pack_zero(to + k * TILE);
            continue;
        }
        const uint16_t *from = (const uint16_t *)weight->data + (output + i) * weight->stride[0] + b * TILE_DEPTH;
        for (int64_t k = 0; k < depth; k++)
            pack_copy(to + k * TILE, from + k * TILE_DEPTH, weight->shape[1] - (b + k) * TILE_DEPTH);
    }
}

/* Rows [row, row+n) x outputs [output, output+n_out). */
static void store_rows(const struct linear *l, int64_t row, int64_t n, int64_t output, int64_t n_out, const float *sums)
{
    const seqmix_linear_args *a = l->args;
    const vf unscale = v_set1(UNSCALE);
    for (int64_t o = 0; o < n_out; o += V_LANES) {
        const int lanes = lanes_left(n_out, o);
        float bias[V_LANES] = {0};
        vector_load(&a->bias, (output + o) * a->bias.stride[0], a->bias.stride[0], lanes, 0, bias);
        for (int64_t r = 0; r < n; r += V_LANES) {
            float turned[V_LANES * V_LANES];
            v_transpose(sums + o * ROWS + r, ROWS, turned, V_LANES);
            for (int64_t i = 0; i < lanes_left(n, r); i++) {
                const int64_t t = row + r + i;
                vf y = v_fma(unscale, v_load(turned + i * V_LANES), v_load(bias));
                if (seqmix_present(&a->residual))
                    y = v_add(y, row_lanes(&a->residual, t * a->residual.stride[0] + output + o, lanes));
                row_put_lanes(&a->y, t * a->y.stride[0] + output + o, y, lanes);
            }
        }
    }
}

static struct buffers layout(struct seqmix_cursor *cursor)
{
    struct buffers b;
    b.weights = seqmix_take(cursor, (size_t)(2 * DEPTH * TILE) * sizeof *b.weights);
    b.sums = seqmix_take(cursor, (size_t)(OUTPUTS * ROWS) * sizeof *b.sums);
    return b;
}

static void linear_task(void *arg, int64_t task, int32_t worker)
{
    const struct linear *l = arg;
    const int64_t row_tasks = parts(l->rows, ROWS), row = task % row_tasks * ROWS, output = task / row_tasks * OUTPUTS;
    const int64_t n = least(l->rows - row, ROWS), n_out = least(l->outputs - output, OUTPUTS);
    struct seqmix_cursor cursor = {l->workers + (size_t)worker * l->worker_size, 0};
    const struct buffers buffers = layout(&cursor);
    amx_begin();
    for (int64_t b = 0; b < l->blocks; b += DEPTH) {
        const int64_t depth = least(l->blocks - b, DEPTH);
        for (int64_t o = 0; o < n_out; o += SQUARE) {
            pack_weights(&l->args->weight, output + o, b, depth, buffers.weights);
            for (int64_t r = 0; r < n; r += SQUARE) {
                const bool wide = n - r > TILE_SIDE;
                const int64_t step = wide ? 2 * TILE : TILE;
                const uint16_t *right = l->x + (row + r) / SQUARE * l->blocks * 2 * TILE + b * step;
                float *sums = buffers.sums + o * ROWS + r;
                if (b == 0)
                    square_zero();
                else
                    square_load(sums, ROWS, wide);
                square_add(buffers.weights, depth * TILE, right, step, depth, wide);
                square_store(sums, ROWS, wide);
            }
        }
    }
    amx_end();
    store_rows(l, row, n, output, n_out, buffers.sums);
}

/* What both the plan and the op know of the call; the buffers lie in `cursor`. */
static void prepare(const struct seqmix_context *ctx, const seqmix_linear_args *a, struct seqmix_cursor *cursor,
                    struct linear *l)
{
    struct seqmix_cursor one = {NULL, 0};
    *l = (struct linear){.args = a, .rows = a->x.shape[0], .outputs = a->weight.shape[0]};
    l->blocks = parts(a->x.shape[1], TILE_DEPTH);
    (void)layout(&one);
    l->worker_size = one.used;
    l->x = seqmix_take(cursor, (size_t)(parts(l->rows, SQUARE) * l->blocks * 2 * TILE) * sizeof *l->x);
    l->workers = seqmix_take(cursor, l->worker_size * (size_t)ctx->n_workers);
}

seqmix_status KERN(linear_plan)(const struct seqmix_context *ctx, const seqmix_linear_args *args,
                                struct seqmix_plan *plan)
{
    struct linear l;
    struct seqmix_cursor cursor = {NULL, 0};
    if (args->x.dtype != SEQMIX_BF16 || args->weight.dtype != SEQMIX_BF16 || args->x.shape[1] == 0)
        return SEQMIX_ERR_UNSUPPORTED;
    prepare(ctx, args, &cursor, &l);
    plan->kernel = KERN_NAME("linear_tiles");
    plan->workspace = cursor.used;
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(linear)(struct seqmix_context *ctx, const seqmix_linear_args *args, void *workspace)
{
    struct linear l;
    struct seqmix_cursor cursor = {workspace, 0};
    prepare(ctx, args, &cursor, &l);
    if (l.rows == 0 || l.outputs == 0) return SEQMIX_OK;
    const seqmix_status status = seqmix_parallel_for(ctx, parts(l.rows, SQUARE), turn_task, &l);
    if (status != SEQMIX_OK) return status;
    return seqmix_parallel_for(ctx, parts(l.rows, ROWS) * parts(l.outputs, OUTPUTS), linear_task, &l);
}
