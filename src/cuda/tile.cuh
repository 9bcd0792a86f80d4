/* SPDX-License-Identifier: MIT */
/*
 * Products of a warp from shared memory: D (16 x 8, f32) += A (16 x 32) B (32 x 8), operands in bf16, in tf32, or in f32 as three
 * products of tf32 halves. Per operand type: the element kept in shared memory, the padding of its rows that makes fragments
 * free of bank conflicts, loads of both storage orders, the product. Fragments are those of the PTX ISA: g = lane / 4, t = lane % 4.
 *
 * A sum over k may take k in any order, the same for A and B. tf32 uses that: in "paired" fragments slots t and t+4 of an eight
 * are elements 2t and 2t+1, which is what an accumulator holds, and what makes rows of PAD_ROWS conflict-free in the other order.
 *
 * Subnormal operands have no bits to lose to a rounding or a split: what may be one is kept times TILE_SCALE, a power of two. In a product
 * of rounded A with rows of memory B, A carries it in bf16, where B is exact as it came, and B in f32, where B is split.
 */
#ifndef SEQMIX_CUDA_TILE_CUH
#define SEQMIX_CUDA_TILE_CUH

#include "lanes.cuh"

constexpr float TILE_SCALE = 0x1p32f, TILE_UNSCALE = 0x1p-32f;

DV_DEV int lane_g()
{
    return (int)(threadIdx.x % 32 / 4);
}

DV_DEV int lane_t()
{
    return (int)(threadIdx.x % 4);
}

struct tile_bf16 {
    typedef uint16_t element;
    static constexpr float SCALE_A = TILE_SCALE;
    static constexpr int PAD_ROWS = 8, PAD_COLUMNS = 8;
    struct a_part {
        uint32_t k[2][4];
    };
    struct b_part {
        uint32_t k[4];
    };

    static constexpr int PLANES = 2; /* of a rounded operand that must not lose bits: it, and what rounding left over */

    static DV_MEMBER element down(float value) { return dv_f32_to_bf16(value); }
    static DV_MEMBER float rest(float value) { return value - dv_bf16_to_f32(dv_f32_to_bf16(value)); }

    /* A(i,k) at [i*ld + k] */
    static DV_MEMBER void a_by_rows(a_part &a, const element *at, int ld)
    {
        const int lane = (int)(threadIdx.x % 32);
#pragma unroll
        for (int h = 0; h < 2; h++)
            dv_ldmatrix_x4(a.k[h], at + lane % 16 * ld + 16 * h + lane / 16 * 8);
    }
    /* A(i,k) at [k*ld + i] */
    static DV_MEMBER void a_by_columns_paired(a_part &a, const element *at, int ld)
    {
        const int lane = (int)(threadIdx.x % 32);
#pragma unroll
        for (int h = 0; h < 2; h++)
            dv_ldmatrix_x4_trans(a.k[h], at + (16 * h + lane % 8 + lane / 16 * 8) * ld + lane / 8 % 2 * 8);
    }
    /* B(k,n) at [n*ld + k] */
    static DV_MEMBER void b_by_columns(b_part &b, const element *at, int ld)
    {
        const int lane = (int)(threadIdx.x % 32);
        dv_ldmatrix_x4(b.k, at + lane % 8 * ld + lane / 8 * 8);
    }
    /* B(k,n) at [k*ld + n] */
    static DV_MEMBER void b_by_rows(b_part &b, const element *at, int ld)
    {
        dv_ldmatrix_x4_trans(b.k, at + (int)(threadIdx.x % 32) * ld);
    }
    static DV_MEMBER void b_by_rows_paired(b_part &b, const element *at, int ld)
    {
        b_by_rows(b, at, ld);
    }

    static DV_MEMBER void scale_b(b_part &) {}
    /* A times w along k: w[m][b] is that of k = 8m + 2t + b. */
    static DV_MEMBER void weigh_a(a_part &a, const float (&w)[4][2])
    {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            uint32_t &two = a.k[i / 4][i % 4];
            const float(&by)[2] = w[i / 4 * 2 + i % 4 / 2];
            two = dv_pack_bf16(by[0] * dv_bf16_to_f32((uint16_t)two), by[1] * dv_bf16_to_f32((uint16_t)(two >> 16)));
        }
    }
    /* Zeros from k = `live` on. */
    static DV_MEMBER uint32_t keep_two(uint32_t two, int k, int live)
    {
        return k + 1 < live ? two : k < live ? two & 0xffffu : 0;
    }
    static DV_MEMBER void keep_a(a_part &a, int live)
    {
#pragma unroll
        for (int i = 0; i < 8; i++)
            a.k[i / 4][i % 4] = keep_two(a.k[i / 4][i % 4], 16 * (i / 4) + 8 * (i % 4 / 2) + 2 * lane_t(), live);
    }
    static DV_MEMBER void keep_b(b_part &b, int live)
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            b.k[i] = keep_two(b.k[i], 8 * i + 2 * lane_t(), live);
    }
    static DV_MEMBER void multiply(float (&d)[4], const a_part &a, const b_part &b)
    {
        const uint32_t first[2] = {b.k[0], b.k[1]}, second[2] = {b.k[2], b.k[3]};
        dv_mma_m16n8k16_bf16(d, a.k[0], first);
        dv_mma_m16n8k16_bf16(d, a.k[1], second);
    }

    /* Two neighbours of a row, column even; paired: for an A whose k they are. */
    static DV_MEMBER void store_two(element *row, int column, float x, float y)
    {
        dv_stv(reinterpret_cast<uint32_t *>(row + column), (uint32_t)down(x) | (uint32_t)down(y) << 16);
    }
    static DV_MEMBER void store_two_paired(element *row, int column, float x, float y)
    {
        store_two(row, column, x, y);
    }

    /* Eight neighbours of a row. */
    static DV_MEMBER void load_row(const element *at, float (&v)[8])
    {
        load_eight<as_bf16>(at, v);
    }
};

/* To the nearest tf32, as f32. */
DV_DEV float round_tf32(float value)
{
    return __uint_as_float((__float_as_uint(value) + 0x1000u) & 0xffffe000u);
}

/* PRODUCTS 1: elements are tf32 values, or are rounded to them. 3: they are f32, taken as high + low part, low * low left out. */
template <int PRODUCTS> struct tile_tf32 {
    typedef float element;
    static constexpr float SCALE_A = 1;
    static constexpr int PAD_ROWS = 4, PAD_COLUMNS = 8;
    struct a_part {
        float k[4][4];
    };
    struct b_part {
        float k[4][2];
    };

    static constexpr int PLANES = 1;

    static DV_MEMBER element down(float value) { return PRODUCTS == 1 ? round_tf32(value) : value; }
    static DV_MEMBER float rest(float) { return 0; }

    static DV_MEMBER void a_by_rows(a_part &a, const element *at, int ld)
    {
        at += lane_g() * ld + lane_t();
#pragma unroll
        for (int e = 0; e < 16; e++)
            a.k[e / 4][e % 4] = at[e % 2 * 8 * ld + e / 4 * 8 + e % 4 / 2 * 4];
    }
    static DV_MEMBER void a_by_columns_paired(a_part &a, const element *at, int ld)
    {
        at += 2 * lane_t() * ld + lane_g();
#pragma unroll
        for (int e = 0; e < 16; e++)
            a.k[e / 4][e % 4] = at[(e / 4 * 8 + e % 4 / 2) * ld + e % 2 * 8];
    }
    static DV_MEMBER void b_by_columns(b_part &b, const element *at, int ld)
    {
        at += lane_g() * ld + lane_t();
#pragma unroll
        for (int e = 0; e < 8; e++)
            b.k[e / 2][e % 2] = at[4 * e];
    }
    static DV_MEMBER void b_by_rows(b_part &b, const element *at, int ld)
    {
        at += lane_t() * ld + lane_g();
#pragma unroll
        for (int e = 0; e < 8; e++)
            b.k[e / 2][e % 2] = at[4 * e * ld];
    }
    static DV_MEMBER void b_by_rows_paired(b_part &b, const element *at, int ld)
    {
        at += 2 * lane_t() * ld + lane_g();
#pragma unroll
        for (int e = 0; e < 8; e++)
            b.k[e / 2][e % 2] = at[(e / 2 * 8 + e % 2) * ld];
    }

    static DV_MEMBER void scale_b(b_part &b)
    {
#pragma unroll
        for (int e = 0; e < 8; e++)
            b.k[e / 2][e % 2] *= TILE_SCALE;
    }
    static DV_MEMBER void weigh_a(a_part &a, const float (&w)[4][2])
    {
#pragma unroll
        for (int e = 0; e < 16; e++)
            a.k[e / 4][e % 4] = down(a.k[e / 4][e % 4] * w[e / 4][e % 4 / 2]);
    }
    static DV_MEMBER void keep_a(a_part &a, int live)
    {
#pragma unroll
        for (int e = 0; e < 16; e++)
            a.k[e / 4][e % 4] = 8 * (e / 4) + 2 * lane_t() + e % 4 / 2 < live ? a.k[e / 4][e % 4] : 0;
    }
    static DV_MEMBER void keep_b(b_part &b, int live)
    {
#pragma unroll
        for (int e = 0; e < 8; e++)
            b.k[e / 2][e % 2] = 8 * (e / 2) + 2 * lane_t() + e % 2 < live ? b.k[e / 2][e % 2] : 0;
    }

    static DV_MEMBER void multiply_one(float (&d)[4], const float (&a)[4], const float (&b)[2])
    {
        const uint32_t ua[4] = {__float_as_uint(a[0]), __float_as_uint(a[1]), __float_as_uint(a[2]),
                                __float_as_uint(a[3])};
        const uint32_t ub[2] = {__float_as_uint(b[0]), __float_as_uint(b[1])};
        dv_mma_m16n8k8_tf32(d, ua, ub);
    }
    static DV_MEMBER void multiply_split(float (&d)[4], const float (&a)[4], const float (&b)[2])
    {
        float a_high[4], a_low[4], b_high[2], b_low[2];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            a_high[e] = round_tf32(a[e]);
            a_low[e] = a[e] - a_high[e];
        }
#pragma unroll
        for (int e = 0; e < 2; e++) {
            b_high[e] = round_tf32(b[e]);
            b_low[e] = b[e] - b_high[e];
        }
        multiply_one(d, a_low, b_high);
        multiply_one(d, a_high, b_low);
        multiply_one(d, a_high, b_high);
    }
    static DV_MEMBER void multiply(float (&d)[4], const a_part &a, const b_part &b)
    {
#pragma unroll
        for (int q = 0; q < 4; q++)
            if (PRODUCTS == 1)
                multiply_one(d, a.k[q], b.k[q]);
            else
                multiply_split(d, a.k[q], b.k[q]);
    }

    static DV_MEMBER void store_two(element *row, int column, float x, float y)
    {
        dv_stv(reinterpret_cast<float2 *>(row + column), float2{down(x), down(y)});
    }
    static DV_MEMBER void store_two_paired(element *row, int column, float x, float y)
    {
        row += column / 8 * 8 + column % 8 / 2;
        row[0] = down(x);
        row[4] = down(y);
    }

    static DV_MEMBER void load_row(const element *at, float (&v)[8])
    {
        load_eight<as_f32>(at, v);
    }
};

/* What rows of X are multiplied as. */
template <class X> struct tile_of;
template <> struct tile_of<as_bf16> {
    typedef tile_bf16 type;
};
template <> struct tile_of<as_f16> {
    typedef tile_tf32<1> type;
};
template <> struct tile_of<as_f32> {
    typedef tile_tf32<3> type;
};

/* ---------------------------------------------------------------- row tiles to shared memory */

/* 16 bytes of a row, or zeros unless `in`. Asynchronous where nothing is converted. */
DV_DEV void copy_unit(uint16_t *to, const uint16_t *from, bool in)
{
    dv_cp_async16(to, from, in ? 16 : 0);
}
DV_DEV void copy_unit(float *to, const float *from, bool in)
{
    dv_cp_async16(to, from, in ? 16 : 0);
}
DV_DEV void copy_unit(float *to, const uint16_t *from, bool in)
{
    float v[8] = {};
    if (in) load_eight<as_f16>(from, v);
    store_eight<as_f32>(to, v);
}

/* A tile of ROWS x COLUMNS at `to`, pitch ld: `rows` x `columns` from memory, zeros around them. `step` elements between rows. */
template <class X, int ROWS, int COLUMNS, int THREADS>
DV_DEV void copy_tile(typename tile_of<X>::type::element *to, int ld, const typename X::storage *from, int64_t step,
                      int rows, int columns, bool eights)
{
    constexpr int UNIT = 16 / (int)sizeof(typename X::storage), UNITS = COLUMNS / UNIT;
    for (int i = (int)threadIdx.x; i < ROWS * UNITS; i += THREADS) {
        const int row = i / UNITS, column = i % UNITS * UNIT;
        const bool in = row < rows && column < columns;
        const typename X::storage *at = in ? from + row * step + column : from;
        if (eights) {
            copy_unit(to + row * ld + column, at, in);
            continue;
        }
        for (int e = 0; e < UNIT; e++)
            to[row * ld + column + e] = tile_of<X>::type::down(in && column + e < columns ? X::up(at[e]) : 0);
    }
}

/* ---------------------------------------------------------------- sums of log decays */

/* An unevaluated pair of f32. */
struct two_floats {
    float high, low;
};

DV_DEV two_floats add_pairs(two_floats a, two_floats b)
{
    const float sum = a.high + b.high, part = sum - a.high;
    const float rest = ((a.high - (sum - part)) + (b.high - part)) + (a.low + b.low);
    const float high = sum + rest;
    return {high, rest - (high - sum)};
}

/* Inclusive sums over 32 PER rows by one warp, PER neighbouring rows a lane, in an order that is the same for all lengths. */
template <int PER> DV_DEV void scan_lanes(const float (&g)[PER], two_floats (&sum)[PER])
{
    const int lane = (int)(threadIdx.x % 32);
    sum[0] = {g[0], 0};
#pragma unroll
    for (int i = 1; i < PER; i++)
        sum[i] = add_pairs(sum[i - 1], {g[i], 0});
    two_floats before = sum[PER - 1]; /* becomes the sum up to this lane */
    for (int d = 1; d < 32; d *= 2) {
        const int from = lane >= d ? lane - d : lane;
        const two_floats other = {__shfl_sync(ALL_LANES, before.high, from), __shfl_sync(ALL_LANES, before.low, from)};
        if (lane >= d) before = add_pairs(other, before);
    }
    const int left = lane > 0 ? lane - 1 : 0;
    const two_floats base = {__shfl_sync(ALL_LANES, before.high, left), __shfl_sync(ALL_LANES, before.low, left)};
#pragma unroll
    for (int i = 0; i < PER; i++)
        if (lane > 0) sum[i] = add_pairs(base, sum[i]);
}

template <int ROWS> DV_DEV void scan_pairs(const float (&g)[ROWS / 32], float *high, float *low)
{
    constexpr int PER = ROWS / 32;
    two_floats sum[PER];
    scan_lanes<PER>(g, sum);
#pragma unroll
    for (int i = 0; i < PER; i++) {
        high[(int)(threadIdx.x % 32) * PER + i] = sum[i].high;
        low[(int)(threadIdx.x % 32) * PER + i] = sum[i].low;
    }
}

/* exp(i - j) for sums of log decays, j of an earlier row or the same: the difference is at most 0, NaN stays. */
DV_DEV float decay_between(two_floats i, two_floats j)
{
    const float d = (i.high - j.high) + (i.low - j.low);
    return expf(d > 0 ? 0 : d);
}

/* exp of the log decays after row j up to row i >= j; both sums NaN-proof, the difference at most 0. */
DV_DEV float decay_between(const float *high, const float *low, int i, int j)
{
    const float d = (high[i] - high[j]) + (low[i] - low[j]);
    return expf(d > 0 ? 0 : d);
}

#endif
