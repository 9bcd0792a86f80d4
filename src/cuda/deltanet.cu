/* SPDX-License-Identifier: MIT */
/*
 * deltanet_chunk_forward on rung cuda-sm80, scalar gates (equation: docs/OPS.md). A block carries some columns of one value head of
 * one sequence through the cells of C rows, state in registers. With E_ij = exp(sum of log decays after j up to i):
 *   (I + A) U = b (V - E (K S))   A_ij = b_i E_ij (k_i.k_j), j < i       O = scale (E (Q S) + (E_ij (q_i.k_j)) U)
 * all of it transposed: a warp owns 16*MT columns of the state as accumulators S^T, and every product has them, R^T or U^T on its
 * left (products.cuh), so that columns never leave their warp. K, Q, T = (I + A)^-1 and the scores are right factors in shared memory.
 * The block's last four warps prepare the next cell meanwhile: rows by cp.async, gates, k.k and q.k, T in f32. One barrier a cell.
 * The cut into columns and warps changes no bit.
 */
#include "cuda.h"
#include "deltanet_segments.cuh"

template <class X, int MT, int WARPS>
static __global__ void __launch_bounds__(32 * WARPS + HELPERS, 1)
    deltanet_chunk_kernel(seqmix_deltanet_args a, seqmix_batch batch, segments cut, int64_t first_task, int rows,
                          bool pieces)
{
    constexpr int WIDTH = 16 * MT * WARPS;
    const block_memory<X, WIDTH> m = take_memory<X, WIDTH>();
    if (threadIdx.x == 0) {
        find_segment<WIDTH>(a, batch, cut, first_task + blockIdx.x, *m.at_work);
        m.at_work->pieces = pieces;
    }
    __syncthreads();
    if (m.at_work->begin < m.at_work->end)
        run_cells<X, MT, WARPS, true>(a, batch, rows, m);
    else if (m.at_work->seq.begin == m.at_work->seq.end && m.at_work->segment == 0)
        move_state(a, *m.at_work);
}

template <class X, int MT, int WARPS>
static cudaError_t launch(const struct seqmix_context *ctx, const seqmix_deltanet_args *a, const segments &cut)
{
    constexpr int WIDTH = 16 * MT * WARPS;
    const int64_t tasks = a->batch->n_seqs * cut.count * a->v.shape[1] * ((a->v.shape[2] + WIDTH - 1) / WIDTH);
    cudaError_t error = cudaSuccess;
    for (int64_t first = 0; first < tasks && error == cudaSuccess; first += INT32_MAX)
        error = dv_launch(deltanet_chunk_kernel<X, MT, WARPS>, blocks_for(tasks - first), dim3(32 * WARPS + HELPERS),
                          shared_bytes<X, WIDTH>(), static_cast<cudaStream_t>(ctx->stream), *a, *a->batch, cut, first,
                          rows_of_cell(a), all_in_pieces(a));
    return error;
}

/* Shared memory of the widest block. Some cards give a block 99 KiB, too little for f32 however narrow it is. */
static size_t most_shared(const seqmix_deltanet_args *a)
{
    return gates_per_channel(a)        ? seqmix_deltanet_kda_shared(a->v.dtype)
           : a->v.dtype == SEQMIX_BF16 ? shared_bytes<as_bf16, 128>()
           : a->v.dtype == SEQMIX_F16  ? shared_bytes<as_f16, 64>()
                                       : shared_bytes<as_f32, 64>();
}

extern "C" seqmix_status seqmix_deltanet_chunk_forward_plan__cuda_sm80(const struct seqmix_context *ctx,
                                                                       const seqmix_deltanet_args *a,
                                                                       struct seqmix_plan *plan)
{
    if (a->k.shape[1] == 0 || a->k.shape[2] == 0 || a->k.shape[2] > DIM) return SEQMIX_ERR_UNSUPPORTED;
    if (most_shared(a) > (size_t)ctx->shared_bytes) return SEQMIX_ERR_UNSUPPORTED;
    const bool whole = seqmix_deltanet_segment_count(ctx, a) == 1;
    plan->kernel = gates_per_channel(a) ? whole ? "cuda-sm80/deltanet_kda" : "cuda-sm80/deltanet_kda_segments"
                   : whole              ? "cuda-sm80/deltanet_chunk"
                                        : "cuda-sm80/deltanet_segments";
    plan->workspace = seqmix_deltanet_segment_bytes(ctx, a);
    plan->grain = rows_of_cell(a);
    return SEQMIX_OK;
}

extern "C" int seqmix_deltanet_chunk_forward__cuda_sm80(const struct seqmix_context *ctx, const seqmix_deltanet_args *a,
                                                        void *workspace)
{
    segments cut;
    if (a->batch->n_seqs * a->v.shape[1] * a->v.shape[2] == 0) return cudaSuccess;
    const int error = seqmix_deltanet_segment_states(ctx, a, workspace, &cut);
    if (error != cudaSuccess) return error;
    if (gates_per_channel(a)) return seqmix_deltanet_kda(ctx, a, &cut);
    const int64_t heads = a->batch->n_seqs * cut.count * a->v.shape[1], width = cut_of(ctx, a, heads).width;
    switch (a->v.dtype) {
    case SEQMIX_BF16:
        return width == 128  ? launch<as_bf16, 2, 4>(ctx, a, cut)
               : width == 64 ? launch<as_bf16, 1, 4>(ctx, a, cut)
                             : launch<as_bf16, 1, 2>(ctx, a, cut);
    case SEQMIX_F16:
        return width == 64 ? launch<as_f16, 1, 4>(ctx, a, cut) : launch<as_f16, 1, 2>(ctx, a, cut);
    default:
        return width == 64 ? launch<as_f32, 1, 4>(ctx, a, cut) : launch<as_f32, 1, 2>(ctx, a, cut);
    }
}

extern "C" int seqmix_deltanet_prepare__cuda_sm80(int shared_bytes)
{
    return dv_allow_shared(shared_bytes, deltanet_chunk_kernel<as_bf16, 2, 4>, deltanet_chunk_kernel<as_bf16, 1, 4>,
                           deltanet_chunk_kernel<as_bf16, 1, 2>, deltanet_chunk_kernel<as_f16, 1, 4>,
                           deltanet_chunk_kernel<as_f16, 1, 2>, deltanet_chunk_kernel<as_f32, 1, 4>,
                           deltanet_chunk_kernel<as_f32, 1, 2>);
}
