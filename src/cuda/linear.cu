/* SPDX-License-Identifier: MIT */
/*
 * linear on cuda-sm80: y = x W^T (+ bias, + residual). Few rows, or `invariant`: a warp has some outputs of some rows, lanes along
 * the inputs, every weight read in 16 bytes where its type allows; a row's sum has one order whatever rows are beside it. Many
 * rows: a block has a tile of rows by outputs and walks the inputs 64 at a time, tiles of both in shared memory twice, products in
 * bf16 where both are, else in tf32 (f16: exact) or f32 as three products, block-quantised weights widened on their way in.
 */
#include "blocks.cuh"
#include "ctx.h"
#include "cuda.h"
#include "tile.cuh"

namespace
{

constexpr int FEW = 16; /* rows: up to here a row's bits must not depend on the others */

struct linear_call {
    int64_t n_tasks, row_tiles;
    bool x_eights, w_eights;
};

/* Elements [offset, offset+8) of a row of any type, the first n of them; the others 0. */
DV_DEV void any_eight(const seqmix_tensor &t, int64_t offset, int n, bool eights, float (&v)[8])
{
    if (eights && n >= 8 && t.dtype == SEQMIX_F32) {
        load_eight<as_f32>(elements<as_f32>(t) + offset, v);
    } else if (eights && n >= 8 && t.dtype == SEQMIX_BF16) {
        load_eight<as_bf16>(elements<as_bf16>(t) + offset, v);
    } else if (eights && n >= 8 && t.dtype == SEQMIX_F16) {
        load_eight<as_f16>(elements<as_f16>(t) + offset, v);
    } else {
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] = e < n ? get_block(t, offset + e) : 0;
    }
}

DV_DEV void put_output(const seqmix_linear_args &a, int64_t row, int64_t output, float sum)
{
    sum += get_or(a.bias, output * a.bias.stride[0], 0);
    if (present(a.residual)) sum += get(a.residual, row * a.residual.stride[0] + output);
    put(a.y, row * a.y.stride[0] + output, sum);
}

/* ---------------------------------------------------------------- few rows */

constexpr int FEW_THREADS = 128, WARPS = FEW_THREADS / 32;

template <int ROWS, int OUTPUTS> /* of a warp */
__global__ void __launch_bounds__(FEW_THREADS) linear_few_kernel(seqmix_linear_args a, linear_call call)
{
    const int64_t inputs = a.x.shape[1], outputs = a.weight.shape[0], rows = a.x.shape[0];
    const int lane = (int)(threadIdx.x % 32);
    for (int64_t task = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; task < call.n_tasks;
         task += gridDim.x * (int64_t)WARPS) {
        const int64_t row = task % call.row_tiles * ROWS, output = task / call.row_tiles * OUTPUTS;
        float sum[OUTPUTS][ROWS] = {};
        for (int64_t i = lane * 8; i < inputs; i += 256) {
            const int n = (int)(inputs - i < 8 ? inputs - i : 8);
            float w[OUTPUTS][8];
#pragma unroll
            for (int o = 0; o < OUTPUTS; o++)
                any_eight(a.weight, (output + o < outputs ? output + o : output) * a.weight.stride[0] + i, n,
                          call.w_eights, w[o]);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                float x[8];
                if (row + r >= rows) continue;
                any_eight(a.x, (row + r) * a.x.stride[0] + i, n, call.x_eights, x);
#pragma unroll
                for (int o = 0; o < OUTPUTS; o++)
#pragma unroll
                    for (int e = 0; e < 8; e++)
                        sum[o][r] = fmaf(x[e], w[o][e], sum[o][r]);
            }
        }
#pragma unroll
        for (int o = 0; o < OUTPUTS; o++)
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const float total = sum_lanes(sum[o][r]);
                if (lane == o * ROWS + r && row + r < rows && output + o < outputs)
                    put_output(a, row + r, output + o, total);
            }
    }
}

/* ---------------------------------------------------------------- many rows */

/* A warp's tile is MT x 16 rows by NT x 8 outputs; a block's four by two of them. Both operands are T's elements. */
template <class T_, int MT_, int NT_> struct linear_form {
    typedef T_ tile;
    typedef typename T_::element element;
    static constexpr int MT = MT_, NT = NT_, THREADS = 256, M = 64 * MT_, N = 16 * NT_, K = 64,
                         PITCH = K + T_::PAD_ROWS;
    static constexpr int STAGE = (M + N) * PITCH;
    static constexpr size_t SHARED = 2 * sizeof(element) * STAGE;
};

/* `rows` rows of 64 inputs from i on at `to`, zeros around what there is. */
template <class F>
DV_DEV void load_part(typename F::element *to, int rows, const seqmix_tensor &t, int64_t first, int64_t i, bool eights,
                      float scale)
{
    for (int u = (int)threadIdx.x; u < rows * (F::K / 8); u += F::THREADS) {
        const int r = u / (F::K / 8), k = u % (F::K / 8) * 8;
        const int64_t left = t.shape[1] - i - k;
        const bool in = first + r < t.shape[0] && left > 0;
        const int n = in ? (int)(left < 8 ? left : 8) : 0;
        const int64_t offset = in ? (first + r) * t.stride[0] + i + k : 0;
        float v[8];
        any_eight(t, offset, n, eights, v);
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] = F::tile::down(scale * v[e]);
        store_eight<as_f32>(to + r * F::PITCH + k, v);
    }
}

template <class F> struct linear_loads { /* through registers, as f32 */
    static constexpr float BACK = TILE_UNSCALE;
    static DV_MEMBER void load(const seqmix_linear_args &a, const linear_call &call, typename F::element *stage,
                               int64_t row, int64_t output, int64_t i)
    {
        load_part<F>(stage, F::M, a.x, row, i, call.x_eights, TILE_SCALE);
        load_part<F>(stage + F::M * F::PITCH, F::N, a.weight, output, i, call.w_eights, 1);
    }
};

template <int MT, int NT> struct linear_loads<linear_form<tile_bf16, MT, NT>> { /* as they lie, asynchronously */
    typedef linear_form<tile_bf16, MT, NT> F;
    static constexpr float BACK = 1;
    template <int R>
    static DV_MEMBER void part(uint16_t *to, const seqmix_tensor &t, int64_t first, int64_t i, bool eights)
    {
        const int64_t rows = t.shape[0] - first, left = t.shape[1] - i;
        copy_tile<as_bf16, R, F::K, F::THREADS>(to, F::PITCH, elements<as_bf16>(t) + first * t.stride[0] + i,
                                                t.stride[0], (int)(rows < R ? rows : R),
                                                (int)(left < F::K ? left : F::K), eights);
    }
    static DV_MEMBER void load(const seqmix_linear_args &a, const linear_call &call, uint16_t *stage, int64_t row,
                               int64_t output, int64_t i)
    {
        part<F::M>(stage, a.x, row, i, call.x_eights);
        part<F::N>(stage + F::M * F::PITCH, a.weight, output, i, call.w_eights);
        dv_cp_async_commit();
    }
};

/* sum += the stage's products, summed among themselves first: no chain of additions is as long as the row. */
template <class F>
DV_DEV void multiply_stage(const typename F::element *stage, int warp_row, int warp_column,
                           float (&sum)[F::MT][F::NT][4])
{
    typedef typename F::tile tile;
    float part[F::MT][F::NT][4] = {};
#pragma unroll 1
    for (int k = 0; k < F::K; k += 32) {
        typename tile::a_part x[F::MT];
#pragma unroll
        for (int m = 0; m < F::MT; m++)
            tile::a_by_rows(x[m], stage + 16 * (warp_row * F::MT + m) * F::PITCH + k, F::PITCH);
#pragma unroll
        for (int n = 0; n < F::NT; n++) {
            typename tile::b_part w;
            tile::b_by_columns(w, stage + (F::M + 8 * (warp_column * F::NT + n)) * F::PITCH + k, F::PITCH);
#pragma unroll
            for (int m = 0; m < F::MT; m++)
                tile::multiply(part[m][n], x[m], w);
        }
    }
#pragma unroll
    for (int m = 0; m < F::MT; m++)
#pragma unroll
        for (int n = 0; n < F::NT; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[m][n][e] += part[m][n][e];
}

template <class F>
__global__ void __launch_bounds__(F::THREADS, 1) linear_tiles_kernel(seqmix_linear_args a, linear_call call)
{
    dv_smem memory;
    typename F::element *stages = memory.take<typename F::element>(2 * F::STAGE);
    const int warp_row = (int)(threadIdx.x / 32 % 4), warp_column = (int)(threadIdx.x / 128);
    const int64_t inputs = a.x.shape[1];
    for (int64_t task = blockIdx.x; task < call.n_tasks; task += gridDim.x) {
        const int64_t row = task % call.row_tiles * F::M, output = task / call.row_tiles * F::N;
        float sum[F::MT][F::NT][4] = {};
        int stage = 0;
        __syncthreads(); /* the tile before is done with */
        linear_loads<F>::load(a, call, stages, row, output, 0);
        for (int64_t i = 0; i < inputs; i += F::K, stage ^= 1) {
            dv_cp_async_wait<0>();
            __syncthreads();
            if (i + F::K < inputs)
                linear_loads<F>::load(a, call, stages + (stage ^ 1) * F::STAGE, row, output, i + F::K);
            multiply_stage<F>(stages + stage * F::STAGE, warp_row, warp_column, sum);
        }
#pragma unroll
        for (int m = 0; m < F::MT; m++)
#pragma unroll
            for (int n = 0; n < F::NT; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int64_t r = row + 16 * (warp_row * F::MT + m) + lane_g() + e / 2 * 8;
                    const int64_t o = output + 8 * (warp_column * F::NT + n) + 2 * lane_t() + e % 2;
                    if (r < a.x.shape[0] && o < a.weight.shape[0])
                        put_output(a, r, o, linear_loads<F>::BACK * sum[m][n][e]);
                }
    }
}

template <class F> static int launch_tiles(const seqmix_linear_args &a, linear_call call, void *stream)
{
    call.row_tiles = (a.x.shape[0] + F::M - 1) / F::M;
    call.n_tasks = call.row_tiles * ((a.weight.shape[0] + F::N - 1) / F::N);
    return dv_launch(linear_tiles_kernel<F>, blocks_for(call.n_tasks), dim3(F::THREADS), F::SHARED,
                     static_cast<cudaStream_t>(stream), a, call);
}

static int launch_few(const seqmix_linear_args &a, linear_call call, void *stream)
{
    constexpr int ROWS = 4, OUTPUTS = 2;
    call.row_tiles = (a.x.shape[0] + ROWS - 1) / ROWS;
    call.n_tasks = call.row_tiles * ((a.weight.shape[0] + OUTPUTS - 1) / OUTPUTS);
    return dv_launch(linear_few_kernel<ROWS, OUTPUTS>, blocks_for((call.n_tasks + WARPS - 1) / WARPS),
                     dim3(FEW_THREADS), 0, static_cast<cudaStream_t>(stream), a, call);
}

} /* namespace */

extern "C" seqmix_status seqmix_linear_plan__cuda_sm80(const struct seqmix_context *, const seqmix_linear_args *a,
                                                       struct seqmix_plan *plan)
{
    if (a->x.shape[1] == 0) return SEQMIX_ERR_UNSUPPORTED; /* no inputs: pointers may be NULL */
    plan->kernel = a->x.shape[0] <= FEW || a->invariant != 0 ? "cuda-sm80/linear_few" : "cuda-sm80/linear_tiles";
    plan->grain = 1;
    return SEQMIX_OK;
}

extern "C" int seqmix_linear__cuda_sm80(const struct seqmix_context *ctx, const seqmix_linear_args *a, void *)
{
    linear_call call = {};
    call.x_eights = in_eights(a->x);
    call.w_eights = a->weight.dtype <= SEQMIX_F16 && in_eights(a->weight);
    if (a->x.shape[0] == 0 || a->weight.shape[0] == 0) return cudaSuccess;
    if (a->x.shape[0] <= FEW || a->invariant != 0) return launch_few(*a, call, ctx->stream);
    if (a->x.dtype == SEQMIX_BF16 && a->weight.dtype == SEQMIX_BF16)
        return launch_tiles<linear_form<tile_bf16, 2, 8>>(*a, call, ctx->stream);
    if (a->x.dtype == SEQMIX_F16 && a->weight.dtype == SEQMIX_F16)
        return launch_tiles<linear_form<tile_tf32<1>, 1, 4>>(*a, call, ctx->stream);
    return launch_tiles<linear_form<tile_tf32<3>, 1, 4>>(*a, call, ctx->stream);
}
