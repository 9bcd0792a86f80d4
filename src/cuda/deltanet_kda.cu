/* SPDX-License-Identifier: MIT */
/*
 * deltanet_chunk_forward on rung cuda-sm80, a gate per key channel (equation: docs/OPS.md). As in deltanet.cu, but cells have 16 rows
 * and decays go into the factors before they are rounded. With G_i the product of a channel's decays up to row i, G_ij of those
 * after j up to i:
 *   A_ij = b_i sum_d k_id k_jd G_ijd, j < i      (I + A) U = b (V - (K G) S)      O = scale ((Q G) S + (sum_d q_id k_jd G_ijd) U)
 * Decays are multiplied, never divided: nothing overflows. Four warps of a block prepare a cell, a thread per channel; of the
 * products of two rows a warp takes those of four rows with all that follow, in f32. K G, Q G and K G_Cj are right factors in
 * shared memory that keep f32's bits. f16 is computed as f32. One barrier of all a cell.
 */
#include "cuda.h"
#include "deltanet_segments.cuh"

constexpr int R = KDA_ROWS, WIDE = KDA_WIDTH;
constexpr int KDA_KEYS = DIM + 8, KDA_KEYS_PLANE = R * KDA_KEYS, KDA_SQUARE = R + 8, KDA_SQUARE_PLANE = R * KDA_SQUARE;
constexpr int KDA_VALUES = WIDE + 4, KDA_SCRATCH = DIM + 16, KDA_MIX = R + 4;
constexpr int OWNERS = 32 * (WIDE / 16), OWNERS_MEET = 3; /* threads that own the state; their barrier */

struct kda_rows {
    float beta[R], key[R], query[R]; /* L2 factors, or 1; the query's times the scale */
    float total[DIM];                /* product of a channel's decays */
};

/* One of two cells in shared memory. */
template <class X> struct kda_cell {
    typename products_of<X>::type::square *keys, *queries, *left, *solve, *scores; /* K G, Q G, K G_Cj, T, Q K^T */
    float *values;
    kda_rows *rows;
};

/* What prepares cells: keys, queries and decays of the rows, A turned. */
struct kda_scratch {
    float k[R][KDA_SCRATCH], q[R][KDA_SCRATCH], decay[R][KDA_SCRATCH], mix[R * KDA_MIX];
};

template <class X> DV_DEV kda_cell<X> kda_cell_of(const kda_cell<X> &both, int i)
{
    const int keys = products_of<X>::type::PLANES * KDA_KEYS_PLANE,
              square = products_of<X>::type::PLANES * KDA_SQUARE_PLANE;
    return {both.keys + i * keys,     both.queries + i * keys,          both.left + i * keys, both.solve + i * square,
            both.scores + i * square, both.values + i * R * KDA_VALUES, both.rows + i};
}

template <class X> static constexpr size_t kda_shared_bytes()
{
    typedef typename products_of<X>::type products;
    return 2 * (sizeof(typename products::square) * products::PLANES * (3 * KDA_KEYS_PLANE + 2 * KDA_SQUARE_PLANE) +
                sizeof(float) * R * KDA_VALUES + sizeof(kda_rows)) +
           sizeof(kda_scratch) + (sizeof(work) + 15) / 16 * 16;
}

/* ---------------------------------------------------------------- the helpers */

/* Of a channel from element `at` on, n rows; 0 after them. */
template <class X> DV_DEV void take_channel(const seqmix_tensor &t, int64_t at, int n, float (&v)[R])
{
    const typename X::storage *from = elements<X>(t) + at;
#pragma unroll
    for (int i = 0; i < R; i++)
        v[i] = i < n ? X::up(from[i * t.stride[0]]) : 0;
}

/* The same of rows that are X's, or f16's where X is f32. */
template <class X> DV_DEV void take_rows_of(const seqmix_tensor &t, int64_t at, int n, float (&v)[R])
{
    if (sizeof(typename X::storage) == 4 && t.dtype == SEQMIX_F16)
        take_channel<as_f16>(t, at, n, v);
    else
        take_channel<X>(t, at, n, v);
}

/* Keys, queries and decays of a thread's channel; values; beta. Rows and channels that are none count as zeros that do not decay. */
template <class X>
DV_DEV void take_rows(const seqmix_deltanet_args &a, const work &w, int64_t begin, int n, int helper,
                      const kda_cell<X> &c, kda_scratch &s, float (&k)[R], float (&q)[R])
{
    const int given = helper < w.dim ? n : 0;
    take_rows_of<X>(a.k, begin * a.k.stride[0] + w.key_head * a.k.stride[1] + helper, given, k);
    take_rows_of<X>(a.q, begin * a.q.stride[0] + w.key_head * a.q.stride[1] + helper, given, q);
#pragma unroll 4
    for (int i = 0; i < R; i++)
        s.decay[i][helper] = i < given ? gate_decay(a, begin + i, w.head, helper) : 1;
    const int64_t v = begin * a.v.stride[0] + w.head * a.v.stride[1] + w.column + helper % WIDE;
#pragma unroll 4
    for (int i = helper / WIDE; i < R; i += HELPERS / WIDE)
        c.values[i * KDA_VALUES + helper % WIDE] =
            i < n && helper % WIDE < w.columns && !w.identity ? get(a.v, v + i * a.v.stride[0]) : 0;
    if (helper < R) c.rows->beta[helper] = helper < n ? beta_of(a, begin + helper, w.head) : 0;
#pragma unroll
    for (int i = 0; i < R; i++) {
        s.k[i][helper] = k[i];
        s.q[i][helper] = q[i];
    }
}

/* L2 factors of 16 keys and 16 queries, four lanes each. */
DV_DEV void norm_rows(const seqmix_deltanet_args &a, int helper, kda_rows &rows, const kda_scratch &s)
{
    const int row = helper / 4 % R, part = helper % 4;
    const bool key = helper < 4 * R;
    const float *x = key ? s.k[row] : s.q[row];
    float sum = 0;
    for (int d = 4 * part; d < DIM && a.qk_l2norm != 0; d += 16) {
        float v[4];
        load_four<as_f32>(x + d, v);
        for (int e = 0; e < 4; e++)
            sum = fmaf(v[e], v[e], sum);
    }
    sum += __shfl_xor_sync(ALL_LANES, sum, 1);
    sum += __shfl_xor_sync(ALL_LANES, sum, 2);
    const float factor = a.qk_l2norm != 0 ? 1 / sqrtf(sum + a.eps) : 1;
    if (part != 0) return;
    if (key)
        rows.key[row] = factor;
    else
        rows.query[row] = factor * delta_scale(a);
}

/* A thread's channel: its rows times their factors and the decays from the start or to the end. */
template <class X>
DV_DEV void decay_rows(int helper, const kda_cell<X> &c, const kda_scratch &s, const float (&k)[R], const float (&q)[R])
{
    typedef typename products_of<X>::type products;
    float decay[R], product = 1;
#pragma unroll
    for (int i = 0; i < R; i++) {
        decay[i] = s.decay[i][helper];
        product *= decay[i];
        products::put_square(c.keys + i * KDA_KEYS + helper, KDA_KEYS_PLANE, k[i] * c.rows->key[i] * product);
        products::put_square(c.queries + i * KDA_KEYS + helper, KDA_KEYS_PLANE, q[i] * c.rows->query[i] * product);
    }
    c.rows->total[helper] = product;
    product = 1;
#pragma unroll
    for (int i = R - 1; i >= 0; i--) {
        products::put_square(c.left + i * KDA_KEYS + helper, KDA_KEYS_PLANE, k[i] * c.rows->key[i] * product);
        product *= decay[i];
    }
}

/* Pairs of a row and one before it, of which a warp sums four chains: those of rows t, 7 - t, 8 + t and 15 - t with all that follow.
 * Chain i has places for the rows from 4*i on. */
constexpr int CHAINS = 4, PAIRS = 16 + 12 + 8 + 4;

DV_DEV constexpr int chain_place(int chain)
{
    return chain * (R + 2 - 2 * chain);
}

/* Chain by chain, a lane's four channels of the decayed keys of the chain's first row, times keys and queries of the rows. */
DV_DEV void sum_pairs(const kda_scratch &s, const int (&first)[CHAINS], int lane, float (&sum)[2 * PAIRS])
{
    float e[CHAINS][4];
#pragma unroll
    for (int i = 0; i < 2 * PAIRS; i++)
        sum[i] = 0;
#pragma unroll
    for (int i = 0; i < CHAINS * 4; i++)
        e[i / 4][i % 4] = 0;
#pragma unroll
    for (int row = 0; row < R; row++) {
        float k[4], q[4], decay[4];
        load_four<as_f32>(s.k[row] + 4 * lane, k);
        load_four<as_f32>(s.q[row] + 4 * lane, q);
        load_four<as_f32>(s.decay[row] + 4 * lane, decay);
#pragma unroll
        for (int chain = 0; chain < CHAINS; chain++) {
            if (row < 4 * chain) continue;
            const int at = chain_place(chain) + row - 4 * chain;
            const bool starts = row == first[chain];
#pragma unroll
            for (int m = 0; m < 4; m++) {
                e[chain][m] = starts ? k[m] : e[chain][m] * decay[m];
                sum[at] = fmaf(k[m], e[chain][m], sum[at]);
                sum[PAIRS + at] = fmaf(q[m], e[chain][m], sum[PAIRS + at]);
            }
        }
    }
}

/* Half of the values for lanes without `bit`, half for those with it: each the sum of two lanes. */
template <int HALF> DV_DEV void share_sums(int lane, int bit, float (&sum)[2 * PAIRS])
{
    const bool upper = (lane & bit) != 0;
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        const float keep = upper ? sum[HALF + i] : sum[i], give = upper ? sum[i] : sum[HALF + i];
        sum[i] = keep + __shfl_xor_sync(ALL_LANES, give, bit);
    }
}

/* Sums over the lanes of a warp, a sixteenth of them in two lanes each. */
DV_DEV void scatter_sums(int lane, float (&sum)[2 * PAIRS])
{
    share_sums<PAIRS>(lane, 16, sum);
    share_sums<PAIRS / 2>(lane, 8, sum);
    share_sums<PAIRS / 4>(lane, 4, sum);
    share_sums<PAIRS / 8>(lane, 2, sum);
#pragma unroll
    for (int i = 0; i < PAIRS / 8; i++)
        sum[i] += __shfl_xor_sync(ALL_LANES, sum[i], 1);
}

/* A, turned, and the scores, from products of rows that have no factors yet. */
template <class X> DV_DEV void pair_rows(int helper, const kda_cell<X> &c, kda_scratch &s)
{
    const int t = helper / 32, lane = helper % 32, first[CHAINS] = {t, 7 - t, 8 + t, 15 - t};
    const kda_rows &r = *c.rows;
    float sum[2 * PAIRS];
    sum_pairs(s, first, lane, sum);
    scatter_sums(lane, sum);
    if (lane % 2 != 0) return;
#pragma unroll
    for (int i = 0; i < PAIRS / 8; i++) {
        const int at = lane % 16 / 2 * (PAIRS / 8) + i;
        const int chain = at < 16 ? 0 : at < 28 ? 1 : at < 36 ? 2 : 3;
        const int row = at - chain_place(chain) + 4 * chain;
        const int column = chain == 0 ? t : chain == 1 ? 7 - t : chain == 2 ? 8 + t : 15 - t;
        if (row < column) continue;
        if (lane >= 16)
            products_of<X>::type::put_square(c.scores + row * KDA_SQUARE + column, KDA_SQUARE_PLANE,
                                             r.query[row] * r.key[column] * sum[i]);
        else
            s.mix[column * KDA_MIX + row] = r.beta[row] * r.key[row] * (r.key[column] * sum[i]);
    }
}

/* T by substitution, a lane of half a warp per column. */
template <class X> DV_DEV void invert_rows(int column, const kda_cell<X> &c, const kda_scratch &s)
{
    float x[R];
#pragma unroll
    for (int i = 0; i < R; i++)
        x[i] = i == column ? 1 : 0;
#pragma unroll
    for (int j = 0; j < R - 1; j++)
#pragma unroll
        for (int i = j + 1; i < R; i++)
            x[i] = fmaf(-s.mix[j * KDA_MIX + i], x[j], x[i]);
#pragma unroll
    for (int i = 0; i < R; i++)
        products_of<X>::type::put_square(c.solve + i * KDA_SQUARE + column, KDA_SQUARE_PLANE, x[i]);
}

/* Everything of the n rows from `begin` on that does not depend on the state. */
template <class X>
DV_DEV void kda_prepare(const seqmix_deltanet_args &a, const work &w, int64_t begin, int n, int helper,
                        const kda_cell<X> &c, kda_scratch &s)
{
    float k[R], q[R];
    take_rows<X>(a, w, begin, n, helper, c, s, k, q);
    for (int i = helper; i < R * R; i += HELPERS) /* what lies above the diagonal */
        products_of<X>::type::put_square(c.scores + i / R * KDA_SQUARE + i % R, KDA_SQUARE_PLANE, 0);
    dv_barrier(HELPERS_MEET, HELPERS);
    norm_rows(a, helper, *c.rows, s);
    dv_barrier(HELPERS_MEET, HELPERS);
    decay_rows<X>(helper, c, s, k, q);
    pair_rows<X>(helper, c, s);
    dv_barrier(HELPERS_MEET, HELPERS);
    if (helper < R) invert_rows<X>(helper, c, s);
}

/* ---------------------------------------------------------------- the owners of the state */

/* The columns' products with the 16 rows. */
template <class X>
DV_DEV void kda_read(const float (&S)[1][TILES][4], const typename products_of<X>::type::square *rows, float (&d)[2][4])
{
    typedef typename products_of<X>::type products;
#pragma unroll
    for (int i = 0; i < 8; i++)
        d[i / 4][i % 4] = 0;
#pragma unroll
    for (int k = 0; k < TILES; k += 2) {
        typename products::left_keys s;
        products::take_rounded(s, S[0][k], S[0][k + 1]);
        products::multiply_rounded(d, s, rows + 8 * k, KDA_KEYS, KDA_KEYS_PLANE);
    }
}

/* Outputs, through the place of the warp's values. */
DV_DEV void kda_write(const seqmix_deltanet_args &a, const work &w, int64_t begin, int n, int first, float *values)
{
    const int column = first + (int)threadIdx.x % 16;
    const int64_t to = begin * a.o.stride[0] + w.head * a.o.stride[1] + w.column + column;
    for (int row = (int)threadIdx.x % 32 / 16; row < n && column < w.columns; row += 2)
        put(a.o, to + row * a.o.stride[0], values[row * KDA_VALUES + column]);
}

/* 16 columns of rows, each times `factor`, to the place of the warp's values. */
DV_DEV void kda_stage(const float (&d)[2][4], float factor, int first, float *values)
{
#pragma unroll
    for (int e = 0; e < 8; e++)
        values[(2 * lane_t() + e / 4 * 8 + e % 2) * KDA_VALUES + first + lane_g() + e % 4 / 2 * 8] =
            d[e / 4][e % 4] * factor;
}

/* Keys and decays of the rows once more, where K G and Q G were; the owners are done with those. */
template <class X>
DV_DEV void take_rows_again(const seqmix_deltanet_args &a, const work &w, const kda_cell<X> &c, int64_t begin, int n)
{
    float *k = reinterpret_cast<float *>(c.keys), *decay = reinterpret_cast<float *>(c.queries);
    const int d = (int)threadIdx.x;
    dv_barrier(OWNERS_MEET, OWNERS);
    for (int i = 0; i < n; i++) {
        const int64_t at = (begin + i) * a.k.stride[0] + w.key_head * a.k.stride[1] + d;
        k[i * DIM + d] = d < w.dim ? get(a.k, at) * c.rows->key[i] : 0;
        decay[i * DIM + d] = d < w.dim ? gate_decay(a, begin + i, w.head, d) : 1;
    }
    dv_barrier(OWNERS_MEET, OWNERS);
}

/* The warp's columns of the state after `row` rows of the cell to a slot, row by row; U lies in the place of the values. */
template <class X>
DV_DEV void kda_checkpoint(const seqmix_deltanet_args &a, const work &w, const kda_cell<X> &c, int32_t slot, int row,
                           int first, const float (&S)[1][TILES][4])
{
    const float *k = reinterpret_cast<const float *>(c.keys) + 2 * lane_t();
    const float *decay = reinterpret_cast<const float *>(c.queries) + 2 * lane_t();
    const float *u = c.values + first + lane_g();
    state_place at = place_of(a.state, w, slot, first);
#pragma unroll
    for (int tile = 0; tile < TILES; tile += 2, at.first += 2 * at.eight) {
        float d[2][4];
#pragma unroll
        for (int e = 0; e < 8; e++)
            d[e / 4][e % 4] = S[0][tile + e / 4][e % 4];
#pragma unroll 1
        for (int i = 0; i < row; i++)
#pragma unroll
            for (int e = 0; e < 8; e++) {
                const int key = i * DIM + 8 * (tile + e / 4) + e % 2;
                float &x = d[e / 4][e % 4];
                x = fmaf(k[key], u[i * KDA_VALUES + e % 4 / 2 * 8], decay[key] * x);
            }
        store_tiles<X>(a.state, at, tile, d);
    }
}

/* Checkpoints inside the cell; they are rare, since callers ask for them on the grid. */
template <class X>
DV_DEV void kda_inner_checkpoints(const seqmix_deltanet_args &a, const seqmix_batch &batch, const work &w,
                                  const kda_cell<X> &c, int64_t begin, int n, int first, int32_t &ckpt,
                                  const float (&S)[1][TILES][4], const float (&U)[2][4])
{
    bool taken = false;
#pragma unroll 1
    for (; ckpt < w.seq.ckpt_end; ckpt++) {
        const int64_t row = batch.ckpt_row[ckpt] - (begin - w.seq.begin);
        const int32_t slot = slot_or_none(batch.ckpt_slot[ckpt], a.state);
        if (row >= n) break;
        if (row <= 0 || slot < 0) continue;
        if (!taken) {
            take_rows_again<X>(a, w, c, begin, n);
            kda_stage(U, 1, first, c.values);
            __syncwarp();
            taken = true;
        }
        kda_checkpoint<X>(a, w, c, slot, (int)row, first, S);
    }
}

/* The n rows of a cell from `begin` on, for a warp's 16 columns from `first` on. */
template <class X, bool OUTPUTS>
DV_DEV void kda_consume(const seqmix_deltanet_args &a, const seqmix_batch &batch, const work &w, const kda_cell<X> &c,
                        int64_t begin, int n, int first, int32_t &ckpt, float (&S)[1][TILES][4])
{
    typedef typename products_of<X>::type products;
    float U[2][4], T[1][2][4] = {}, O[1][2][4], beta[2][2];
    typename products::left u[1];
    kda_read<X>(S, c.keys, U);
    take_columns(c.rows->beta, beta);
#pragma unroll
    for (int e = 0; e < 8; e++) { /* the residual b (V - (K G) S) */
        const int row = 2 * lane_t() + e / 4 * 8 + e % 2, column = first + lane_g() + e % 4 / 2 * 8;
        U[e / 4][e % 4] =
            beta[e / 4][e % 2] * fmaf(products::SCALE, c.values[row * KDA_VALUES + column], -U[e / 4][e % 4]);
    }
    products::take(u[0], U[0], U[1]);
    products::template multiply_square<1>(T, u, c.solve, KDA_SQUARE, KDA_SQUARE_PLANE);
#pragma unroll
    for (int e = 0; e < 8; e++)
        U[e / 4][e % 4] = T[0][e / 4][e % 4];
    products::take(u[0], U[0], U[1]);
    if (OUTPUTS) {
        kda_read<X>(S, c.queries, O[0]);
        products::template multiply_square<1>(O, u, c.scores, KDA_SQUARE, KDA_SQUARE_PLANE);
        __syncwarp(); /* values are read: outputs may take their place */
        kda_stage(O[0], 1 / products::SCALE, first, c.values);
        __syncwarp();
        kda_write(a, w, begin, n, first, c.values);
        __syncwarp();
        kda_inner_checkpoints<X>(a, batch, w, c, begin, n, first, ckpt, S, U);
    }
#pragma unroll
    for (int tile = 0; tile < TILES; tile += 2) {
        float d[2][4];
#pragma unroll
        for (int e = 0; e < 8; e++)
            d[e / 4][e % 4] = S[0][tile + e / 4][e % 4] * c.rows->total[8 * (tile + e / 4) + 2 * lane_t() + e % 2];
        products::multiply_turned(d, u[0], c.left + 8 * tile, KDA_KEYS, KDA_KEYS_PLANE);
#pragma unroll
        for (int e = 0; e < 8; e++)
            S[0][tile + e / 4][e % 4] = d[e / 4][e % 4];
    }
    for (; OUTPUTS && ckpt < w.seq.ckpt_end && batch.ckpt_row[ckpt] - (begin - w.seq.begin) <= n; ckpt++)
        store_state<X, 1>(a.state, w, slot_or_none(batch.ckpt_slot[ckpt], a.state), first, S);
}

/* ---------------------------------------------------------------- kernel and launch */

/* A block's shared memory. */
template <class X> struct kda_memory {
    kda_cell<X> both;
    kda_scratch *scratch;
    work *at_work;
};

template <class X> DV_DEV kda_memory<X> kda_take_memory()
{
    typedef typename products_of<X>::type products;
    constexpr int KEYS = products::PLANES * KDA_KEYS_PLANE, SQUARE = products::PLANES * KDA_SQUARE_PLANE;
    dv_smem shared;
    kda_memory<X> m;
    m.both.keys = shared.take<typename products::square>(2 * KEYS);
    m.both.queries = shared.take<typename products::square>(2 * KEYS);
    m.both.left = shared.take<typename products::square>(2 * KEYS);
    m.both.solve = shared.take<typename products::square>(2 * SQUARE);
    m.both.scores = shared.take<typename products::square>(2 * SQUARE);
    m.both.values = shared.take<float>(2 * R * KDA_VALUES);
    m.both.rows = shared.take<kda_rows>(2);
    m.scratch = shared.take<kda_scratch>(1);
    m.at_work = shared.take<work>(1);
    return m;
}

/* The rows of a block, whose work is known. */
template <class X, bool OUTPUTS>
DV_DEV void kda_run_cells(const seqmix_deltanet_args &a, const seqmix_batch &batch, int rows, const kda_memory<X> &m)
{
    const work &w = *m.at_work;
    const int first = (int)threadIdx.x / 32 * 16;
    int now = 0;
    if (threadIdx.x >= OWNERS) {
#pragma unroll 1
        for (int64_t begin = w.begin; begin < w.end; begin += rows, now ^= 1) {
            kda_prepare<X>(a, w, begin, (int)(w.end - begin < rows ? w.end - begin : rows), (int)threadIdx.x - OWNERS,
                           kda_cell_of<X>(m.both, now), *m.scratch);
            dv_barrier(ALL_MEET, OWNERS + HELPERS);
        }
        dv_barrier(ALL_MEET, OWNERS + HELPERS); /* the last cell is consumed */
        return;
    }
    int32_t ckpt = w.seq.ckpt;
    float S[1][TILES][4];
    load_state<X, 1>(w, first, S);
    dv_barrier(ALL_MEET, OWNERS + HELPERS);
#pragma unroll 1
    for (int64_t begin = w.begin; begin < w.end; begin += rows, now ^= 1) {
        kda_consume<X, OUTPUTS>(a, batch, w, kda_cell_of<X>(m.both, now), begin,
                                (int)(w.end - begin < rows ? w.end - begin : rows), first, ckpt, S);
        dv_barrier(ALL_MEET, OWNERS + HELPERS);
    }
    store_state<X, 1>(w.to, w, w.write, first, S);
}

template <class X>
static __global__ void __launch_bounds__(OWNERS + HELPERS, 1)
    deltanet_kda_kernel(seqmix_deltanet_args a, seqmix_batch batch, segments cut, int64_t first_task, int rows)
{
    const kda_memory<X> m = kda_take_memory<X>();
    if (threadIdx.x == 0) find_segment<WIDE>(a, batch, cut, first_task + blockIdx.x, *m.at_work);
    __syncthreads();
    if (m.at_work->begin < m.at_work->end)
        kda_run_cells<X, true>(a, batch, rows, m);
    else if (m.at_work->seq.begin == m.at_work->seq.end && m.at_work->segment == 0)
        move_state(a, *m.at_work);
}

template <class X>
static __global__ void __launch_bounds__(OWNERS + HELPERS, 1)
    deltanet_kda_ends_kernel(seqmix_deltanet_args a, seqmix_batch batch, segments cut, int rows)
{
    const kda_memory<X> m = kda_take_memory<X>();
    if (threadIdx.x == 0) find_end<WIDE>(a, batch, cut, blockIdx.x, *m.at_work);
    __syncthreads();
    if (m.at_work->end < m.at_work->seq.end) kda_run_cells<X, false>(a, batch, rows, m);
}

template <class X>
static cudaError_t launch(const struct seqmix_context *ctx, const seqmix_deltanet_args *a, const segments &cut)
{
    const int64_t tasks = a->batch->n_seqs * cut.count * a->v.shape[1] * ((a->v.shape[2] + WIDE - 1) / WIDE);
    cudaError_t error = cudaSuccess;
    for (int64_t first = 0; first < tasks && error == cudaSuccess; first += INT32_MAX)
        error =
            dv_launch(deltanet_kda_kernel<X>, blocks_for(tasks - first), dim3(OWNERS + HELPERS), kda_shared_bytes<X>(),
                      static_cast<cudaStream_t>(ctx->stream), *a, *a->batch, cut, first, rows_of_cell(a));
    return error;
}

template <class X>
static cudaError_t launch_ends(const struct seqmix_context *ctx, const seqmix_deltanet_args *a, const segments &cut)
{
    return dv_launch(deltanet_kda_ends_kernel<X>, dim3((unsigned)end_tasks(a, cut, WIDE)), dim3(OWNERS + HELPERS),
                     kda_shared_bytes<X>(), static_cast<cudaStream_t>(ctx->stream), *a, *a->batch, cut,
                     rows_of_cell(a));
}

size_t seqmix_deltanet_kda_shared(int32_t dtype)
{
    return dtype == SEQMIX_BF16 ? kda_shared_bytes<as_bf16>() : kda_shared_bytes<as_f32>();
}

int seqmix_deltanet_kda(const struct seqmix_context *ctx, const seqmix_deltanet_args *a, const struct segments *cut)
{
    return a->v.dtype == SEQMIX_BF16 ? launch<as_bf16>(ctx, a, *cut) : launch<as_f32>(ctx, a, *cut);
}

int seqmix_deltanet_kda_ends(const struct seqmix_context *ctx, const seqmix_deltanet_args *a,
                             const struct segments *cut)
{
    return a->v.dtype == SEQMIX_BF16 ? launch_ends<as_bf16>(ctx, a, *cut) : launch_ends<as_f32>(ctx, a, *cut);
}

extern "C" int seqmix_deltanet_kda_prepare__cuda_sm80(int shared_bytes)
{
    return dv_allow_shared(shared_bytes, deltanet_kda_kernel<as_bf16>, deltanet_kda_kernel<as_f32>,
                           deltanet_kda_ends_kernel<as_bf16>, deltanet_kda_ends_kernel<as_f32>);
}
