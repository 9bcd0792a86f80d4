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
#include "deltanet_gates.cuh"
#include "products.cuh"
#include "tile.cuh"

constexpr int C = 32, DIM = 128, HELPERS = 128; /* rows of a cell, most keys, threads that prepare */
constexpr int MIX_PITCH = C + 1;

/* What rows of one cell are multiplied with. */
struct cell_rows {
    float beta[C], high[C], low[C];                  /* sums of log decays */
    float key[C], query[C];                          /* L2 factors, or 1 */
    float through_key[C], through_query[C], left[C]; /* E from the start times a factor; to the end, times the key's */
    float total;                                     /* E from the start to the end */
};

/* One of two cells in shared memory. */
template <class X> struct cell {
    typename products_of<X>::type::key *keys, *queries, *values;
    typename products_of<X>::type::square *solve, *scores;
    cell_rows *rows;
};

template <class X, int WIDTH> struct pitches {
    typedef typename products_of<X>::type products;
    static constexpr int KEYS = DIM + products::KEY_PAD, VALUES = WIDTH + products::KEY_PAD,
                         SQUARE = C + products::SQUARE_PAD;
    static constexpr int PLANE = C * SQUARE;
};

/* Cell 0 or 1 of both. */
template <class X, int WIDTH> DV_DEV cell<X> cell_of(const cell<X> &both, int i)
{
    typedef pitches<X, WIDTH> p;
    const int square = p::products::PLANES * p::PLANE;
    return {both.keys + i * C * p::KEYS, both.queries + i * C * p::KEYS, both.values + i * C * p::VALUES,
            both.solve + i * square,     both.scores + i * square,       both.rows + i};
}

template <class X, int WIDTH> static constexpr size_t shared_bytes()
{
    typedef pitches<X, WIDTH> p;
    typedef typename p::products products;
    return 2 * (sizeof(typename products::key) * C * (2 * p::KEYS + p::VALUES) +
                sizeof(typename products::square) * 2 * products::PLANES * p::PLANE + sizeof(cell_rows)) +
           sizeof(float) * 2 * C * MIX_PITCH;
}

/* One block's view of its work. */
struct work {
    sequence seq;
    int64_t head, key_head, column; /* the first column */
    int columns;                    /* of the tensors; the block may have more */
    int dim;
    bool eights; /* rows in pieces of 16 bytes */
};

/* ---------------------------------------------------------------- the helpers: rows and gates of a cell */

/* `rows` rows of `columns` elements into C rows of WIDTH, zeros around them. */
template <class X, int WIDTH>
DV_DEV void load_rows(const seqmix_tensor &t, int64_t offset, int rows, int columns, bool pieces,
                      typename products_of<X>::type::key *to, int pitch, int helper)
{
    typedef typename X::storage element;
    constexpr int PIECE = 16 / (int)sizeof(element);
    const element *from = elements<X>(t);
    for (int i = helper; i < C * (WIDTH / PIECE); i += HELPERS) {
        const int row = i / (WIDTH / PIECE), column = i % (WIDTH / PIECE) * PIECE, left = columns - column;
        const int given = row < rows && left > 0 ? (left < PIECE ? left : PIECE) : 0;
        const element *at = given > 0 ? from + offset + row * t.stride[0] + column : from;
        if (pieces) {
            dv_cp_async16(to + row * pitch + column, at, given * (int)sizeof(element));
            continue;
        }
        for (int e = 0; e < PIECE; e++)
            to[row * pitch + column + e] = e < given ? at[e] : (element)0;
    }
}

/* 1/|row| of all rows, eight lanes a row. */
template <class X>
DV_DEV void l2_factors(const typename products_of<X>::type::key *rows, int pitch, float eps, int helper, float *factor)
{
    for (int row = helper / 8; row < C; row += HELPERS / 8) {
        float sum = 0, v[8];
        for (int piece = helper % 8; piece < DIM / 8; piece += 8) {
            load_eight<X>(rows + row * pitch + 8 * piece, v);
            for (int e = 0; e < 8; e++)
                sum = fmaf(v[e], v[e], sum);
        }
        for (int bits = 4; bits > 0; bits /= 2)
            sum += __shfl_xor_sync(ALL_LANES, sum, bits);
        if (helper % 8 == 0) factor[row] = 1 / sqrtf(sum + eps);
    }
}

/* A warp, a row a lane: what the rows' gates come to. Needs the L2 factors. */
DV_DEV void weigh_rows(const seqmix_deltanet_args &a, const work &w, int n, cell_rows &r)
{
    const int row = (int)(threadIdx.x % 32);
    const float through = expf(r.high[row] + r.low[row]), scale = delta_scale(a);
    r.through_key[row] = through * r.key[row];
    r.through_query[row] = scale * through * r.query[row];
    r.query[row] *= scale;
    r.left[row] = row < n ? decay_between(r.high, r.low, n - 1, row) * r.key[row] : 0;
    if (row == n - 1) r.total = through;
}

/* ---------------------------------------------------------------- the helpers: products of rows, T */

/* 16 x 16 products of rows `i` of the left and `j` of the keys on. */
template <class X>
DV_DEV void row_products(const typename products_of<X>::type::key *left, const typename products_of<X>::type::key *keys,
                         int pitch, int i, int j, float (&d)[2][4])
{
    typedef typename products_of<X>::type products;
#pragma unroll
    for (int e = 0; e < 8; e++)
        d[e / 4][e % 4] = 0;
#pragma unroll 4
    for (int k = 0; k < DIM; k += 16) {
        typename products::left_keys x;
        typename products::right y;
        products::take_keys(x, left + i * pitch + k, pitch);
        products::keys(y, keys + j * pitch + k, pitch);
        products::multiply(d, x, y);
    }
}

/* Block (i, j) of A, or of the scores. */
template <class X, int WIDTH> DV_DEV void mix_block(const cell<X> &c, int i, int j, float *mix)
{
    const cell_rows &r = *c.rows;
    float d[2][4];
    row_products<X>(c.keys, c.keys, pitches<X, WIDTH>::KEYS, i, j, d);
#pragma unroll
    for (int e = 0; e < 8; e++) {
        const int row = i + lane_g() + e % 4 / 2 * 8, column = j + 2 * lane_t() + e / 4 * 8 + e % 2;
        const float factor = r.beta[row] * r.key[row] * (decay_between(r.high, r.low, row, column) * r.key[column]);
        mix[row * MIX_PITCH + column] = column < row ? factor * d[e / 4][e % 4] : 0;
    }
}
template <class X, int WIDTH> DV_DEV void score_block(const cell<X> &c, int i, int j)
{
    typedef pitches<X, WIDTH> p;
    const cell_rows &r = *c.rows;
    float d[2][4];
    row_products<X>(c.queries, c.keys, p::KEYS, i, j, d);
#pragma unroll
    for (int e = 0; e < 8; e++) {
        const int row = i + lane_g() + e % 4 / 2 * 8, column = j + 2 * lane_t() + e / 4 * 8 + e % 2;
        const float factor = r.query[row] * (decay_between(r.high, r.low, row, column) * r.key[column]);
        p::products::put_square(c.scores + row * p::SQUARE + column, p::PLANE,
                                column <= row ? factor * d[e / 4][e % 4] : 0);
    }
}

/* A lane per column: the inverse of a 16 x 16 block of I + A on the diagonal. */
template <class X, int WIDTH> DV_DEV void invert_block(const cell<X> &c, int first, const float *mix, float *inverse)
{
    typedef pitches<X, WIDTH> p;
    const int lane = (int)(threadIdx.x % 32), column = lane % 16;
    const float *block = mix + first * MIX_PITCH + first;
    float x[16];
#pragma unroll
    for (int i = 0; i < 16; i++)
        x[i] = i == column ? 1 : 0;
#pragma unroll
    for (int j = 0; j < 15; j++)
#pragma unroll
        for (int i = j + 1; i < 16; i++)
            x[i] = fmaf(-block[i * MIX_PITCH + j], x[j], x[i]);
    if (lane >= 16) return;
#pragma unroll
    for (int i = 0; i < 16; i++) {
        inverse[(first + i) * MIX_PITCH + first + column] = x[i];
        p::products::put_square(c.solve + (first + i) * p::SQUARE + first + column, p::PLANE, x[i]);
    }
}

/* The block below: T10 = -T11 (A10 T00), two neighbours a thread; A10 T00 lies in the unused corner of `mix`. */
template <class X, int WIDTH> DV_DEV void invert_below(const cell<X> &c, int helper, float *mix, const float *inverse)
{
    typedef pitches<X, WIDTH> p;
    const int row = helper / 8, column = helper % 8 * 2;
    float *corner = mix + 16;
    float x = 0, y = 0;
#pragma unroll
    for (int k = 0; k < 16; k++) {
        const float a = mix[(16 + row) * MIX_PITCH + k];
        x = fmaf(a, inverse[k * MIX_PITCH + column], x);
        y = fmaf(a, inverse[k * MIX_PITCH + column + 1], y);
    }
    corner[row * MIX_PITCH + column] = x;
    corner[row * MIX_PITCH + column + 1] = y;
    dv_barrier(1, HELPERS);
    x = y = 0;
#pragma unroll
    for (int k = 0; k < 16; k++) {
        const float a = -inverse[(16 + row) * MIX_PITCH + 16 + k];
        x = fmaf(a, corner[k * MIX_PITCH + column], x);
        y = fmaf(a, corner[k * MIX_PITCH + column + 1], y);
    }
    p::products::put_square(c.solve + (16 + row) * p::SQUARE + column, p::PLANE, x);
    p::products::put_square(c.solve + (16 + row) * p::SQUARE + column + 1, p::PLANE, y);
}

/* Everything of the n rows from `begin` on that does not depend on the state. */
template <class X, int WIDTH>
DV_DEV void prepare(const seqmix_deltanet_args &a, const work &w, int64_t begin, int n, int helper, const cell<X> &c,
                    float *mix, float *inverse)
{
    typedef pitches<X, WIDTH> p;
    const int warp = helper / 32, lane = helper % 32;
    load_rows<X, DIM>(a.k, begin * a.k.stride[0] + w.key_head * a.k.stride[1], n, w.dim, w.eights, c.keys, p::KEYS,
                      helper);
    load_rows<X, DIM>(a.q, begin * a.q.stride[0] + w.key_head * a.q.stride[1], n, w.dim, w.eights, c.queries, p::KEYS,
                      helper);
    load_rows<X, WIDTH>(a.v, begin * a.v.stride[0] + w.head * a.v.stride[1] + w.column, n, w.columns, w.eights,
                        c.values, p::VALUES, helper);
    dv_cp_async_commit();
    if (warp == 0) {
        const float g[1] = {lane < n ? gate_log(a, begin + lane, w.head, 0) : 0};
        c.rows->beta[lane] = lane < n ? beta_of(a, begin + lane, w.head) : 0;
        scan_pairs<32>(g, c.rows->high, c.rows->low);
        if (a.qk_l2norm == 0) c.rows->key[lane] = c.rows->query[lane] = 1;
    }
    dv_cp_async_wait<0>();
    dv_barrier(1, HELPERS);
    if (a.qk_l2norm != 0) {
        l2_factors<X>(c.keys, p::KEYS, a.eps, helper, c.rows->key);
        l2_factors<X>(c.queries, p::KEYS, a.eps, helper, c.rows->query);
        dv_barrier(1, HELPERS);
    }
    if (warp == 0) weigh_rows(a, w, n, *c.rows);
    dv_barrier(1, HELPERS);
    switch (warp) {
    case 0:
        mix_block<X, WIDTH>(c, 0, 0, mix);
        __syncwarp();
        invert_block<X, WIDTH>(c, 0, mix, inverse);
        break;
    case 1:
        mix_block<X, WIDTH>(c, 16, 16, mix);
        __syncwarp();
        invert_block<X, WIDTH>(c, 16, mix, inverse);
        break;
    case 2:
        mix_block<X, WIDTH>(c, 16, 0, mix);
        score_block<X, WIDTH>(c, 0, 0);
        break;
    default:
        score_block<X, WIDTH>(c, 16, 0);
        score_block<X, WIDTH>(c, 16, 16);
        break;
    }
    dv_barrier(1, HELPERS);
    invert_below<X, WIDTH>(c, helper, mix, inverse);
}

/* ---------------------------------------------------------------- the owners of the state */

constexpr int TILES = DIM / 8; /* accumulators of S^T along the keys */

/* Place of element e of an accumulator of S^T in the pool, from the head's first element on. */
DV_DEV int64_t state_offset(const seqmix_tensor &pool, int64_t column, int tile, int e)
{
    return (8 * tile + 2 * lane_t() + e % 2) * pool.stride[2] + (column + lane_g() + e / 2 * 8) * pool.stride[3];
}

template <class X, int MT>
DV_DEV void load_state(const seqmix_deltanet_args &a, const work &w, int first, float (&S)[MT][TILES][4])
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < TILES * 4; i++) {
            const int tile = i / 4, e = i % 4, column = first + 16 * m;
            const bool in =
                w.seq.read >= 0 && column + lane_g() + e / 2 * 8 < w.columns && 8 * tile + 2 * lane_t() + e % 2 < w.dim;
            S[m][tile][e] = in ? products_of<X>::type::SCALE *
                                     get(a.state, w.seq.read * a.state.stride[0] + w.head * a.state.stride[1] +
                                                      state_offset(a.state, w.column + column, tile, e))
                               : 0;
        }
}

template <class X, int MT>
DV_DEV void store_tiles(const seqmix_deltanet_args &a, const work &w, int32_t slot, int first, int tile,
                        const float (&t)[MT][2][4])
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int column = first + 16 * m, e = i % 4;
            if (column + lane_g() + e / 2 * 8 < w.columns && 8 * (tile + i / 4) + 2 * lane_t() + e % 2 < w.dim)
                put(a.state,
                    slot * a.state.stride[0] + w.head * a.state.stride[1] +
                        state_offset(a.state, w.column + column, tile + i / 4, e),
                    t[m][i / 4][e] * (1 / products_of<X>::type::SCALE));
        }
}

/* The columns' products with the keys or queries of all rows. */
template <class X, int MT>
DV_DEV void read_state(const float (&S)[MT][TILES][4], const typename products_of<X>::type::key *rows, int pitch,
                       float (&d)[MT][C / 16][2][4])
{
    typedef typename products_of<X>::type products;
#pragma unroll
    for (int i = 0; i < MT * C / 2; i++)
        d[i / (C / 2)][i % (C / 2) / 8][i % 8 / 4][i % 4] = 0;
#pragma unroll
    for (int k = 0; k < TILES; k += 2) {
        typename products::left_keys s[MT];
#pragma unroll
        for (int m = 0; m < MT; m++)
            products::take_rounded(s[m], S[m][k], S[m][k + 1]);
#pragma unroll
        for (int i = 0; i < C / 16; i++) {
            typename products::right b;
            products::keys(b, rows + 16 * i * pitch + 8 * k, pitch);
#pragma unroll
            for (int m = 0; m < MT; m++)
                products::multiply(d[m][i], s[m], b);
        }
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

/* U times weight[row]. */
template <class X, int MT>
DV_DEV void weigh(const float (&U)[MT][C / 16][2][4], const float (&weight)[C / 16][2][2],
                  typename products_of<X>::type::left (&weighed)[C / 16][MT])
{
#pragma unroll
    for (int j = 0; j < C / 16; j++)
#pragma unroll
        for (int m = 0; m < MT; m++) {
            float t[2][4];
#pragma unroll
            for (int e = 0; e < 8; e++)
                t[e / 4][e % 4] = U[m][j][e / 4][e % 4] * weight[j][e / 4][e % 2];
            products_of<X>::type::take(weighed[j][m], t[0], t[1]);
        }
}

/* The state after `row` rows of the cell, to a slot. */
template <class X, int MT, int WIDTH>
DV_DEV void store_checkpoint(const seqmix_deltanet_args &a, const work &w, const cell<X> &c, int32_t slot, int row,
                             int first, const float (&S)[MT][TILES][4], const float (&U)[MT][C / 16][2][4])
{
    const cell_rows &r = *c.rows;
    typename products_of<X>::type::left weighed[C / 16][MT];
    float weight[C / 16][2][2];
#pragma unroll
    for (int i = 0; i < C / 4; i++) {
        const int j = i / 2 * 8 + 2 * lane_t() + i % 2;
        weight[i / 4][i / 2 % 2][i % 2] = j < row ? decay_between(r.high, r.low, row - 1, j) * r.key[j] : 0;
    }
    weigh<X, MT>(U, weight, weighed);
    const float total = expf(r.high[row - 1] + r.low[row - 1]);
#pragma unroll
    for (int tile = 0; tile < TILES; tile += 2) {
        float d[MT][2][4];
#pragma unroll
        for (int i = 0; i < MT * 8; i++)
            d[i / 8][i % 8 / 4][i % 4] = S[i / 8][tile + i % 8 / 4][i % 4];
        write_tiles<X, MT, WIDTH>(c, weighed, total, tile, d);
        store_tiles<X, MT>(a, w, slot, first, tile, d);
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
        if (w.eights && left >= PIECE)
            dv_stv(reinterpret_cast<uint4 *>(to + r * a.o.stride[0] + column),
                   dv_ldv(reinterpret_cast<const uint4 *>(piece)));
        else
            for (int e = 0; e < PIECE && e < left; e++)
                to[r * a.o.stride[0] + column + e] = piece[e];
    }
}

/* The n rows of a cell from `begin` on, for a warp's columns from `first` on. */
template <class X, int MT, int WIDTH>
DV_DEV void consume(const seqmix_deltanet_args &a, const seqmix_batch &batch, work &w, const cell<X> &c, int64_t begin,
                    int n, int first, float (&S)[MT][TILES][4])
{
    typedef pitches<X, WIDTH> p;
    typedef typename p::products products;
    const cell_rows &r = *c.rows;
    float U[MT][C / 16][2][4], O[MT][C / 16][2][4];
    read_state<X, MT>(S, c.keys, p::KEYS, U);
#pragma unroll
    for (int j = 0; j < C / 16; j++) /* the residual b (V - E (K S)) */
#pragma unroll
        for (int m = 0; m < MT; m++) {
            float v[2][4];
            products::turned(v, c.values + 16 * j * p::VALUES + first + 16 * m, p::VALUES);
#pragma unroll
            for (int e = 0; e < 8; e++) {
                const int row = 16 * j + e / 4 * 8 + 2 * lane_t() + e % 2;
                float &u = U[m][j][e / 4][e % 4];
                u = r.beta[row] * fmaf(-r.through_key[row], u, products::SCALE * v[e / 4][e % 4]);
            }
        }
    solve<X, MT, WIDTH>(c, U);
    __syncwarp(); /* values are read: outputs may take their place */
#pragma unroll
    for (int i = 0; i < MT * TILES * 4; i++) /* its fragments are made again: kept, they would crowd the registers */
        dv_forget(S[i / 4 / TILES][i / 4 % TILES][i % 4]);
    read_state<X, MT>(S, c.queries, p::KEYS, O);
#pragma unroll
    for (int i = 0; i < C / 16; i++) {
        float d[MT][2][4];
#pragma unroll
        for (int e = 0; e < MT * 8; e++)
            d[e / 8][e % 8 / 4][e % 4] =
                O[e / 8][i][e % 8 / 4][e % 4] * r.through_query[16 * i + e % 8 / 4 * 8 + 2 * lane_t() + e % 2];
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
    for (; w.seq.ckpt < w.seq.ckpt_end; w.seq.ckpt++) {
        const int64_t row = batch.ckpt_row[w.seq.ckpt] - (begin - w.seq.begin);
        const int32_t slot = slot_or_none(batch.ckpt_slot[w.seq.ckpt], a.state);
        if (row > n) break;
        if (row > 0 && slot >= 0) store_checkpoint<X, MT, WIDTH>(a, w, c, slot, (int)row, first, S, U);
    }
    typename products::left weighed[C / 16][MT];
    float weight[C / 16][2][2];
#pragma unroll
    for (int i = 0; i < C / 4; i++)
        weight[i / 4][i / 2 % 2][i % 2] = r.left[i / 2 * 8 + 2 * lane_t() + i % 2];
    weigh<X, MT>(U, weight, weighed);
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

template <class X, int MT, int WARPS>
static __global__ void __launch_bounds__(32 * WARPS + HELPERS)
    deltanet_chunk_kernel(seqmix_deltanet_args a, seqmix_batch batch, int rows, bool eights)
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
    float *mix = shared.take<float>(C * MIX_PITCH), *inverse = shared.take<float>(C * MIX_PITCH);
    both.rows = shared.take<cell_rows>(2);

    const int64_t tiles = (a.v.shape[2] + WIDTH - 1) / WIDTH, heads = a.v.shape[1];
    const int warp = (int)threadIdx.x / 32, helper = (int)threadIdx.x - 32 * WARPS;
    for (int64_t task = blockIdx.x; task < batch.n_seqs * heads * tiles; task += gridDim.x) {
        work w;
        w.seq = sequence_of(batch, a.v.shape[0], a.state, (int32_t)(task / tiles / heads));
        w.head = task / tiles % heads;
        w.key_head = key_head_of(a, w.head);
        w.column = task % tiles * WIDTH;
        w.columns = (int)(a.v.shape[2] - w.column < WIDTH ? a.v.shape[2] - w.column : WIDTH);
        w.dim = (int)a.k.shape[2];
        w.eights = eights;
        if (w.seq.begin == w.seq.end) {
            move_state(a, w);
            continue;
        }
        const int first = 16 * MT * warp;
        float S[MT][TILES][4];
        const int64_t left = w.seq.end - w.seq.begin;
        if (helper >= 0)
            prepare<X, WIDTH>(a, w, w.seq.begin, (int)(left < rows ? left : rows), helper, cell_of<X, WIDTH>(both, 0),
                              mix, inverse);
        else
            load_state<X, MT>(a, w, first, S);
        __syncthreads();
        int now = 0;
        for (int64_t begin = w.seq.begin; begin < w.seq.end; begin += rows, now ^= 1) {
            const int64_t next = begin + rows, after = w.seq.end - next;
            if (helper < 0)
                consume<X, MT, WIDTH>(a, batch, w, cell_of<X, WIDTH>(both, now), begin,
                                      (int)(after < 0 ? rows + after : rows), first, S);
            else if (after > 0)
                prepare<X, WIDTH>(a, w, next, (int)(after < rows ? after : rows), helper,
                                  cell_of<X, WIDTH>(both, now ^ 1), mix, inverse);
            __syncthreads();
        }
        if (helper >= 0 || w.seq.write < 0) continue;
#pragma unroll
        for (int tile = 0; tile < TILES; tile += 2) {
            float d[MT][2][4];
#pragma unroll
            for (int i = 0; i < MT * 8; i++)
                d[i / 8][i % 8 / 4][i % 4] = S[i / 8][tile + i % 8 / 4][i % 4];
            store_tiles<X, MT>(a, w, w.seq.write, first, tile, d);
        }
    }
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
    const int64_t tiles = (a->v.shape[2] + WIDTH - 1) / WIDTH;
    return dv_launch(deltanet_chunk_kernel<X, MT, WARPS>, blocks_for(a->batch->n_seqs * a->v.shape[1] * tiles),
                     dim3(32 * WARPS + HELPERS), shared_bytes<X, WIDTH>(), static_cast<cudaStream_t>(ctx->stream), *a,
                     *a->batch, rows_of_cell(a), all_in_pieces(a));
}

/* Columns of a block: as many as leave a block for most processors. */
static int64_t width_of(const struct seqmix_context *ctx, const seqmix_deltanet_args *a, int64_t widest)
{
    const int64_t heads = a->batch->n_seqs * a->v.shape[1], columns = a->v.shape[2];
    int64_t width = widest;
    while (width > 32 &&
           (width >= 2 * columns || heads * ((columns + width - 1) / width) * 4 < 3 * (int64_t)ctx->processors))
        width /= 2;
    return width;
}

extern "C" seqmix_status seqmix_deltanet_chunk_forward_plan__cuda_sm80(const struct seqmix_context *,
                                                                       const seqmix_deltanet_args *a,
                                                                       struct seqmix_plan *plan)
{
    const bool per_channel = a->gate_kind != SEQMIX_GATE_NONE && a->gate.rank == 3;
    if (per_channel || a->k.shape[1] == 0 || a->k.shape[2] == 0 || a->k.shape[2] > DIM) return SEQMIX_ERR_UNSUPPORTED;
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
