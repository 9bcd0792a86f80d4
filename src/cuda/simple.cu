/* SPDX-License-Identifier: MIT */
/*
 * Rung cuda-simple, the mixers: the recurrences of docs/OPS.md row by row in f32, any legal call. A thread owns a lane of the
 * state (a channel of conv and scan, a row p of SSD, a value channel of the delta rule) and carries it through the rows; a
 * block of the last two is one head of one sequence, and keeps the row's shared vectors in shared memory.
 */
#include "conv_channel.cuh"
#include "cuda.h"
#include "deltanet_gates.cuh"
#include "rows.cuh"

constexpr int THREADS = 128;

/* ---------------------------------------------------------------- short convolution */

static __global__ void short_conv_kernel(seqmix_conv_args a, seqmix_batch batch)
{
    const int64_t channels = a.x.shape[1], n_tasks = batch.n_seqs * channels;
    for (int64_t task = blockIdx.x * (int64_t)THREADS + threadIdx.x; task < n_tasks;
         task += gridDim.x * (int64_t)THREADS) {
        const sequence s = sequence_of(batch, a.x.shape[0], a.state, (int32_t)(task / channels));
        conv_channel<MAX_CONV>(a, batch, s, task % channels);
    }
}

extern "C" int seqmix_short_conv__cuda_simple(const seqmix_conv_args *a, void *, void *stream)
{
    const int64_t n = a->batch->n_seqs * a->x.shape[1];
    if (n == 0) return cudaSuccess;
    return dv_launch(short_conv_kernel, blocks_for((n + THREADS - 1) / THREADS), dim3(THREADS), 0,
                     static_cast<cudaStream_t>(stream), *a, *a->batch);
}

/* ---------------------------------------------------------------- selective scan */

/* One row of one channel; returns y. */
DV_DEV float scan_row(const seqmix_scan_args &a, int64_t t, int64_t c, const float *rate, float *h)
{
    const int64_t group = c / (a.x.shape[1] / a.B.shape[1]);
    const int64_t b_row = t * a.B.stride[0] + group * a.B.stride[1], c_row = t * a.C.stride[0] + group * a.C.stride[1];
    const float x = get(a.x, t * a.x.stride[0] + c);
    float delta = get(a.dt, t * a.dt.stride[0] + c) + get_or(a.dt_bias, c * a.dt_bias.stride[0], 0), y = 0;
    if (a.dt_softplus != 0) delta = softplus(delta);
    for (int n = 0; n < (int)a.A.shape[1]; n++) {
        h[n] = decay_of(delta * rate[n]) * h[n] + delta * get(a.B, b_row + n) * x;
        y += get(a.C, c_row + n) * h[n];
    }
    if (present(a.skip)) y += get(a.skip, c * a.skip.stride[0]) * x;
    return present(a.z) ? y * silu(get(a.z, t * a.z.stride[0] + c)) : y;
}

static __global__ void selective_scan_kernel(seqmix_scan_args a, seqmix_batch batch)
{
    const int64_t channels = a.x.shape[1], n_tasks = batch.n_seqs * channels;
    const int states = (int)a.A.shape[1];
    for (int64_t task = blockIdx.x * (int64_t)THREADS + threadIdx.x; task < n_tasks;
         task += gridDim.x * (int64_t)THREADS) {
        const int64_t c = task % channels;
        sequence s = sequence_of(batch, a.x.shape[0], a.state, (int32_t)(task / channels));
        const lane_of_state lane = {c * a.state.stride[1], a.state.stride[2], states};
        if (s.begin == s.end) {
            move_lane(a.state, lane, s);
            continue;
        }
        float h[MAX_DIM], rate[MAX_DIM];
        load_lane(a.state, lane, s.read, h);
        for (int n = 0; n < states; n++)
            rate[n] = get(a.A, c * a.A.stride[0] + n * a.A.stride[1]);
        for (int64_t t = s.begin; t < s.end; t++) {
            put(a.y, t * a.y.stride[0] + c, scan_row(a, t, c, rate, h));
            store_checkpoints(batch, a.state, lane, s, t + 1 - s.begin, h);
        }
        store_lane(a.state, lane, s.write, h);
    }
}

extern "C" int seqmix_selective_scan__cuda_simple(const seqmix_scan_args *a, void *, void *stream)
{
    const int64_t n = a->batch->n_seqs * a->x.shape[1];
    if (n == 0) return cudaSuccess;
    return dv_launch(selective_scan_kernel, blocks_for((n + THREADS - 1) / THREADS), dim3(THREADS), 0,
                     static_cast<cudaStream_t>(stream), *a, *a->batch);
}

/* Threads for n lanes of a head: whole warps. */
static dim3 head_threads(int64_t n)
{
    return dim3((unsigned)(n > 0 ? (n + 31) / 32 * 32 : 32));
}

/* ---------------------------------------------------------------- SSD */

DV_DEV float step_size(const seqmix_ssd_args &a, int64_t t, int64_t h)
{
    float delta = get(a.dt, t * a.dt.stride[0] + h * a.dt.stride[1]) + get_or(a.dt_bias, h * a.dt_bias.stride[0], 0);
    if (a.dt_softplus != 0) delta = softplus(delta);
    if (a.dt_min > 0 && delta < a.dt_min) delta = a.dt_min;
    if (a.dt_max > 0 && delta > a.dt_max) delta = a.dt_max;
    return delta;
}

/* One row on row p of the state. */
DV_DEV void ssd_row(const seqmix_ssd_args &a, int64_t t, int64_t h, int64_t p, const float *B, const float *C, float *S)
{
    const float x = get(a.x, t * a.x.stride[0] + h * a.x.stride[1] + p), delta = step_size(a, t, h);
    const float decay = decay_of(delta * get(a.A, h * a.A.stride[0])), dx = delta * x;
    float y = 0;
    for (int n = 0; n < (int)a.B.shape[2]; n++) {
        S[n] = decay * S[n] + dx * B[n];
        y += S[n] * C[n];
    }
    if (present(a.skip)) y += get(a.skip, h * a.skip.stride[0] + (a.skip.rank == 2 ? p * a.skip.stride[1] : 0)) * x;
    if (present(a.z)) y *= silu(get(a.z, t * a.z.stride[0] + h * a.z.stride[1] + p));
    put(a.y, t * a.y.stride[0] + h * a.y.stride[1] + p, y);
}

static __global__ void ssd_kernel(seqmix_ssd_args a, seqmix_batch batch)
{
    DV_SHARED(float, B, [MAX_DIM]);
    DV_SHARED(float, C, [MAX_DIM]);
    const int64_t heads = a.x.shape[1], p = threadIdx.x;
    const bool mine = p < a.x.shape[2];
    const int states = (int)a.B.shape[2];
    for (int64_t task = blockIdx.x; task < batch.n_seqs * heads; task += gridDim.x) {
        const int64_t h = task % heads, group = h / (heads / a.B.shape[1]);
        sequence s = sequence_of(batch, a.x.shape[0], a.state, (int32_t)(task / heads));
        const lane_of_state lane = {h * a.state.stride[1] + p * a.state.stride[2], a.state.stride[3],
                                    mine ? states : 0};
        if (s.begin == s.end) {
            move_lane(a.state, lane, s);
            continue;
        }
        float S[MAX_DIM];
        load_lane(a.state, lane, s.read, S);
        for (int64_t t = s.begin; t < s.end; t++) {
            __syncthreads(); /* the row before is done with */
            for (int64_t n = p; n < states; n += blockDim.x) {
                B[n] = get(a.B, t * a.B.stride[0] + group * a.B.stride[1] + n);
                C[n] = get(a.C, t * a.C.stride[0] + group * a.C.stride[1] + n);
            }
            __syncthreads();
            if (mine) ssd_row(a, t, h, p, B, C, S);
            store_checkpoints(batch, a.state, lane, s, t + 1 - s.begin, S);
        }
        store_lane(a.state, lane, s.write, S);
    }
}

extern "C" int seqmix_ssd__cuda_simple(const seqmix_ssd_args *a, void *, void *stream)
{
    const int64_t n = a->batch->n_seqs * a->x.shape[1];
    if (n == 0) return cudaSuccess;
    return dv_launch(ssd_kernel, blocks_for(n), head_threads(a->x.shape[2]), 0, static_cast<cudaStream_t>(stream), *a,
                     *a->batch);
}

/* ---------------------------------------------------------------- delta rule */

/* The first warp divides a vector in shared memory by its norm. */
DV_DEV void normalise(float *v, int dim, float eps)
{
    if (threadIdx.x >= 32) return;
    float sum = 0;
    for (int d = (int)threadIdx.x; d < dim; d += 32)
        sum += v[d] * v[d];
    const float factor = 1 / sqrtf(sum_lanes(sum) + eps);
    for (int d = (int)threadIdx.x; d < dim; d += 32)
        v[d] *= factor;
}

struct delta_row { /* of one head, in shared memory */
    float q[MAX_DIM], k[MAX_DIM], decay[MAX_DIM];
};

DV_DEV void prepare_row(const seqmix_deltanet_args &a, int64_t t, int64_t h, delta_row &row)
{
    const int64_t dim = a.k.shape[2], g = key_head_of(a, h);
    __syncthreads(); /* the row before is done with */
    for (int64_t d = threadIdx.x; d < dim; d += blockDim.x) {
        row.q[d] = get(a.q, t * a.q.stride[0] + g * a.q.stride[1] + d);
        row.k[d] = get(a.k, t * a.k.stride[0] + g * a.k.stride[1] + d);
        if (d == 0 || a.gate.rank == 3) row.decay[d] = gate_decay(a, t, h, d);
    }
    __syncthreads();
    if (a.qk_l2norm == 0) return;
    normalise(row.q, (int)dim, a.eps);
    normalise(row.k, (int)dim, a.eps);
    __syncthreads();
}

/* One row on column e of the state: decay, predict, correct, write, read. */
DV_DEV void delta_column(const seqmix_deltanet_args &a, int64_t t, int64_t h, int64_t e, const delta_row &row, float *S)
{
    const int dim = (int)a.k.shape[2];
    const bool per_channel = a.gate.rank == 3;
    float seen = 0, o = 0;
    for (int d = 0; d < dim; d++) {
        S[d] *= row.decay[per_channel ? d : 0];
        seen += S[d] * row.k[d];
    }
    const float u = beta_of(a, t, h) * (get(a.v, t * a.v.stride[0] + h * a.v.stride[1] + e) - seen);
    for (int d = 0; d < dim; d++) {
        S[d] += row.k[d] * u;
        o += S[d] * row.q[d];
    }
    put(a.o, t * a.o.stride[0] + h * a.o.stride[1] + e, delta_scale(a) * o);
}

static __global__ void deltanet_kernel(seqmix_deltanet_args a, seqmix_batch batch)
{
    DV_SHARED(delta_row, row, [1]);
    const int64_t heads = a.v.shape[1], e = threadIdx.x;
    const bool mine = e < a.v.shape[2];
    const int dim = (int)a.k.shape[2];
    for (int64_t task = blockIdx.x; task < batch.n_seqs * heads; task += gridDim.x) {
        const int64_t h = task % heads;
        sequence s = sequence_of(batch, a.v.shape[0], a.state, (int32_t)(task / heads));
        const lane_of_state lane = {h * a.state.stride[1] + e * a.state.stride[3], a.state.stride[2], mine ? dim : 0};
        if (s.begin == s.end) {
            move_lane(a.state, lane, s);
            continue;
        }
        float S[MAX_DIM];
        load_lane(a.state, lane, s.read, S);
        for (int64_t t = s.begin; t < s.end; t++) {
            prepare_row(a, t, h, row[0]);
            if (mine) delta_column(a, t, h, e, row[0], S);
            store_checkpoints(batch, a.state, lane, s, t + 1 - s.begin, S);
        }
        store_lane(a.state, lane, s.write, S);
    }
}

extern "C" int seqmix_deltanet__cuda_simple(const seqmix_deltanet_args *a, void *, void *stream)
{
    const int64_t n = a->batch->n_seqs * a->v.shape[1];
    if (n == 0) return cudaSuccess;
    return dv_launch(deltanet_kernel, blocks_for(n), head_threads(a->v.shape[2]), 0, static_cast<cudaStream_t>(stream),
                     *a, *a->batch);
}
