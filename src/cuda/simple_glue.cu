/* SPDX-License-Identifier: MIT */
/*
 * Rung cuda-simple, what joins the mixers into a model: rope_rows (a block per row and head, a thread per pair), act_rows (a
 * thread per element) and argmax (a block per row).
 */
#include <math.h>

#include "cuda.h"
#include "rows.cuh"

constexpr int THREADS = 128, WARPS = THREADS / 32;
static_assert(MAX_DIM / 2 <= THREADS, "a thread per pair of channels");

/* ---------------------------------------------------------------- rope_rows */

struct rope_turns {
    uint64_t of[MAX_DIM / 2]; /* of pair i: 2^-64 turns per position */
};

/*
 * cos and sin of phase * 2^-64 turns, within 1.5 ulp of 1: what is left of the eighth of a turn nearest to it goes through two
 * polynomials.
 */
DV_DEV void phase_cos_sin(uint64_t phase, float *c, float *s)
{
    const uint64_t eighth = (uint64_t)1 << 61;
    const unsigned quarter = (unsigned)((phase + eighth) >> 62) & 3u;
    const int64_t rest = (int64_t)((phase + eighth) & (((uint64_t)1 << 62) - 1)) - (int64_t)eighth;
    const float x = (float)rest * (0x1p-64f * 6.28318530718f), z = x * x;
    const float sine = x + x * z * (-1.6666654611e-1f + z * (8.3321608736e-3f + z * -1.9515295891e-4f));
    const float cosine =
        1 - 0.5f * z + z * z * (4.166664568298827e-2f + z * (-1.388731625493765e-3f + z * 2.443315711809948e-5f));
    const float u = (quarter & 1u) != 0 ? sine : cosine, v = (quarter & 1u) != 0 ? cosine : sine;
    *c = quarter == 1 || quarter == 2 ? -u : u;
    *s = quarter >= 2 ? -v : v;
}

/* y may be x: a thread reads both elements of its pair before it writes them. */
static __global__ void rope_kernel(seqmix_rope_args a, rope_turns turns, int n)
{
    const int64_t heads = a.x.shape[1], n_tasks = a.x.shape[0] * heads;
    const int i = (int)threadIdx.x, channels = (int)a.x.shape[2];
    for (int64_t task = blockIdx.x; task < n_tasks; task += gridDim.x) {
        const int64_t r = task / heads, h = task % heads;
        const int64_t x = r * a.x.stride[0] + h * a.x.stride[1], y = r * a.y.stride[0] + h * a.y.stride[1];
        if (i < n / 2) {
            const bool neox = a.pairing == SEQMIX_ROPE_NEOX;
            const int first = neox ? i : 2 * i, second = neox ? i + n / 2 : 2 * i + 1;
            const float u = get(a.x, x + first), v = get(a.x, x + second);
            float c, s;
            phase_cos_sin((uint64_t)a.positions[r] * turns.of[i], &c, &s);
            put(a.y, y + first, u * c - v * s);
            put(a.y, y + second, v * c + u * s);
        }
        for (int d = n + i; d < channels; d += THREADS)
            put(a.y, y + d, get(a.x, x + d));
    }
}

/* freq_scale * theta^(-2i/n) / (2 pi) turns; what exceeds whole turns does not count. */
static uint64_t turns_of(const seqmix_rope_args *a, int i, int n)
{
    const double scale = a->freq_scale != 0 ? (double)a->freq_scale : 1;
    const double turns = scale * pow((double)a->theta, -2.0 * i / n) * 0.15915494309189533577;
    const double part = turns - floor(turns);
    return part < 1 ? (uint64_t)(part * 0x1p64) : 0; /* not a number: no turn */
}

extern "C" int seqmix_rope__cuda_simple(const seqmix_rope_args *a, void *, void *stream)
{
    const int64_t n_tasks = a->x.shape[0] * a->x.shape[1];
    const int n = a->n_dims != 0 ? a->n_dims : (int)a->x.shape[2];
    rope_turns turns = {};
    if (n_tasks == 0) return cudaSuccess;
    for (int i = 0; i < n / 2; i++)
        turns.of[i] = turns_of(a, i, n);
    return dv_launch(rope_kernel, blocks_for(n_tasks), dim3(THREADS), 0, static_cast<cudaStream_t>(stream), *a, turns,
                     n);
}

/* ---------------------------------------------------------------- act_rows */

/* y may be a or b: a thread reads what it needs of them before it writes; a of one column is no view of y. */
static __global__ void act_kernel(seqmix_act_args args)
{
    const int64_t channels = args.y.shape[1], n_tasks = args.y.shape[0] * channels;
    for (int64_t task = blockIdx.x * (int64_t)THREADS + threadIdx.x; task < n_tasks;
         task += gridDim.x * (int64_t)THREADS) {
        const int64_t r = task / channels, i = task % channels;
        const float a = get(args.a, r * args.a.stride[0] + (args.a.shape[1] == 1 ? 0 : i));
        const float b = get_or(args.b, r * args.b.stride[0] + i, 1);
        put(args.y, r * args.y.stride[0] + i, activation(args.kind, a, b));
    }
}

extern "C" int seqmix_act__cuda_simple(const seqmix_act_args *a, void *, void *stream)
{
    const int64_t n = a->y.shape[0] * a->y.shape[1];
    if (n == 0) return cudaSuccess;
    return dv_launch(act_kernel, blocks_for((n + THREADS - 1) / THREADS), dim3(THREADS), 0,
                     static_cast<cudaStream_t>(stream), *a);
}

/* ---------------------------------------------------------------- argmax */

struct candidate {
    float value;
    int64_t index; /* -1: none */
};

/* The greater, of equals the first; a NaN is no candidate. */
DV_DEV candidate greater_of(candidate a, candidate b)
{
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    if (a.value == b.value) return a.index < b.index ? a : b;
    return a.value > b.value ? a : b;
}

static __global__ void argmax_kernel(seqmix_argmax_args a)
{
    DV_SHARED(candidate, of_warp, [WARPS]);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    for (int64_t r = blockIdx.x; r < a.x.shape[0]; r += gridDim.x) {
        candidate best = {0, -1};
        for (int64_t i = threadIdx.x; i < a.x.shape[1]; i += THREADS) {
            const float x = get(a.x, r * a.x.stride[0] + i);
            best = greater_of(best, {x, x == x ? i : -1});
        }
        for (int bits = 16; bits > 0; bits /= 2)
            best = greater_of(
                best, {__shfl_xor_sync(ALL_LANES, best.value, bits), __shfl_xor_sync(ALL_LANES, best.index, bits)});
        if (lane == 0) of_warp[warp] = best;
        __syncthreads();
        for (int w = 1; threadIdx.x == 0 && w < WARPS; w++)
            best = greater_of(best, of_warp[w]);
        if (threadIdx.x == 0) static_cast<int32_t *>(a.index.data)[r * a.index.stride[0]] = (int32_t)best.index;
        __syncthreads(); /* before the next row's */
    }
}

extern "C" int seqmix_argmax__cuda_simple(const seqmix_argmax_args *a, void *, void *stream)
{
    if (a->x.shape[0] == 0) return cudaSuccess;
    return dv_launch(argmax_kernel, blocks_for(a->x.shape[0]), dim3(THREADS), 0, static_cast<cudaStream_t>(stream), *a);
}
