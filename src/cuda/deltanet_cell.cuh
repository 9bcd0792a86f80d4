/* SPDX-License-Identifier: MIT */
/*
 * What deltanet.cu prepares of a cell of rows, by four warps of a block: rows in shared memory, sums of log decays, L2 factors, the
 * scores E_ij (q_i.k_j) and T = (I + A)^-1. k.k and q.k come as 16 x 16 blocks from tensor cores, T in f32: its two blocks on the
 * diagonal by substitution, a lane per column, then T10 = -T11 (A10 T00).
 */
#ifndef SEQMIX_CUDA_DELTANET_CELL_CUH
#define SEQMIX_CUDA_DELTANET_CELL_CUH

#include "deltanet_gates.cuh"
#include "products.cuh"
#include "tile.cuh"

constexpr int C = 32, DIM = 128, HELPERS = 128; /* rows of a cell, most keys, threads that prepare */
constexpr int MIX_PITCH = C + 4;
constexpr int HELPERS_MEET = 1, ALL_MEET = 2; /* barriers */

/* One block's view of its work; in shared memory, since registers are few. */
struct work {
    sequence seq;
    int64_t segment, begin, end;    /* the rows of it that the block takes */
    seqmix_tensor from, to;         /* pools that the block's state is read from and written to */
    int32_t read, write;            /* their slots; -1: 0 instead, nowhere */
    int64_t head, key_head, column; /* the first column */
    int columns;                    /* of the tensors; the block may have more */
    bool identity;                  /* the state begins as the identity, and there are no values */
    int dim;
    bool pieces; /* rows in pieces of 16 bytes */
};

/* Head `i` of all sequences' heads, the whole sequence, the columns from `column` on that a block of `width` has of `all`. */
DV_DEV void find_work(const seqmix_deltanet_args &a, const seqmix_batch &batch, int64_t i, int64_t column, int width,
                      int64_t all, work &w)
{
    const int64_t heads = a.v.shape[1];
    const sequence seq = sequence_of(batch, a.v.shape[0], a.state, (int32_t)(i / heads));
    w.seq = seq;
    w.segment = 0;
    w.begin = seq.begin;
    w.end = seq.end;
    w.from = a.state;
    w.to = a.state;
    w.read = seq.read;
    w.write = seq.write;
    w.head = i % heads;
    w.key_head = key_head_of(a, w.head);
    w.column = column;
    w.columns = all - column < width ? (int)(all - column) : width;
    w.identity = false;
    w.dim = (int)a.k.shape[2];
    w.pieces = false;
}

/* What rows of one cell are multiplied with. */
struct cell_rows {
    float beta[C], high[C], low[C];         /* sums of log decays */
    float key[C], query[C];                 /* L2 factors, or 1; the query's times the scale */
    float mix[C];                           /* beta times the key's */
    float through_key[C], through_query[C]; /* E from the start times a factor */
    float left[C];                          /* E to the end times the key's */
    float total, unused[3];                 /* E from the start to the end */
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
           sizeof(float) * 2 * C * MIX_PITCH + (sizeof(work) + 15) / 16 * 16;
}

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

/* 1/|row| of all rows by two warps, eight lanes a row. */
template <class X>
DV_DEV void l2_factors(const typename products_of<X>::type::key *rows, int pitch, float eps, int thread, float *factor)
{
    for (int row = thread / 8; row < C; row += 8) {
        float sum = 0, v[8];
        for (int piece = thread % 8; piece < DIM / 8; piece += 8) {
            load_eight<X>(rows + row * pitch + 8 * piece, v);
            for (int e = 0; e < 8; e++)
                sum = fmaf(v[e], v[e], sum);
        }
        for (int bits = 4; bits > 0; bits /= 2)
            sum += __shfl_xor_sync(ALL_LANES, sum, bits);
        if (thread % 8 == 0) factor[row] = 1 / sqrtf(sum + eps);
    }
}

/* A warp, a row a lane: what the rows' gates come to. Needs the L2 factors. */
DV_DEV void weigh_rows(const seqmix_deltanet_args &a, int n, cell_rows &r)
{
    const int row = (int)(threadIdx.x % 32);
    const float through = expf(r.high[row] + r.low[row]), scale = delta_scale(a);
    r.mix[row] = r.beta[row] * r.key[row];
    r.through_key[row] = through * r.key[row];
    r.through_query[row] = scale * through * r.query[row];
    r.query[row] *= scale;
    r.left[row] = row < n ? decay_between(r.high, r.low, n - 1, row) * r.key[row] : 0;
    if (row == n - 1) r.total = through;
}

/* ---------------------------------------------------------------- the helpers: products of rows, T */

/* Products of the cell's rows of `left` and of the keys: blocks (0,0), (1,0) and (1,1) of 16 x 16. */
template <class X, bool KEYS>
DV_DEV void row_products(const typename products_of<X>::type::key *left, const typename products_of<X>::type::key *keys,
                         int pitch, float (&d)[3][2][4])
{
    typedef typename products_of<X>::type products;
#pragma unroll
    for (int e = 0; e < 24; e++)
        d[e / 8][e % 8 / 4][e % 4] = 0;
#pragma unroll 2
    for (int k = 0; k < DIM; k += 16) {
        typename products::right x[2], y[2];
        typename products::left_keys rows[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            products::keys(y[i], keys + 16 * i * pitch + k, pitch);
            if (!KEYS) products::keys(x[i], left + 16 * i * pitch + k, pitch);
            products::turn(rows[i], KEYS ? y[i] : x[i]);
        }
        products::multiply(d[0], rows[0], y[0]);
        products::multiply(d[1], rows[1], y[0]);
        products::multiply(d[2], rows[1], y[1]);
    }
}

/* The keys' L2 factors, from the diagonal of their products. */
DV_DEV void key_factors(const float (&d)[3][2][4], float eps, int lane, float *factor)
{
#pragma unroll
    for (int e = 0; e < 16; e++) {
        const int row = lane / 4 + e % 4 / 2 * 8, column = lane % 4 * 2 + e % 8 / 4 * 8 + e % 2;
        if (row == column) factor[e / 8 * 16 + row] = 1 / sqrtf(d[e / 8 * 2][e % 8 / 4][e % 4] + eps);
    }
}

/* What a thread's elements of these blocks are multiplied with: rows g + 8*i, columns 2t + 8*i and the next. */
struct block_factors {
    float row_high[4], row_low[4], row[4], high[8], low[8], key[8];
};

DV_DEV void take_factors(const cell_rows &r, const float *row_factor, int lane, block_factors &f)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int row = lane / 4 + 8 * i, column = lane % 4 * 2 + 8 * i;
        f.row_high[i] = r.high[row];
        f.row_low[i] = r.low[row];
        f.row[i] = row_factor[row];
        const float2 high = dv_ldv(reinterpret_cast<const float2 *>(r.high + column));
        const float2 low = dv_ldv(reinterpret_cast<const float2 *>(r.low + column));
        const float2 key = dv_ldv(reinterpret_cast<const float2 *>(r.key + column));
        f.high[2 * i] = high.x, f.high[2 * i + 1] = high.y;
        f.low[2 * i] = low.x, f.low[2 * i + 1] = low.y;
        f.key[2 * i] = key.x, f.key[2 * i + 1] = key.y;
    }
}

/* Row 8*i of the thread's, column 8*(j/2) and the next if j is odd. */
DV_DEV float block_factor(const block_factors &f, int i, int j)
{
    const float d = (f.row_high[i] - f.high[j]) + (f.row_low[i] - f.low[j]);
    return f.row[i] * (expf(d > 0 ? 0 : d) * f.key[j]);
}

/* A, turned: column j, row i at [j * MIX_PITCH + i]. */
DV_DEV void mix_rows(const cell_rows &rows, const float (&d)[3][2][4], int lane, float *mix)
{
    block_factors f;
    take_factors(rows, rows.mix, lane, f);
#pragma unroll
    for (int e = 0; e < 24; e++) {
        const int i = (e >= 8) * 2 + e % 4 / 2, j = (e >= 16) * 4 + e % 8 / 4 * 2 + e % 2;
        const int row = lane / 4 + 8 * i, column = lane % 4 * 2 + j / 2 * 8 + j % 2;
        mix[column * MIX_PITCH + row] = column < row ? block_factor(f, i, j) * d[e / 8][e % 8 / 4][e % 4] : 0;
    }
}

template <class X, int WIDTH> DV_DEV void score_rows(const cell<X> &c, const float (&d)[3][2][4], int lane)
{
    typedef pitches<X, WIDTH> p;
    block_factors f;
    take_factors(*c.rows, c.rows->query, lane, f);
#pragma unroll
    for (int e = 0; e < 24; e += 2) {
        const int i = (e >= 8) * 2 + e % 4 / 2, j = (e >= 16) * 4 + e % 8 / 4 * 2;
        const int row = lane / 4 + 8 * i, column = lane % 4 * 2 + j / 2 * 8;
        const float x = block_factor(f, i, j) * d[e / 8][e % 8 / 4][e % 4];
        const float y = block_factor(f, i, j + 1) * d[e / 8][e % 8 / 4][e % 4 + 1];
        p::products::put_pair(c.scores + row * p::SQUARE + column, p::PLANE, column <= row ? x : 0,
                              column < row ? y : 0);
    }
}

/* The inverses of the 16 x 16 blocks of I + A on the diagonal, half a warp each, a lane per column. T00 goes to the upper left of
 * `inverse`, T11 turned to its lower right. */
template <class X, int WIDTH> DV_DEV void invert_blocks(const cell<X> &c, int lane, const float *mix, float *inverse)
{
    typedef pitches<X, WIDTH> p;
    const int first = lane / 16 * 16, column = lane % 16;
    float x[16];
#pragma unroll
    for (int i = 0; i < 16; i++)
        x[i] = i == column ? 1 : 0;
#pragma unroll
    for (int j = 0; j < 15; j++)
#pragma unroll
        for (int i = (j + 1) / 4 * 4; i < 16; i += 4) {
            const float4 a = dv_ldv(reinterpret_cast<const float4 *>(mix + (first + j) * MIX_PITCH + first + i));
            const float rows[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (i + e > j) x[i + e] = fmaf(-rows[e], x[j], x[i + e]);
        }
#pragma unroll
    for (int i = 0; i < 16; i++)
        p::products::put_square(c.solve + (first + i) * p::SQUARE + first + column, p::PLANE, x[i]);
    if (first == 0) {
#pragma unroll
        for (int i = 0; i < 16; i++)
            inverse[i * MIX_PITCH + column] = x[i];
    } else {
#pragma unroll
        for (int i = 0; i < 16; i += 4)
            dv_stv(reinterpret_cast<float4 *>(inverse + (16 + column) * MIX_PITCH + 16 + i),
                   float4{x[i], x[i + 1], x[i + 2], x[i + 3]});
    }
}

/* Two rows and four columns a lane of a 16 x 16 product: left(i,k) at left[k * MIX_PITCH + i], right(k,j) at right[k * MIX_PITCH + j]. */
DV_DEV void small_product(const float *left, const float *right, float sign, float (&d)[2][4])
{
#pragma unroll
    for (int e = 0; e < 8; e++)
        d[e / 4][e % 4] = 0;
#pragma unroll
    for (int k = 0; k < 16; k++) {
        const float2 rows = dv_ldv(reinterpret_cast<const float2 *>(left + k * MIX_PITCH));
        const float4 columns = dv_ldv(reinterpret_cast<const float4 *>(right + k * MIX_PITCH));
        const float a[2] = {sign * rows.x, sign * rows.y}, b[4] = {columns.x, columns.y, columns.z, columns.w};
#pragma unroll
        for (int e = 0; e < 8; e++)
            d[e / 4][e % 4] = fmaf(a[e / 4], b[e % 4], d[e / 4][e % 4]);
    }
}

/* A warp: T, the diagonal and then T10 = -T11 (A10 T00); A10 T00 lies in the upper right of `inverse`. */
template <class X, int WIDTH> DV_DEV void invert(const cell<X> &c, int lane, const float *mix, float *inverse)
{
    typedef pitches<X, WIDTH> p;
    const int row = lane / 4 * 2, column = lane % 4 * 4;
    float d[2][4];
    invert_blocks<X, WIDTH>(c, lane, mix, inverse);
    __syncwarp();
    small_product(mix + 16 + row, inverse + column, 1, d);
#pragma unroll
    for (int i = 0; i < 2; i++)
        dv_stv(reinterpret_cast<float4 *>(inverse + (row + i) * MIX_PITCH + 16 + column),
               float4{d[i][0], d[i][1], d[i][2], d[i][3]});
    __syncwarp();
    small_product(inverse + 16 * MIX_PITCH + 16 + row, inverse + 16 + column, -1, d);
#pragma unroll
    for (int e = 0; e < 8; e += 2)
        p::products::put_pair(c.solve + (16 + row + e / 4) * p::SQUARE + column + e % 4, p::PLANE, d[e / 4][e % 4],
                              d[e / 4][e % 4 + 1]);
}

/* Everything of the n rows from `begin` on that does not depend on the state; of queries only where rows have OUTPUTS. */
template <class X, int WIDTH, bool OUTPUTS>
DV_DEV void prepare(const seqmix_deltanet_args &a, const work &w, int64_t begin, int n, int helper, const cell<X> &c,
                    float *mix, float *inverse)
{
    typedef pitches<X, WIDTH> p;
    dv_forget(helper); /* addresses are formed anew in each cell */
    const int warp = helper / 32, lane = helper % 32;
    load_rows<X, DIM>(a.k, begin * a.k.stride[0] + w.key_head * a.k.stride[1], n, w.dim, w.pieces, c.keys, p::KEYS,
                      helper);
    if (OUTPUTS)
        load_rows<X, DIM>(a.q, begin * a.q.stride[0] + w.key_head * a.q.stride[1], n, w.dim, w.pieces, c.queries,
                          p::KEYS, helper);
    load_rows<X, WIDTH>(a.v, begin * a.v.stride[0] + w.head * a.v.stride[1] + w.column, w.identity ? 0 : n, w.columns,
                        w.pieces, c.values, p::VALUES, helper);
    dv_cp_async_commit();
    if (warp == 2) {
        const float g[1] = {lane < n ? gate_log(a, begin + lane, w.head, 0) : 0};
        c.rows->beta[lane] = lane < n ? beta_of(a, begin + lane, w.head) : 0;
        scan_pairs<32>(g, c.rows->high, c.rows->low);
        if (a.qk_l2norm == 0) c.rows->key[lane] = 1;
        if (a.qk_l2norm == 0 || !OUTPUTS) c.rows->query[lane] = 1;
    }
    dv_cp_async_wait<0>();
    dv_barrier(HELPERS_MEET, HELPERS);
    float d[3][2][4];
    if (warp == 0) {
        row_products<X, true>(c.keys, c.keys, p::KEYS, d);
        if (a.qk_l2norm != 0) key_factors(d, a.eps, lane, c.rows->key);
    } else if (OUTPUTS && warp == 1) {
        row_products<X, false>(c.queries, c.keys, p::KEYS, d);
    } else if (OUTPUTS && warp > 1 && a.qk_l2norm != 0) {
        l2_factors<X>(c.queries, p::KEYS, a.eps, helper - 64, c.rows->query);
    }
    dv_barrier(HELPERS_MEET, HELPERS);
    if (warp == 2) weigh_rows(a, n, *c.rows);
    dv_barrier(HELPERS_MEET, HELPERS);
    if (warp == 0) {
        mix_rows(*c.rows, d, lane, mix);
        __syncwarp();
        invert<X, WIDTH>(c, lane, mix, inverse);
    } else if (OUTPUTS && warp == 1) {
        score_rows<X, WIDTH>(c, d, lane);
    }
}

#endif
