/* SPDX-License-Identifier: MIT */
/*
 * Rung cuda-simple, what has no state: the gated norm (a warp per row and group), the inverse (a thread per column), linear (a
 * warp per row and output) and embed_rows (a thread per element). Sums go over the lanes in a fixed order.
 */
#include "blocks.cuh"
#include "cuda.h"
#include "rows.cuh"

constexpr int THREADS = 128, WARPS = THREADS / 32;

/* ---------------------------------------------------------------- gated RMSNorm */

DV_DEV float norm_gate(const seqmix_norm_args &a, int64_t t, int64_t i)
{
    const float z = get(a.z, t * a.z.stride[0] + i);
    return a.gate_act == SEQMIX_NORM_GATE_SIGMOID ? sigmoid(z) : silu(z);
}

/* What the norm sees at element i of row t. */
DV_DEV float norm_input(const seqmix_norm_args &a, int64_t t, int64_t i)
{
    const float x = get(a.x, t * a.x.stride[0] + i);
    return present(a.z) && a.norm_before_gate == 0 ? x * norm_gate(a, t, i) : x;
}

/* y may be x or z: a lane reads an element, both times, before it writes it. */
static __global__ void gated_rms_norm_kernel(seqmix_norm_args a, int64_t group, int64_t n_tasks)
{
    const int64_t groups = a.x.shape[1] / group, lane = threadIdx.x % 32;
    for (int64_t task = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; task < n_tasks;
         task += gridDim.x * (int64_t)WARPS) {
        const int64_t t = task / groups, first = task % groups * group, end = first + group;
        float sum = 0;
        for (int64_t i = first + lane; i < end; i += 32) {
            const float u = norm_input(a, t, i);
            sum += u * u;
        }
        const float factor = 1 / sqrtf(sum_lanes(sum) / (float)group + a.eps);
        for (int64_t i = first + lane; i < end; i += 32) {
            float y = norm_input(a, t, i) * factor;
            if (present(a.weight)) {
                const float weight = get(a.weight, i % a.weight.shape[0] * a.weight.stride[0]);
                y *= a.weight_plus_one != 0 ? 1 + weight : weight;
            }
            if (present(a.z) && a.norm_before_gate != 0) y *= norm_gate(a, t, i);
            put(a.y, t * a.y.stride[0] + i, y);
        }
    }
}

extern "C" int seqmix_gated_rms_norm__cuda_simple(const seqmix_norm_args *a, void *, void *stream)
{
    const int64_t group = a->group > 0 ? a->group : a->x.shape[1];
    if (a->x.shape[0] == 0 || group == 0) return cudaSuccess;
    const int64_t n = a->x.shape[0] * (a->x.shape[1] / group);
    return dv_launch(gated_rms_norm_kernel, blocks_for((n + WARPS - 1) / WARPS), dim3(THREADS), 0,
                     static_cast<cudaStream_t>(stream), *a, group, n);
}

/* ---------------------------------------------------------------- unit lower inverse */

/* Column j of X = (I + L)^-1: X_jj = 1, X_ij = -sum_{j<=k<i} L_ik X_kj. In the workspace, since inv may be a. */
static __global__ void inverse_columns_kernel(seqmix_inverse_args args, float *work, int64_t n, int64_t n_tasks)
{
    const seqmix_tensor &a = args.a;
    const int64_t row = a.stride[a.rank - 2], column = a.stride[a.rank - 1];
    for (int64_t task = blockIdx.x * (int64_t)THREADS + threadIdx.x; task < n_tasks;
         task += gridDim.x * (int64_t)THREADS) {
        const int64_t j = task % n, base = matrix_offset(a, task / n);
        float *x = work + task / n * n * n + j;
        x[j * n] = 1;
        for (int64_t i = j + 1; i < n; i++) {
            float sum = 0;
            for (int64_t k = j; k < i; k++)
                sum -= get(a, base + i * row + k * column) * x[k * n];
            x[i * n] = sum;
        }
    }
}

static __global__ void inverse_copy_kernel(seqmix_inverse_args args, const float *work, int64_t n, int64_t n_tasks)
{
    const seqmix_tensor &inv = args.inv;
    for (int64_t task = blockIdx.x * (int64_t)THREADS + threadIdx.x; task < n_tasks;
         task += gridDim.x * (int64_t)THREADS) {
        const int64_t i = task / n % n, j = task % n, base = matrix_offset(inv, task / n / n);
        put(inv, base + i * inv.stride[inv.rank - 2] + j * inv.stride[inv.rank - 1], j <= i ? work[task] : 0);
    }
}

extern "C" int seqmix_unit_lower_inverse__cuda_simple(const seqmix_inverse_args *a, void *workspace, void *stream)
{
    const int64_t n = a->a.shape[a->a.rank - 1];
    int64_t matrices = 1;
    for (int axis = 0; axis < a->a.rank - 2; axis++)
        matrices *= a->a.shape[axis];
    if (matrices == 0) return cudaSuccess;
    float *work = static_cast<float *>(workspace);
    const cudaError_t error = dv_launch(inverse_columns_kernel, blocks_for((matrices * n + THREADS - 1) / THREADS),
                                        dim3(THREADS), 0, static_cast<cudaStream_t>(stream), *a, work, n, matrices * n);
    if (error != cudaSuccess) return error;
    return dv_launch(inverse_copy_kernel, blocks_for((matrices * n * n + THREADS - 1) / THREADS), dim3(THREADS), 0,
                     static_cast<cudaStream_t>(stream), *a, static_cast<const float *>(work), n, matrices * n * n);
}

/* ---------------------------------------------------------------- linear */

static __global__ void linear_kernel(seqmix_linear_args a)
{
    const int64_t outputs = a.weight.shape[0], inputs = a.x.shape[1], n_tasks = a.x.shape[0] * outputs;
    const int64_t lane = threadIdx.x % 32;
    for (int64_t task = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; task < n_tasks;
         task += gridDim.x * (int64_t)WARPS) {
        const int64_t t = task / outputs, o = task % outputs;
        float sum = dot_lanes(a.x, t * a.x.stride[0], a.weight, o * a.weight.stride[0], inputs);
        if (lane != 0) continue;
        sum += get_or(a.bias, o * a.bias.stride[0], 0);
        if (present(a.residual)) sum += get(a.residual, t * a.residual.stride[0] + o);
        put(a.y, t * a.y.stride[0] + o, sum);
    }
}

extern "C" int seqmix_linear__cuda_simple(const seqmix_linear_args *a, void *, void *stream)
{
    const int64_t n = a->x.shape[0] * a->weight.shape[0];
    if (n == 0) return cudaSuccess;
    return dv_launch(linear_kernel, blocks_for((n + WARPS - 1) / WARPS), dim3(THREADS), 0,
                     static_cast<cudaStream_t>(stream), *a);
}

/* ---------------------------------------------------------------- embed_rows */

/* A token outside the table, which the host cannot see, gives zeros. */
static __global__ void embed_kernel(seqmix_embed_args a)
{
    const int64_t channels = a.y.shape[1], n_tasks = a.n_tokens * channels;
    for (int64_t task = blockIdx.x * (int64_t)THREADS + threadIdx.x; task < n_tasks;
         task += gridDim.x * (int64_t)THREADS) {
        const int64_t t = task / channels, i = task % channels, token = a.tokens[t];
        const bool known = token >= 0 && token < a.table.shape[0];
        put(a.y, t * a.y.stride[0] + i, known ? get_block(a.table, token * a.table.stride[0] + i) : 0);
    }
}

extern "C" int seqmix_embed__cuda_simple(const seqmix_embed_args *a, void *, void *stream)
{
    const int64_t n = a->n_tokens * a->y.shape[1];
    if (n == 0) return cudaSuccess;
    return dv_launch(embed_kernel, blocks_for((n + THREADS - 1) / THREADS), dim3(THREADS), 0,
                     static_cast<cudaStream_t>(stream), *a);
}
