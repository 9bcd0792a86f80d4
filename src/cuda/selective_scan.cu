/* SPDX-License-Identifier: MIT */
/*
 * selective_scan_rows on cuda-sm80. A block has 16 channels of one sequence and walks it in cells of 16 segments of 4 rows; a thread
 * is a channel and a segment, its states in registers, 16 at a time:
 *     from zero: E = the segment's own end, P = exp of the sum of its log decays;
 *     over the segments, a thread per channel and state, in order: S <- P S + E, which gives every segment its incoming state;
 *     again from there, with the decays still in registers: h and y.
 * Rows are read once and exponentials taken once. States at multiples of 4 rows are those of the fold, wherever a call begins.
 */
#include "ctx.h"
#include "cuda.h"
#include "lanes.cuh"
#include "ssd.cuh"

namespace
{

constexpr int CHANNELS = 16, SEGMENT = 4, SEGMENTS = 16, THREADS = CHANNELS * SEGMENTS, CELL = SEGMENT * SEGMENTS;
constexpr int STATES = 16;                         /* in registers */
constexpr int PITCH = SEGMENT * STATES + 4;        /* of a segment's rows of B or C */
constexpr int PITCH_ENDS = STATES * CHANNELS + 16; /* of a segment's ends or decays */

struct scan_call {
    int64_t n_tasks;
    int tiles; /* of channels, per group */
};

struct scan_block {
    float *B, *C, *ends, *decays;
    float *rate, *carry; /* [states, padded][CHANNELS] */
    sequence s;
    int64_t group, first; /* channel */
    int channels, states;
    int c, segment; /* the thread's */
};

struct scan_rows { /* of a thread */
    float x[SEGMENT], delta[SEGMENT], y[SEGMENT];
    int rows;
};

DV_DEV int64_t scan_state_offset(const seqmix_scan_args &a, const scan_block &b, int32_t slot, int c, int n)
{
    return slot * a.state.stride[0] + (b.first + c) * a.state.stride[1] + n * a.state.stride[2];
}

/* The cell's rows of B and C for 16 states from n0 on, zeros around them. */
template <class X> DV_DEV void load_cell(const seqmix_scan_args &a, const scan_block &b, int64_t row, int rows, int n0)
{
    for (int i = (int)threadIdx.x; i < CELL * STATES; i += THREADS) {
        const int r = i / STATES, n = n0 + i % STATES, at = r / SEGMENT * PITCH + r % SEGMENT * STATES + i % STATES;
        const bool in = r < rows && n < b.states;
        b.B[at] = in ? X::up(elements<X>(a.B)[(row + r) * a.B.stride[0] + b.group * a.B.stride[1] + n]) : 0;
        b.C[at] = in ? X::up(elements<X>(a.C)[(row + r) * a.C.stride[0] + b.group * a.C.stride[1] + n]) : 0;
    }
}

/* The thread's rows, from `row` on: `rows` of them. */
template <class X>
DV_DEV void load_rows(const seqmix_scan_args &a, const scan_block &b, int64_t row, int rows, scan_rows &r)
{
    const int64_t c = b.first + b.c;
    r.rows = b.c < b.channels ? rows : 0;
    const float bias = b.c < b.channels ? get_or(a.dt_bias, c * a.dt_bias.stride[0], 0) : 0;
#pragma unroll
    for (int i = 0; i < SEGMENT; i++) {
        float delta = 0, x = 0;
        if (i < r.rows) {
            delta = get(a.dt, (row + i) * a.dt.stride[0] + c) + bias;
            if (a.dt_softplus != 0) delta = softplus(delta);
            x = X::up(elements<X>(a.x)[(row + i) * a.x.stride[0] + c]);
        }
        r.x[i] = x;
        r.delta[i] = delta;
        r.y[i] = 0;
    }
}

DV_DEV float4 four(const float *at)
{
    return dv_ldv(reinterpret_cast<const float4 *>(at));
}

/* The segment from zero: its decays stay in registers, its end and decay go to shared memory. */
DV_DEV void segment_ends(const scan_block &b, const scan_rows &r, int n0, float (&decay)[SEGMENT][STATES])
{
#pragma unroll
    for (int q = 0; q < STATES / 4; q++) {
        float end[4] = {}, sum[4] = {};
#pragma unroll
        for (int i = 0; i < SEGMENT; i++) {
            const float4 f = four(b.B + b.segment * PITCH + i * STATES + 4 * q);
            const float B[4] = {f.x, f.y, f.z, f.w};
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float rate = b.rate[(n0 + 4 * q + e) * CHANNELS + b.c];
                const float g = i < r.rows ? bounded_log_decay(r.delta[i] * rate) : 0, d = expf(g);
                decay[i][4 * q + e] = d;
                end[e] = fmaf(d, end[e], r.delta[i] * r.x[i] * B[e]);
                sum[e] += g;
            }
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int at = b.segment * PITCH_ENDS + (4 * q + e) * CHANNELS + b.c;
            b.ends[at] = end[e];
            b.decays[at] = expf(sum[e]);
        }
    }
}

/* A thread per channel and state: ends become incoming states; the states due at the segments' ends are stored. */
DV_DEV void fold(const seqmix_scan_args &a, const seqmix_batch &batch, const scan_block &b, int before, int rows,
                 int n0)
{
    const int c = (int)threadIdx.x % CHANNELS, n = n0 + (int)threadIdx.x / CHANNELS, at = (int)threadIdx.x;
    const bool mine = c < b.channels && n < b.states;
    float S = b.carry[n * CHANNELS + c];
    int32_t due = b.s.ckpt;
    for (int k = 0; k * SEGMENT < rows; k++) {
        const int row = before + ((k + 1) * SEGMENT < rows ? (k + 1) * SEGMENT : rows);
        const float end = b.ends[k * PITCH_ENDS + at];
        b.ends[k * PITCH_ENDS + at] = S;
        S = fmaf(b.decays[k * PITCH_ENDS + at], S, end);
        for (; mine && due < b.s.ckpt_end && batch.ckpt_row[due] <= row; due++) {
            const int32_t slot = slot_or_none(batch.ckpt_slot[due], a.state);
            if (batch.ckpt_row[due] == row && slot >= 0) put(a.state, scan_state_offset(a, b, slot, c, n), S);
        }
    }
    b.carry[n * CHANNELS + c] = S;
}

/* The states due inside a segment after `row` rows: four of the thread's own. */
DV_DEV void store_inside(const seqmix_scan_args &a, const seqmix_batch &batch, const scan_block &b, int row, int n0,
                         const float (&h)[4])
{
    for (int32_t due = b.s.ckpt; due < b.s.ckpt_end && batch.ckpt_row[due] <= row; due++) {
        const int32_t slot = slot_or_none(batch.ckpt_slot[due], a.state);
        if (batch.ckpt_row[due] != row || slot < 0) continue;
#pragma unroll
        for (int n = 0; n < 4; n++)
            if (n0 + n < b.states) put(a.state, scan_state_offset(a, b, slot, b.c, n0 + n), h[n]);
    }
}

/* The segment from its incoming state: `before` rows of the sequence lie before it, `length` are all. */
DV_DEV void segment_rows(const seqmix_scan_args &a, const seqmix_batch &batch, const scan_block &b, int before,
                         int length, int n0, const float (&decay)[SEGMENT][STATES], scan_rows &r)
{
#pragma unroll
    for (int q = 0; q < STATES / 4; q++) {
        float h[4];
#pragma unroll
        for (int e = 0; e < 4; e++)
            h[e] = b.ends[b.segment * PITCH_ENDS + (4 * q + e) * CHANNELS + b.c];
#pragma unroll
        for (int i = 0; i < SEGMENT; i++) {
            if (i >= r.rows) continue;
            const float4 fb = four(b.B + b.segment * PITCH + i * STATES + 4 * q);
            const float4 fc = four(b.C + b.segment * PITCH + i * STATES + 4 * q);
            const float B[4] = {fb.x, fb.y, fb.z, fb.w}, C[4] = {fc.x, fc.y, fc.z, fc.w};
#pragma unroll
            for (int e = 0; e < 4; e++) {
                h[e] = fmaf(decay[i][4 * q + e], h[e], r.delta[i] * r.x[i] * B[e]);
                r.y[i] = fmaf(C[e], h[e], r.y[i]);
            }
            const int row = before + i + 1;
            if (batch.n_checkpoints > 0 && row % SEGMENT != 0 && row < length)
                store_inside(a, batch, b, row, n0 + 4 * q, h);
        }
    }
}

template <class X>
DV_DEV void store_rows(const seqmix_scan_args &a, const scan_block &b, int64_t row, const scan_rows &r)
{
    const int64_t c = b.first + b.c;
#pragma unroll
    for (int i = 0; i < SEGMENT; i++) {
        if (i >= r.rows) continue;
        float y = r.y[i];
        if (present(a.skip)) y += get(a.skip, c * a.skip.stride[0]) * r.x[i];
        if (present(a.z)) y *= silu(X::up(elements<X>(a.z)[(row + i) * a.z.stride[0] + c]));
        elements<X>(a.y)[(row + i) * a.y.stride[0] + c] = X::down(y);
    }
}

/* Rates and incoming states, a thread per channel and state. */
DV_DEV void open_states(const seqmix_scan_args &a, const scan_block &b, int padded)
{
    for (int i = (int)threadIdx.x; i < padded * CHANNELS; i += THREADS) {
        const int c = i % CHANNELS, n = i / CHANNELS;
        const bool in = c < b.channels && n < b.states;
        b.rate[i] = in ? get(a.A, (b.first + c) * a.A.stride[0] + n * a.A.stride[1]) : 0;
        b.carry[i] = in && b.s.read >= 0 ? get(a.state, scan_state_offset(a, b, b.s.read, c, n)) : 0;
    }
}

template <class X>
DV_DEV void scan_sequence(const seqmix_scan_args &a, const seqmix_batch &batch, scan_block &b, int padded)
{
    const int length = (int)(b.s.end - b.s.begin); /* max_rows bounds it */
    __syncthreads();                               /* the task before is done with */
    open_states(a, b, padded);
    for (unsigned cell = 0; cell < (unsigned)length; cell += CELL) {
        const int at = (int)cell;
        const int rows = length - at < CELL ? length - at : CELL, before = b.segment * SEGMENT;
        const int own = rows - before < SEGMENT ? rows - before : SEGMENT;
        scan_rows r;
        load_rows<X>(a, b, b.s.begin + at + before, own, r);
        while (b.s.ckpt < b.s.ckpt_end && batch.ckpt_row[b.s.ckpt] <= at)
            b.s.ckpt++;
        for (int n0 = 0; n0 < padded; n0 += STATES) {
            float decay[SEGMENT][STATES];
            dv_forget(b.c); /* addresses are formed anew each time: registers are few */
            dv_forget(b.segment);
            __syncthreads(); /* B, C and ends are done with */
            load_cell<X>(a, b, b.s.begin + at, rows, n0);
            __syncthreads();
            segment_ends(b, r, n0, decay);
            __syncthreads();
            fold(a, batch, b, at, rows, n0);
            __syncthreads();
#pragma unroll
            for (int i = 0; i < SEGMENT; i++)
                dv_forget(r.x[i]); /* so is delta x */
            segment_rows(a, batch, b, at + before, length, n0, decay, r);
        }
        store_rows<X>(a, b, b.s.begin + at + before, r);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < padded * CHANNELS && b.s.write >= 0; i += THREADS)
        if (i % CHANNELS < b.channels && i / CHANNELS < b.states)
            put(a.state, scan_state_offset(a, b, b.s.write, i % CHANNELS, i / CHANNELS), b.carry[i]);
}

template <class X>
__global__ void __launch_bounds__(THREADS, 2)
    selective_scan_kernel(seqmix_scan_args a, seqmix_batch batch, scan_call call)
{
    dv_smem memory;
    scan_block b;
    b.states = (int)a.A.shape[1];
    const int padded = (b.states + STATES - 1) / STATES * STATES;
    b.B = memory.take<float>(SEGMENTS * PITCH);
    b.C = memory.take<float>(SEGMENTS * PITCH);
    b.ends = memory.take<float>(SEGMENTS * PITCH_ENDS);
    b.decays = memory.take<float>(SEGMENTS * PITCH_ENDS);
    b.rate = memory.take<float>(padded * CHANNELS);
    b.carry = memory.take<float>(padded * CHANNELS);
    b.c = (int)threadIdx.x % CHANNELS;
    b.segment = (int)threadIdx.x / CHANNELS;
    const int64_t groups = a.B.shape[1], of_group = a.x.shape[1] / groups;
    for (int64_t task = blockIdx.x; task < call.n_tasks; task += gridDim.x) {
        const int64_t in_group = task % call.tiles * CHANNELS, left = of_group - in_group;
        b.group = task / call.tiles % groups;
        b.first = b.group * of_group + in_group;
        b.channels = (int)(left < CHANNELS ? left : CHANNELS);
        b.s = sequence_of(batch, a.x.shape[0], a.state, (int32_t)(task / call.tiles / groups));
        if (b.s.begin < b.s.end)
            scan_sequence<X>(a, batch, b, padded);
        else if (b.segment == 0 && b.c < b.channels)
            move_lane(a.state, {(b.first + b.c) * a.state.stride[1], a.state.stride[2], b.states}, b.s);
    }
}

static constexpr size_t shared_for(int64_t padded)
{
    return sizeof(float) * (size_t)(2 * SEGMENTS * (PITCH + PITCH_ENDS) + 2 * padded * CHANNELS);
}

template <class X> static int launch_scan(const seqmix_scan_args &a, void *stream)
{
    static_assert(shared_for(MAX_DIM) <= LEAST_SHARED, "every device takes it");
    scan_call call = {};
    const int64_t of_group = a.x.shape[1] / a.B.shape[1], padded = (a.A.shape[1] + STATES - 1) / STATES * STATES;
    call.tiles = (int)((of_group + CHANNELS - 1) / CHANNELS);
    call.n_tasks = a.batch->n_seqs * a.B.shape[1] * call.tiles;
    if (call.n_tasks == 0) return cudaSuccess;
    return dv_launch(selective_scan_kernel<X>, blocks_for(call.n_tasks), dim3(THREADS), shared_for(padded),
                     static_cast<cudaStream_t>(stream), a, *a.batch, call);
}

} /* namespace */

extern "C" seqmix_status seqmix_selective_scan_rows_plan__cuda_sm80(const struct seqmix_context *,
                                                                    const seqmix_scan_args *, struct seqmix_plan *plan)
{
    plan->kernel = "cuda-sm80/selective_scan";
    plan->grain = SEGMENT;
    return SEQMIX_OK;
}

extern "C" int seqmix_selective_scan_rows__cuda_sm80(const struct seqmix_context *ctx, const seqmix_scan_args *a,
                                                     void *)
{
    switch (a->x.dtype) {
    case SEQMIX_BF16:
        return launch_scan<as_bf16>(*a, ctx->stream);
    case SEQMIX_F16:
        return launch_scan<as_f16>(*a, ctx->stream);
    default:
        return launch_scan<as_f32>(*a, ctx->stream);
    }
}

extern "C" int seqmix_selective_scan_prepare__cuda_sm80(int shared_bytes)
{
    return dv_allow_shared(shared_bytes, selective_scan_kernel<as_bf16>, selective_scan_kernel<as_f16>,
                           selective_scan_kernel<as_f32>);
}
