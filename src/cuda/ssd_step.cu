/* SPDX-License-Identifier: MIT */
/*
 * ssd_step on cuda-sm80: the recurrence of ssd_chunk_forward row by row. A warp has some rows p of one head's state, lanes along
 * N, 16 bytes of the pool a lane, in registers from the one read to the one write; sums over N go over the lanes in a fixed order.
 */
#include "ctx.h"
#include "cuda.h"
#include "lanes.cuh"
#include "ssd.cuh"

namespace
{

constexpr int THREADS = 128, WARPS = THREADS / 32;

/* X: rows, S: the pool; V: units of 16 bytes a lane along N. */
template <class X_, class S_, int V_> struct step_form {
    typedef X_ X;
    typedef S_ S;
    static constexpr int V = V_, UNIT = 16 / (int)sizeof(typename S_::storage), R = 32 / (V_ * UNIT);
};

struct step_call {
    int64_t n_tasks;
    int blocks, width;  /* warps of a head; lanes along N */
    bool state, states; /* whole units: of the pool, of B and C */
};

struct step_lane {
    int64_t h, group;
    int64_t p; /* the first of the lane's R rows, `apart` rows from each other */
    int apart, n, states;
};

/* The lane's units of row `at` of N elements; absent ones are 0. */
template <class X, int UNIT, int V>
DV_DEV void load_along(const typename X::storage *at, int64_t step, const step_lane &l, int width, bool whole,
                       float (&v)[V][UNIT])
{
#pragma unroll
    for (int i = 0; i < V; i++) {
        const int n = l.n + i * width * UNIT;
        if (whole && n < l.states) {
            load_unit<X>(at + n, v[i]);
            continue;
        }
#pragma unroll
        for (int e = 0; e < UNIT; e++)
            v[i][e] = n + e < l.states ? X::up(at[(n + e) * step]) : 0;
    }
}

template <class F>
DV_DEV void store_slot(const seqmix_ssd_args &a, const step_call &call, const step_lane &l, int32_t slot,
                       const float (&S)[F::R][F::V][F::UNIT])
{
    typedef typename F::S type;
    if (slot < 0) return;
#pragma unroll
    for (int r = 0; r < F::R; r++) {
        const int64_t p = l.p + r * l.apart;
        if (p >= a.x.shape[2]) continue;
        typename type::storage *to =
            elements<type>(a.state) + slot * a.state.stride[0] + l.h * a.state.stride[1] + p * a.state.stride[2];
#pragma unroll
        for (int i = 0; i < F::V; i++) {
            const int n = l.n + i * call.width * F::UNIT;
            if (call.state && n < l.states) {
                store_unit<type>(to + n, S[r][i]);
                continue;
            }
#pragma unroll
            for (int e = 0; e < F::UNIT; e++)
                if (n + e < l.states) to[(n + e) * a.state.stride[3]] = type::down(S[r][i][e]);
        }
    }
}

/* Row t on the lane's part of the state; lane r of a row's lanes writes its y. */
template <class F>
DV_DEV void step_row(const seqmix_ssd_args &a, const step_call &call, const step_lane &l, int64_t t,
                     float (&S)[F::R][F::V][F::UNIT])
{
    typedef typename F::X X;
    float B[F::V][F::UNIT], C[F::V][F::UNIT], y[F::R];
    load_along<X>(elements<X>(a.B) + t * a.B.stride[0] + l.group * a.B.stride[1], 1, l, call.width, call.states, B);
    load_along<X>(elements<X>(a.C) + t * a.C.stride[0] + l.group * a.C.stride[1], 1, l, call.width, call.states, C);
    const float delta = ssd_step_size(a, get(a.dt, t * a.dt.stride[0] + l.h * a.dt.stride[1]), l.h);
    const float decay = decay_of(delta * get(a.A, l.h * a.A.stride[0]));
    const typename X::storage *x_row = elements<X>(a.x) + t * a.x.stride[0] + l.h * a.x.stride[1];
#pragma unroll
    for (int r = 0; r < F::R; r++) {
        const int64_t p = l.p + r * l.apart;
        const float dx = delta * (p < a.x.shape[2] ? X::up(x_row[p]) : 0);
        y[r] = 0;
#pragma unroll
        for (int i = 0; i < F::V; i++)
#pragma unroll
            for (int e = 0; e < F::UNIT; e++) {
                S[r][i][e] = decay * S[r][i][e] + dx * B[i][e];
                y[r] += S[r][i][e] * C[i][e];
            }
        for (int bits = call.width / 2; bits > 0; bits /= 2)
            y[r] += __shfl_xor_sync(ALL_LANES, y[r], bits);
    }
    const int mine = (int)(threadIdx.x % 32) % call.width;
    const int64_t p = l.p + mine * l.apart;
    if (mine >= F::R || p >= a.x.shape[2]) return;
    float out = 0;
#pragma unroll
    for (int r = 0; r < F::R; r++)
        out = r == mine ? y[r] : out;
    if (present(a.skip))
        out += get(a.skip, l.h * a.skip.stride[0] + (a.skip.rank == 2 ? p * a.skip.stride[1] : 0)) * X::up(x_row[p]);
    if (present(a.z)) out *= silu(get(a.z, t * a.z.stride[0] + l.h * a.z.stride[1] + p));
    elements<X>(a.y)[t * a.y.stride[0] + l.h * a.y.stride[1] + p] = X::down(out);
}

/* The state of an empty sequence moves bit for bit. */
template <class F>
DV_DEV void move_rows(const seqmix_ssd_args &a, const step_lane &l, const step_call &call, const sequence &s)
{
    const int lane = (int)(threadIdx.x % 32) % call.width;
    for (int r = 0; r < F::R; r++) {
        const int64_t p = l.p + r * l.apart;
        if (p >= a.x.shape[2]) continue;
        const int n = l.states > lane ? (l.states - lane + call.width - 1) / call.width : 0;
        move_lane(a.state,
                  {l.h * a.state.stride[1] + p * a.state.stride[2] + lane * a.state.stride[3],
                   call.width * a.state.stride[3], n},
                  s);
    }
}

template <class F>
__global__ void __launch_bounds__(THREADS) ssd_step_kernel(seqmix_ssd_args a, seqmix_batch batch, step_call call)
{
    const int64_t heads = a.x.shape[1];
    const int lane = (int)(threadIdx.x % 32);
    step_lane l;
    l.n = lane % call.width * F::UNIT;
    l.apart = 32 / call.width;
    l.states = (int)a.B.shape[2];
    for (int64_t task = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; task < call.n_tasks;
         task += gridDim.x * (int64_t)WARPS) {
        l.p = task % call.blocks * F::R * l.apart + lane / call.width;
        l.h = task / call.blocks % heads;
        l.group = l.h / (heads / a.B.shape[1]);
        sequence s = sequence_of(batch, a.x.shape[0], a.state, (int32_t)(task / call.blocks / heads));
        if (s.begin == s.end) {
            move_rows<F>(a, l, call, s);
            continue;
        }
        float S[F::R][F::V][F::UNIT];
#pragma unroll
        for (int r = 0; r < F::R; r++) {
            const int64_t p = l.p + r * l.apart;
            const bool there = s.read >= 0 && p < a.x.shape[2];
            step_lane from = l;
            if (!there) from.states = 0;
            load_along<typename F::S>(
                elements<typename F::S>(a.state) +
                    (there ? s.read * a.state.stride[0] + l.h * a.state.stride[1] + p * a.state.stride[2] : 0),
                a.state.stride[3], from, call.width, call.state, S[r]);
        }
        for (int64_t t = s.begin; t < s.end; t++) {
            step_row<F>(a, call, l, t, S);
            for (; s.ckpt < s.ckpt_end && batch.ckpt_row[s.ckpt] <= t + 1 - s.begin; s.ckpt++)
                if (batch.ckpt_row[s.ckpt] == t + 1 - s.begin)
                    store_slot<F>(a, call, l, slot_or_none(batch.ckpt_slot[s.ckpt], a.state), S);
        }
        store_slot<F>(a, call, l, s.write, S);
    }
}

template <class F> int launch_step(const seqmix_ssd_args &a, void *stream)
{
    const int states = (int)a.B.shape[2];
    step_call call = {};
    call.width = 8;
    while (call.width < 32 && call.width * F::UNIT < states)
        call.width *= 2;
    const int rows = F::R * (32 / call.width);
    call.blocks = (int)((a.x.shape[2] + rows - 1) / rows);
    call.n_tasks = a.batch->n_seqs * a.x.shape[1] * call.blocks;
    call.state = in_eights(a.state);
    call.states = in_eights(a.B) && in_eights(a.C);
    if (call.n_tasks == 0) return cudaSuccess;
    return dv_launch(ssd_step_kernel<F>, blocks_for((call.n_tasks + WARPS - 1) / WARPS), dim3(THREADS), 0,
                     static_cast<cudaStream_t>(stream), a, *a.batch, call);
}

template <class X> int launch_pool(const seqmix_ssd_args &a, void *stream)
{
    switch (a.state.rank > 0 ? a.state.dtype : SEQMIX_F32) {
    case SEQMIX_BF16:
        return launch_step<step_form<X, as_bf16, 1>>(a, stream);
    case SEQMIX_F16:
        return launch_step<step_form<X, as_f16, 1>>(a, stream);
    default:
        return a.B.shape[2] <= 128 ? launch_step<step_form<X, as_f32, 1>>(a, stream)
                                   : launch_step<step_form<X, as_f32, 2>>(a, stream);
    }
}

} /* namespace */

extern "C" seqmix_status seqmix_ssd_step_plan__cuda_sm80(const struct seqmix_context *, const seqmix_ssd_args *,
                                                         struct seqmix_plan *plan)
{
    plan->kernel = "cuda-sm80/ssd_step";
    plan->grain = 1;
    return SEQMIX_OK;
}

extern "C" int seqmix_ssd_step__cuda_sm80(const struct seqmix_context *ctx, const seqmix_ssd_args *a, void *)
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
