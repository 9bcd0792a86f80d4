/* SPDX-License-Identifier: MIT */
/* The short convolution of one channel by one thread, row by row: the bits that every rung's steps have. */
#ifndef SEQMIX_CUDA_CONV_CHANNEL_CUH
#define SEQMIX_CUDA_CONV_CHANNEL_CUH

#include "rows.cuh"

/* Channel c through the rows of a sequence. */
DV_DEV void conv_channel(const seqmix_conv_args &a, const seqmix_batch &batch, sequence s, int64_t c)
{
    const int width = (int)a.weight.shape[1], past = width - 1;
    const lane_of_state lane = {c * a.state.stride[1], a.state.stride[2], past};
    if (s.begin == s.end) {
        move_lane(a.state, lane, s);
        return;
    }
    float weight[MAX_CONV], window[MAX_CONV]; /* window[past]: the current row */
    for (int j = 0; j < width; j++)
        weight[j] = get(a.weight, c * a.weight.stride[0] + j * a.weight.stride[1]);
    load_lane(a.state, lane, s.read, window);
    const float bias = get_or(a.bias, c * a.bias.stride[0], 0);
    for (int64_t t = s.begin; t < s.end; t++) {
        window[past] = get(a.x, t * a.x.stride[0] + c);
        float sum = bias;
        for (int j = 0; j < width; j++)
            sum = fmaf(weight[j], window[j], sum); /* as short_conv.cu does: a step in one launch has the same bits */
        put(a.y, t * a.y.stride[0] + c, a.activation == SEQMIX_ACT_SILU ? silu(sum) : sum);
        for (int j = 0; j < past; j++)
            window[j] = window[j + 1];
        store_checkpoints(batch, a.state, lane, s, t + 1 - s.begin, window);
    }
    store_lane(a.state, lane, s.write, window);
}

#endif
