/* SPDX-License-Identifier: MIT */
/*
 * Mamba-1 selective scan over the few rows of a step, bound by reading and writing the state once: the N states of a channel
 * are on the lanes, fastest where they are contiguous in an f32 pool: then they go from slot to slot without a stop. Task: a
 * block of channels, of one group, of one sequence.
 */
#include "../vec/vec_math.h"
#include "batch.h"
#include "isa.h"
#include "parallel.h"
#include "rows.h"
#include "tune.h"

enum { CHANNELS = TUNE_SCAN_CHANNELS, ROWS = SEQMIX_STEP_ROWS, STATES = 256 };

struct step {
    const seqmix_scan_args *args;
    int64_t group_channels, group_blocks; /* channels of a group, and its blocks */
};

/* The rows of a block of channels. */
struct block {
    int64_t first, n; /* channels */
    int rows;
    float slope[ROWS][CHANNELS], dx[ROWS][CHANNELS], y[ROWS][CHANNELS]; /* d*log2(e), d*x */
    float B[ROWS][STATES], C[ROWS][STATES];
};

static void load_rows(const seqmix_scan_args *a, const struct seqmix_seq *seq, int64_t group, struct block *b)
{
    const int64_t states = a->A.shape[1];
    float bias[CHANNELS] = {0};
    vector_load(&a->dt_bias, b->first * a->dt_bias.stride[0], a->dt_bias.stride[0], b->n, 0, bias);
    b->rows = (int)(seq->end - seq->begin);
    for (int r = 0; r < b->rows; r++) {
        const int64_t t = seq->begin + r;
        row_load(&a->B, t * a->B.stride[0] + group * a->B.stride[1], states, b->B[r]);
        row_load(&a->C, t * a->C.stride[0] + group * a->C.stride[1], states, b->C[r]);
        for (int64_t c = 0; c < b->n; c += V_LANES) {
            const int n = lanes_left(b->n, c);
            vf delta = v_add(row_lanes(&a->dt, t * a->dt.stride[0] + b->first + c, n), v_load(bias + c));
            if (a->dt_softplus) delta = v_softplus(delta);
            v_store(b->slope[r] + c, v_mul(delta, v_set1(V_LOG2E)));
            v_store(b->dx[r] + c, v_mul(delta, row_lanes(&a->x, t * a->x.stride[0] + b->first + c, n)));
        }
    }
}

/* Row r of channel c of the block, its states read at `from` and written at `to`. */
static inline __attribute__((always_inline)) void step_row(struct block *b, int r, int64_t c, int64_t states,
                                                           const float *rate, const float *from, float *to)
{
    const vf slope = v_set1(b->slope[r][c]), dx = v_set1(b->dx[r][c]);
    const float *B = b->B[r], *C = b->C[r];
    vf y = v_zero();
    int64_t s = 0;
    for (; s + V_LANES <= states; s += V_LANES) {
        const vf decay = v_exp2_product_neg(slope, v_load(rate + s));
        const vf next = v_fma(decay, v_load(from + s), v_mul(dx, v_load(B + s)));
        v_store(to + s, next);
        y = v_fma(v_load(C + s), next, y);
    }
    if (s < states) {
        const int n = (int)(states - s);
        const vf decay = v_exp2_product_neg(slope, v_load_n(rate + s, n));
        const vf next = v_fma(decay, v_load_n(from + s, n), v_mul(dx, v_load_n(B + s, n)));
        v_store_n(to + s, next, n);
        y = v_fma(v_load_n(C + s, n), next, y);
    }
    b->y[r][c] = v_sum(y);
}

static void finish_row(const seqmix_scan_args *a, const struct block *b, int64_t t, int r)
{
    float skip[CHANNELS] = {0};
    vector_load(&a->skip, b->first * a->skip.stride[0], a->skip.stride[0], b->n, 0, skip);
    for (int64_t c = 0; c < b->n; c += V_LANES) {
        const int n = lanes_left(b->n, c);
        const int64_t channel = b->first + c;
        vf y = v_load_n(b->y[r] + c, n);
        if (seqmix_present(&a->skip)) y = v_fma(v_load(skip + c), row_lanes(&a->x, t * a->x.stride[0] + channel, n), y);
        if (seqmix_present(&a->z)) y = v_mul(y, v_silu(row_lanes(&a->z, t * a->z.stride[0] + channel, n)));
        row_put_lanes(&a->y, t * a->y.stride[0] + channel, y, n);
    }
}

static void store_state(const seqmix_scan_args *a, int64_t slot, int64_t channel, const float *h)
{
    const seqmix_tensor *pool = &a->state;
    if (slot >= 0)
        vector_store(pool, slot * pool->stride[0] + channel * pool->stride[1], pool->stride[2], a->A.shape[1], h);
}

/* Whether the states of a channel can be worked on where they lie. */
static bool works_in_place(const seqmix_tensor *pool, const struct seqmix_seq *seq)
{
    return pool->dtype == SEQMIX_F32 && pool->stride[2] == 1 && seq->end > seq->begin && seq->read_slot >= 0 &&
           seq->write_slot >= 0;
}

/* All rows of the call over channel c of the block. */
static void step_channel(const seqmix_scan_args *a, const struct seqmix_seq *seq, struct block *b, int64_t c,
                         bool in_place)
{
    const seqmix_tensor *pool = &a->state;
    const int64_t states = a->A.shape[1], channel = b->first + c, at = channel * pool->stride[1];
    const int64_t read = seq->read_slot * pool->stride[0] + at, write = seq->write_slot * pool->stride[0] + at;
    float staged[STATES], staged_rate[STATES];
    const float *rate = staged_rate, *from = in_place ? (const float *)pool->data + read : staged;
    float *to = in_place ? (float *)pool->data + write : staged;
    int32_t checkpoint = seq->ckpt_begin;
    if (a->A.stride[1] == 1)
        rate = row_f32(&a->A, channel * a->A.stride[0], states, staged_rate);
    else
        vector_load(&a->A, channel * a->A.stride[0], a->A.stride[1], states, 0, staged_rate);
    if (!in_place && seq->read_slot >= 0)
        vector_load(pool, read, pool->stride[2], states, 0, staged);
    else if (!in_place)
        memset(staged, 0, sizeof staged);
    for (int r = 0; r < b->rows; r++, from = to) {
        if (states == TUNE_SCAN_UNROLLED)
            step_row(b, r, c, TUNE_SCAN_UNROLLED, rate, from, to);
        else
            step_row(b, r, c, states, rate, from, to);
        for (; checkpoint < seq->ckpt_end && a->batch->ckpt_row[checkpoint] == r + 1; checkpoint++)
            store_state(a, a->batch->ckpt_slot[checkpoint], channel, to);
    }
    if (!in_place) store_state(a, seq->write_slot, channel, to);
}

static void step_task(void *arg, int64_t task, int32_t worker)
{
    const struct step *step = arg;
    const seqmix_scan_args *a = step->args;
    const int64_t blocks = step->group_blocks * a->B.shape[1], block_index = task % blocks;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->x.shape[0], &a->state, (int32_t)(task / blocks));
    const int64_t group = block_index / step->group_blocks, in_group = block_index % step->group_blocks * CHANNELS;
    const int64_t left = step->group_channels - in_group;
    const bool in_place = works_in_place(&a->state, &seq);
    struct block b;
    (void)worker;
    b.first = group * step->group_channels + in_group;
    b.n = left < CHANNELS ? left : CHANNELS;
    load_rows(a, &seq, group, &b);
    for (int64_t c = 0; c < b.n; c++)
        step_channel(a, &seq, &b, c, in_place);
    for (int r = 0; r < b.rows; r++)
        finish_row(a, &b, seq.begin + r, r);
}

seqmix_status KERN(selective_scan_step_plan)(const struct seqmix_context *ctx, const seqmix_scan_args *args,
                                             struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    plan->kernel = KERN_NAME("selective_scan_step");
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(selective_scan_step)(struct seqmix_context *ctx, const seqmix_scan_args *args, void *workspace)
{
    struct step step = {.args = args};
    (void)workspace;
    if (args->x.shape[1] == 0) return SEQMIX_OK;
    step.group_channels = args->x.shape[1] / args->B.shape[1];
    step.group_blocks = (step.group_channels + CHANNELS - 1) / CHANNELS;
    return seqmix_parallel_for(ctx, args->batch->n_seqs * step.group_blocks * args->B.shape[1], step_task, &step);
}
