/* SPDX-License-Identifier: MIT */
/*
 * selective_scan_step on cuda-sm80: the recurrence row by row. A channel has N/4 lanes, each with four states, 16 bytes of an f32
 * pool, in registers from the one read to the one write; sums over N go over those lanes in a fixed order. The warps of a block
 * have the same channels of as many sequences, so A leaves L2 once for all of them. N <= 128; beyond, cuda-simple.
 */
#include "ctx.h"
#include "cuda.h"
#include "lanes.cuh"

namespace
{

constexpr int THREADS = 128, WARPS = THREADS / 32, UNIT = 4;

struct step_call {
    int64_t n_tasks, warps;   /* blocks' work; warps of a sequence */
    int width;                /* lanes of a channel */
    bool pool, states, rates; /* whole units: of the pool, of B and C, of A */
};

/* Four elements of a row of `states` from n on, `step` apart; absent ones are 0. */
template <class T>
DV_DEV void load_states(const typename T::storage *at, int64_t step, bool whole, int n, int states, float (&v)[UNIT])
{
    if (whole && n < states) {
        load_unit<T>(at + n, v);
        return;
    }
#pragma unroll
    for (int e = 0; e < UNIT; e++)
        v[e] = n + e < states ? T::up(at[(n + e) * step]) : 0;
}

template <class S>
DV_DEV void store_states(const seqmix_scan_args &a, const step_call &call, int64_t c, int32_t slot, int n,
                         const float (&h)[UNIT])
{
    const int states = (int)a.A.shape[1];
    if (slot < 0 || n >= states) return;
    typename S::storage *to = elements<S>(a.state) + slot * a.state.stride[0] + c * a.state.stride[1];
    if (call.pool) {
        store_unit<S>(to + n, h);
        return;
    }
#pragma unroll
    for (int e = 0; e < UNIT; e++)
        if (n + e < states) to[(n + e) * a.state.stride[2]] = S::down(h[e]);
}

/* Row t of channel c on the lane's states; y in all lanes of the channel. */
template <class X>
DV_DEV float step_row(const seqmix_scan_args &a, const step_call &call, int64_t t, int64_t c, int n,
                      const float (&rate)[UNIT], float (&h)[UNIT])
{
    const int64_t group = c / (a.x.shape[1] / a.B.shape[1]);
    const int states = (int)a.A.shape[1];
    float B[UNIT], C[UNIT], y = 0;
    load_states<X>(elements<X>(a.B) + t * a.B.stride[0] + group * a.B.stride[1], 1, call.states, n, states, B);
    load_states<X>(elements<X>(a.C) + t * a.C.stride[0] + group * a.C.stride[1], 1, call.states, n, states, C);
    const float x = X::up(elements<X>(a.x)[t * a.x.stride[0] + c]);
    float delta = get(a.dt, t * a.dt.stride[0] + c) + get_or(a.dt_bias, c * a.dt_bias.stride[0], 0);
    if (a.dt_softplus != 0) delta = softplus(delta);
    const float dx = delta * x;
#pragma unroll
    for (int e = 0; e < UNIT; e++) {
        h[e] = decay_of(delta * rate[e]) * h[e] + dx * B[e];
        y += C[e] * h[e];
    }
    for (int bits = call.width / 2; bits > 0; bits /= 2)
        y += __shfl_xor_sync(ALL_LANES, y, bits);
    if (present(a.skip)) y += get(a.skip, c * a.skip.stride[0]) * x;
    return present(a.z) ? y * silu(X::up(elements<X>(a.z)[t * a.z.stride[0] + c])) : y;
}

/* Lanes beyond the last channel come along on it, so that the shuffles meet, and write nothing. */
template <class X, class S>
__global__ void __launch_bounds__(THREADS)
    selective_scan_step_kernel(seqmix_scan_args a, seqmix_batch batch, step_call call)
{
    const int64_t channels = a.x.shape[1];
    const int lane = (int)(threadIdx.x % 32), n = lane % call.width * UNIT, states = (int)a.A.shape[1];
    for (int64_t task = blockIdx.x; task < call.n_tasks; task += gridDim.x) {
        const int64_t sequence_at = task / call.warps * WARPS + threadIdx.x / 32;
        if (sequence_at >= batch.n_seqs) continue;
        const int64_t at = task % call.warps * (32 / call.width) + lane / call.width;
        const bool mine = at < channels;
        const int64_t c = mine ? at : channels - 1;
        sequence s = sequence_of(batch, a.x.shape[0], a.state, (int32_t)sequence_at);
        if (s.begin == s.end) {
            if (mine && n == 0) move_lane(a.state, {c * a.state.stride[1], a.state.stride[2], states}, s);
            continue;
        }
        float h[UNIT] = {}, rate[UNIT];
        load_states<as_f32>(elements<as_f32>(a.A) + c * a.A.stride[0], a.A.stride[1], call.rates, n, states, rate);
        if (mine && s.read >= 0)
            load_states<S>(elements<S>(a.state) + s.read * a.state.stride[0] + c * a.state.stride[1], a.state.stride[2],
                           call.pool, n, states, h);
        for (int64_t t = s.begin; t < s.end; t++) {
            const float y = step_row<X>(a, call, t, c, n, rate, h);
            if (mine && n == 0) elements<X>(a.y)[t * a.y.stride[0] + c] = X::down(y);
            for (; s.ckpt < s.ckpt_end && batch.ckpt_row[s.ckpt] <= t + 1 - s.begin; s.ckpt++)
                if (mine && batch.ckpt_row[s.ckpt] == t + 1 - s.begin)
                    store_states<S>(a, call, c, slot_or_none(batch.ckpt_slot[s.ckpt], a.state), n, h);
        }
        if (mine) store_states<S>(a, call, c, s.write, n, h);
    }
}

template <class X, class S> static int launch_step(const seqmix_scan_args &a, void *stream)
{
    step_call call = {};
    call.width = 1;
    while (call.width * UNIT < a.A.shape[1])
        call.width *= 2;
    call.warps = (a.x.shape[1] * call.width + 31) / 32;
    call.n_tasks = (a.batch->n_seqs + WARPS - 1) / WARPS * call.warps;
    call.pool = in_eights(a.state);
    call.states = in_eights(a.B) && in_eights(a.C);
    call.rates = in_eights(a.A);
    if (call.n_tasks == 0) return cudaSuccess;
    return dv_launch(selective_scan_step_kernel<X, S>, blocks_for(call.n_tasks), dim3(THREADS), 0,
                     static_cast<cudaStream_t>(stream), a, *a.batch, call);
}

template <class X> static int launch_pool(const seqmix_scan_args &a, void *stream)
{
    switch (a.state.rank > 0 ? a.state.dtype : SEQMIX_F32) {
    case SEQMIX_BF16:
        return launch_step<X, as_bf16>(a, stream);
    case SEQMIX_F16:
        return launch_step<X, as_f16>(a, stream);
    default:
        return launch_step<X, as_f32>(a, stream);
    }
}

} /* namespace */

extern "C" seqmix_status seqmix_selective_scan_step_plan__cuda_sm80(const struct seqmix_context *,
                                                                    const seqmix_scan_args *a, struct seqmix_plan *plan)
{
    if (a->A.shape[1] > 32 * UNIT) return SEQMIX_ERR_UNSUPPORTED;
    plan->kernel = "cuda-sm80/selective_scan_step";
    plan->grain = 1;
    return SEQMIX_OK;
}

extern "C" int seqmix_selective_scan_step__cuda_sm80(const struct seqmix_context *ctx, const seqmix_scan_args *a,
                                                     void *)
{
    switch (a->x.dtype) {
    case SEQMIX_BF16:
        return launch_pool<as_bf16>(*a, ctx->stream);
    case SEQMIX_F16:
        return launch_pool<as_f16>(*a, ctx->stream);
    default:
        return launch_pool<as_f32>(*a, ctx->stream);
    }
}
