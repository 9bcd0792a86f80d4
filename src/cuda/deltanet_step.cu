/* SPDX-License-Identifier: MIT */
/* deltanet_step on rung cuda-sm80: a block for 32 columns of a value head of a sequence (deltanet_step.cuh), gates per channel too.
 * deltanet_conv_step: a block for a key head and all value heads that use it, so that it convolves the channels that it reads
 * and no other block does. */
#include "deltanet_step.cuh"

#include "conv_channel.cuh"
#include "ctx.h"
#include "cuda.h"
#include "packed_rows.cuh"

template <int ALONG>
static __global__ void __launch_bounds__(STEP_THREADS, 4)
    deltanet_step_kernel(seqmix_deltanet_args a, seqmix_batch batch)
{
    DV_SHARED(step_row, rows, [2]);
    const int64_t heads = a.v.shape[1], tiles = (a.v.shape[2] + STEP_COLUMNS - 1) / STEP_COLUMNS;
    for (int64_t task = blockIdx.x; task < batch.n_seqs * heads * tiles; task += gridDim.x) {
        const int64_t column = task % tiles * STEP_COLUMNS, left = a.v.shape[2] - column;
        const step_unit u = {
            (int)threadIdx.x, 1, task / tiles % heads, column, (int)(left < STEP_COLUMNS ? left : STEP_COLUMNS),
            (int)a.k.shape[2]};
        step_rows<ALONG>(a, batch, sequence_of(batch, a.v.shape[0], a.state, (int32_t)(task / tiles / heads)), u, rows);
    }
}

extern "C" seqmix_status seqmix_deltanet_step_plan__cuda_sm80(const struct seqmix_context *,
                                                              const seqmix_deltanet_args *a, struct seqmix_plan *plan)
{
    if (a->k.shape[2] > STEP_DIM) return SEQMIX_ERR_UNSUPPORTED;
    plan->kernel = "cuda-sm80/deltanet_step";
    plan->workspace = 0;
    plan->grain = 1;
    return SEQMIX_OK;
}

template <int ALONG> static cudaError_t launch(const struct seqmix_context *ctx, const seqmix_deltanet_args *a)
{
    const int64_t tiles = (a->v.shape[2] + STEP_COLUMNS - 1) / STEP_COLUMNS;
    return dv_launch(deltanet_step_kernel<ALONG>, blocks_for(a->batch->n_seqs * a->v.shape[1] * tiles),
                     dim3(STEP_THREADS), 0, static_cast<cudaStream_t>(ctx->stream), *a, *a->batch);
}

extern "C" int seqmix_deltanet_step__cuda_sm80(const struct seqmix_context *ctx, const seqmix_deltanet_args *a, void *)
{
    if (a->batch->n_seqs * a->v.shape[1] * a->v.shape[2] == 0) return cudaSuccess;
    const int along = step_along(a->state);
    return along == ALONG_COLUMNS ? launch<ALONG_COLUMNS>(ctx, a)
           : along == ALONG_KEYS  ? launch<ALONG_KEYS>(ctx, a)
                                  : launch<ALONG_NEITHER>(ctx, a);
}

/* ---------------------------------------------------------------- with the convolution before it */

constexpr int UNITS = 4; /* of a block */

/* Where q, k and v lie in a row of the convolution. */
struct packed_row {
    int64_t q, k, v;
};

/* Value head i of key head g. */
DV_DEV int64_t value_head_of(const seqmix_deltanet_args &a, int64_t g, int64_t i)
{
    const int64_t key_heads = a.k.shape[1];
    return a.head_map == SEQMIX_HEADS_TILED ? i * key_heads + g : g * (a.v.shape[1] / key_heads) + i;
}

template <int ALONG>
static __global__ void __launch_bounds__(UNITS *STEP_THREADS)
    deltanet_conv_step_kernel(seqmix_conv_args conv, seqmix_batch conv_batch, seqmix_deltanet_args a,
                              seqmix_batch batch, packed_row at)
{
    typedef step_row unit_rows[2];
    DV_SHARED(unit_rows, rows, [UNITS]);
    const int64_t key_heads = a.k.shape[1], share = a.v.shape[1] / key_heads, keys = a.k.shape[2],
                  columns = a.v.shape[2];
    const int64_t tiles = (columns + STEP_COLUMNS - 1) / STEP_COLUMNS, unit = threadIdx.x / STEP_THREADS;
    for (int64_t task = blockIdx.x; task < batch.n_seqs * key_heads; task += gridDim.x) {
        const int64_t g = task % key_heads;
        const int32_t seq = (int32_t)(task / key_heads);
        const sequence past = sequence_of(conv_batch, conv.x.shape[0], conv.state, seq);
        for (int64_t i = threadIdx.x; i < 2 * keys + share * columns; i += UNITS * STEP_THREADS) {
            const int64_t value = i - 2 * keys;
            const int64_t channel = i < keys ? at.q + g * keys + i
                                    : value < 0
                                        ? at.k + g * keys + i - keys
                                        : at.v + value_head_of(a, g, value / columns) * columns + value % columns;
            conv_channel<CONV_STEP_TAPS>(conv, conv_batch, past, channel);
        }
        __syncthreads(); /* the block's own rows are there */
        for (int64_t i = unit; i < share * tiles; i += UNITS) {
            const int64_t column = i % tiles * STEP_COLUMNS, left = columns - column;
            const step_unit u = {(int)(threadIdx.x % STEP_THREADS),
                                 1 + (int)unit,
                                 value_head_of(a, g, i / tiles),
                                 column,
                                 (int)(left < STEP_COLUMNS ? left : STEP_COLUMNS),
                                 (int)keys};
            step_rows<ALONG>(a, batch, sequence_of(batch, a.v.shape[0], a.state, seq), u, rows[unit]);
        }
        __syncthreads();
    }
}

/* Whether one launch can do both: the convolution's channels are q, k and v and nothing else, its rows the mixer's, and what a
 * block writes no other still reads. */
static bool fits(const seqmix_conv_args *conv, const seqmix_deltanet_args *a, packed_row *at)
{
    const seqmix_batch *x = conv->batch, *y = a->batch;
    const int64_t keys = a->k.shape[1] * a->k.shape[2], values = a->v.shape[1] * a->v.shape[2];
    *at = {packed_channel(conv->y, a->q), packed_channel(conv->y, a->k), packed_channel(conv->y, a->v)};
    return conv->weight.shape[1] <= CONV_STEP_TAPS && at->q >= 0 && at->k >= 0 && at->v >= 0 &&
           2 * keys + values == conv->y.shape[1] && ranges_apart(at->q, keys, at->k, keys) &&
           ranges_apart(at->q, keys, at->v, values) && ranges_apart(at->k, keys, at->v, values) &&
           x->n_seqs == y->n_seqs && x->max_rows == y->max_rows && x->row_begin == y->row_begin &&
           rows_apart(conv->x, a->o);
}

template <int ALONG>
static cudaError_t launch_both(const struct seqmix_context *ctx, const seqmix_conv_args *conv,
                               const seqmix_deltanet_args *a, packed_row at)
{
    return dv_launch(deltanet_conv_step_kernel<ALONG>, blocks_for(a->batch->n_seqs * a->k.shape[1]),
                     dim3(UNITS * STEP_THREADS), 0, static_cast<cudaStream_t>(ctx->stream), *conv, *conv->batch, *a,
                     *a->batch, at);
}

extern "C" bool seqmix_deltanet_conv_step_fits__cuda_sm80(const seqmix_conv_args *conv, const seqmix_deltanet_args *a)
{
    packed_row at;
    return a->batch->n_seqs * a->v.shape[1] * a->v.shape[2] > 0 && fits(conv, a, &at);
}

extern "C" int seqmix_deltanet_conv_step__cuda_sm80(const struct seqmix_context *ctx, const seqmix_conv_args *conv,
                                                    const seqmix_deltanet_args *a)
{
    packed_row at;
    (void)fits(conv, a, &at);
    const int along = step_along(a->state);
    return along == ALONG_COLUMNS ? launch_both<ALONG_COLUMNS>(ctx, conv, a, at)
           : along == ALONG_KEYS  ? launch_both<ALONG_KEYS>(ctx, conv, a, at)
                                  : launch_both<ALONG_NEITHER>(ctx, conv, a, at);
}
