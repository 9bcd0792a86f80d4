/* SPDX-License-Identifier: MIT */
/*
 * The warps of deltanet*.cu that own the state: a warp has 16*MT columns of it as accumulators S^T and takes them through the cells
 * that deltanet_cell.cuh prepared. K, T = (I + A)^-1 and the scores are right factors in shared memory; columns never leave their warp.
 */
#ifndef SEQMIX_CUDA_DELTANET_STATE_CUH
#define SEQMIX_CUDA_DELTANET_STATE_CUH

#include "deltanet_cell.cuh"

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

/* The state that the block begins with. */
template <class X, int MT> DV_DEV void load_state(const work &w, int first, float (&S)[MT][TILES][4])
{
    constexpr float SCALE = products_of<X>::type::SCALE;
#pragma unroll
    for (int m = 0; m < MT; m++) {
        const int column = (int)w.column + first + 16 * m + lane_g();
#pragma unroll
        for (int i = 0; i < TILES * 4; i++) {
            const int key = i / 4 * 8 + 2 * lane_t() + i % 2;
            S[m][i / 4][i % 4] = w.identity && key == column + i % 4 / 2 * 8 ? SCALE : 0;
        }
        if (w.read < 0) continue;
        const state_place at = place_of(w.from, w, w.read, first + 16 * m);
        if (w.from.dtype == SEQMIX_BF16)
            load_tiles_of_state<as_bf16>(w.from, at, SCALE, S[m]);
        else if (w.from.dtype == SEQMIX_F16)
            load_tiles_of_state<as_f16>(w.from, at, SCALE, S[m]);
        else
            load_tiles_of_state<as_f32>(w.from, at, SCALE, S[m]);
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

/* The state to a slot of a pool; -1: nowhere. */
template <class X, int MT>
DV_DEV void store_state(const seqmix_tensor &pool, const work &w, int32_t slot, int first,
                        const float (&S)[MT][TILES][4])
{
    if (slot < 0) return;
#pragma unroll
    for (int m = 0; m < MT; m++) {
        state_place at = place_of(pool, w, slot, first + 16 * m);
#pragma unroll
        for (int tile = 0; tile < TILES; tile += 2, at.first += 2 * at.eight) {
            float d[2][4];
#pragma unroll
            for (int e = 0; e < 8; e++)
                d[e / 4][e % 4] = S[m][tile + e / 4][e % 4];
            store_tiles<X>(pool, at, tile, d);
        }
    }
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

/* The outputs of the n rows of a cell. */
template <class X, int MT, int WIDTH>
DV_DEV void write_cell(const seqmix_deltanet_args &a, const work &w, const cell<X> &c, int64_t begin, int n, int first,
                       float (&S)[MT][TILES][4], const float (&U)[MT][C / 16][2][4])
{
    typedef pitches<X, WIDTH> p;
    typedef typename p::products products;
    const cell_rows &r = *c.rows;
#pragma unroll 1 /* unrolled, ptxas for sm_90 loads far ahead and spills */
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
        for (int j = 0; j < C / 16; j++) {
            if (j > i) break;
            typename products::left u[MT];
#pragma unroll
            for (int m = 0; m < MT; m++)
                products::take(u[m], U[m][j][0], U[m][j][1]);
            products::template multiply_square<MT>(d, u, c.scores + 16 * i * p::SQUARE + 16 * j, p::SQUARE, p::PLANE);
        }
        write_outputs<X, MT, WIDTH>(a, w, c, begin, n, 16 * i, first, d);
    }
}

/* The n rows of a cell from `begin` on, for a warp's columns from `first` on; without OUTPUTS only what they do to the state. */
template <class X, int MT, int WIDTH, bool OUTPUTS>
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
    if (OUTPUTS) {
        __syncwarp(); /* values are read: outputs may take their place */
        write_cell<X, MT, WIDTH>(a, w, c, begin, n, first, S, U);
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

/* ---------------------------------------------------------------- the two roles of a block's warps */

/* The state of an empty sequence moves bit for bit. */
DV_DEV void move_state(const seqmix_deltanet_args &a, const work &w)
{
    for (int column = (int)threadIdx.x; column < w.columns; column += (int)blockDim.x) {
        const lane_of_state lane = {w.head * a.state.stride[1] + (w.column + column) * a.state.stride[3],
                                    a.state.stride[2], w.dim};
        move_lane(a.state, lane, w.seq);
    }
}

/* In step: cell i+1 is prepared while cell i is consumed. Loops of their own keep what one role computes ahead out of the other's
 * registers. */
template <class X, int MT, int WARPS, bool OUTPUTS>
DV_DEV void prepare_cells(const seqmix_deltanet_args &a, const work &w, int rows, const cell<X> &both, float *mix,
                          float *inverse)
{
    constexpr int WIDTH = 16 * MT * WARPS;
    int now = 0;
#pragma unroll 1
    for (int64_t begin = w.begin; begin < w.end; begin += rows, now ^= 1) {
        const int64_t left = w.end - begin;
        prepare<X, WIDTH, OUTPUTS>(a, w, begin, (int)(left < rows ? left : rows), (int)threadIdx.x - 32 * WARPS,
                                   cell_of<X, WIDTH>(both, now), mix, inverse);
        dv_barrier(ALL_MEET, 32 * WARPS + HELPERS);
    }
    dv_barrier(ALL_MEET, 32 * WARPS + HELPERS); /* the last cell is consumed */
}

template <class X, int MT, int WARPS, bool OUTPUTS>
DV_DEV void consume_cells(const seqmix_deltanet_args &a, const seqmix_batch &batch, const work &w, int rows,
                          const cell<X> &both)
{
    constexpr int WIDTH = 16 * MT * WARPS;
    const int first = 16 * MT * (int)(threadIdx.x / 32);
    int32_t ckpt = w.seq.ckpt;
    int now = 0;
    float S[MT][TILES][4];
    load_state<X, MT>(w, first, S);
    dv_barrier(ALL_MEET, 32 * WARPS + HELPERS);
#pragma unroll 1
    for (int64_t begin = w.begin; begin < w.end; begin += rows, now ^= 1) {
        const int64_t left = w.end - begin;
        consume<X, MT, WIDTH, OUTPUTS>(a, batch, w, cell_of<X, WIDTH>(both, now), begin,
                                       (int)(left < rows ? left : rows), first, ckpt, S);
        dv_barrier(ALL_MEET, 32 * WARPS + HELPERS);
    }
    store_state<X, MT>(w.to, w, w.write, first, S);
}

/* A block's shared memory. */
template <class X, int WIDTH> struct block_memory {
    cell<X> both; /* the first of two cells; the second lies behind it, piece by piece */
    work *at_work;
    float *mix, *inverse;
};

template <class X, int WIDTH> DV_DEV block_memory<X, WIDTH> take_memory()
{
    typedef pitches<X, WIDTH> p;
    typedef typename p::products products;
    dv_smem shared;
    block_memory<X, WIDTH> m;
    m.both.keys = shared.take<typename products::key>(2 * C * p::KEYS);
    m.both.queries = shared.take<typename products::key>(2 * C * p::KEYS);
    m.both.values = shared.take<typename products::key>(2 * C * p::VALUES);
    m.both.solve = shared.take<typename products::square>(2 * products::PLANES * p::PLANE);
    m.both.scores = shared.take<typename products::square>(2 * products::PLANES * p::PLANE);
    m.at_work = shared.take<work>(1);
    m.mix = shared.take<float>(C * MIX_PITCH);
    m.inverse = shared.take<float>(C * MIX_PITCH);
    m.both.rows = shared.take<cell_rows>(2);
    return m;
}

/* The rows of a block, whose work is known. */
template <class X, int MT, int WARPS, bool OUTPUTS>
DV_DEV void run_cells(const seqmix_deltanet_args &a, const seqmix_batch &batch, int rows,
                      const block_memory<X, 16 * MT * WARPS> &m)
{
    if (threadIdx.x >= 32 * WARPS)
        prepare_cells<X, MT, WARPS, OUTPUTS>(a, *m.at_work, rows, m.both, m.mix, m.inverse);
    else
        consume_cells<X, MT, WARPS, OUTPUTS>(a, batch, *m.at_work, rows, m.both);
}

#endif
