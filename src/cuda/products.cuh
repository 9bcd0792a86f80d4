/* SPDX-License-Identifier: MIT */
/*
 * Products of a warp whose left factor is its own accumulators: D (16 x 8, twice) += A (16 x 16) B (16 x 8, twice). An accumulator
 * holds rows g and g+8, columns 2t and 2t+1 of its tile (g = lane / 4, t = lane % 4), which is what the left fragment of the next
 * product wants, so chains of products need no shared memory but for their right factors.
 * bf16: a left factor is a pair of bf16, high + low, when it must not be rounded (docs/NUMERICS.md, rule 6). f16 and f32 go through
 * tf32, f16 being a subset of it, values and f32 keys as high and low parts; their slots t and t+4 of an eight along k are
 * elements 2t and 2t+1, on both sides.
 * Values are multiplied by SCALE on the way in, so that no part of tiny ones is denormal.
 * Right factors: "keys", rows of X in shared memory, exact; "squares", f32 values kept as the products want them.
 */
#ifndef SEQMIX_CUDA_PRODUCTS_CUH
#define SEQMIX_CUDA_PRODUCTS_CUH

#include "lanes.cuh"

/* Four 8 x 8 tiles of 16-bit elements, [row][column]: tiles 0 and 1 are 8 apart by `first`, tiles 0 and 2 by `second`. */
DV_DEV void load_tiles(uint32_t (&r)[4], const uint16_t *at, int ld, int first, int second)
{
    const int lane = (int)(threadIdx.x % 32);
    dv_ldmatrix_x4(r, at + lane % 8 * ld + lane / 8 % 2 * first + lane / 16 * second);
}
DV_DEV void load_tiles_turned(uint32_t (&r)[4], const uint16_t *at, int ld, int first, int second)
{
    const int lane = (int)(threadIdx.x % 32);
    dv_ldmatrix_x4_trans(r, at + lane % 8 * ld + lane / 8 % 2 * first + lane / 16 * second);
}

DV_DEV float bf16_low(uint32_t pair)
{
    return __uint_as_float(pair << 16);
}
DV_DEV float bf16_high(uint32_t pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}

/* ---------------------------------------------------------------- bf16 */

struct products_bf16 {
    typedef uint16_t key, square;
    static constexpr int PLANES = 2, KEY_PAD = 8, SQUARE_PAD = 8;
    static constexpr float SCALE = 0x1p40f;
    struct left {
        uint32_t high[4], low[4];
    };
    struct left_keys {
        uint32_t k[4];
    };
    struct right {
        uint32_t k[4];
    };

    /* Two values as a bf16 pair each. */
    static DV_MEMBER void split(uint32_t &high, uint32_t &low, float x, float y)
    {
        high = dv_pack_bf16(x, y);
        low = dv_pack_bf16(x - bf16_low(high), y - bf16_high(high));
    }
    static DV_MEMBER void take(left &a, const float (&t0)[4], const float (&t1)[4])
    {
        split(a.high[0], a.low[0], t0[0], t0[1]);
        split(a.high[1], a.low[1], t0[2], t0[3]);
        split(a.high[2], a.low[2], t1[0], t1[1]);
        split(a.high[3], a.low[3], t1[2], t1[3]);
    }
    /* Once rounded to the type of the keys: enough for a state. */
    static DV_MEMBER void take_rounded(left_keys &a, const float (&t0)[4], const float (&t1)[4])
    {
        a.k[0] = dv_pack_bf16(t0[0], t0[1]);
        a.k[1] = dv_pack_bf16(t0[2], t0[3]);
        a.k[2] = dv_pack_bf16(t1[0], t1[1]);
        a.k[3] = dv_pack_bf16(t1[2], t1[3]);
    }
    /* A(i,k) = B(k,i): rows of keys are the same fragments on both sides. */
    static DV_MEMBER void turn(left_keys &a, const right &b)
    {
        a.k[0] = b.k[0];
        a.k[1] = b.k[2];
        a.k[2] = b.k[1];
        a.k[3] = b.k[3];
    }
    /* B(k,n) at [n*ld + k] */
    static DV_MEMBER void keys(right &b, const key *at, int ld) { load_tiles(b.k, at, ld, 8, 8 * ld); }
    /* B(k,n) at [k*ld + n] */
    static DV_MEMBER void keys_turned(right &b, const key *at, int ld) { load_tiles_turned(b.k, at, ld, 8 * ld, 8); }

    static DV_MEMBER void mma(float (&d)[2][4], const uint32_t (&a)[4], const right &b)
    {
        const uint32_t b0[2] = {b.k[0], b.k[1]}, b1[2] = {b.k[2], b.k[3]};
        dv_mma_m16n8k16_bf16(d[0], a, b0);
        dv_mma_m16n8k16_bf16(d[1], a, b1);
    }
    static DV_MEMBER void multiply(float (&d)[2][4], const left_keys &a, const right &b) { mma(d, a.k, b); }
    static DV_MEMBER void multiply(float (&d)[2][4], const left &a, const right &b)
    {
        mma(d, a.low, b);
        mma(d, a.high, b);
    }
    /* Times a square: B(k,n) at [n*ld + k], its low parts `plane` elements on; low times low is left out. */
    template <int MT>
    static DV_MEMBER void multiply_square(float (&d)[MT][2][4], const left (&a)[MT], const square *at, int ld,
                                          int plane)
    {
        right high, low;
        keys(high, at, ld);
        keys(low, at + plane, ld);
#pragma unroll
        for (int m = 0; m < MT; m++) {
            mma(d[m], a[m].low, high);
            mma(d[m], a[m].high, low);
            mma(d[m], a[m].high, high);
        }
    }
    /* Values once rounded times a square. */
    static DV_MEMBER void multiply_rounded(float (&d)[2][4], const left_keys &a, const square *at, int ld, int plane)
    {
        right high, low;
        keys(high, at, ld);
        keys(low, at + plane, ld);
        mma(d, a.k, low);
        mma(d, a.k, high);
    }
    /* Times a square that lies turned: B(k,n) at [k*ld + n]. */
    static DV_MEMBER void multiply_turned(float (&d)[2][4], const left &a, const square *at, int ld, int plane)
    {
        right high, low;
        keys_turned(high, at, ld);
        keys_turned(low, at + plane, ld);
        mma(d, a.low, high);
        mma(d, a.high, low);
        mma(d, a.high, high);
    }
    static DV_MEMBER void put_square(square *at, int plane, float value)
    {
        const uint16_t high = dv_f32_to_bf16(value);
        at[0] = high;
        at[plane] = dv_f32_to_bf16(value - dv_bf16_to_f32(high));
    }
    /* Two neighbours of a row, the first in an even column. */
    static DV_MEMBER void put_pair(square *at, int plane, float x, float y)
    {
        uint32_t high, low;
        split(high, low, x, y);
        dv_stv(reinterpret_cast<uint32_t *>(at), high);
        dv_stv(reinterpret_cast<uint32_t *>(at + plane), low);
    }
    /* Rows at [column*ld + row] as two accumulator tiles, 16 rows x 16 columns. */
    static DV_MEMBER void turned(float (&v)[2][4], const key *at, int ld)
    {
        uint32_t r[4];
        load_tiles_turned(r, at, ld, 8, 8 * ld);
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e / 4][e % 4] = e % 2 == 0 ? bf16_low(r[e / 2]) : bf16_high(r[e / 2]);
    }
};

/* ---------------------------------------------------------------- tf32 */

/* To the nearest tf32, ties away from zero. */
DV_DEV float nearest_tf32(float value)
{
    return __uint_as_float((__float_as_uint(value) + 0x1000u) & 0xffffe000u);
}

/* How pairs of neighbouring keys come out of shared memory, as f32. */
struct keys_f16 {
    typedef uint16_t key;
    static constexpr int KEY_PAD = 8;
    static constexpr bool EXACT = true;
    static constexpr float SCALE = 1;
    static DV_MEMBER void widen(float (&v)[8], const uint32_t (&r)[4])
    {
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] = dv_f16_to_f32((uint16_t)(r[e / 2] >> e % 2 * 16));
    }
    static DV_MEMBER void pairs(float (&v)[8], const key *at, int ld, int first, int second)
    {
        uint32_t r[4];
        load_tiles(r, at, ld, first, second);
        widen(v, r);
    }
    static DV_MEMBER void pairs_turned(float (&v)[8], const key *at, int ld, int first, int second)
    {
        uint32_t r[4];
        load_tiles_turned(r, at, ld, first, second);
        widen(v, r);
    }
};

struct keys_f32 {
    typedef float key;
    static constexpr int KEY_PAD = 8;
    static constexpr bool EXACT = false;
    static constexpr float SCALE = 0x1p40f;
    static DV_MEMBER void pairs(float (&v)[8], const key *at, int ld, int first, int second)
    {
        at += (int)(threadIdx.x % 32 / 4) * ld + (int)(threadIdx.x % 4) * 2;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 two = dv_ldv(reinterpret_cast<const float2 *>(at + i % 2 * first + i / 2 * second));
            v[2 * i] = two.x;
            v[2 * i + 1] = two.y;
        }
    }
    static DV_MEMBER void pairs_turned(float (&v)[8], const key *at, int ld, int first, int second)
    {
        at += (int)(threadIdx.x % 4) * 2 * ld + (int)(threadIdx.x % 32 / 4);
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] = at[e % 2 * ld + e / 2 % 2 * first + e / 4 * second];
    }
};

/* Values are high + low parts, low times low left out; keys too, unless they are EXACT in tf32. */
template <class KEYS> struct products_tf32 {
    typedef typename KEYS::key key;
    typedef float square;
    static constexpr int PLANES = 1, KEY_PAD = KEYS::KEY_PAD, SQUARE_PAD = 8;
    static constexpr float SCALE = KEYS::SCALE;
    struct left {
        float high[8], low[8];
    };
    struct left_keys {
        float high[8], low[KEYS::EXACT ? 1 : 8];
    };
    struct right {
        float k[8]; /* [n-tile][eight of k][2t, 2t+1] */
    };

    static DV_MEMBER void put(left &a, int i, float value)
    {
        a.high[i] = nearest_tf32(value);
        a.low[i] = nearest_tf32(value - a.high[i]);
    }
    static DV_MEMBER void put(left_keys &a, int i, float value)
    {
        a.high[i] = nearest_tf32(value);
        if (!KEYS::EXACT) a.low[KEYS::EXACT ? 0 : i] = nearest_tf32(value - a.high[i]);
    }
    /* slots: (g, 2t) (g+8, 2t) (g, 2t+1) (g+8, 2t+1) */
    static DV_MEMBER void take(left &a, const float (&t0)[4], const float (&t1)[4])
    {
#pragma unroll
        for (int i = 0; i < 8; i++)
            put(a, i, i < 4 ? t0[i % 2 * 2 + i / 2] : t1[i % 2 * 2 + i % 4 / 2]);
    }
    static DV_MEMBER void take_rounded(left_keys &a, const float (&t0)[4], const float (&t1)[4])
    {
#pragma unroll
        for (int i = 0; i < 8; i++)
            put(a, i, i < 4 ? t0[i % 2 * 2 + i / 2] : t1[i % 2 * 2 + i % 4 / 2]);
    }
    static DV_MEMBER void turn(left_keys &a, const right &b)
    {
#pragma unroll
        for (int i = 0; i < 8; i++)
            put(a, i, b.k[i % 2 * 4 + i / 4 * 2 + i % 4 / 2]);
    }
    static DV_MEMBER void keys(right &b, const key *at, int ld)
    {
        KEYS::pairs(b.k, at, ld, 8, 8 * ld);
    }
    static DV_MEMBER void keys_turned(right &b, const key *at, int ld)
    {
        KEYS::pairs_turned(b.k, at, ld, 8 * ld, 8);
    }

    static DV_MEMBER void mma(float (&d)[4], const float *a, const float *b)
    {
        const uint32_t ua[4] = {__float_as_uint(a[0]), __float_as_uint(a[1]), __float_as_uint(a[2]),
                                __float_as_uint(a[3])};
        const uint32_t ub[2] = {__float_as_uint(b[0]), __float_as_uint(b[1])};
        dv_mma_m16n8k8_tf32(d, ua, ub);
    }
    template <bool LEFT_LOW, bool RIGHT_LOW>
    static DV_MEMBER void multiply_parts(float (&d)[2][4], const float *a_high, const float *a_low, const right &b)
    {
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int eight = 0; eight < 2; eight++) {
                const float *k = b.k + 4 * n + 2 * eight;
                const float high[2] = {RIGHT_LOW ? nearest_tf32(k[0]) : k[0], RIGHT_LOW ? nearest_tf32(k[1]) : k[1]};
                const float low[2] = {nearest_tf32(k[0] - high[0]), nearest_tf32(k[1] - high[1])};
                float sum[4] = {0, 0, 0, 0}; /* f32 sums are rounded here: tensor cores cut them off */
                float(&to)[4] = KEYS::EXACT ? d[n] : sum;
                if (LEFT_LOW) mma(to, a_low + 4 * eight, high);
                if (RIGHT_LOW) mma(to, a_high + 4 * eight, low);
                mma(to, a_high + 4 * eight, high);
                if (!KEYS::EXACT)
                    for (int e = 0; e < 4; e++)
                        d[n][e] += sum[e];
            }
    }
    static DV_MEMBER void multiply(float (&d)[2][4], const left_keys &a, const right &b)
    {
        multiply_parts<!KEYS::EXACT, !KEYS::EXACT>(d, a.high, a.low, b);
    }
    static DV_MEMBER void multiply(float (&d)[2][4], const left &a, const right &b)
    {
        multiply_parts<true, !KEYS::EXACT>(d, a.high, a.low, b);
    }
    template <int MT>
    static DV_MEMBER void multiply_square(float (&d)[MT][2][4], const left (&a)[MT], const square *at, int ld, int)
    {
        right b;
        keys_f32::pairs(b.k, at, ld, 8, 8 * ld);
#pragma unroll
        for (int m = 0; m < MT; m++)
            multiply_parts<true, true>(d[m], a[m].high, a[m].low, b);
    }
    static DV_MEMBER void multiply_rounded(float (&d)[2][4], const left_keys &a, const square *at, int ld, int)
    {
        right b;
        keys_f32::pairs(b.k, at, ld, 8, 8 * ld);
        multiply_parts<!KEYS::EXACT, true>(d, a.high, a.low, b);
    }
    static DV_MEMBER void multiply_turned(float (&d)[2][4], const left &a, const square *at, int ld, int)
    {
        right b;
        keys_f32::pairs_turned(b.k, at, ld, 8 * ld, 8);
        multiply_parts<true, true>(d, a.high, a.low, b);
    }
    static DV_MEMBER void put_square(square *at, int, float value)
    {
        at[0] = value;
    }
    static DV_MEMBER void put_pair(square *at, int, float x, float y)
    {
        dv_stv(reinterpret_cast<float2 *>(at), float2{x, y});
    }
    static DV_MEMBER void turned(float (&v)[2][4], const key *at, int ld)
    {
        float r[8];
        KEYS::pairs_turned(r, at, ld, 8, 8 * ld);
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e / 4][e % 4] = r[e];
    }
};

template <class X> struct products_of;
template <> struct products_of<as_bf16> {
    typedef products_bf16 type;
};
template <> struct products_of<as_f16> {
    typedef products_tf32<keys_f16> type;
};
template <> struct products_of<as_f32> {
    typedef products_tf32<keys_f32> type;
};

#endif
