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
#include "ctx.h"
#include "cuda.h"
#include "deltanet_cell.cuh"

/* ---------------------------------------------------------------- the owners of the state */

constexpr int TILES = DIM / 8; /* accumulators of S^T along the keys */

/* Where a thread's elements of 16 columns of the state lie in the pool: number e of accumulator `tile` at first + tile * eight +
 * step[e]. Which of them the tensors have: keys below `keys`, counted from the thread's first. */
struct state_place {
    int64_t first, eight, step[4];
    int keys;
    bool column[2];
};

DV_DEV state_place place_of(const seqmix_tensor &pool, const work &w, int32_t slot, int first)
{
    const int key = 2 * lane_t(), column = first + lane_g();
    state_place at;
    at.first =
        slot * pool.stride[0] + w.head * pool.stride[1] + key * pool.stride[2] + (w.column + column) * pool.stride[3];
    at.eight = 8 * pool.stride[2];
    at.step[0] = 0;
    at.step[1] = pool.stride[2];
    at.step[2] = 8 * pool.stride[3];
    at.step[3] = at.step[1] + at.step[2];
    at.keys = w.dim - key;
    at.column[0] = column < w.columns;
    at.column[1] = column + 8 < w.columns;
    return at;
}

template <class P>
DV_DEV void load_tiles_of_state(const seqmix_tensor &pool, const state_place &at, float scale, float (&S)[TILES][4])
{
    const typename P::storage *from = elements<P>(pool) + at.first;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++, from += at.eight)
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (at.column[e / 2] && 8 * tile + e % 2 < at.keys) S[tile][e] = scale * P::up(from[at.step[e]]);
}

template <class X, int MT>
DV_DEV void load_state(const seqmix_deltanet_args &a, const work &w, int first, float (&S)[MT][TILES][4])
{
    constexpr float SCALE = products_of<X>::type::SCALE;
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
        for (int i = 0; i < TILES * 4; i++)
            S[m][i / 4][i % 4] = 0;
        if (w.seq.read < 0) continue;
        const state_place at = place_of(a.state, w, w.seq.read, first + 16 * m);
        if (a.state.dtype == SEQMIX_BF16)
            load_tiles_of_state<as_bf16>(a.state, at, SCALE, S[m]);
        else if (a.state.dtype == SEQMIX_F16)
            load_tiles_of_state<as_f16>(a.state, at, SCALE, S[m]);
        else
            load_tiles_of_state<as_f32>(a.state, at, SCALE, S[m]);
    }
}

/* Two accumulators of 16 columns; `at.first` has come to the first. */
template <class X>
DV_DEV void store_tiles(const seqmix_tensor &pool, const state_place &at, int tile, const float (&t)[2][4])
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (at.column[i % 4 / 2] && 8 * (tile + i / 4) + i % 2 < at.keys)
            put(pool, at.first + i / 4 * at.eight + at.step[i % 4],
                t[i / 4][i % 4] * (1 / products_of<X>::type::SCALE));
}

/* The columns' products with 16*N rows of keys or queries. */
template <class X, int MT, int N>
DV_DEV void read_state(const float (&S)[MT][TILES][4], const typename products_of<X>::type::key *rows, int pitch,
                       float (&d)[MT][N][2][4])
{
    typedef typename products_of<X>::type products;
#pragma unroll
    for (int i = 0; i < MT * N * 8; i++)
        d[i / 8 / N][i / 8 % N][i % 8 / 4][i % 4] = 0;
#pragma unroll
    for (int k = 0; k < TILES; k += 2) {
        typename products::left_keys s[MT];
#pragma unroll
        for (int m = 0; m < MT; m++)
            products::take_rounded(s[m], S[m][k], S[m][k + 1]);
#pragma unroll
        for (int i = 0; i < N; i++) {
            typename products::right b;
            products::keys(b, rows + 16 * i * pitch + 8 * k, pitch);
#pragma unroll
            for (int m = 0; m < MT; m++)
                products::multiply(d[m][i], s[m], b);
        }
    }
}

/* A factor of each of 16 rows, those that a thread's accumulators have as columns. */
DV_DEV void take_columns(const float *of_row, float (&v)[2][2])
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float2 two = dv_ldv(reinterpret_cast<const float2 *>(of_row + 8 * i + 2 * lane_t()));
        v[i][0] = two.x;
        v[i][1] = two.y;
    }
}

/* U^T = R^T T^T in place, 16 rows at a time from the last: they need R of rows before them only. */
template <class X, int MT, int WIDTH> DV_DEV void solve(const cell<X> &c, float (&U)[MT][C / 16][2][4])
{
    typedef pitches<X, WIDTH> p;
#pragma unroll
    for (int i = C / 16 - 1; i >= 0; i--) {
        float d[MT][2][4] = {};
#pragma unroll
        for (int j = 0; j <= i; j++) {
            typename p::products::left r[MT];
#pragma unroll
            for (int m = 0; m < MT; m++)
                p::products::take(r[m], U[m][j][0], U[m][j][1]);
            p::products::template multiply_square<MT>(d, r, c.solve + 16 * i * p::SQUARE + 16 * j, p::SQUARE, p::PLANE);
        }
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int e = 0; e < 8; e++)
                U[m][i][e / 4][e % 4] = d[m][e / 4][e % 4];
    }
}

/* The state's keys 8*tile to 8*tile+15 after rows weighed into `weighed`. */
template <class X, int MT, int WIDTH>
DV_DEV void write_tiles(const cell<X> &c, const typename products_of<X>::type::left (&weighed)[C / 16][MT], float total,
                        int tile, float (&d)[MT][2][4])
{
    typedef pitches<X, WIDTH> p;
#pragma unroll
    for (int i = 0; i < MT * 8; i++)
        d[i / 8][i % 8 / 4][i % 4] *= total;
#pragma unroll
    for (int j = 0; j < C / 16; j++) {
        typename p::products::right b;
        p::products::keys_turned(b, c.keys + 16 * j * p::KEYS + 8 * tile, p::KEYS);
#pragma unroll
        for (int m = 0; m < MT; m++)
            p::products::multiply(d[m], weighed[j][m], b);
    }
}

/* 16 columns of U times weight[row], rows 16*j to 16*j+15. */
template <class X>
DV_DEV void weigh(const float (&U)[C / 16][2][4], const float (&weight)[C / 16][2][2], int j,
                  typename products_of<X>::type::left &weighed)
{
    float t[2][4];
#pragma unroll
    for (int e = 0; e < 8; e++)
        t[e / 4][e % 4] = U[j][e / 4][e % 4] * weight[j][e / 4][e % 2];
    products_of<X>::type::take(weighed, t[0], t[1]);
}

/* 16 columns of the state after `row` rows of the cell, to a slot. */
template <class X, int WIDTH>
DV_DEV void store_checkpoint(const seqmix_deltanet_args &a, const work &w, const cell<X> &c, int32_t slot, int row,
                             int first, const float (&S)[TILES][4], const float (&U)[C / 16][2][4])
{
    const cell_rows &r = *c.rows;
    typename products_of<X>::type::left weighed[C / 16][1];
    float weight[C / 16][2][2];
#pragma unroll
    for (int i = 0; i < C / 4; i++) {
        const int j = i / 2 * 8 + 2 * lane_t() + i % 2;
        weight[i / 4][i / 2 % 2][i % 2] = j < row ? decay_between(r.high, r.low, row - 1, j) * r.key[j] : 0;
    }
#pragma unroll
    for (int j = 0; j < C / 16; j++)
        weigh<X>(U, weight, j, weighed[j][0]);
    const float total = expf(r.high[row - 1] + r.low[row - 1]);
    state_place at = place_of(a.state, w, slot, first);
#pragma unroll
    for (int tile = 0; tile < TILES; tile += 2, at.first += 2 * at.eight) {
        float d[1][2][4];
#pragma unroll
        for (int i = 0; i < 8; i++)
            d[0][i / 4][i % 4] = S[tile + i / 4][i % 4];
        write_tiles<X, 1, WIDTH>(c, weighed, total, tile, d);
        store_tiles<X>(a.state, at, tile, d[0]);
    }
}

/* The outputs of 16 rows from `row` of the cell on, through the place of their values. */
template <class X, int MT, int WIDTH>
DV_DEV void write_outputs(const seqmix_deltanet_args &a, const work &w, const cell<X> &c, int64_t begin, int n, int row,
                          int first, const float (&d)[MT][2][4])
{
    typedef pitches<X, WIDTH> p;
    typedef typename X::storage element;
    constexpr int PIECE = 16 / (int)sizeof(element), PIECES = 16 * MT / PIECE; /* of a row */
    element *stage = c.values + row * p::VALUES + first;
#pragma unroll
    for (int i = 0; i < MT * 8; i++)
        stage[(2 * lane_t() + i % 8 / 4 * 8 + i % 2) * p::VALUES + 16 * (i / 8) + lane_g() + i % 4 / 2 * 8] =
            X::down(d[i / 8][i % 8 / 4][i % 4] * (1 / p::products::SCALE));
    __syncwarp();
    element *to = elements<X>(a.o) + (begin + row) * a.o.stride[0] + w.head * a.o.stride[1] + w.column + first;
    for (int i = (int)(threadIdx.x % 32); i < 16 * PIECES; i += 32) {
        const int r = i / PIECES, column = i % PIECES * PIECE, left = w.columns - first - column;
        const element *piece = stage + r * p::VALUES + column;
        if (row + r >= n) break;
        if (w.pieces && left >= PIECE)
            dv_stv(reinterpret_cast<uint4 *>(to + r * a.o.stride[0] + column),
                   dv_ldv(reinterpret_cast<const uint4 *>(piece)));
        else
            for (int e = 0; e < PIECE && e < left; e++)
                to[r * a.o.stride[0] + column + e] = piece[e];
    }
}

/* The n rows of a cell from `begin` on, for a warp's columns from `first` on. */
template <class X, int MT, int WIDTH>
DV_DEV void consume(const seqmix_deltanet_args &a, const seqmix_batch &batch, const work &w, const cell<X> &c,
                    int64_t begin, int n, int first, int32_t &ckpt, float (&S)[MT][TILES][4])
{
    typedef pitches<X, WIDTH> p;
    typedef typename p::products products;
    const cell_rows &r = *c.rows;
    float U[MT][C / 16][2][4];
    read_state<X, MT, C / 16>(S, c.keys, p::KEYS, U);
#pragma unroll
    for (int j = 0; j < C / 16; j++) { /* the residual b (V - E (K S)) */
        float beta[2][2], through[2][2];
        take_columns(r.beta + 16 * j, beta);
        take_columns(r.through_key + 16 * j, through);
#pragma unroll
        for (int m = 0; m < MT; m++) {
            float v[2][4];
            products::turned(v, c.values + 16 * j * p::VALUES + first + 16 * m, p::VALUES);
#pragma unroll
            for (int e = 0; e < 8; e++) {
                float &u = U[m][j][e / 4][e % 4];
                u = beta[e / 4][e % 2] * fmaf(-through[e / 4][e % 2], u, products::SCALE * v[e / 4][e % 4]);
            }
        }
    }
    solve<X, MT, WIDTH>(c, U);
    __syncwarp(); /* values are read: outputs may take their place */
#pragma unroll
    for (int i = 0; i < C / 16; i++) {
        float O[MT][1][2][4], d[MT][2][4], through[2][2];
#pragma unroll
        for (int e = 0; e < MT * TILES * 4;
             e++) /* its fragments are made again: kept, they would crowd the registers */
            dv_forget(S[e / 4 / TILES][e / 4 % TILES][e % 4]);
        read_state<X, MT, 1>(S, c.queries + 16 * i * p::KEYS, p::KEYS, O);
        take_columns(r.through_query + 16 * i, through);
#pragma unroll
        for (int e = 0; e < MT * 8; e++)
            d[e / 8][e % 8 / 4][e % 4] = O[e / 8][0][e % 8 / 4][e % 4] * through[e % 8 / 4][e % 2];
#pragma unroll
        for (int j = 0; j <= i; j++) {
            typename products::left u[MT];
#pragma unroll
            for (int m = 0; m < MT; m++)
                products::take(u[m], U[m][j][0], U[m][j][1]);
            products::template multiply_square<MT>(d, u, c.scores + 16 * i * p::SQUARE + 16 * j, p::SQUARE, p::PLANE);
        }
        write_outputs<X, MT, WIDTH>(a, w, c, begin, n, 16 * i, first, d);
    }
#pragma unroll 1
    for (; ckpt < w.seq.ckpt_end; ckpt++) {
        const int64_t row = batch.ckpt_row[ckpt] - (begin - w.seq.begin);
        const int32_t slot = slot_or_none(batch.ckpt_slot[ckpt], a.state);
        if (row > n) break;
        if (row <= 0 || slot < 0) continue;
#pragma unroll
        for (int m = 0; m < MT; m++)
            store_checkpoint<X, WIDTH>(a, w, c, slot, (int)row, first + 16 * m, S[m], U[m]);
    }
    typename products::left weighed[C / 16][MT];
    float weight[C / 16][2][2];
#pragma unroll
    for (int j = 0; j < C / 16; j++)
        take_columns(r.left + 16 * j, weight[j]);
#pragma unroll
    for (int i = 0; i < MT * C / 16; i++)
        weigh<X>(U[i % MT], weight, i / MT, weighed[i / MT][i % MT]);
    const float total = r.total;
#pragma unroll
    for (int tile = 0; tile < TILES; tile += 2) {
        float d[MT][2][4];
#pragma unroll
        for (int i = 0; i < MT * 8; i++)
            d[i / 8][i % 8 / 4][i % 4] = S[i / 8][tile + i % 8 / 4][i % 4];
        write_tiles<X, MT, WIDTH>(c, weighed, total, tile, d);
#pragma unroll
        for (int i = 0; i < MT * 8; i++)
            S[i / 8][tile + i % 8 / 4][i % 4] = d[i / 8][i % 8 / 4][i % 4];
    }
}

/* ---------------------------------------------------------------- kernel and launch */

/* The state of an empty sequence moves bit for bit. */
DV_DEV void move_state(const seqmix_deltanet_args &a, const work &w)
{
    for (int column = (int)threadIdx.x; column < w.columns; column += (int)blockDim.x) {
        const lane_of_state lane = {w.head * a.state.stride[1] + (w.column + column) * a.state.stride[3],
                                    a.state.stride[2], w.dim};
        move_lane(a.state, lane, w.seq);
    }
}

/* The two roles of a block's warps, in step: cell i+1 is prepared while cell i is consumed. Loops of their own keep what one role
 * computes ahead out of the other's registers. */
template <class X, int MT, int WARPS>
DV_DEV void prepare_cells(const seqmix_deltanet_args &a, const work &w, int rows, const cell<X> &both, float *mix,
                          float *inverse)
{
    constexpr int WIDTH = 16 * MT * WARPS;
    int now = 0;
#pragma unroll 1
    for (int64_t begin = w.seq.begin; begin < w.seq.end; begin += rows, now ^= 1) {
        const int64_t left = w.seq.end - begin;
        prepare<X, WIDTH>(a, w, begin, (int)(left < rows ? left : rows), (int)threadIdx.x - 32 * WARPS,
                          cell_of<X, WIDTH>(both, now), mix, inverse);
        dv_barrier(ALL_MEET, 32 * WARPS + HELPERS);
    }
    dv_barrier(ALL_MEET, 32 * WARPS + HELPERS); /* the last cell is consumed */
}

template <class X, int MT, int WARPS>
DV_DEV void consume_cells(const seqmix_deltanet_args &a, const seqmix_batch &batch, const work &w, int rows,
                          const cell<X> &both)
{
    constexpr int WIDTH = 16 * MT * WARPS;
    const int first = 16 * MT * (int)(threadIdx.x / 32);
    int32_t ckpt = w.seq.ckpt;
    int now = 0;
    float S[MT][TILES][4];
    load_state<X, MT>(a, w, first, S);
    dv_barrier(ALL_MEET, 32 * WARPS + HELPERS);
#pragma unroll 1
    for (int64_t begin = w.seq.begin; begin < w.seq.end; begin += rows, now ^= 1) {
        const int64_t left = w.seq.end - begin;
        consume<X, MT, WIDTH>(a, batch, w, cell_of<X, WIDTH>(both, now), begin, (int)(left < rows ? left : rows), first,
                              ckpt, S);
        dv_barrier(ALL_MEET, 32 * WARPS + HELPERS);
    }
    if (w.seq.write < 0) return;
#pragma unroll
    for (int m = 0; m < MT; m++) {
        state_place at = place_of(a.state, w, w.seq.write, first + 16 * m);
#pragma unroll
        for (int tile = 0; tile < TILES; tile += 2, at.first += 2 * at.eight) {
            float d[2][4];
#pragma unroll
            for (int e = 0; e < 8; e++)
                d[e / 4][e % 4] = S[m][tile + e / 4][e % 4];
            store_tiles<X>(a.state, at, tile, d);
        }
    }
}

template <class X, int MT, int WARPS>
static __global__ void __launch_bounds__(32 * WARPS + HELPERS)
    deltanet_chunk_kernel(seqmix_deltanet_args a, seqmix_batch batch, int64_t first_task, int rows, bool pieces)
{
    constexpr int WIDTH = 16 * MT * WARPS;
    typedef pitches<X, WIDTH> p;
    typedef typename p::products products;
    dv_smem shared;
    cell<X> both; /* the first of two cells; the second lies behind it, piece by piece */
    both.keys = shared.take<typename products::key>(2 * C * p::KEYS);
    both.queries = shared.take<typename products::key>(2 * C * p::KEYS);
    both.values = shared.take<typename products::key>(2 * C * p::VALUES);
    both.solve = shared.take<typename products::square>(2 * products::PLANES * p::PLANE);
    both.scores = shared.take<typename products::square>(2 * products::PLANES * p::PLANE);
    work *at_work = shared.take<work>(1);
    float *mix = shared.take<float>(C * MIX_PITCH), *inverse = shared.take<float>(C * MIX_PITCH);
    both.rows = shared.take<cell_rows>(2);

    if (threadIdx.x == 0) {
        const int64_t tiles = (a.v.shape[2] + WIDTH - 1) / WIDTH, heads = a.v.shape[1], task = first_task + blockIdx.x;
        work found;
        found.seq = sequence_of(batch, a.v.shape[0], a.state, (int32_t)(task / tiles / heads));
        found.head = task / tiles % heads;
        found.key_head = key_head_of(a, found.head);
        found.column = task % tiles * WIDTH;
        found.columns = (int)(a.v.shape[2] - found.column < WIDTH ? a.v.shape[2] - found.column : WIDTH);
        found.dim = (int)a.k.shape[2];
        found.pieces = pieces;
        *at_work = found;
    }
    __syncthreads();
    if (at_work->seq.begin == at_work->seq.end)
        move_state(a, *at_work);
    else if (threadIdx.x >= 32 * WARPS)
        prepare_cells<X, MT, WARPS>(a, *at_work, rows, both, mix, inverse);
    else
        consume_cells<X, MT, WARPS>(a, batch, *at_work, rows, both);
}

/* Rows of a cell: the kernel's own, or fewer where the caller asks. */
static int rows_of_cell(const seqmix_deltanet_args *a)
{
    return a->chunk > 0 && a->chunk < C ? a->chunk : C;
}

/* Whether all rows may be taken in pieces of 16 bytes. */
static bool all_in_pieces(const seqmix_deltanet_args *a)
{
    const seqmix_tensor *rows[4] = {&a->q, &a->k, &a->v, &a->o};
    bool fits = true;
    for (int i = 0; i < 4; i++) {
        const int64_t bytes = rows[i]->dtype == SEQMIX_F32 ? 4 : 2;
        fits = fits && reinterpret_cast<uintptr_t>(rows[i]->data) % 16 == 0 && rows[i]->stride[0] * bytes % 16 == 0 &&
               rows[i]->stride[1] * bytes % 16 == 0;
    }
    return fits;
}

template <class X, int MT, int WARPS>
static cudaError_t launch(const struct seqmix_context *ctx, const seqmix_deltanet_args *a)
{
    constexpr int WIDTH = 16 * MT * WARPS;
    const int64_t tasks = a->batch->n_seqs * a->v.shape[1] * ((a->v.shape[2] + WIDTH - 1) / WIDTH);
    cudaError_t error = cudaSuccess;
    for (int64_t first = 0; first < tasks && error == cudaSuccess; first += INT32_MAX)
        error = dv_launch(deltanet_chunk_kernel<X, MT, WARPS>, blocks_for(tasks - first), dim3(32 * WARPS + HELPERS),
                          shared_bytes<X, WIDTH>(), static_cast<cudaStream_t>(ctx->stream), *a, *a->batch, first,
                          rows_of_cell(a), all_in_pieces(a));
    return error;
}

/* Columns of a block, at most `widest`: what ends first if a processor runs its blocks one after the other. A block of half the
 * width takes about 0.8 of the time: it prepares the same cells. */
static int64_t width_of(const struct seqmix_context *ctx, const seqmix_deltanet_args *a, int64_t widest)
{
    const int64_t heads = a->batch->n_seqs * a->v.shape[1], columns = a->v.shape[2];
    const int64_t processors = ctx->processors > 0 ? ctx->processors : 1;
    int64_t best = widest, least = INT64_MAX, cost = widest == 128 ? 10 : 8;
    for (int64_t width = widest; width >= 32; width /= 2, cost -= 2) {
        const int64_t blocks = heads * ((columns + width - 1) / width),
                      time = (blocks + processors - 1) / processors * cost;
        if (time > least) continue;
        best = width;
        least = time;
    }
    return best;
}

/* Shared memory of the widest block. Some cards give a block 99 KiB, too little for f32 however narrow it is. */
static size_t most_shared(int32_t dtype)
{
    return dtype == SEQMIX_BF16  ? shared_bytes<as_bf16, 128>()
           : dtype == SEQMIX_F16 ? shared_bytes<as_f16, 64>()
                                 : shared_bytes<as_f32, 64>();
}

extern "C" seqmix_status seqmix_deltanet_chunk_forward_plan__cuda_sm80(const struct seqmix_context *ctx,
                                                                       const seqmix_deltanet_args *a,
                                                                       struct seqmix_plan *plan)
{
    const bool per_channel = a->gate_kind != SEQMIX_GATE_NONE && a->gate.rank == 3;
    if (per_channel || a->k.shape[1] == 0 || a->k.shape[2] == 0 || a->k.shape[2] > DIM) return SEQMIX_ERR_UNSUPPORTED;
    if (most_shared(a->v.dtype) > (size_t)ctx->shared_bytes) return SEQMIX_ERR_UNSUPPORTED;
    plan->kernel = "cuda-sm80/deltanet_chunk";
    plan->workspace = 0;
    plan->grain = rows_of_cell(a);
    return SEQMIX_OK;
}

extern "C" int seqmix_deltanet_chunk_forward__cuda_sm80(const struct seqmix_context *ctx, const seqmix_deltanet_args *a,
                                                        void *)
{
    if (a->batch->n_seqs * a->v.shape[1] * a->v.shape[2] == 0) return cudaSuccess;
    switch (a->v.dtype) {
    case SEQMIX_BF16:
        switch (width_of(ctx, a, 128)) {
        case 128:
            return launch<as_bf16, 2, 4>(ctx, a);
        case 64:
            return launch<as_bf16, 1, 4>(ctx, a);
        default:
            return launch<as_bf16, 1, 2>(ctx, a);
        }
    case SEQMIX_F16:
        return width_of(ctx, a, 64) == 64 ? launch<as_f16, 1, 4>(ctx, a) : launch<as_f16, 1, 2>(ctx, a);
    default:
        return width_of(ctx, a, 64) == 64 ? launch<as_f32, 1, 4>(ctx, a) : launch<as_f32, 1, 2>(ctx, a);
    }
}
