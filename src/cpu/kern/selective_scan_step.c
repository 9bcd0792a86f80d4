/* SPDX-License-Identifier: MIT */
/*
 * Mamba-1 selective scan over the few rows of a step, bound by reading and writing the state once: the N states of a channel
 * are on the lanes, fastest where they are contiguous. Task: a block of channels of one sequence.
 */
#include "../vec/vec_math.h"
#include "batch.h"
#include "isa.h"
#include "parallel.h"
#include "rows.h"
#include "tune.h"

enum { CHANNELS = TUNE_SCAN_CHANNELS, STATES = 256 };

struct step {
    const seqmix_scan_args *args;
    int64_t blocks; /* channel blocks per sequence */
};

/* One row of one channel over h, [N] rounded up to lanes; returns y before skip and gate. */
static float step_row(const seqmix_scan_args *a, int64_t t, int64_t c, float delta, float x, const float *rate,
                      float *h)
{
    const int64_t states = a->A.shape[1], group = c / (a->x.shape[1] / a->B.shape[1]);
    const int64_t b_row = t * a->B.stride[0] + group * a->B.stride[1];
    const int64_t c_row = t * a->C.stride[0] + group * a->C.stride[1];
    const vf d = v_set1(delta), dx = v_set1(delta * x);
    vf y = v_zero();
    for (int64_t s = 0; s < states; s += V_LANES) {
        const int n = lanes_left(states, s);
        const vf decay = v_exp_neg(v_min(v_zero(), v_mul(d, v_load_n(rate + s, n))));
        const vf next = v_fma(decay, v_load(h + s), v_mul(dx, row_lanes(&a->B, b_row + s, n)));
        v_store(h + s, next);
        y = v_fma(row_lanes(&a->C, c_row + s, n), next, y);
    }
    return v_sum(y);
}

static void store_state(const seqmix_scan_args *a, int64_t slot, int64_t c, const float *h)
{
    if (slot < 0) return;
    vector_store(&a->state, slot * a->state.stride[0] + c * a->state.stride[1], a->state.stride[2], a->A.shape[1], h);
}

/* Step sizes of one row over the channels of a block. */
static void step_sizes(const seqmix_scan_args *a, int64_t t, int64_t first, int64_t n, float *delta)
{
    float bias[CHANNELS] = {0};
    vector_load(&a->dt_bias, first * a->dt_bias.stride[0], a->dt_bias.stride[0], n, 0, bias);
    for (int64_t c = 0; c < n; c += V_LANES) {
        vf d = v_add(row_lanes(&a->dt, t * a->dt.stride[0] + first + c, lanes_left(n, c)), v_load(bias + c));
        v_store(delta + c, a->dt_softplus ? v_softplus(d) : d);
    }
}

static void finish_row(const seqmix_scan_args *a, int64_t t, int64_t first, int64_t n, const float *x, float *y)
{
    float skip[CHANNELS] = {0};
    vector_load(&a->skip, first * a->skip.stride[0], a->skip.stride[0], n, 0, skip);
    for (int64_t c = 0; c < n; c += V_LANES) {
        const int lanes = lanes_left(n, c);
        vf out = v_load_n(y + c, lanes);
        if (seqmix_present(&a->skip)) out = v_fma(v_load(skip + c), v_load_n(x + c, lanes), out);
        if (seqmix_present(&a->z)) out = v_mul(out, v_silu(row_lanes(&a->z, t * a->z.stride[0] + first + c, lanes)));
        row_put_lanes(&a->y, t * a->y.stride[0] + first + c, out, lanes);
    }
}

static void step_task(void *arg, int64_t task, int32_t worker)
{
    const struct step *step = arg;
    const seqmix_scan_args *a = step->args;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->x.shape[0], &a->state, (int32_t)(task / step->blocks));
    const int64_t first = task % step->blocks * CHANNELS, channels = a->x.shape[1], states = a->A.shape[1];
    const int64_t n = channels - first < CHANNELS ? channels - first : CHANNELS, n_rows = seq.end - seq.begin;
    float delta[SEQMIX_STEP_ROWS][CHANNELS], x[SEQMIX_STEP_ROWS][CHANNELS], y[SEQMIX_STEP_ROWS][CHANNELS];
    float rate[STATES], h[STATES];
    (void)worker;
    for (int64_t i = 0; i < n_rows; i++) {
        step_sizes(a, seq.begin + i, first, n, delta[i]);
        row_load(&a->x, (seq.begin + i) * a->x.stride[0] + first, n, x[i]);
    }
    for (int64_t c = 0; c < n; c++) {
        int32_t checkpoint = seq.ckpt_begin;
        const int64_t offset = seq.read_slot * a->state.stride[0] + (first + c) * a->state.stride[1];
        memset(h, 0, sizeof h);
        if (seq.read_slot >= 0) vector_load(&a->state, offset, a->state.stride[2], states, 0, h);
        vector_load(&a->A, (first + c) * a->A.stride[0], a->A.stride[1], states, 0, rate);
        for (int64_t i = 0; i < n_rows; i++) {
            y[i][c] = step_row(a, seq.begin + i, first + c, delta[i][c], x[i][c], rate, h);
            for (; checkpoint < seq.ckpt_end && a->batch->ckpt_row[checkpoint] == i + 1; checkpoint++)
                store_state(a, a->batch->ckpt_slot[checkpoint], first + c, h);
        }
        store_state(a, seq.write_slot, first + c, h);
    }
    for (int64_t i = 0; i < n_rows; i++)
        finish_row(a, seq.begin + i, first, n, x[i], y[i]);
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
    struct step step = {args, (args->x.shape[1] + CHANNELS - 1) / CHANNELS};
    (void)workspace;
    return seqmix_parallel_for(ctx, args->batch->n_seqs * step.blocks, step_task, &step);
}
