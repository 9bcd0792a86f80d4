/* SPDX-License-Identifier: MIT */
/*
 * unit_lower_inverse on rung cuda-sm80: X = (I + L)^-1 of matrices up to 128 x 128, a block each, all in f32 and in shared memory.
 * 16 x 16 blocks on the diagonal by forward substitution, a lane per column; then pairs of blocks, twice as large each time:
 *   X21 = -X22 (L21 X11), L21 X11 in the corner of X above the diagonal
 * Sums run over exactly the k that the triangles leave, so that a NaN goes where the recurrence takes it.
 */
#include "ctx.h"
#include "cuda.h"
#include "rows.cuh"

constexpr int SIDE = 16, MAX_SIDE = 128;

/* Rows of shared memory so long that the halves of a warp, a block on the diagonal apart, meet different banks. */
template <int N> struct form {
    static constexpr int PITCH = N + 4, THREADS = N <= 32 ? 32 : 2 * N;
    static constexpr size_t SHARED = 2 * N * PITCH * sizeof(float);
};

/* The blocks on the diagonal, each by half a warp. */
template <int N> DV_DEV void invert_diagonal(const float *L, float *X)
{
    constexpr int PITCH = form<N>::PITCH;
    const int block = (int)threadIdx.x / SIDE, column = (int)threadIdx.x % SIDE;
    if (block >= N / SIDE) return;
    L += block * SIDE * (PITCH + 1);
    X += block * SIDE * (PITCH + 1);
    float x[SIDE];
#pragma unroll
    for (int i = 0; i < SIDE; i++)
        x[i] = i == column ? 1 : 0;
#pragma unroll
    for (int j = 0; j < SIDE - 1; j++)
#pragma unroll
        for (int i = j + 1; i < SIDE; i++)
            x[i] = j >= column ? fmaf(-L[i * PITCH + j], x[j], x[i]) : x[i];
#pragma unroll
    for (int i = 0; i < SIDE; i++)
        X[i * PITCH + column] = x[i];
}

/* Four rows from `row` on of a column of L21 X11, where X11 has SIZE columns. */
template <int N> DV_DEV void mix_above(const float *L, const float *X, int row, int column, int size, float *out)
{
    constexpr int PITCH = form<N>::PITCH;
    float sum[4] = {0, 0, 0, 0};
    for (int k = column; k < size; k++) {
        const float x = X[k * PITCH + column];
#pragma unroll
        for (int r = 0; r < 4; r++)
            sum[r] = fmaf(L[(row + r) * PITCH + k], x, sum[r]);
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
        out[(row + r) * PITCH + column] = sum[r];
}

/* Four rows from `row` on of a column of -X22 W. */
template <int N> DV_DEV void solve_below(const float *X, const float *W, int row, int column, float *out)
{
    constexpr int PITCH = form<N>::PITCH;
    float sum[4] = {0, 0, 0, 0};
    for (int k = 0; k < row; k++) {
        const float w = W[k * PITCH + column];
#pragma unroll
        for (int r = 0; r < 4; r++)
            sum[r] = fmaf(-X[(row + r) * PITCH + k], w, sum[r]);
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int r = k; r < 4; r++)
            sum[r] = fmaf(-X[(row + r) * PITCH + row + k], W[(row + k) * PITCH + column], sum[r]);
#pragma unroll
    for (int r = 0; r < 4; r++)
        out[(row + r) * PITCH + column] = sum[r];
}

template <int N>
static __global__ void __launch_bounds__(form<N>::THREADS, N <= 64 ? 4 : 2)
    inverse_kernel(seqmix_inverse_args args, int64_t matrices)
{
    constexpr int PITCH = form<N>::PITCH, THREADS = form<N>::THREADS;
    dv_smem shared;
    float *L = shared.take<float>(N * PITCH), *X = shared.take<float>(N * PITCH);
    const seqmix_tensor &a = args.a, &inv = args.inv;
    const int n = (int)a.shape[a.rank - 1];
    for (int64_t matrix = blockIdx.x; matrix < matrices; matrix += gridDim.x) {
        const int64_t from = matrix_offset(a, matrix), to = matrix_offset(inv, matrix);
        for (int e = (int)threadIdx.x; e < N * N; e += THREADS) {
            const int i = e / N, j = e % N;
            L[i * PITCH + j] = j < i && i < n ? get(a, from + i * a.stride[a.rank - 2] + j * a.stride[a.rank - 1]) : 0;
        }
        __syncthreads();
        invert_diagonal<N>(L, X);
        __syncthreads();
        for (int size = SIDE; size < N; size *= 2) {
            const int tasks = size * size / 4; /* of a pair: four rows of a column */
            for (int e = (int)threadIdx.x; e < N / size / 2 * tasks; e += THREADS) {
                const int first = e / tasks * 2 * size * (PITCH + 1), row = e % tasks / size * 4, column = e % size;
                mix_above<N>(L + first + size * PITCH, X + first, row, column, size, X + first + size);
            }
            __syncthreads();
            for (int e = (int)threadIdx.x; e < N / size / 2 * tasks; e += THREADS) {
                const int first = e / tasks * 2 * size * (PITCH + 1), row = e % tasks / size * 4, column = e % size;
                solve_below<N>(X + first + size * (PITCH + 1), X + first + size, row, column, X + first + size * PITCH);
            }
            __syncthreads();
        }
        for (int e = (int)threadIdx.x; e < N * N; e += THREADS) {
            const int i = e / N, j = e % N;
            if (i < n && j < n)
                put(inv, to + i * inv.stride[inv.rank - 2] + j * inv.stride[inv.rank - 1],
                    j <= i ? X[i * PITCH + j] : 0);
        }
        __syncthreads();
    }
}

template <int N> static cudaError_t launch(const struct seqmix_context *ctx, const seqmix_inverse_args *a)
{
    int64_t matrices = 1;
    for (int axis = 0; axis < a->a.rank - 2; axis++)
        matrices *= a->a.shape[axis];
    if (matrices == 0) return cudaSuccess;
    return dv_launch(inverse_kernel<N>, blocks_for(matrices), dim3(form<N>::THREADS), form<N>::SHARED,
                     static_cast<cudaStream_t>(ctx->stream), *a, matrices);
}

extern "C" seqmix_status seqmix_unit_lower_inverse_plan__cuda_sm80(const struct seqmix_context *ctx,
                                                                   const seqmix_inverse_args *a,
                                                                   struct seqmix_plan *plan)
{
    const int64_t n = a->a.shape[a->a.rank - 1]; /* some cards give a block 99 KiB: too little for 128 */
    if (n > MAX_SIDE || (n > 64 && form<128>::SHARED > (size_t)ctx->shared_bytes)) return SEQMIX_ERR_UNSUPPORTED;
    plan->kernel = "cuda-sm80/unit_lower_inverse";
    plan->workspace = 0;
    plan->grain = 1;
    return SEQMIX_OK;
}

extern "C" int seqmix_unit_lower_inverse__cuda_sm80(const struct seqmix_context *ctx, const seqmix_inverse_args *a,
                                                    void *)
{
    const int64_t n = a->a.shape[a->a.rank - 1];
    return n <= 16   ? launch<16>(ctx, a)
           : n <= 32 ? launch<32>(ctx, a)
           : n <= 64 ? launch<64>(ctx, a)
                     : launch<128>(ctx, a);
}

extern "C" int seqmix_unit_lower_inverse_prepare__cuda_sm80(int shared_bytes)
{
    return dv_allow_shared(shared_bytes, inverse_kernel<128>);
}
