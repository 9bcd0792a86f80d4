/* SPDX-License-Identifier: MIT */
/* The short convolution of one channel by one thread, row by row: the bits that every rung's steps have. */
#ifndef SEQMIX_CUDA_CONV_CHANNEL_CUH
#define SEQMIX_CUDA_CONV_CHANNEL_CUH

#include "rows.cuh"

constexpr int CONV_STEP_TAPS = 4; /* at most, in one launch with a mixer's step: published models have four */

/* The last rows before the current one, from tap `first` on, to a slot: all but the last of the window. */
template <int TAPS>
DV_DEV void store_window(const seqmix_tensor &pool, int64_t c, int32_t slot, int first, const float (&window)[TAPS])
{
    if (slot < 0) return;
#pragma unroll
    for (int j = 0; j < TAPS - 1; j++)
        if (j >= first) put(pool, slot * pool.stride[0] + c * pool.stride[1] + (j - first) * pool.stride[2], window[j]);
}

/* Channel c through the rows of a sequence; at most TAPS taps. They are the last ones of arrays that are indexed by constants
 * alone, so that these are registers. */
template <int TAPS>
DV_DEV void conv_channel(const seqmix_conv_args &a, const seqmix_batch &batch, sequence s, int64_t c)
{
    const int past = (int)a.weight.shape[1] - 1, first = TAPS - 1 - past;
    if (s.begin == s.end) {
        move_lane(a.state, {c * a.state.stride[1], a.state.stride[2], past}, s);
        return;
    }
    float weight[TAPS], window[TAPS]; /* the last of the window: the current row */
#pragma unroll
    for (int j = 0; j < TAPS; j++) {
        weight[j] = j >= first ? get(a.weight, c * a.weight.stride[0] + (j - first) * a.weight.stride[1]) : 0;
        window[j] = 0;
        if (j >= first && j < TAPS - 1 && s.read >= 0)
            window[j] =
                get(a.state, s.read * a.state.stride[0] + c * a.state.stride[1] + (j - first) * a.state.stride[2]);
    }
    const float bias = get_or(a.bias, c * a.bias.stride[0], 0);
    for (int64_t t = s.begin; t < s.end; t++) {
        window[TAPS - 1] = get(a.x, t * a.x.stride[0] + c);
        float sum = bias;
#pragma unroll
        for (int j = 0; j < TAPS; j++)
            if (j >= first)
                sum =
                    fmaf(weight[j], window[j], sum); /* as short_conv.cu does: a step in one launch has the same bits */
        put(a.y, t * a.y.stride[0] + c, a.activation == SEQMIX_ACT_SILU ? silu(sum) : sum);
#pragma unroll
        for (int j = 0; j < TAPS - 1; j++)
            window[j] = window[j + 1];
        for (; s.ckpt < s.ckpt_end && batch.ckpt_row[s.ckpt] <= t + 1 - s.begin; s.ckpt++)
            if (batch.ckpt_row[s.ckpt] == t + 1 - s.begin)
                store_window(a.state, c, slot_or_none(batch.ckpt_slot[s.ckpt], a.state), first, window);
    }
    store_window(a.state, c, s.write, first, window);
}

#endif
