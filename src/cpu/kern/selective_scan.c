/* SPDX-License-Identifier: MIT */
/*
 * Mamba-1 selective scan over many rows (equation: seqmix.h). Task: a block of channels, of one group, of one sequence.
 * Channels are on the lanes, the N states of V_LANES channels in L1; the step sizes of a few rows are computed ahead, since
 * softplus in the row loop would stall it. y sums over n in order, so a row's bits depend on nothing but the row and state.
 */
#include "../vec/vec_math.h"
#include "batch.h"
#include "isa.h"
#include "parallel.h"
#include "rows.h"
#include "tune.h"

enum { CHANNELS = TUNE_SCAN_CHANNELS, ROWS = TUNE_SCAN_ROWS, STATES = 256 };

struct scan {
    const seqmix_scan_args *args;
    int64_t group_channels, group_blocks; /* channels of a group, and its blocks */
};

/* V_LANES channels of a task. */
struct lanes {
    float rate[STATES][V_LANES], h[STATES][V_LANES];
    float dt_bias[V_LANES], skip[V_LANES];
};

struct block {
    int64_t first, n, group; /* channels */
    struct lanes lanes[CHANNELS / V_LANES];
    float wide_B[ROWS][STATES], wide_C[ROWS][STATES];
    const float *B[ROWS], *C[ROWS];
};

static void load_block(const seqmix_scan_args *a, const struct seqmix_seq *seq, struct block *b)
{
    const int64_t states = a->A.shape[1];
    for (int64_t c = 0; c < b->n; c++) {
        struct lanes *lanes = &b->lanes[c / V_LANES];
        const int64_t lane = c % V_LANES, channel = b->first + c;
        lanes->dt_bias[lane] =
            seqmix_present(&a->dt_bias) ? seqmix_load_f32(&a->dt_bias, channel * a->dt_bias.stride[0]) : 0;
        lanes->skip[lane] = seqmix_present(&a->skip) ? seqmix_load_f32(&a->skip, channel * a->skip.stride[0]) : 0;
        for (int64_t n = 0; n < states; n++) {
            lanes->rate[n][lane] = seqmix_load_f32(&a->A, channel * a->A.stride[0] + n * a->A.stride[1]);
            lanes->h[n][lane] = seq->read_slot < 0 ? 0
                                                   : seqmix_load_f32(&a->state, seq->read_slot * a->state.stride[0] +
                                                                                    channel * a->state.stride[1] +
                                                                                    n * a->state.stride[2]);
        }
    }
}

/* The channels of one vector, or all of the block. */
static void store_states(const seqmix_scan_args *a, int64_t slot, const struct block *b, int64_t from, int64_t to)
{
    if (slot < 0) return;
    for (int64_t c = from; c < to; c++)
        for (int64_t n = 0; n < a->A.shape[1]; n++)
            seqmix_store_f32(&a->state,
                             slot * a->state.stride[0] + (b->first + c) * a->state.stride[1] + n * a->state.stride[2],
                             b->lanes[c / V_LANES].h[n][c % V_LANES]);
}

static inline vf decay(vf delta, const float *rate)
{
    /* v_min puts a NaN through as its second operand */
    return v_exp_neg(v_min(v_zero(), v_mul(delta, v_load(rate))));
}

/* Rows [begin, begin+n_rows) of the V_LANES channels from channel c of the block on. */
static void scan_lanes(const seqmix_scan_args *a, const struct seqmix_seq *seq, struct block *b, int64_t c,
                       int64_t begin, int64_t n_rows, int32_t checkpoint)
{
    struct lanes *lanes = &b->lanes[c / V_LANES];
    const int64_t states = a->A.shape[1], channel = b->first + c;
    const int n = lanes_left(b->n, c);
    const vf skip = v_load(lanes->skip);
    vf delta[ROWS];
    for (int64_t i = 0; i < n_rows; i++) {
        delta[i] = v_add(row_lanes(&a->dt, (begin + i) * a->dt.stride[0] + channel, n), v_load(lanes->dt_bias));
        if (a->dt_softplus) delta[i] = v_softplus(delta[i]);
    }
    for (int64_t i = 0; i < n_rows; i++) {
        const int64_t t = begin + i;
        const float *B = b->B[i], *C = b->C[i];
        const vf x = row_lanes(&a->x, t * a->x.stride[0] + channel, n), dx = v_mul(delta[i], x);
        vf y = v_zero();
        for (int64_t s = 0; s < states; s++) {
            const vf h = v_fma(decay(delta[i], lanes->rate[s]), v_load(lanes->h[s]), v_mul(dx, v_set1(B[s])));
            v_store(lanes->h[s], h);
            y = v_fma(v_set1(C[s]), h, y);
        }
        if (seqmix_present(&a->skip)) y = v_fma(skip, x, y);
        if (seqmix_present(&a->z)) y = v_mul(y, v_silu(row_lanes(&a->z, t * a->z.stride[0] + channel, n)));
        row_put_lanes(&a->y, t * a->y.stride[0] + channel, y, n);
        for (; checkpoint < seq->ckpt_end && a->batch->ckpt_row[checkpoint] == t + 1 - seq->begin; checkpoint++)
            store_states(a, a->batch->ckpt_slot[checkpoint], b, c, c + n);
    }
}

/* Asks for the channels of a later row. */
static void prefetch_row(const seqmix_scan_args *a, const struct seqmix_seq *seq, const struct block *b, int64_t t)
{
    if (t >= seq->end) return;
    row_prefetch(&a->x, t * a->x.stride[0] + b->first, b->n);
    row_prefetch(&a->dt, t * a->dt.stride[0] + b->first, b->n);
    row_prefetch(&a->y, t * a->y.stride[0] + b->first, b->n);
    if (seqmix_present(&a->z)) row_prefetch(&a->z, t * a->z.stride[0] + b->first, b->n);
}

static void scan_task(void *arg, int64_t task, int32_t worker)
{
    const struct scan *scan = arg;
    const seqmix_scan_args *a = scan->args;
    const int64_t blocks = scan->group_blocks * a->B.shape[1], block_index = task % blocks;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->x.shape[0], &a->state, (int32_t)(task / blocks));
    const int64_t in_group = block_index % scan->group_blocks * CHANNELS, left = scan->group_channels - in_group;
    struct block b;
    int32_t checkpoint = seq.ckpt_begin;
    (void)worker;
    b.group = block_index / scan->group_blocks;
    b.first = b.group * scan->group_channels + in_group;
    b.n = left < CHANNELS ? left : CHANNELS;
    load_block(a, &seq, &b);

    for (int64_t begin = seq.begin; begin < seq.end; begin += ROWS) {
        const int64_t n_rows = seq.end - begin < ROWS ? seq.end - begin : ROWS, states = a->A.shape[1];
        for (int64_t i = 0; i < n_rows; i++) {
            const int64_t t = begin + i;
            prefetch_row(a, &seq, &b, t + ROWS);
            b.B[i] = row_f32(&a->B, t * a->B.stride[0] + b.group * a->B.stride[1], states, b.wide_B[i]);
            b.C[i] = row_f32(&a->C, t * a->C.stride[0] + b.group * a->C.stride[1], states, b.wide_C[i]);
        }
        for (int64_t c = 0; c < b.n; c += V_LANES)
            scan_lanes(a, &seq, &b, c, begin, n_rows, checkpoint);
        while (checkpoint < seq.ckpt_end && a->batch->ckpt_row[checkpoint] <= begin + n_rows - seq.begin)
            checkpoint++;
    }
    store_states(a, seq.write_slot, &b, 0, b.n);
}

seqmix_status KERN(selective_scan_rows_plan)(const struct seqmix_context *ctx, const seqmix_scan_args *args,
                                             struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    plan->kernel = KERN_NAME("selective_scan");
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(selective_scan_rows)(struct seqmix_context *ctx, const seqmix_scan_args *args, void *workspace)
{
    struct scan scan = {.args = args};
    (void)workspace;
    if (args->x.shape[1] == 0) return SEQMIX_OK;
    scan.group_channels = args->x.shape[1] / args->B.shape[1];
    scan.group_blocks = (scan.group_channels + CHANNELS - 1) / CHANNELS;
    return seqmix_parallel_for(ctx, args->batch->n_seqs * scan.group_blocks * args->B.shape[1], scan_task, &scan);
}
