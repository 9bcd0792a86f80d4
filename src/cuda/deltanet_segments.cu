/* SPDX-License-Identifier: MIT */
/*
 * The delta rule on segments of a sequence at a time, when sequences and heads are too few to fill the device (SEQMIX_CTX_FAST).
 * A segment maps the state before it to the one after it by S -> T S + E, exactly: T is what its rows make of the identity
 * without values, E what they make of nothing. First the cells of deltanet_state.cuh run on every segment but the last, without
 * outputs, for the columns of E and of T (the first begins with the sequence's own state and needs no T). Then a block per eight
 * columns of a head goes through the segments, in f32, and leaves the state before each; deltanet.cu does the rest, a segment
 * for a sequence.
 */
#include "cuda.h"
#include "deltanet_segments.cuh"
#include "workspace.h"

/* ---------------------------------------------------------------- ends and transitions */

template <class X, int MT, int WARPS>
static __global__ void __launch_bounds__(32 * WARPS + HELPERS)
    deltanet_ends_kernel(seqmix_deltanet_args a, seqmix_batch batch, segments cut, int rows, bool pieces)
{
    constexpr int WIDTH = 16 * MT * WARPS;
    const block_memory<X, WIDTH> m = take_memory<X, WIDTH>();
    if (threadIdx.x == 0) {
        find_end<WIDTH>(a, batch, cut, blockIdx.x, *m.at_work);
        m.at_work->pieces = pieces;
    }
    __syncthreads();
    if (m.at_work->end < m.at_work->seq.end) /* else nothing follows the segment */
        run_cells<X, MT, WARPS, false>(a, batch, rows, m);
}

/* ---------------------------------------------------------------- from segment to segment */

constexpr int CARRIED = 8, CARRIERS = 4; /* columns of a block, its warps */

/* Four keys of a column, of which `left` are there. */
DV_DEV void load_keys(const float *at, int left, float (&v)[4])
{
    if (left >= 4) {
        load_four<as_f32>(at, v);
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
        v[e] = e < left ? at[e] : 0;
}

/* A quarter of the sum over j of T(key, j) S(j, column), four keys a lane: T is [j][key], S is [j][column]. */
DV_DEV void carry_part(const float *T, const float (*S)[CARRIED], int dim, int warp, int lane, float (&sum)[CARRIED][4])
{
#pragma unroll
    for (int e = 0; e < CARRIED * 4; e++)
        sum[e / 4][e % 4] = 0;
#pragma unroll 8
    for (int j = warp * (DIM / CARRIERS); j < (warp + 1) * (DIM / CARRIERS); j++) {
        if (j >= dim) break;
        float of_key[4];
        load_keys(T + j * DIM + 4 * lane, dim - 4 * lane, of_key);
#pragma unroll
        for (int c = 0; c < CARRIED; c += 4) {
            float of_column[4];
            load_four<as_f32>(S[j] + c, of_column);
#pragma unroll
            for (int e = 0; e < 16; e++)
                sum[c + e / 4][e % 4] = fmaf(of_key[e % 4], of_column[e / 4], sum[c + e / 4][e % 4]);
        }
    }
}

static __global__ void __launch_bounds__(32 * CARRIERS)
    deltanet_carry_kernel(seqmix_deltanet_args a, seqmix_batch batch, segments cut)
{
    DV_SHARED(float, S, [DIM][CARRIED]);
    DV_SHARED(float, parts, [CARRIERS][CARRIED][DIM]);
    const int64_t groups = (a.v.shape[2] + CARRIED - 1) / CARRIED, heads = a.v.shape[1];
    const int64_t i = blockIdx.x / groups / heads, head = blockIdx.x / groups % heads;
    const int64_t column = blockIdx.x % groups * CARRIED, left = a.v.shape[2] - column;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, key = (int)threadIdx.x;
    const int dim = (int)a.k.shape[2], columns = left < CARRIED ? (int)left : CARRIED;
    const sequence seq = sequence_of(batch, a.v.shape[0], a.state, (int32_t)i);
    const int64_t rows = seq.end - seq.begin;
    float *states = static_cast<float *>(cut.states.data) + i * cut.count * cut.states.stride[0] +
                    head * cut.states.stride[1] + column * DIM + key;
    const float *T = static_cast<const float *>(cut.transitions.data) + i * cut.count * cut.transitions.stride[0] +
                     head * cut.transitions.stride[1];
    if (rows == 0) return;
    for (int c = 0; c < columns && key < dim; c++)
        states[c * DIM] = seq.read < 0 ? 0
                                       : get(a.state, seq.read * a.state.stride[0] + head * a.state.stride[1] +
                                                          key * a.state.stride[2] + (column + c) * a.state.stride[3]);
    for (int64_t segment = 1; segment * cut.rows < rows; segment++) {
        states += cut.states.stride[0];
        if (segment > 1) {
            float sum[CARRIED][4];
            __syncthreads(); /* S is written */
            carry_part(T + (segment - 1) * cut.transitions.stride[0], S, dim, warp, lane, sum);
#pragma unroll
            for (int c = 0; c < CARRIED; c++)
                dv_stv(reinterpret_cast<float4 *>(&parts[warp][c][4 * lane]),
                       float4{sum[c][0], sum[c][1], sum[c][2], sum[c][3]});
            __syncthreads();
        }
#pragma unroll
        for (int c = 0; c < CARRIED; c++) {
            float next = 0;
            if (key < dim && c < columns) {
                next = states[c * DIM];
                for (int w = 0; w < CARRIERS && segment > 1; w++)
                    next += parts[w][c][key];
                states[c * DIM] = next;
            }
            S[key][c] = next;
        }
    }
}

/* ---------------------------------------------------------------- host */

/* More would only make the way through them longer. */
constexpr int64_t MOST_SEGMENTS = 32, FEWEST_CELLS = 4;

static int64_t at_least_one(int64_t n)
{
    return n > 0 ? n : 1;
}

/* Segments of the longest sequence at most; does not fall in the rows. */
static int64_t most_segments(const struct seqmix_context *ctx, const seqmix_deltanet_args *a)
{
    const int64_t rows = rows_of_cell(a), cells = (a->batch->max_rows + rows - 1) / rows;
    if ((ctx->flags & SEQMIX_CTX_FAST_ALWAYS) != 0) return cells < 4 ? at_least_one(cells) : 4;
    if ((ctx->flags & SEQMIX_CTX_FAST) == 0 || cells < 3 * FEWEST_CELLS) return 1;
    return cells / FEWEST_CELLS < MOST_SEGMENTS ? cells / FEWEST_CELLS : MOST_SEGMENTS;
}

/* Heads of segments that memory is asked for: enough to fill the device twice. */
static int64_t most_heads(const struct seqmix_context *ctx, const seqmix_deltanet_args *a)
{
    const int64_t heads = a->batch->n_seqs * a->v.shape[1] * most_segments(ctx, a), enough = 2 * ctx->processors;
    return heads < enough || (ctx->flags & SEQMIX_CTX_FAST_ALWAYS) != 0 ? heads : enough;
}

/* Times are those of cut_of. An end takes 0.7 of what a segment takes with its outputs (0.9 with gates per channel, where preparing
 * takes longest); a step from segment to segment 0.7 of a cell; two launches more some cells. */
int64_t seqmix_deltanet_segment_count(const struct seqmix_context *ctx, const seqmix_deltanet_args *a)
{
    const int64_t heads = a->batch->n_seqs * a->v.shape[1], most = most_segments(ctx, a), widest = widest_of(a);
    const int64_t of_values = (a->v.shape[2] + widest - 1) / widest, of_keys = (a->k.shape[2] + widest - 1) / widest;
    const int64_t rows = rows_of_cell(a), cells = (a->batch->max_rows + rows - 1) / rows;
    const int64_t processors = at_least_one(ctx->processors), of_end = gates_per_channel(a) || widest == 128 ? 7 : 5;
    if (most == 1 || (ctx->flags & SEQMIX_CTX_FAST_ALWAYS) != 0) return most;
    int64_t best = 1, least = cells * cut_of(ctx, a, heads).time * 9 / 10;
    for (int64_t count = 3; count <= most && heads * count <= most_heads(ctx, a); count++) {
        const int64_t ends = heads * ((count - 1) * (of_values + of_keys) - of_keys);
        const int64_t of_cell = (ends + processors - 1) / processors * of_end + cut_of(ctx, a, heads * count).time;
        const int64_t time = (cells + count - 1) / count * of_cell + 7 * count + 40;
        if (time >= least) continue;
        best = count;
        least = time;
    }
    return best;
}

/* f32 matrices of DIM keys, a column after the other. */
static seqmix_tensor matrices(struct seqmix_cursor *cursor, int64_t n, int64_t heads, int64_t keys, int64_t columns,
                              int64_t capacity)
{
    void *data = seqmix_take(cursor, (size_t)(capacity * columns * DIM) * sizeof(float));
    return {data, SEQMIX_F32, 4, {n, heads, keys, columns}, {heads * columns * DIM, columns * DIM, 1, DIM}};
}

static segments cut_into(const seqmix_deltanet_args *a, int64_t count, int64_t capacity, struct seqmix_cursor *cursor)
{
    const int64_t rows = rows_of_cell(a), cells = (a->batch->max_rows + rows - 1) / rows;
    const int64_t n = a->batch->n_seqs * count, heads = a->v.shape[1], dim = a->k.shape[2];
    segments cut = {count, count > 1 ? (cells + count - 1) / count * rows : INT32_MAX, {}, {}};
    if (capacity == 0) return cut;
    cut.states = matrices(cursor, n, heads, dim, a->v.shape[2], capacity);
    cut.transitions = matrices(cursor, n, heads, dim, dim, capacity);
    return cut;
}

size_t seqmix_deltanet_segment_bytes(const struct seqmix_context *ctx, const seqmix_deltanet_args *a)
{
    struct seqmix_cursor cursor = {NULL, 0};
    (void)cut_into(a, 1, most_segments(ctx, a) > 1 ? most_heads(ctx, a) : 0, &cursor);
    return cursor.used;
}

template <class X, int MT, int WARPS>
static cudaError_t launch_ends(const struct seqmix_context *ctx, const seqmix_deltanet_args *a, const segments &cut)
{
    constexpr int WIDTH = 16 * MT * WARPS;
    return dv_launch(deltanet_ends_kernel<X, MT, WARPS>, dim3((unsigned)end_tasks(a, cut, WIDTH)),
                     dim3(32 * WARPS + HELPERS), shared_bytes<X, WIDTH>(), static_cast<cudaStream_t>(ctx->stream), *a,
                     *a->batch, cut, rows_of_cell(a), all_in_pieces(a));
}

int seqmix_deltanet_segment_states(const struct seqmix_context *ctx, const seqmix_deltanet_args *a, void *workspace,
                                   struct segments *out)
{
    struct seqmix_cursor cursor = {static_cast<char *>(workspace), 0};
    const int64_t count = seqmix_deltanet_segment_count(ctx, a), heads = a->batch->n_seqs * a->v.shape[1];
    const segments cut = cut_into(a, count, count > 1 ? heads * count : 0, &cursor);
    const int64_t groups = (a->v.shape[2] + CARRIED - 1) / CARRIED;
    *out = cut;
    if (count == 1) return cudaSuccess;
    const int error = gates_per_channel(a)        ? seqmix_deltanet_kda_ends(ctx, a, &cut)
                      : a->v.dtype == SEQMIX_BF16 ? launch_ends<as_bf16, 2, 4>(ctx, a, cut)
                      : a->v.dtype == SEQMIX_F16  ? launch_ends<as_f16, 1, 4>(ctx, a, cut)
                                                  : launch_ends<as_f32, 1, 4>(ctx, a, cut);
    if (error != cudaSuccess) return error;
    return dv_launch(deltanet_carry_kernel, dim3((unsigned)(heads * groups)), dim3(32 * CARRIERS), 0,
                     static_cast<cudaStream_t>(ctx->stream), *a, *a->batch, cut);
}

extern "C" int seqmix_deltanet_segments_prepare__cuda_sm80(int shared_bytes)
{
    return dv_allow_shared(shared_bytes, deltanet_ends_kernel<as_bf16, 2, 4>, deltanet_ends_kernel<as_f16, 1, 4>,
                           deltanet_ends_kernel<as_f32, 1, 4>);
}
