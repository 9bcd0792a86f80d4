/* SPDX-License-Identifier: MIT */
/*
 * Rung cuda-simple, attention_rows over a paged cache: one kernel stores the rows' k and v, the next attends. There a warp is a
 * row of one query head; its lanes are 32 keys, then the channels of the sums, and the softmax is carried from block of keys to
 * block of keys:
 *
 *     s = q.K;  next = max(top, s);  w = exp(s - next);  total = total*exp(top - next) + sum w;  sum = likewise with w.V
 *
 * Blocks of keys begin at position 0, so a row's bits depend on its position, its query and the cache alone. A position whose
 * page is not there, which the host cannot see, is left out.
 */
#include <math.h>

#include "cuda.h"
#include "rows.cuh"

constexpr int THREADS = 128, WARPS = THREADS / 32, KEYS = 32, PIECE = 16, MOST_BLOCKS = 4096;

/* A share of the rows of one sequence: its row `first` and every step-th after it. */
struct share {
    int64_t seq, head, first, step, begin, end;
};

/* Shares of a sequence's rows and one head, so that a few thousand blocks have work. */
static int64_t shares_for(const seqmix_batch &batch, int64_t heads)
{
    const int64_t most = (batch.max_rows + WARPS - 1) / WARPS, wanted = MOST_BLOCKS / (batch.n_seqs * heads) + 1;
    return most < 1 ? 1 : most < wanted ? most : wanted;
}

DV_DEV share share_of(const seqmix_attention_args &a, const seqmix_batch &batch, int64_t task, int64_t heads,
                      int64_t shares)
{
    const seqmix_tensor no_pool = {};
    const int64_t seq = task / shares / heads;
    const sequence s = sequence_of(batch, a.q.shape[0], no_pool, (int32_t)seq);
    return {seq,  task / shares % heads, s.begin + task % shares * WARPS + threadIdx.x / 32, shares * WARPS, s.begin,
            s.end};
}

/* Element 0 of a position's row in a pool; -1 where there is none. */
DV_DEV int64_t cached(const seqmix_attention_args &a, const seqmix_tensor &pool, int64_t seq, int64_t position,
                      int64_t head)
{
    const int64_t rows = pool.shape[1], nth = position < 0 ? -1 : position / rows;
    if (nth < 0 || nth >= a.max_pages) return -1;
    const int64_t page = a.page_table[seq * a.max_pages + nth];
    if (page < 0 || page >= pool.shape[0]) return -1;
    return page * pool.stride[0] + position % rows * pool.stride[1] + head * pool.stride[2];
}

/* ---------------------------------------------------------------- new rows into the cache */

static __global__ void store_rows_kernel(seqmix_attention_args a, seqmix_batch batch, int64_t shares)
{
    const int64_t heads = a.k.shape[1], channels = a.k.shape[2], n_tasks = batch.n_seqs * heads * shares;
    for (int64_t task = blockIdx.x; task < n_tasks; task += gridDim.x) {
        const share s = share_of(a, batch, task, heads, shares);
        for (int64_t r = s.first; r < s.end; r += s.step) {
            const int64_t position = a.start[s.seq] + (r - s.begin);
            const int64_t k = cached(a, a.k_pages, s.seq, position, s.head);
            const int64_t v = cached(a, a.v_pages, s.seq, position, s.head);
            for (int64_t d = threadIdx.x % 32; d < channels && k >= 0; d += 32) {
                put(a.k_pages, k + d, get(a.k, r * a.k.stride[0] + s.head * a.k.stride[1] + d));
                put(a.v_pages, v + d, get(a.v, r * a.v.stride[0] + s.head * a.v.stride[1] + d));
            }
        }
    }
}

/* ---------------------------------------------------------------- the rows' attention */

struct row_memory { /* of one warp, in shared memory */
    float q[MAX_DIM], weight[KEYS];
    int64_t value[KEYS]; /* where the key's value lies; -1: nowhere */
};

/* What a lane carries from block to block: channels lane, lane + 32, ... of the sum. */
struct carried {
    float top, total, sum[MAX_DIM / 32];
};

/* In pieces, so that long heads lose little. */
DV_DEV float score(const seqmix_tensor &pool, int64_t at, const float *q, int channels)
{
    float dot = 0;
    for (int first = 0; first < channels; first += PIECE) {
        float piece = 0;
        for (int d = first; d < channels && d < first + PIECE; d++)
            piece += q[d] * get(pool, at + d);
        dot += piece;
    }
    return dot;
}

/* Keys first..last, at most 32 of them. */
DV_DEV void attend_block(const seqmix_attention_args &a, int64_t seq, int64_t head, int64_t first, int64_t last,
                         float scale, row_memory &row, carried &c)
{
    const int lane = (int)(threadIdx.x % 32), channels = (int)a.q.shape[2];
    const int64_t key = first + lane, at = key <= last ? cached(a, a.k_pages, seq, key, head) : -1;
    const float s = at >= 0 ? scale * score(a.k_pages, at, row.q, channels) : -INFINITY;
    float next = fmaxf(c.top, s);
    for (int bits = 16; bits > 0; bits /= 2)
        next = fmaxf(next, __shfl_xor_sync(ALL_LANES, next, bits));
    const float factor = c.top == next ? 1 : expf(c.top - next), weight = at >= 0 ? expf(s - next) : 0;
    c.top = next;
    c.total = c.total * factor + sum_lanes(weight);
    __syncwarp(); /* the block before is done with */
    row.weight[lane] = weight;
    row.value[lane] = at >= 0 ? cached(a, a.v_pages, seq, key, head) : -1;
    __syncwarp();
    for (int i = 0; i < MAX_DIM / 32; i++) {
        const int d = lane + 32 * i;
        float piece = 0;
        for (int j = 0; j < KEYS && d < channels; j++)
            if (row.value[j] >= 0) piece += row.weight[j] * get(a.v_pages, row.value[j] + d);
        c.sum[i] = c.sum[i] * factor + piece;
    }
}

DV_DEV void attend(const seqmix_attention_args &a, const share &s, int64_t r, row_memory &row)
{
    const int lane = (int)(threadIdx.x % 32), channels = (int)a.q.shape[2];
    const int64_t key_head = s.head / (a.q.shape[1] / a.k.shape[1]), capacity = a.max_pages * a.k_pages.shape[1];
    const int64_t position = a.start[s.seq] + (r - s.begin), last = position < capacity ? position : capacity - 1;
    const float scale = a.scale != 0 ? a.scale : 1 / sqrtf((float)channels);
    carried c = {-INFINITY, 0, {}};
    __syncwarp(); /* the row before is done with */
    for (int d = lane; d < channels; d += 32)
        row.q[d] = get(a.q, r * a.q.stride[0] + s.head * a.q.stride[1] + d);
    __syncwarp();
    for (int64_t first = 0; first <= last; first += KEYS)
        attend_block(a, s.seq, key_head, first, last, scale, row, c);
    for (int i = 0; i < MAX_DIM / 32; i++) {
        const int d = lane + 32 * i;
        if (d >= channels) continue;
        float y = c.total != 0 ? c.sum[i] / c.total : 0;
        if (present(a.gate)) y *= sigmoid(get(a.gate, r * a.gate.stride[0] + s.head * a.gate.stride[1] + d));
        put(a.y, r * a.y.stride[0] + s.head * a.y.stride[1] + d, y);
    }
}

static __global__ void attention_kernel(seqmix_attention_args a, seqmix_batch batch, int64_t shares)
{
    DV_SHARED(row_memory, memory, [WARPS]);
    const int64_t heads = a.q.shape[1], n_tasks = batch.n_seqs * heads * shares;
    for (int64_t task = blockIdx.x; task < n_tasks; task += gridDim.x) {
        const share s = share_of(a, batch, task, heads, shares);
        for (int64_t r = s.first; r < s.end; r += s.step)
            attend(a, s, r, memory[threadIdx.x / 32]);
    }
}

extern "C" int seqmix_attention__cuda_simple(const seqmix_attention_args *a, void *, void *stream)
{
    const seqmix_batch &batch = *a->batch;
    const int64_t key_heads = a->k.shape[1], heads = a->q.shape[1];
    if (a->q.shape[0] == 0 || batch.n_seqs == 0 || heads == 0 || key_heads == 0) return cudaSuccess;
    const int64_t store_shares = shares_for(batch, key_heads), shares = shares_for(batch, heads);
    const cudaError_t error = dv_launch(store_rows_kernel, blocks_for(batch.n_seqs * key_heads * store_shares),
                                        dim3(THREADS), 0, static_cast<cudaStream_t>(stream), *a, batch, store_shares);
    if (error != cudaSuccess) return error;
    return dv_launch(attention_kernel, blocks_for(batch.n_seqs * heads * shares), dim3(THREADS), 0,
                     static_cast<cudaStream_t>(stream), *a, batch, shares);
}
