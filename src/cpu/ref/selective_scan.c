/* SPDX-License-Identifier: MIT */
/*
 * Mamba-1 selective scan (arXiv:2312.00752): d = softplus(dt + dt_bias);
 *   h[n] <- exp(d*A[n])*h[n] + d*B[n]*x;   y = sum_n C[n]*h[n] + skip*x, then *silu(z)
 * per channel, group of channel c: c/(D/G). Task: a channel block of one sequence.
 */
#include "ref.h"

enum { CHANNELS = 16 }; /* per task */

struct scan {
    const seqmix_scan_args *args;
    int64_t blocks; /* channel blocks per sequence */
};

static void store_state(const seqmix_tensor *pool, int64_t slot, int64_t c, const real *h, int64_t n)
{
    if (slot < 0) return;
    for (int64_t i = 0; i < n; i++)
        ref_put(pool, slot * pool->stride[0] + c * pool->stride[1] + i * pool->stride[2], h[i]);
}

static real scan_row(const seqmix_scan_args *a, int64_t t, int64_t c, const real *rate, real *h)
{
    const int64_t states = a->A.shape[1], group = c / (a->x.shape[1] / a->B.shape[1]);
    const int64_t b_row = t * a->B.stride[0] + group * a->B.stride[1];
    const int64_t c_row = t * a->C.stride[0] + group * a->C.stride[1];
    const real x = ref_get(&a->x, t * a->x.stride[0] + c);
    real delta = ref_get(&a->dt, t * a->dt.stride[0] + c) + ref_get_or(&a->dt_bias, c * a->dt_bias.stride[0], 0);
    if (a->dt_softplus) delta = ref_softplus(delta);
    real y = 0;
    for (int64_t n = 0; n < states; n++) {
        h[n] = ref_decay(delta * rate[n]) * h[n] + delta * ref_get(&a->B, b_row + n) * x;
        y += ref_get(&a->C, c_row + n) * h[n];
    }
    if (seqmix_present(&a->skip)) y += ref_get(&a->skip, c * a->skip.stride[0]) * x;
    if (seqmix_present(&a->z)) y *= ref_silu(ref_get(&a->z, t * a->z.stride[0] + c));
    return y;
}

static void scan_channel(const seqmix_scan_args *a, const struct seqmix_seq *seq, int64_t c)
{
    const int64_t states = a->A.shape[1];
    real h[REF_MAX_DIM] = {0}, rate[REF_MAX_DIM];
    for (int64_t n = 0; n < states; n++) {
        rate[n] = ref_get(&a->A, c * a->A.stride[0] + n * a->A.stride[1]);
        if (seq->read_slot >= 0)
            h[n] = ref_get(&a->state,
                           seq->read_slot * a->state.stride[0] + c * a->state.stride[1] + n * a->state.stride[2]);
    }
    int32_t checkpoint = seq->ckpt_begin;
    for (int64_t t = seq->begin; t < seq->end; t++) {
        ref_put(&a->y, t * a->y.stride[0] + c, scan_row(a, t, c, rate, h));
        for (; checkpoint < seq->ckpt_end && a->batch->ckpt_row[checkpoint] == t + 1 - seq->begin; checkpoint++)
            store_state(&a->state, a->batch->ckpt_slot[checkpoint], c, h, states);
    }
    store_state(&a->state, seq->write_slot, c, h, states);
}

static void scan_task(void *arg, int64_t task, int32_t worker)
{
    const struct scan *scan = arg;
    const seqmix_scan_args *a = scan->args;
    (void)worker;
    const int64_t first = task % scan->blocks * CHANNELS, channels = a->x.shape[1];
    const int64_t last = first + CHANNELS < channels ? first + CHANNELS : channels;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->x.shape[0], &a->state, (int32_t)(task / scan->blocks));
    for (int64_t c = first; c < last; c++)
        scan_channel(a, &seq, c);
}

seqmix_status REF(selective_scan_rows_plan)(const struct seqmix_context *ctx, const seqmix_scan_args *args,
                                            struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    return ref_plan(plan, REF_RUNG "/selective_scan", 0);
}

seqmix_status REF(selective_scan_step_plan)(const struct seqmix_context *ctx, const seqmix_scan_args *args,
                                            struct seqmix_plan *plan)
{
    return REF(selective_scan_rows_plan)(ctx, args, plan);
}

seqmix_status REF(selective_scan_rows)(struct seqmix_context *ctx, const seqmix_scan_args *args, void *workspace)
{
    struct scan scan = {args, (args->x.shape[1] + CHANNELS - 1) / CHANNELS};
    (void)workspace;
    return seqmix_parallel_for(ctx, args->batch->n_seqs * scan.blocks, scan_task, &scan);
}

seqmix_status REF(selective_scan_step)(struct seqmix_context *ctx, const seqmix_scan_args *args, void *workspace)
{
    return REF(selective_scan_rows)(ctx, args, workspace);
}
