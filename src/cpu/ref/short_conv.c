/* SPDX-License-Identifier: MIT */
/*
 * Causal short convolution: y[t,c] = act(bias[c] + sum_{j<K} w[c,j]*x[t-K+1+j, c]); rows before the first come from the state
 * [D, K-1], oldest first. Task: one channel block of one sequence; each channel keeps its last K-1 inputs in a window.
 */
#include "ref.h"

enum { CHANNELS = 64 }; /* per task */

struct conv {
    const seqmix_conv_args *args;
    int64_t blocks; /* channel blocks per sequence */
};

static void store_window(const seqmix_tensor *pool, int64_t slot, int64_t c, const real *window, int64_t n)
{
    if (slot < 0) return;
    for (int64_t j = 0; j < n; j++)
        ref_put(pool, slot * pool->stride[0] + c * pool->stride[1] + j * pool->stride[2], window[j]);
}

static void conv_channel(const seqmix_conv_args *a, const struct seqmix_seq *seq, int64_t c)
{
    const int64_t width = a->weight.shape[1], past = width - 1;
    real weight[REF_MAX_CONV], window[REF_MAX_CONV] = {0}; /* window[past] is the current row */
    for (int64_t j = 0; j < width; j++)
        weight[j] = ref_get(&a->weight, c * a->weight.stride[0] + j * a->weight.stride[1]);
    const real bias = ref_get_or(&a->bias, c * a->bias.stride[0], 0);
    if (seq->read_slot >= 0)
        for (int64_t j = 0; j < past; j++)
            window[j] = ref_get(&a->state,
                                seq->read_slot * a->state.stride[0] + c * a->state.stride[1] + j * a->state.stride[2]);
    int32_t checkpoint = seq->ckpt_begin;
    for (int64_t t = seq->begin; t < seq->end; t++) {
        window[past] = ref_get(&a->x, t * a->x.stride[0] + c);
        real sum = bias;
        for (int64_t j = 0; j < width; j++)
            sum += weight[j] * window[j];
        ref_put(&a->y, t * a->y.stride[0] + c, a->activation == SEQMIX_ACT_SILU ? ref_silu(sum) : sum);
        for (int64_t j = 0; j < past; j++)
            window[j] = window[j + 1];
        for (; checkpoint < seq->ckpt_end && a->batch->ckpt_row[checkpoint] == t + 1 - seq->begin; checkpoint++)
            store_window(&a->state, a->batch->ckpt_slot[checkpoint], c, window, past);
    }
    store_window(&a->state, seq->write_slot, c, window, past);
}

static void conv_task(void *arg, int64_t task, int32_t worker)
{
    const struct conv *conv = arg;
    const seqmix_conv_args *a = conv->args;
    (void)worker;
    const int64_t first = task % conv->blocks * CHANNELS, channels = a->x.shape[1];
    const int64_t last = first + CHANNELS < channels ? first + CHANNELS : channels;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->x.shape[0], &a->state, (int32_t)(task / conv->blocks));
    for (int64_t c = first; c < last; c++)
        conv_channel(a, &seq, c);
}

seqmix_status REF(short_conv_rows_plan)(const struct seqmix_context *ctx, const seqmix_conv_args *args,
                                        struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    return ref_plan(plan, REF_RUNG "/short_conv", 0);
}

seqmix_status REF(short_conv_step_plan)(const struct seqmix_context *ctx, const seqmix_conv_args *args,
                                        struct seqmix_plan *plan)
{
    return REF(short_conv_rows_plan)(ctx, args, plan);
}

seqmix_status REF(short_conv_rows)(struct seqmix_context *ctx, const seqmix_conv_args *args, void *workspace)
{
    struct conv conv = {args, (args->x.shape[1] + CHANNELS - 1) / CHANNELS};
    (void)workspace;
    return seqmix_parallel_for(ctx, args->batch->n_seqs * conv.blocks, conv_task, &conv);
}

seqmix_status REF(short_conv_step)(struct seqmix_context *ctx, const seqmix_conv_args *args, void *workspace)
{
    return REF(short_conv_rows)(ctx, args, workspace);
}
