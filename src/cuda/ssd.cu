/* SPDX-License-Identifier: MIT */
/*
 * ssd_chunk_forward on cuda-sm80. A block is one (sequence, head, tile of P columns) and walks the sequence in cells of Q rows,
 * the state S [N x P] in registers. With gamma the inclusive sum of log decays (pairs of f32), per cell:
 *     Y = exp(gamma) o (C S) + (tril(C B^T) o exp(gamma_i - gamma_j) o delta_j) X,    then + skip X, * silu(z)
 *     S = exp(gamma_Q) S + B^T (X o exp(gamma_Q - gamma) o delta)
 * Warps stand as Q/16 rows of 16 by two halves of P; for S as as many bands of N. While a cell is worked on, the next one's rows
 * arrive by cp.async, and the one warp that has no tile of C B^T sums the next log decays. C B^T is made per head: sharing it
 * between heads would leave half the multiprocessors without a block where one sequence is all there is.
 * Grain: Q rows (bf16 64, else 32), or `chunk` if less. NUMERICS.md rules 1-4.
 */
#include "ctx.h"
#include "cuda.h"
#include "ssd_cell.cuh"

namespace
{

/* One sequence, whose first cell is on its way. */
template <class F>
DV_DEV void ssd_sequence(const seqmix_ssd_args &a, const seqmix_batch &batch, const ssd_call &call, ssd_block<F> &b)
{
    float S[F::M_TILES][F::P_TILES][4], T[F::M_TILES][F::P_TILES][4];
    const int64_t length = b.s.end - b.s.begin;
    const bool sums = b.has_no_tile();
    load_state<F>(a, b, S);
    publish<F>(b, S);
    int stage = 0, parity = 0;
    for (int64_t at = 0; at < length; at += call.step) {
        const int64_t row = b.s.begin + at;
        const int rows = (int)(length - at < call.step ? length - at : call.step);
        const int64_t left = length - at - rows;
        const int rows_next = (int)(left < call.step ? left : call.step);
        const gates gate = b.gates_of(parity);
        dv_cp_async_wait<0>();
        __syncthreads(); /* the cell is there, S published, the cell before done with */
        if (call.stages == 2 && rows_next > 0) fetch_cell<F>(a, call, b, stage ^ 1, row + rows, rows_next);
        float dt[F::Q / 32] = {};
        if (sums) fetch_dt<F>(a, b, row + rows, rows_next, dt);

        float Y[F::P_TILES][4] = {};
        int stop = next_stop<F>(batch, b, at, 0, rows);
        across_states<F>(b, stage, gate, Y);
        if (sums) sum_gates<F>(a, b, rows_next, dt, b.gates_of(parity ^ 1));
        __syncthreads(); /* C is read, the scores are there */
        if (rows_next > 0) fetch_queries<F>(a, call, b, row + rows, rows_next);
        for (bool inside = true;; inside = false) {
            advance<F>(b, stage, gate, stop, stop == rows, inside, S, T, Y);
            for (; b.s.ckpt < b.s.ckpt_end && batch.ckpt_row[b.s.ckpt] <= at + stop; b.s.ckpt++)
                if (batch.ckpt_row[b.s.ckpt] == at + stop)
                    store_state<F>(a, b, slot_or_none(batch.ckpt_slot[b.s.ckpt], a.state), T);
            if (stop == rows) break;
            stop = next_stop<F>(batch, b, at, stop, rows);
        }
        __syncthreads(); /* S and the scores are read */
#pragma unroll
        for (int m = 0; m < F::M_TILES; m++)
#pragma unroll
            for (int n = 0; n < F::P_TILES; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    S[m][n][e] = T[m][n][e];
        publish<F>(b, S);
        finish_rows<F>(a, call, b, stage, row, rows, Y);
        if (call.stages == 1) {
            __syncthreads();
            if (rows_next > 0) fetch_cell<F>(a, call, b, stage, row + rows, rows_next);
        } else {
            stage ^= 1;
        }
        parity ^= 1;
    }
    store_state<F>(a, b, b.s.write, S);
}

template <class F>
__global__ void __launch_bounds__(F::THREADS, 1) ssd_chunk_kernel(seqmix_ssd_args a, seqmix_batch batch, ssd_call call)
{
    dv_smem memory;
    ssd_block<F> b;
    b.C = memory.take<typename F::element>(F::Q * F::PITCH_N);
    b.cells = memory.take<typename F::element>(call.stages * F::CELL);
    b.scores = memory.take<typename F::element>(F::SCORES);
    b.state = memory.take<typename F::element>(F::tile::PLANES * F::STATE);
    b.sums = memory.take<float>(10 * F::Q);
    b.warp_row = (int)(threadIdx.x / 32 % F::BANDS);
    b.half = (int)(threadIdx.x / 32 / F::BANDS);
    const int64_t heads = a.x.shape[1];
    for (int64_t task = blockIdx.x; task < call.n_tasks; task += gridDim.x) {
        const int64_t columns_left = a.x.shape[2] - task % call.tiles * F::P;
        b.p0 = task % call.tiles * F::P;
        b.columns = (int)(columns_left < F::P ? columns_left : F::P);
        b.h = task / call.tiles % heads;
        b.group = b.h / (heads / a.B.shape[1]);
        b.s = sequence_of(batch, a.x.shape[0], a.state, (int32_t)(task / call.tiles / heads));
        const int64_t length = b.s.end - b.s.begin;
        if (length == 0) {
            move_state<F>(a, b);
            continue;
        }
        __syncthreads(); /* the task before is done with */
        const int rows = (int)(length < call.step ? length : call.step);
        fetch_queries<F>(a, call, b, b.s.begin, rows);
        fetch_cell<F>(a, call, b, 0, b.s.begin, rows);
        if (b.has_no_tile()) {
            float dt[F::Q / 32];
            fetch_dt<F>(a, b, b.s.begin, rows, dt);
            sum_gates<F>(a, b, rows, dt, b.gates_of(0));
        }
        ssd_sequence<F>(a, batch, call, b);
    }
}

} /* namespace */

/* ---------------------------------------------------------------- which form, and the launch */

namespace
{

struct ssd_launch { /* a form's answer: whether it takes the call, and, having run, the runtime's error */
    bool taken;
    int error;
};

template <class F>
static ssd_launch try_form(const struct seqmix_context *ctx, const seqmix_ssd_args &a, int step, bool run)
{
    if (F::shared(1) > (size_t)ctx->shared_bytes) return {false, cudaSuccess};
    if (!run) return {true, cudaSuccess};
    ssd_call call = {};
    call.tiles = (int)((a.x.shape[2] + F::P - 1) / F::P);
    call.n_tasks = a.batch->n_seqs * a.x.shape[1] * call.tiles;
    call.step = step;
    call.stages = F::shared(2) <= (size_t)ctx->shared_bytes ? 2 : 1;
    call.eights = in_eights(a.x) && in_eights(a.B) && in_eights(a.C) && in_eights(a.z) && in_eights(a.y);
    if (call.n_tasks == 0) return {true, cudaSuccess};
    return {true, dv_launch(ssd_chunk_kernel<F>, blocks_for(call.n_tasks), dim3(F::THREADS), F::shared(call.stages),
                            static_cast<cudaStream_t>(ctx->stream), a, *a.batch, call)};
}

/* The tile of P with the least padding that the device has the memory for; bits do not depend on it. */
template <int N>
static ssd_launch try_bf16(const struct seqmix_context *ctx, const seqmix_ssd_args &a, int step, bool run)
{
    constexpr int WIDE = N == 64 ? 64 : N == 128 ? 80 : 32, MIDDLE = N == 256 ? 32 : 64;
    const int64_t P = a.x.shape[2];
    ssd_launch done = {false, cudaSuccess};
    if (P > 16 && (P + WIDE - 1) / WIDE * WIDE < (P + MIDDLE - 1) / MIDDLE * MIDDLE)
        done = try_form<ssd_form<as_bf16, N, WIDE, 64>>(ctx, a, step, run);
    if (P > 16 && !done.taken) done = try_form<ssd_form<as_bf16, N, MIDDLE, 64>>(ctx, a, step, run);
    return done.taken ? done : try_form<ssd_form<as_bf16, N, 16, 64>>(ctx, a, step, run);
}

template <int N>
static ssd_launch try_any(const struct seqmix_context *ctx, const seqmix_ssd_args &a, int step, bool run)
{
    constexpr int P = N == 256 ? 16 : 32;
    switch (a.x.dtype) {
    case SEQMIX_BF16:
        return try_bf16<N>(ctx, a, step, run);
    case SEQMIX_F16:
        return try_form<ssd_form<as_f16, N, P, 32>>(ctx, a, step, run);
    default:
        return try_form<ssd_form<as_f32, N, P, 32>>(ctx, a, step, run);
    }
}

static ssd_launch ssd_chunk(const struct seqmix_context *ctx, const seqmix_ssd_args &a, int step, bool run)
{
    const int64_t N = a.B.shape[2];
    if (N <= 64) return try_any<64>(ctx, a, step, run);
    return N <= 128 ? try_any<128>(ctx, a, step, run) : try_any<256>(ctx, a, step, run);
}

static int cell_rows(const seqmix_ssd_args &a)
{
    const int most = a.x.dtype == SEQMIX_BF16 ? 64 : 32;
    return a.chunk > 0 && a.chunk < most ? a.chunk : most;
}

} /* namespace */

extern "C" seqmix_status seqmix_ssd_chunk_forward_plan__cuda_sm80(const struct seqmix_context *ctx,
                                                                  const seqmix_ssd_args *a, struct seqmix_plan *plan)
{
    const int step = cell_rows(*a);
    if (!ssd_chunk(ctx, *a, step, false).taken) return SEQMIX_ERR_UNSUPPORTED;
    plan->kernel = "cuda-sm80/ssd_chunk";
    plan->grain = step;
    return SEQMIX_OK;
}

extern "C" int seqmix_ssd_chunk_forward__cuda_sm80(const struct seqmix_context *ctx, const seqmix_ssd_args *a, void *)
{
    return ssd_chunk(ctx, *a, cell_rows(*a), true).error;
}

extern "C" int seqmix_ssd_prepare__cuda_sm80(int shared_bytes)
{
    return dv_allow_shared(
        shared_bytes, ssd_chunk_kernel<ssd_form<as_bf16, 64, 64, 64>>, ssd_chunk_kernel<ssd_form<as_bf16, 64, 16, 64>>,
        ssd_chunk_kernel<ssd_form<as_bf16, 128, 80, 64>>, ssd_chunk_kernel<ssd_form<as_bf16, 128, 64, 64>>,
        ssd_chunk_kernel<ssd_form<as_bf16, 128, 16, 64>>, ssd_chunk_kernel<ssd_form<as_bf16, 256, 32, 64>>,
        ssd_chunk_kernel<ssd_form<as_bf16, 256, 16, 64>>, ssd_chunk_kernel<ssd_form<as_f16, 64, 32, 32>>,
        ssd_chunk_kernel<ssd_form<as_f16, 128, 32, 32>>, ssd_chunk_kernel<ssd_form<as_f16, 256, 16, 32>>,
        ssd_chunk_kernel<ssd_form<as_f32, 64, 32, 32>>, ssd_chunk_kernel<ssd_form<as_f32, 128, 32, 32>>,
        ssd_chunk_kernel<ssd_form<as_f32, 256, 16, 32>>);
}
