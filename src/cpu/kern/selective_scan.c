/* SPDX-License-Identifier: MIT */
/*
 * Mamba-1 selective scan over many rows (equation: seqmix.h). Task: a block of channels, of one group, of one sequence.
 * Channels are on the lanes, their states in L1 or L2. A few rows at a time, in three passes: the step sizes of all channels
 * row by row, the states channel by channel, the gates row by row. So memory is walked along its rows, and no softplus or
 * division stalls the state loop. The exponent is rounded in base 2, as d*log2(e)*A. y sums over n in order, so a row's bits
 * depend on nothing but the row and the state.
 */
#include "../vec/vec_math.h"
#include "batch.h"
#include "isa.h"
#include "parallel.h"
#include "state_tile.h"
#include "tune.h"
#include "workspace.h"

enum { CHANNELS = TUNE_SCAN_CHANNELS, ROWS = TUNE_SCAN_ROWS };

struct scan {
    const seqmix_scan_args *args;
    int64_t group_channels, group_blocks; /* channels of a group, and its blocks */
    char *workspace;
    size_t worker_size;
};

/* A block of channels, in the worker's part of the workspace. */
struct block {
    int64_t first, n, group; /* channels */
    float *rate, *h;         /* [CHANNELS / V_LANES][N][V_LANES] */
    float *slope, *dx, *y;   /* [ROWS][CHANNELS]: d*log2(e), d*x */
    float *dt_bias, *skip;   /* [CHANNELS] */
    float *wide_B, *wide_C;  /* [ROWS][N] */
    const float *B[ROWS], *C[ROWS];
};

static struct block layout(const seqmix_scan_args *a, struct seqmix_cursor *cursor)
{
    const size_t states = (size_t)a->A.shape[1];
    struct block b = {0};
    b.rate = seqmix_take(cursor, CHANNELS * states * sizeof(float));
    b.h = seqmix_take(cursor, CHANNELS * states * sizeof(float));
    b.slope = seqmix_take(cursor, ROWS * CHANNELS * sizeof(float));
    b.dx = seqmix_take(cursor, ROWS * CHANNELS * sizeof(float));
    b.y = seqmix_take(cursor, ROWS * CHANNELS * sizeof(float));
    b.dt_bias = seqmix_take(cursor, CHANNELS * sizeof(float));
    b.skip = seqmix_take(cursor, CHANNELS * sizeof(float));
    b.wide_B = seqmix_take(cursor, ROWS * states * sizeof(float));
    b.wide_C = seqmix_take(cursor, ROWS * states * sizeof(float));
    return b;
}

static void load_block(const seqmix_scan_args *a, const struct seqmix_seq *seq, const struct block *b)
{
    const int64_t states = a->A.shape[1];
    memset(b->dt_bias, 0, CHANNELS * sizeof *b->dt_bias);
    memset(b->skip, 0, CHANNELS * sizeof *b->skip);
    vector_load(&a->dt_bias, b->first * a->dt_bias.stride[0], a->dt_bias.stride[0], b->n, 0, b->dt_bias);
    vector_load(&a->skip, b->first * a->skip.stride[0], a->skip.stride[0], b->n, 0, b->skip);
    if (seq->read_slot < 0) memset(b->h, 0, (size_t)(CHANNELS * states) * sizeof *b->h);
    for (int64_t c = 0; c < b->n; c += V_LANES) {
        const int64_t channel = b->first + c, n = lanes_left(b->n, c);
        tile_load(&a->A, channel * a->A.stride[0], a->A.stride[1], a->A.stride[0], states, n, V_LANES,
                  b->rate + c * states);
        if (seq->read_slot >= 0)
            tile_load(&a->state, seq->read_slot * a->state.stride[0] + channel * a->state.stride[1], a->state.stride[2],
                      a->state.stride[1], states, n, V_LANES, b->h + c * states);
    }
}

/* The states of the V_LANES channels from channel c of the block on. */
static void store_lanes(const seqmix_scan_args *a, int64_t slot, const struct block *b, int64_t c)
{
    const seqmix_tensor *pool = &a->state;
    if (slot < 0) return;
    tile_store(pool, slot * pool->stride[0] + (b->first + c) * pool->stride[1], pool->stride[2], pool->stride[1],
               a->A.shape[1], lanes_left(b->n, c), V_LANES, b->h + c * a->A.shape[1]);
}

/* Step sizes and inputs of row t, the i-th of its few, for so many vectors from channel c of the block on. */
static inline __attribute__((always_inline)) void load_lanes(const seqmix_scan_args *a, const struct block *b,
                                                             int64_t t, int64_t i, int64_t c, int vectors)
{
    vf delta[V_TOGETHER];
    for (int v = 0; v < vectors; v++) {
        const int64_t at = c + v * V_LANES, dt = t * a->dt.stride[0] + b->first + at;
        delta[v] = v_add(row_lanes(&a->dt, dt, lanes_left(b->n, at)), v_load(b->dt_bias + at));
    }
    if (a->dt_softplus) v_softplus_each(delta, vectors);
    for (int v = 0; v < vectors; v++) {
        const int64_t at = c + v * V_LANES, x = t * a->x.stride[0] + b->first + at;
        v_store(b->slope + i * CHANNELS + at, v_mul(delta[v], v_set1(V_LOG2E)));
        v_store(b->dx + i * CHANNELS + at, v_mul(delta[v], row_lanes(&a->x, x, lanes_left(b->n, at))));
    }
}

static void load_row(const seqmix_scan_args *a, struct block *b, int64_t t, int64_t i)
{
    const int64_t states = a->A.shape[1];
    int64_t c = 0;
    b->B[i] = row_f32(&a->B, t * a->B.stride[0] + b->group * a->B.stride[1], states, b->wide_B + i * states);
    b->C[i] = row_f32(&a->C, t * a->C.stride[0] + b->group * a->C.stride[1], states, b->wide_C + i * states);
    for (; c + V_TOGETHER * V_LANES <= b->n; c += V_TOGETHER * V_LANES)
        load_lanes(a, b, t, i, c, V_TOGETHER);
    for (; c < b->n; c += V_LANES)
        load_lanes(a, b, t, i, c, 1);
}

/* Skip, gate and output of row t, for so many vectors from channel c of the block on. */
static inline __attribute__((always_inline)) void finish_lanes(const seqmix_scan_args *a, const struct block *b,
                                                               int64_t t, int64_t i, int64_t c, int vectors)
{
    const bool gated = seqmix_present(&a->z);
    vf gate[V_TOGETHER];
    for (int v = 0; v < vectors; v++) {
        const int64_t at = c + v * V_LANES, z = t * a->z.stride[0] + b->first + at;
        gate[v] = gated ? row_lanes(&a->z, z, lanes_left(b->n, at)) : v_zero();
    }
    if (gated) v_silu_each(gate, vectors);
    for (int v = 0; v < vectors; v++, c += V_LANES) {
        const int n = lanes_left(b->n, c);
        const int64_t channel = b->first + c;
        vf y = v_load(b->y + i * CHANNELS + c);
        if (seqmix_present(&a->skip))
            y = v_fma(v_load(b->skip + c), row_lanes(&a->x, t * a->x.stride[0] + channel, n), y);
        if (gated) y = v_mul(y, gate[v]);
        row_put_lanes(&a->y, t * a->y.stride[0] + channel, y, n);
    }
}

static void finish_row(const seqmix_scan_args *a, const struct block *b, int64_t t, int64_t i)
{
    int64_t c = 0;
    for (; c + V_TOGETHER * V_LANES <= b->n; c += V_TOGETHER * V_LANES)
        finish_lanes(a, b, t, i, c, V_TOGETHER);
    for (; c < b->n; c += V_LANES)
        finish_lanes(a, b, t, i, c, 1);
}

/* Whether every exponent of V_LANES channels over n_rows rows is in -126..0, so that none needs a look. NaN does not. */
static bool exponents_inside(const float *slope, int64_t n_rows, const float *rate, int64_t states)
{
    vf least_slope = v_zero(), most_slope = v_zero(), least_rate = v_zero(), most_rate = v_zero();
    float lanes[4][V_LANES];
    for (int64_t i = 0; i < n_rows; i++) { /* the second operand stays when the first is NaN */
        least_slope = v_min(v_load(slope + i * CHANNELS), least_slope);
        most_slope = v_max(v_load(slope + i * CHANNELS), most_slope);
    }
    for (int64_t s = 0; s < states; s++) {
        least_rate = v_min(v_load(rate + s * V_LANES), least_rate);
        most_rate = v_max(v_load(rate + s * V_LANES), most_rate);
    }
    v_store(lanes[0], least_slope);
    v_store(lanes[1], most_rate);
    v_store(lanes[2], most_slope);
    v_store(lanes[3], least_rate);
    for (int l = 0; l < V_LANES; l++)
        if (lanes[0][l] < 0 || lanes[1][l] > 0 || lanes[2][l] * lanes[3][l] < -126) return false;
    return true;
}

/* One row of V_LANES channels: states, and y before skip and gate. Exponents that are `inside` go a few at a time, to the same
 * bits. */
static inline __attribute__((always_inline)) vf scan_row(vf slope, vf dx, const float *rate, const float *B,
                                                         const float *C, int64_t states, bool inside, float *h)
{
    vf y = v_zero(), A[V_TOGETHER], next[V_TOGETHER];
    int64_t s = 0;
    for (; inside && s + V_TOGETHER <= states; s += V_TOGETHER) {
        for (int i = 0; i < V_TOGETHER; i++)
            A[i] = v_load(rate + (s + i) * V_LANES);
        v_exp2_product_each(slope, A, next, V_TOGETHER);
        for (int i = 0; i < V_TOGETHER; i++)
            next[i] = v_fma(next[i], v_load(h + (s + i) * V_LANES), v_mul(dx, v_set1(B[s + i])));
        for (int i = 0; i < V_TOGETHER; i++) {
            v_store(h + (s + i) * V_LANES, next[i]);
            y = v_fma(v_set1(C[s + i]), next[i], y);
        }
    }
    for (; s < states; s++) {
        const vf decay = v_exp2_product_neg(slope, v_load(rate + s * V_LANES));
        next[0] = v_fma(decay, v_load(h + s * V_LANES), v_mul(dx, v_set1(B[s])));
        v_store(h + s * V_LANES, next[0]);
        y = v_fma(v_set1(C[s]), next[0], y);
    }
    return y;
}

/* Rows [t, t+n_rows) of the V_LANES channels from channel c of the block on. */
static void scan_lanes(const seqmix_scan_args *a, const struct seqmix_seq *seq, const struct block *b, int64_t c,
                       int64_t t, int64_t n_rows, int32_t checkpoint)
{
    const int64_t states = a->A.shape[1];
    const float *rate = b->rate + c * states;
    float *h = b->h + c * states;
    const bool inside = exponents_inside(b->slope + c, n_rows, rate, states);
    for (int64_t i = 0; i < n_rows; i++) {
        const vf slope = v_load(b->slope + i * CHANNELS + c), dx = v_load(b->dx + i * CHANNELS + c);
        vf y;
        if (inside && states == TUNE_SCAN_UNROLLED)
            y = scan_row(slope, dx, rate, b->B[i], b->C[i], TUNE_SCAN_UNROLLED, true, h);
        else
            y = scan_row(slope, dx, rate, b->B[i], b->C[i], states, inside, h);
        v_store(b->y + i * CHANNELS + c, y);
        for (; checkpoint < seq->ckpt_end && a->batch->ckpt_row[checkpoint] == t + i + 1 - seq->begin; checkpoint++)
            store_lanes(a, a->batch->ckpt_slot[checkpoint], b, c);
    }
}

/* Asks for the rows after `begin`'s few, a part of them for each vector of channels whose states are at work. */
static void prefetch_rows(const seqmix_scan_args *a, const struct seqmix_seq *seq, const struct block *b, int64_t begin,
                          int64_t c)
{
    const int64_t channels = (b->n + V_LANES - 1) / V_LANES * V_LANES;
    const int64_t from = begin + ROWS + ROWS * c / channels, to = begin + ROWS + ROWS * (c + V_LANES) / channels;
    for (int64_t t = from; t < to && t < seq->end; t++) {
        row_prefetch(&a->x, t * a->x.stride[0] + b->first, b->n);
        row_prefetch(&a->dt, t * a->dt.stride[0] + b->first, b->n);
        row_prefetch(&a->y, t * a->y.stride[0] + b->first, b->n);
        if (seqmix_present(&a->z)) row_prefetch(&a->z, t * a->z.stride[0] + b->first, b->n);
    }
}

static void scan_task(void *arg, int64_t task, int32_t worker)
{
    const struct scan *scan = arg;
    const seqmix_scan_args *a = scan->args;
    const int64_t blocks = scan->group_blocks * a->B.shape[1], block_index = task % blocks;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->x.shape[0], &a->state, (int32_t)(task / blocks));
    const int64_t in_group = block_index % scan->group_blocks * CHANNELS, left = scan->group_channels - in_group;
    struct seqmix_cursor cursor = {scan->workspace + (size_t)worker * scan->worker_size, 0};
    struct block b = layout(a, &cursor);
    int32_t checkpoint = seq.ckpt_begin;
    b.group = block_index / scan->group_blocks;
    b.first = b.group * scan->group_channels + in_group;
    b.n = left < CHANNELS ? left : CHANNELS;
    load_block(a, &seq, &b);

    for (int64_t begin = seq.begin; begin < seq.end; begin += ROWS) {
        const int64_t n_rows = seq.end - begin < ROWS ? seq.end - begin : ROWS;
        for (int64_t i = 0; i < n_rows; i++)
            load_row(a, &b, begin + i, i);
        for (int64_t c = 0; c < b.n; c += V_LANES) {
            prefetch_rows(a, &seq, &b, begin, c);
            scan_lanes(a, &seq, &b, c, begin, n_rows, checkpoint);
        }
        for (int64_t i = 0; i < n_rows; i++)
            finish_row(a, &b, begin + i, i);
        while (checkpoint < seq.ckpt_end && a->batch->ckpt_row[checkpoint] <= begin + n_rows - seq.begin)
            checkpoint++;
    }
    for (int64_t c = 0; c < b.n; c += V_LANES)
        store_lanes(a, seq.write_slot, &b, c);
}

static size_t worker_size(const seqmix_scan_args *a)
{
    struct seqmix_cursor cursor = {NULL, 0};
    (void)layout(a, &cursor);
    return cursor.used;
}

seqmix_status KERN(selective_scan_rows_plan)(const struct seqmix_context *ctx, const seqmix_scan_args *args,
                                             struct seqmix_plan *plan)
{
    plan->kernel = KERN_NAME("selective_scan");
    plan->workspace = worker_size(args) * (size_t)ctx->n_workers;
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(selective_scan_rows)(struct seqmix_context *ctx, const seqmix_scan_args *args, void *workspace)
{
    struct scan scan = {.args = args, .workspace = workspace, .worker_size = worker_size(args)};
    if (args->x.shape[1] == 0) return SEQMIX_OK;
    scan.group_channels = args->x.shape[1] / args->B.shape[1];
    scan.group_blocks = (scan.group_channels + CHANNELS - 1) / CHANNELS;
    return seqmix_parallel_for(ctx, args->batch->n_seqs * scan.group_blocks * args->B.shape[1], scan_task, &scan);
}
