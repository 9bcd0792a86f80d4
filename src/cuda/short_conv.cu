/* SPDX-License-Identifier: MIT */
/*
 * short_conv_rows and short_conv_step on cuda-sm80. A thread has eight channels and walks a segment of rows downwards, the last
 * K-1 rows in registers, every row read once; a segment's first K-1 rows are read again by the one above it (3 of 64 for K = 4).
 * The thread of a sequence's first segment reads the incoming state, so it alone writes states, from the rows where they lie in
 * other segments: no slot has a reader and a writer in two blocks. A block has the same channels of several segments, so weights
 * leave L2 once for all of them. K 2..4; other widths are cuda-simple's.
 */
#include "ctx.h"
#include "cuda.h"
#include "lanes.cuh"

namespace
{

constexpr int THREADS = 128, SEGMENT = 64, AHEAD = 4; /* rows asked for at once */

struct conv_call {
    int64_t n_tasks, groups, segments; /* blocks' work; eights of channels; of the longest sequence */
    int width;                         /* eights of channels of a block, of as many segments as it has threads for */
    /* Whole lanes: of rows; of states and of weights, whose columns lie channel after channel. */
    bool eights, state, weights;
};

/* What a thread has. */
template <int K> struct conv_lane {
    float weight[K][8], bias[8];
    float past[K - 1][8]; /* oldest row first */
    int64_t c;
    int n; /* channels, of eight */
};

template <class S, int K>
DV_DEV void load_past_of(const seqmix_conv_args &a, const conv_call &call, int32_t slot, conv_lane<K> &l)
{
    const typename S::storage *from = elements<S>(a.state) + slot * a.state.stride[0] + l.c * a.state.stride[1];
    if (call.state && l.n == 8) {
        float v[K - 1][8];
#pragma unroll
        for (int j = 0; j < K - 1; j++)
            load_eight<S>(from + 8 * j, v[j]);
#pragma unroll
        for (int i = 0; i < 8 * (K - 1); i++)
            l.past[i % (K - 1)][i / (K - 1)] = v[i / 8][i % 8];
        return;
    }
#pragma unroll
    for (int j = 0; j < K - 1; j++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (i < l.n) l.past[j][i] = S::up(from[i * a.state.stride[1] + j * a.state.stride[2]]);
}

template <class S, int K>
DV_DEV void store_past_of(const seqmix_conv_args &a, const conv_call &call, int32_t slot, int64_t c, int n,
                          const float (&past)[K - 1][8])
{
    typename S::storage *to = elements<S>(a.state) + slot * a.state.stride[0] + c * a.state.stride[1];
    if (call.state && n == 8) {
#pragma unroll
        for (int j = 0; j < K - 1; j++) {
            float v[8];
#pragma unroll
            for (int i = 0; i < 8; i++)
                v[i] = past[(8 * j + i) % (K - 1)][(8 * j + i) / (K - 1)];
            store_eight<S>(to + 8 * j, v);
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < K - 1; j++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (i < n) to[i * a.state.stride[1] + j * a.state.stride[2]] = S::down(past[j][i]);
}

template <class X, int K>
DV_DEV void load_past(const seqmix_conv_args &a, const conv_call &call, int32_t slot, conv_lane<K> &l)
{
    if (slot < 0) return;
    if (a.state.dtype == SEQMIX_F32)
        load_past_of<as_f32, K>(a, call, slot, l);
    else
        load_past_of<X, K>(a, call, slot, l);
}

template <class X, int K>
DV_DEV void store_past(const seqmix_conv_args &a, const conv_call &call, int32_t slot, int64_t c, int n,
                       const float (&past)[K - 1][8])
{
    if (slot < 0) return;
    if (a.state.dtype == SEQMIX_F32)
        store_past_of<as_f32, K>(a, call, slot, c, n, past);
    else
        store_past_of<X, K>(a, call, slot, c, n, past);
}

/* The state after the row before `end`, from memory: K-1 rows of the sequence are there. */
template <class X, int K>
DV_DEV void store_rows(const seqmix_conv_args &a, const conv_call &call, int32_t slot, const conv_lane<K> &l,
                       int64_t end)
{
    float rows[K - 1][8];
#pragma unroll
    for (int j = 0; j < K - 1; j++)
        load_some<X>(elements<X>(a.x) + (end - K + 1 + j) * a.x.stride[0] + l.c, l.n, call.eights, rows[j]);
    store_past<X, K>(a, call, slot, l.c, l.n, rows);
}

/* One row: y, and the row joins the past. */
template <class X, int K>
DV_DEV void conv_row(const seqmix_conv_args &a, const conv_call &call, int64_t t, const float (&x)[8], conv_lane<K> &l)
{
    float y[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float sum = l.bias[i];
#pragma unroll
        for (int j = 0; j < K - 1; j++)
            sum = fmaf(l.weight[j][i], l.past[j][i], sum);
        sum = fmaf(l.weight[K - 1][i], x[i], sum);
        y[i] = a.activation == SEQMIX_ACT_SILU ? silu(sum) : sum;
#pragma unroll
        for (int j = 0; j + 1 < K - 1; j++)
            l.past[j][i] = l.past[j + 1][i];
        l.past[K - 2][i] = x[i];
    }
    store_some<X>(elements<X>(a.y) + t * a.y.stride[0] + l.c, l.n, call.eights, y);
}

/* Rows [begin, end) of the sequence; the first segment's thread stores the states due in it. */
template <class X, int K>
DV_DEV void conv_rows(const seqmix_conv_args &a, const seqmix_batch &batch, const conv_call &call, sequence &s,
                      bool first, int64_t begin, int64_t end, conv_lane<K> &l)
{
    for (int64_t t = begin; t < end;) {
        const bool due = first && s.ckpt < s.ckpt_end && batch.ckpt_row[s.ckpt] <= t + AHEAD - s.begin;
        float x[AHEAD][8];
        if (t + AHEAD <= end && !due) {
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                load_some<X>(elements<X>(a.x) + (t + u) * a.x.stride[0] + l.c, l.n, call.eights, x[u]);
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                conv_row<X, K>(a, call, t + u, x[u], l);
            t += AHEAD;
            continue;
        }
        load_some<X>(elements<X>(a.x) + t * a.x.stride[0] + l.c, l.n, call.eights, x[0]);
        conv_row<X, K>(a, call, t, x[0], l);
        t++;
        for (; first && s.ckpt < s.ckpt_end && batch.ckpt_row[s.ckpt] <= t - s.begin; s.ckpt++)
            if (batch.ckpt_row[s.ckpt] == t - s.begin)
                store_past<X, K>(a, call, slot_or_none(batch.ckpt_slot[s.ckpt], a.state), l.c, l.n, l.past);
    }
}

/* The states due after the first segment, and the last. */
template <class X, int K>
DV_DEV void store_states(const seqmix_conv_args &a, const seqmix_batch &batch, const conv_call &call, sequence &s,
                         int64_t end, const conv_lane<K> &l)
{
    for (; s.ckpt < s.ckpt_end; s.ckpt++) {
        const int64_t row = batch.ckpt_row[s.ckpt];
        if (row > end - s.begin && row <= s.end - s.begin)
            store_rows<X, K>(a, call, slot_or_none(batch.ckpt_slot[s.ckpt], a.state), l, s.begin + row);
    }
    if (end == s.end)
        store_past<X, K>(a, call, s.write, l.c, l.n, l.past);
    else if (s.write >= 0)
        store_rows<X, K>(a, call, s.write, l, s.end);
}

template <class W, int K> DV_DEV void load_weights(const seqmix_conv_args &a, conv_lane<K> &l)
{
    float v[K][8];
#pragma unroll
    for (int j = 0; j < K; j++)
        load_eight<W>(elements<W>(a.weight) + l.c * K + 8 * j, v[j]);
#pragma unroll
    for (int i = 0; i < 8 * K; i++)
        l.weight[i % K][i / K] = v[i / 8][i % 8];
}

/* Weights, bias, and zeros before the first row. */
template <class X, int K> DV_DEV void open_lane(const seqmix_conv_args &a, const conv_call &call, conv_lane<K> &l)
{
    const bool whole = call.weights && l.n == 8;
    if (whole && a.weight.dtype == SEQMIX_F32)
        load_weights<as_f32, K>(a, l);
    else if (whole)
        load_weights<X, K>(a, l);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        l.bias[i] = i < l.n ? get_or(a.bias, (l.c + i) * a.bias.stride[0], 0) : 0;
#pragma unroll
        for (int j = 0; j < K - 1; j++)
            l.past[j][i] = 0;
#pragma unroll
        for (int j = 0; j < K && !whole; j++)
            l.weight[j][i] = i < l.n ? get(a.weight, (l.c + i) * a.weight.stride[0] + j * a.weight.stride[1]) : 0;
    }
}

template <class X, int K>
__global__ void __launch_bounds__(THREADS, 1) short_conv_kernel(seqmix_conv_args a, seqmix_batch batch, conv_call call)
{
    const int64_t across = (call.groups + call.width - 1) / call.width, down = THREADS / call.width;
    for (int64_t task = blockIdx.x; task < call.n_tasks; task += gridDim.x) {
        const int64_t group = task % across * call.width + (int)threadIdx.x % call.width;
        const int64_t item = task / across * down + (int)threadIdx.x / call.width;
        if (group >= call.groups || (int)threadIdx.x / call.width >= down || item >= batch.n_seqs * call.segments)
            continue;
        conv_lane<K> l;
        l.c = group * 8;
        l.n = (int)(a.x.shape[1] - l.c < 8 ? a.x.shape[1] - l.c : 8);
        sequence s = sequence_of(batch, a.x.shape[0], a.state, (int32_t)(item / call.segments));
        const int64_t segment = item % call.segments, begin = s.begin + segment * SEGMENT;
        const int64_t end = s.end - begin < SEGMENT ? s.end : begin + SEGMENT;
        if (s.begin == s.end && segment == 0)
            for (int i = 0; i < l.n; i++)
                move_lane(a.state, {(l.c + i) * a.state.stride[1], a.state.stride[2], K - 1}, s);
        if (begin >= s.end) continue;
        open_lane<X, K>(a, call, l);
        if (segment == 0) {
            load_past<X, K>(a, call, s.read, l);
        } else {
#pragma unroll
            for (int j = 0; j < K - 1; j++)
                load_some<X>(elements<X>(a.x) + (begin - K + 1 + j) * a.x.stride[0] + l.c, l.n, call.eights, l.past[j]);
        }
        conv_rows<X, K>(a, batch, call, s, segment == 0, begin, end, l);
        if (segment == 0) store_states<X, K>(a, batch, call, s, end, l);
    }
}

template <class X, int K> static int launch_conv(const seqmix_conv_args &a, void *stream)
{
    conv_call call = {};
    call.groups = (a.x.shape[1] + 7) / 8;
    call.segments = a.batch->max_rows > 0 ? (a.batch->max_rows + (int64_t)SEGMENT - 1) / SEGMENT : 1;
    call.width = call.groups < 32 ? (int)call.groups : 32;
    const int64_t items = a.batch->n_seqs * call.segments;
    if (items == 0 || call.groups == 0) return cudaSuccess;
    const int64_t down = THREADS / call.width;
    call.n_tasks = (call.groups + call.width - 1) / call.width * ((items + down - 1) / down);
    call.eights = in_eights(a.x) && in_eights(a.y);
    const int64_t bytes = a.state.dtype == SEQMIX_F32 ? 4 : 2;
    call.state = a.state.rank > 0 && a.state.stride[2] == 1 && a.state.stride[1] == K - 1 &&
                 reinterpret_cast<uintptr_t>(a.state.data) % 16 == 0 && a.state.stride[0] * bytes % 16 == 0;
    call.weights =
        a.weight.stride[1] == 1 && a.weight.stride[0] == K && reinterpret_cast<uintptr_t>(a.weight.data) % 16 == 0;
    return dv_launch(short_conv_kernel<X, K>, blocks_for(call.n_tasks), dim3(THREADS), 0,
                     static_cast<cudaStream_t>(stream), a, *a.batch, call);
}

template <class X> static int launch_width(const seqmix_conv_args &a, void *stream)
{
    switch (a.weight.shape[1]) {
    case 2:
        return launch_conv<X, 2>(a, stream);
    case 3:
        return launch_conv<X, 3>(a, stream);
    default:
        return launch_conv<X, 4>(a, stream);
    }
}

static seqmix_status plan_conv(const seqmix_conv_args &a, struct seqmix_plan &plan)
{
    if (a.weight.shape[1] < 2 || a.weight.shape[1] > 4) return SEQMIX_ERR_UNSUPPORTED;
    plan.kernel = "cuda-sm80/short_conv";
    plan.grain = 1;
    return SEQMIX_OK;
}

static int run_conv(const struct seqmix_context *ctx, const seqmix_conv_args &a)
{
    switch (a.x.dtype) {
    case SEQMIX_BF16:
        return launch_width<as_bf16>(a, ctx->stream);
    case SEQMIX_F16:
        return launch_width<as_f16>(a, ctx->stream);
    default:
        return launch_width<as_f32>(a, ctx->stream);
    }
}

} /* namespace */

extern "C" seqmix_status seqmix_short_conv_rows_plan__cuda_sm80(const struct seqmix_context *,
                                                                const seqmix_conv_args *a, struct seqmix_plan *plan)
{
    return plan_conv(*a, *plan);
}

extern "C" int seqmix_short_conv_rows__cuda_sm80(const struct seqmix_context *ctx, const seqmix_conv_args *a, void *)
{
    return run_conv(ctx, *a);
}

extern "C" seqmix_status seqmix_short_conv_step_plan__cuda_sm80(const struct seqmix_context *,
                                                                const seqmix_conv_args *a, struct seqmix_plan *plan)
{
    return plan_conv(*a, *plan);
}

extern "C" int seqmix_short_conv_step__cuda_sm80(const struct seqmix_context *ctx, const seqmix_conv_args *a, void *)
{
    return run_conv(ctx, *a);
}
