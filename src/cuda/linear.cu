/* SPDX-License-Identifier: MIT */
/*
 * linear on cuda-sm80: y = x W^T (+ bias, + residual). Few rows, or `invariant`: one, two or four warps have some outputs of some
 * rows, lanes along the inputs, eight neighbours each, block-quantised ones too; a row's sum has one order whatever rows are beside
 * it. Many rows: cuBLASLt's if the machine has it (cublaslt.c), else a block has a tile of rows by outputs and walks the inputs 64
 * at a time, tiles of both in shared memory twice, products in bf16 where both are, else in tf32 (f16: exact) or f32 as three
 * products. Block-quantised weights are widened on their way in, by rows of bf16 to three bf16 each.
 */
#include "block_eights.cuh"
#include "ctx.h"
#include "cublaslt.h"
#include "cuda.h"
#include "tile.cuh"

namespace
{

constexpr int FEW = 16; /* rows: up to here a row's bits must not depend on the others */

struct linear_call {
    int64_t n_tasks, row_tiles;
    int split; /* few rows: warps that share a task's inputs */
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
constexpr int ROWS = 4, OUTPUTS = 4; /* of a warp's task */
constexpr int CHUNK = 256;           /* inputs that a warp takes at a time */

template <class X> DV_DEV void load_rows(const seqmix_tensor &x, int64_t row, int live, int64_t i, float (&v)[ROWS][8])
{
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (r < live) load_eight<X>(elements<X>(x) + (row + r) * x.stride[0] + i, v[r]);
}

DV_DEV void load_rows(const seqmix_tensor &x, int64_t row, int live, int64_t i, float (&v)[ROWS][8])
{
    if (x.dtype == SEQMIX_BF16)
        load_rows<as_bf16>(x, row, live, i, v);
    else if (x.dtype == SEQMIX_F16)
        load_rows<as_f16>(x, row, live, i, v);
    else
        load_rows<as_f32>(x, row, live, i, v);
}

/* Index of output + o, or of the last one. */
DV_DEV int64_t output_or_last(const seqmix_linear_args &a, int64_t output, int o)
{
    return output + o < a.weight.shape[0] ? output + o : a.weight.shape[0] - 1;
}

/* The sums of all lanes' v[k]: lane l gets that of k = l * N / 32. Every k is summed in the same order. */
template <int N> DV_DEV float sum_lanes_of(float (&v)[N])
{
#pragma unroll
    for (int step = 0; step < 5; step++) {
        const int bits = 16 >> step, half = N >> (step + 1);
        const bool upper = (threadIdx.x & bits) != 0;
        if (half == 0) v[0] += __shfl_xor_sync(ALL_LANES, v[0], bits);
#pragma unroll
        for (int k = 0; k < N / 2; k++)
            if (k < half) {
                const float kept = upper ? v[k + half] : v[k], given = upper ? v[k] : v[k + half];
                v[k] = kept + __shfl_xor_sync(ALL_LANES, given, bits);
            }
    }
    return v[0];
}

/* sum[o * ROWS + r] += the products of eight inputs. Both by eights: all of an eight's loads are on their way at once. */
template <int DTYPE> struct few_eight {
    typedef eight_of<DTYPE> eight;
    static DV_MEMBER void add(const seqmix_linear_args &a, int64_t row, int live, int64_t output, int64_t i,
                              float (&sum)[OUTPUTS * ROWS])
    {
        raw_eight raw[OUTPUTS];
        float x[ROWS][8];
#pragma unroll
        for (int o = 0; o < OUTPUTS; o++)
            eight::fetch(static_cast<const uint8_t *>(a.weight.data) +
                             output_or_last(a, output, o) * a.weight.stride[0] / eight::BLOCK * eight::BYTES,
                         i, raw[o]);
        load_rows(a.x, row, live, i, x);
#pragma unroll
        for (int o = 0; o < OUTPUTS; o++) {
            float w[8];
            eight::widen(raw[o], i, w);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if (r < live) {
#pragma unroll
                    for (int e = 0; e < 8; e++)
                        sum[o * ROWS + r] = fmaf(x[r][e], w[e], sum[o * ROWS + r]);
                }
        }
    }
};

/* Any types and strides: element by element, in the same order. */
template <> struct few_eight<0> {
    static DV_MEMBER void add(const seqmix_linear_args &a, int64_t row, int live, int64_t output, int64_t i,
                              float (&sum)[OUTPUTS * ROWS])
    {
        const int64_t end = i + 8 < a.x.shape[1] ? i + 8 : a.x.shape[1];
#pragma unroll 1
        for (; i < end; i++) {
            float x[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                x[r] = r < live ? get(a.x, (row + r) * a.x.stride[0] + i) : 0;
#pragma unroll
            for (int o = 0; o < OUTPUTS; o++) {
                const float w = get_block(a.weight, output_or_last(a, output, o) * a.weight.stride[0] + i);
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    sum[o * ROWS + r] = fmaf(x[r], w, sum[o * ROWS + r]);
            }
        }
    }
};

template <int DTYPE> /* 0: any */
__global__ void __launch_bounds__(FEW_THREADS, DTYPE == SEQMIX_Q5_K || DTYPE == SEQMIX_F32 ? 3 : 4)
    linear_few_kernel(seqmix_linear_args a, linear_call call)
{
    DV_SHARED(float, parts, [WARPS][OUTPUTS * ROWS]);
    const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32), part = warp % call.split;
    const int tasks = WARPS / call.split;
    for (int64_t group = blockIdx.x; group * tasks < call.n_tasks; group += gridDim.x) {
        const int64_t task = group * tasks + warp / call.split;
        const int64_t row = task % call.row_tiles * ROWS, output = task / call.row_tiles * OUTPUTS;
        float sum[OUTPUTS * ROWS] = {};
        if (task < call.n_tasks) {
            const int live = (int)(a.x.shape[0] - row < ROWS ? a.x.shape[0] - row : ROWS);
#pragma unroll 1
            for (int64_t i = part * CHUNK + lane * 8; i < a.x.shape[1]; i += call.split * CHUNK)
                few_eight<DTYPE>::add(a, row, live, output, i, sum);
        }
        const float total = sum_lanes_of(sum);
        if (lane % 2 == 0) parts[warp][lane / 2] = total;
        __syncthreads();
        const int64_t r = row + lane % ROWS, o = output + lane / ROWS;
        if (part == 0 && lane < OUTPUTS * ROWS && r < a.x.shape[0] && o < a.weight.shape[0]) {
            float y = parts[warp][lane];
            for (int p = 1; p < call.split; p++)
                y += parts[warp + p][lane];
            put_output(a, r, o, y);
        }
        __syncthreads();
    }
}

/* ---------------------------------------------------------------- many rows */

/* A warp's tile is MT x 16 rows by NT x 8 outputs; a block's four by two of them. Both operands are T's elements, the weights the
 * sum of PLANES tiles. */
template <class T_, int MT_, int NT_, int PLANES_ = 1> struct linear_form {
    typedef T_ tile;
    typedef typename T_::element element;
    static constexpr int MT = MT_, NT = NT_, PLANES = PLANES_, THREADS = 256, M = 64 * MT_, N = 16 * NT_, K = 64,
                         PITCH = K + T_::PAD_ROWS;
    static constexpr int STAGE = (M + PLANES_ * N) * PITCH;
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
        float v[8] = {};
        if (eights && t.dtype > SEQMIX_F16) {
            raw_eight raw;
            if (in) fetch_block_eight(t, first + r, i + k, raw);
            if (in) widen_block_eight(t, raw, i + k, v);
        } else {
            any_eight(t, offset, n, eights, v);
        }
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] = F::tile::down(scale * v[e]);
        store_eight<as_f32>(to + r * F::PITCH + k, v);
    }
}

/* A stage's loads: begin() before the products of the stage before, end() after them. */
template <class F> struct linear_loads { /* through registers, as f32 */
    static constexpr float BACK = TILE_UNSCALE;
    DV_MEMBER void begin(const seqmix_linear_args &a, const linear_call &call, typename F::element *stage, int64_t row,
                         int64_t output, int64_t i)
    {
        load_part<F>(stage, F::M, a.x, row, i, call.x_eights, TILE_SCALE);
        load_part<F>(stage + F::M * F::PITCH, F::N, a.weight, output, i, call.w_eights, 1);
    }
    DV_MEMBER void end(const seqmix_linear_args &, const linear_call &, typename F::element *, int64_t, int64_t) {}
};

/* R rows of bf16 as they lie, asynchronously. */
template <class F, int R>
DV_DEV void copy_part(uint16_t *to, const seqmix_tensor &t, int64_t first, int64_t i, bool eights)
{
    const int64_t rows = t.shape[0] - first, left = t.shape[1] - i;
    copy_tile<as_bf16, R, F::K, F::THREADS>(to, F::PITCH, elements<as_bf16>(t) + first * t.stride[0] + i, t.stride[0],
                                            (int)(rows < R ? rows : R), (int)(left < F::K ? left : F::K), eights);
}

template <int MT, int NT> struct linear_loads<linear_form<tile_bf16, MT, NT, 1>> {
    typedef linear_form<tile_bf16, MT, NT, 1> F;
    static constexpr float BACK = 1;
    DV_MEMBER void begin(const seqmix_linear_args &a, const linear_call &call, uint16_t *stage, int64_t row,
                         int64_t output, int64_t i)
    {
        copy_part<F, F::M>(stage, a.x, row, i, call.x_eights);
        copy_part<F, F::N>(stage + F::M * F::PITCH, a.weight, output, i, call.w_eights);
        dv_cp_async_commit();
    }
    DV_MEMBER void end(const seqmix_linear_args &, const linear_call &, uint16_t *, int64_t, int64_t) {}
};

/* Rows of bf16 by block-quantised weights: three bf16 make an f32, each what the roundings before it left. */
template <int MT, int NT> struct linear_loads<linear_form<tile_bf16, MT, NT, 3>> {
    typedef linear_form<tile_bf16, MT, NT, 3> F;
    static constexpr float BACK = 1;
    static constexpr int EIGHTS = F::N * F::K / 8 / F::THREADS; /* of a thread */
    raw_eight raw[EIGHTS];

    static DV_MEMBER int64_t output_of(int k, int64_t output)
    {
        return output + ((int)threadIdx.x + k * F::THREADS) / 8;
    }
    static DV_MEMBER int64_t input_of(int64_t i) { return i + (int)threadIdx.x % 8 * 8; }
    DV_MEMBER void begin(const seqmix_linear_args &a, const linear_call &call, uint16_t *stage, int64_t row,
                         int64_t output, int64_t i)
    {
        copy_part<F, F::M>(stage, a.x, row, i, call.x_eights);
        dv_cp_async_commit();
        if (!call.w_eights || input_of(i) >= a.x.shape[1]) return;
#pragma unroll
        for (int k = 0; k < EIGHTS; k++)
            if (output_of(k, output) < a.weight.shape[0])
                fetch_block_eight(a.weight, output_of(k, output), input_of(i), raw[k]);
    }
    DV_MEMBER void end(const seqmix_linear_args &a, const linear_call &call, uint16_t *stage, int64_t output, int64_t i)
    {
#pragma unroll
        for (int k = 0; k < EIGHTS; k++) {
            const int64_t o = output_of(k, output), in = input_of(i);
            uint16_t *to = stage + (F::M + (int)(o - output)) * F::PITCH + (int)(in - i);
            float v[8] = {};
            if (o < a.weight.shape[0] && in < a.x.shape[1]) {
                if (call.w_eights)
                    widen_block_eight(a.weight, raw[k], in, v);
                else
                    any_eight(a.weight, o * a.weight.stride[0] + in, 8, false, v);
            }
#pragma unroll
            for (int plane = 0; plane < F::PLANES; plane++) {
                store_eight<as_bf16>(to + plane * F::N * F::PITCH, v);
#pragma unroll
                for (int e = 0; e < 8; e++)
                    v[e] = tile_bf16::rest(v[e]);
            }
        }
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
#pragma unroll
            for (int plane = F::PLANES - 1; plane >= 0; plane--) {
                const int first = F::M + plane * F::N + 8 * (warp_column * F::NT + n);
                typename tile::b_part w;
                tile::b_by_columns(w, stage + first * F::PITCH + k, F::PITCH);
#pragma unroll
                for (int m = 0; m < F::MT; m++)
                    tile::multiply(part[m][n], x[m], w);
            }
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
        linear_loads<F> loads;
        int stage = 0;
        __syncthreads(); /* the tile before is done with */
        loads.begin(a, call, stages, row, output, 0);
        loads.end(a, call, stages, output, 0);
        for (int64_t i = 0; i < inputs; i += F::K, stage ^= 1) {
            typename F::element *next = stages + (stage ^ 1) * F::STAGE;
            const bool more = i + F::K < inputs;
            dv_cp_async_wait<0>();
            __syncthreads();
            if (more) loads.begin(a, call, next, row, output, i + F::K);
            multiply_stage<F>(stages + stage * F::STAGE, warp_row, warp_column, sum);
            if (more) loads.end(a, call, next, output, i + F::K);
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
    static_assert(F::SHARED <= LEAST_SHARED, "every device takes it");
    call.row_tiles = (a.x.shape[0] + F::M - 1) / F::M;
    call.n_tasks = call.row_tiles * ((a.weight.shape[0] + F::N - 1) / F::N);
    return dv_launch(linear_tiles_kernel<F>, blocks_for(call.n_tasks), dim3(F::THREADS), F::SHARED,
                     static_cast<cudaStream_t>(stream), a, call);
}

/* The warps that share a task's inputs: so many that each has a few chunks. By shape alone, as it orders the sums. */
static int split_of(int64_t inputs)
{
    const int64_t chunks = inputs / CHUNK;
    return chunks >= 16 ? 4 : chunks >= 8 ? 2 : 1;
}

static int launch_few(const seqmix_linear_args &a, linear_call call, void *stream)
{
    call.row_tiles = (a.x.shape[0] + ROWS - 1) / ROWS;
    call.n_tasks = call.row_tiles * ((a.weight.shape[0] + OUTPUTS - 1) / OUTPUTS);
    call.split = split_of(a.x.shape[1]);
    const dim3 grid = blocks_for((call.n_tasks * call.split + WARPS - 1) / WARPS);
#define LAUNCH(ID)                                                                                                     \
    if (call.x_eights && call.w_eights && a.weight.dtype == (ID))                                                      \
        return dv_launch(linear_few_kernel<ID>, grid, dim3(FEW_THREADS), 0, static_cast<cudaStream_t>(stream), a, call);
    EIGHT_DTYPES(LAUNCH)
#undef LAUNCH
    return dv_launch(linear_few_kernel<0>, grid, dim3(FEW_THREADS), 0, static_cast<cudaStream_t>(stream), a, call);
}

} /* namespace */

static seqmix_cublaslt *library_of(const struct seqmix_context *ctx)
{
    return static_cast<seqmix_cublaslt *>(ctx->device_state);
}

/* Rows from which on cuBLASLt is asked first. Below, it may not be (rows would share their order of sums); above, a tile of 64 or
 * 128 rows is mostly empty at first, and has too few blocks for the chip later, where cuBLASLt splits the inputs. */
constexpr int64_t CUBLASLT_ROWS = FEW + 1;

extern "C" seqmix_status seqmix_linear_plan__cuda_sm80(const struct seqmix_context *ctx, const seqmix_linear_args *a,
                                                       struct seqmix_plan *plan)
{
    if (a->x.shape[1] == 0) return SEQMIX_ERR_UNSUPPORTED; /* no inputs: pointers may be NULL */
    plan->grain = 1;
    plan->kernel = "cuda-sm80/linear_few";
    if (a->x.shape[0] <= FEW || a->invariant != 0) return SEQMIX_OK;
    plan->kernel = "cuda-sm80/linear_tiles";
    if (a->x.shape[0] >= CUBLASLT_ROWS && seqmix_cublaslt_serves(library_of(ctx), a, &plan->workspace))
        plan->kernel = "cuda-sm80/linear_cublaslt";
    return SEQMIX_OK;
}

extern "C" int seqmix_linear__cuda_sm80(const struct seqmix_context *ctx, const seqmix_linear_args *a, void *workspace)
{
    linear_call call = {};
    call.x_eights = in_eights(a->x);
    call.w_eights = a->weight.dtype <= SEQMIX_F16 ? in_eights(a->weight) : block_eights(a->weight);
    if (a->x.shape[0] == 0 || a->weight.shape[0] == 0) return cudaSuccess;
    if (a->x.shape[0] <= FEW || a->invariant != 0) return launch_few(*a, call, ctx->stream);
    if (a->x.shape[0] >= CUBLASLT_ROWS && seqmix_cublaslt_linear(library_of(ctx), a, workspace, ctx->stream))
        return cudaSuccess; /* it may still decline, as the pointers may be */
    if (a->x.dtype == SEQMIX_BF16 && a->weight.dtype == SEQMIX_BF16)
        return launch_tiles<linear_form<tile_bf16, 2, 8>>(*a, call, ctx->stream);
    if (a->x.dtype == SEQMIX_BF16 && a->weight.dtype > SEQMIX_F16)
        return launch_tiles<linear_form<tile_bf16, 2, 4, 3>>(*a, call, ctx->stream);
    if (a->x.dtype == SEQMIX_F16 && a->weight.dtype == SEQMIX_F16)
        return launch_tiles<linear_form<tile_tf32<1>, 1, 4>>(*a, call, ctx->stream);
    return launch_tiles<linear_form<tile_tf32<3>, 1, 4>>(*a, call, ctx->stream);
}

extern "C" int seqmix_linear_prepare__cuda_sm80(int shared_bytes)
{
    return dv_allow_shared(shared_bytes, linear_tiles_kernel<linear_form<tile_bf16, 2, 8>>,
                           linear_tiles_kernel<linear_form<tile_bf16, 2, 4, 3>>,
                           linear_tiles_kernel<linear_form<tile_tf32<1>, 1, 4>>,
                           linear_tiles_kernel<linear_form<tile_tf32<3>, 1, 4>>);
}
