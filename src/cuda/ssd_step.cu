/* SPDX-License-Identifier: MIT */
/*
 * ssd_step on cuda-sm80: the recurrence of ssd_chunk_forward row by row. A warp has some rows p of one head's state, lanes along
 * N, 16 bytes of the pool a lane, in registers from the one read to the one write; sums over N go over the lanes in a fixed order.
 * ssd_conv_step: a block for a group and all its heads, so that it convolves the channels that it reads.
 */
#include "conv_channel.cuh"
#include "ctx.h"
#include "cuda.h"
#include "lanes.cuh"
#include "packed_rows.cuh"
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

/* The rows of a sequence on the warp's part `block` of head h. */
template <class F>
DV_DEV void step_head(const seqmix_ssd_args &a, const seqmix_batch &batch, const step_call &call, sequence s, int64_t h,
                      int64_t block)
{
    const int lane = (int)(threadIdx.x % 32);
    step_lane l;
    l.n = lane % call.width * F::UNIT;
    l.apart = 32 / call.width;
    l.states = (int)a.B.shape[2];
    l.p = block * F::R * l.apart + lane / call.width;
    l.h = h;
    l.group = h / (a.x.shape[1] / a.B.shape[1]);
    if (s.begin == s.end) {
        move_rows<F>(a, l, call, s);
        return;
    }
    float S[F::R][F::V][F::UNIT];
#pragma unroll
    for (int r = 0; r < F::R; r++) {
        const int64_t p = l.p + r * l.apart;
        const bool there = s.read >= 0 && p < a.x.shape[2];
        step_lane from = l;
        if (!there) from.states = 0;
        const int64_t at = s.read * a.state.stride[0] + l.h * a.state.stride[1] + p * a.state.stride[2];
        load_along<typename F::S>(elements<typename F::S>(a.state) + (there ? at : 0), a.state.stride[3], from,
                                  call.width, call.state, S[r]);
    }
    for (int64_t t = s.begin; t < s.end; t++) {
        step_row<F>(a, call, l, t, S);
        for (; s.ckpt < s.ckpt_end && batch.ckpt_row[s.ckpt] <= t + 1 - s.begin; s.ckpt++)
            if (batch.ckpt_row[s.ckpt] == t + 1 - s.begin)
                store_slot<F>(a, call, l, slot_or_none(batch.ckpt_slot[s.ckpt], a.state), S);
    }
    store_slot<F>(a, call, l, s.write, S);
}

template <class F>
__global__ void __launch_bounds__(THREADS, 1) ssd_step_kernel(seqmix_ssd_args a, seqmix_batch batch, step_call call)
{
    const int64_t heads = a.x.shape[1], n_tasks = batch.n_seqs * heads * call.blocks;
    for (int64_t task = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; task < n_tasks;
         task += gridDim.x * (int64_t)WARPS)
        step_head<F>(a, batch, call, sequence_of(batch, a.x.shape[0], a.state, (int32_t)(task / call.blocks / heads)),
                     task / call.blocks % heads, task % call.blocks);
}

struct packed_row { /* channels of the convolution */
    int64_t x, B, C;
};

template <class F>
__global__ void __launch_bounds__(THREADS, 1)
    ssd_conv_step_kernel(seqmix_conv_args conv, seqmix_batch conv_batch, seqmix_ssd_args a, seqmix_batch batch,
                         step_call call, packed_row at)
{
    const int64_t groups = a.B.shape[1], states = a.B.shape[2], share = a.x.shape[1] / groups;
    const int64_t values = share * a.x.shape[2];
    for (int64_t task = blockIdx.x; task < batch.n_seqs * groups; task += gridDim.x) {
        const int64_t g = task % groups;
        const int32_t seq = (int32_t)(task / groups);
        const sequence past = sequence_of(conv_batch, conv.x.shape[0], conv.state, seq);
        for (int64_t i = threadIdx.x; i < values + 2 * states; i += THREADS) {
            const int64_t key = i - values;
            conv_channel<CONV_STEP_TAPS>(conv, conv_batch, past,
                                         key < 0        ? at.x + g * values + i
                                         : key < states ? at.B + g * states + key
                                                        : at.C + g * states + key - states);
        }
        __syncthreads(); /* the block's own rows are there */
        const sequence s = sequence_of(batch, a.x.shape[0], a.state, seq);
        for (int64_t i = threadIdx.x / 32; i < share * call.blocks; i += WARPS)
            step_head<F>(a, batch, call, s, g * share + i / call.blocks, i % call.blocks);
        __syncthreads();
    }
}

/* Whether one launch can do both, and should: the convolution's channels are x, B and C and nothing else, its rows the mixer's, no
 * block writes what another reads, and where few blocks would have large states, two launches of many are better. */
static bool fits(const seqmix_conv_args &conv, const seqmix_ssd_args &a, packed_row &at)
{
    const seqmix_batch *x = conv.batch, *y = a.batch;
    const int64_t values = a.x.shape[1] * a.x.shape[2], keys = a.B.shape[1] * a.B.shape[2];
    const int64_t blocks = y->n_seqs * a.B.shape[1];
    at = {packed_channel(conv.y, a.x), packed_channel(conv.y, a.B), packed_channel(conv.y, a.C)};
    return conv.weight.shape[1] <= CONV_STEP_TAPS && (blocks >= 64 || values * a.B.shape[2] <= a.B.shape[1] * 65536) &&
           at.x >= 0 && at.B >= 0 && at.C >= 0 && values + 2 * keys == conv.y.shape[1] &&
           ranges_apart(at.x, values, at.B, keys) && ranges_apart(at.x, values, at.C, keys) &&
           ranges_apart(at.B, keys, at.C, keys) && x->n_seqs == y->n_seqs && x->max_rows == y->max_rows &&
           x->row_begin == y->row_begin && rows_apart(conv.x, a.y);
}

/* With a convolution: both. */
template <class F> static int launch_step(const seqmix_ssd_args &a, const seqmix_conv_args *conv, void *stream)
{
    const int states = (int)a.B.shape[2];
    step_call call = {};
    call.width = 8;
    while (call.width < 32 && call.width * F::UNIT < states)
        call.width *= 2;
    const int rows = F::R * (32 / call.width);
    call.blocks = (int)((a.x.shape[2] + rows - 1) / rows);
    call.state = in_eights(a.state);
    call.states = in_eights(a.B) && in_eights(a.C);
    const int64_t n_tasks = a.batch->n_seqs * a.x.shape[1] * call.blocks;
    if (n_tasks == 0) return cudaSuccess;
    packed_row at = {};
    if (conv == nullptr)
        return dv_launch(ssd_step_kernel<F>, blocks_for((n_tasks + WARPS - 1) / WARPS), dim3(THREADS), 0,
                         static_cast<cudaStream_t>(stream), a, *a.batch, call);
    (void)fits(*conv, a, at);
    return dv_launch(ssd_conv_step_kernel<F>, blocks_for(a.batch->n_seqs * a.B.shape[1]), dim3(THREADS), 0,
                     static_cast<cudaStream_t>(stream), *conv, *conv->batch, a, *a.batch, call, at);
}

template <class X> static int launch_pool(const seqmix_ssd_args &a, const seqmix_conv_args *conv, void *stream)
{
    switch (a.state.rank > 0 ? a.state.dtype : SEQMIX_F32) {
    case SEQMIX_BF16:
        return launch_step<step_form<X, as_bf16, 1>>(a, conv, stream);
    case SEQMIX_F16:
        return launch_step<step_form<X, as_f16, 1>>(a, conv, stream);
    default:
        return a.B.shape[2] <= 128 ? launch_step<step_form<X, as_f32, 1>>(a, conv, stream)
                                   : launch_step<step_form<X, as_f32, 2>>(a, conv, stream);
    }
}

static int launch(const seqmix_ssd_args &a, const seqmix_conv_args *conv, void *stream)
{
    switch (a.x.dtype) {
    case SEQMIX_BF16:
        return launch_pool<as_bf16>(a, conv, stream);
    case SEQMIX_F16:
        return launch_pool<as_f16>(a, conv, stream);
    default:
        return launch_pool<as_f32>(a, conv, stream);
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
    return launch(*a, nullptr, ctx->stream);
}

extern "C" bool seqmix_ssd_conv_step_fits__cuda_sm80(const seqmix_conv_args *conv, const seqmix_ssd_args *a)
{
    packed_row at;
    return a->batch->n_seqs * a->x.shape[1] * a->x.shape[2] > 0 && fits(*conv, *a, at);
}

extern "C" int seqmix_ssd_conv_step__cuda_sm80(const struct seqmix_context *ctx, const seqmix_conv_args *conv,
                                               const seqmix_ssd_args *a)
{
    return launch(*a, conv, ctx->stream);
}
