/* SPDX-License-Identifier: MIT */
/*
 * Block-quantised weights eight neighbours at a time: the values of get_block, bit for bit, from few wide accesses. Lanes side by
 * side have neighbouring eights, so a warp reads whole sectors. fetch() only loads, so that a caller may have several on their way
 * before it widens one. Blocks of 18, 22, 34 and 210 bytes lie at even addresses only: eight bytes of them are cut from two
 * accesses of 8, which stay inside of a row of a multiple of four blocks; block_eights() tells where all that holds.
 */
#ifndef SEQMIX_CUDA_BLOCK_EIGHTS_CUH
#define SEQMIX_CUDA_BLOCK_EIGHTS_CUH

#include "blocks.cuh"
#include "lanes.cuh"

/* Host: whether the rows of a block-quantised tensor may be read by eights. */
static inline bool block_eights(const seqmix_tensor &t)
{
    const uintptr_t at = reinterpret_cast<uintptr_t>(t.data);
    switch (t.dtype) {
    case SEQMIX_Q8_0:
    case SEQMIX_Q4_0:
    case SEQMIX_IQ4_NL:
    case SEQMIX_Q5_0:
        return at % 8 == 0 && t.shape[1] % 128 == 0 && (t.shape[0] <= 1 || t.stride[0] % 128 == 0);
    case SEQMIX_Q5_1:
    case SEQMIX_Q6_K:
        return at % 8 == 0;
    case SEQMIX_Q4_K:
    case SEQMIX_Q5_K:
        return at % 16 == 0;
    default:
        return false;
    }
}

/* What an eight is made of. */
struct raw_eight {
    uint64_t bytes, high; /* a byte an element, or a half of one; the bits above them */
    uint4 head, tail;     /* scales; or the eight itself, if its elements are floats */
};

DV_DEV uint64_t eight_at(const uint8_t *at) /* at % 8 == 0 */
{
    const uint2 u = dv_ldv(reinterpret_cast<const uint2 *>(at));
    return (uint64_t)u.y << 32 | u.x;
}

DV_DEV uint64_t eight_at_even(const uint8_t *at)
{
    const unsigned past = (unsigned)(reinterpret_cast<uintptr_t>(at) % 8);
    const uint64_t low = eight_at(at - past), high = eight_at(at - past + (past > 0 ? 8 : 0));
    return low >> 8 * past | high << 1 << (63 - 8 * past);
}

DV_DEV unsigned two_at(const uint8_t *at) /* at % 2 == 0 */
{
    return dv_ldv(reinterpret_cast<const uint16_t *>(at));
}

/* An integer below 2^22 less another, as f32, exactly. */
DV_DEV float whole(unsigned n, int less)
{
    return __uint_as_float(0x4b000000u | n) - (float)(0x800000 + less);
}

DV_DEV unsigned bits_of(uint64_t bytes, int e, int shift, unsigned mask)
{
    return (unsigned)(bytes >> (8 * e + shift)) & mask;
}

/* Per dtype: the raw eight that begins at element i, a multiple of 8, of the row, and its values. Rows are of blocks, or in_eights(). */
template <int DTYPE> struct eight_of;

template <class X> struct eight_of_halves {
    static constexpr int BLOCK = 1, BYTES = 2;
    static DV_MEMBER void fetch(const uint8_t *row, int64_t i, raw_eight &raw)
    {
        raw.head = dv_ldv(reinterpret_cast<const uint4 *>(row + 2 * i));
    }
    static DV_MEMBER void widen(const raw_eight &raw, int64_t, float (&v)[8])
    {
        const unsigned words[4] = {raw.head.x, raw.head.y, raw.head.z, raw.head.w};
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] = X::up((uint16_t)(words[e / 2] >> e % 2 * 16));
    }
};
template <> struct eight_of<SEQMIX_BF16> : eight_of_halves<as_bf16> {
};
template <> struct eight_of<SEQMIX_F16> : eight_of_halves<as_f16> {
};

template <> struct eight_of<SEQMIX_F32> {
    static constexpr int BLOCK = 1, BYTES = 4;
    static DV_MEMBER void fetch(const uint8_t *row, int64_t i, raw_eight &raw)
    {
        raw.head = dv_ldv(reinterpret_cast<const uint4 *>(row + 4 * i));
        raw.tail = dv_ldv(reinterpret_cast<const uint4 *>(row + 4 * i + 16));
    }
    static DV_MEMBER void widen(const raw_eight &raw, int64_t, float (&v)[8])
    {
        const unsigned words[8] = {raw.head.x, raw.head.y, raw.head.z, raw.head.w,
                                   raw.tail.x, raw.tail.y, raw.tail.z, raw.tail.w};
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] = __uint_as_float(words[e]);
    }
};

template <> struct eight_of<SEQMIX_Q8_0> {
    static constexpr int BLOCK = 32, BYTES = 34;
    static DV_MEMBER void fetch(const uint8_t *row, int64_t i, raw_eight &raw)
    {
        const uint8_t *b = row + i / BLOCK * BYTES;
        raw.bytes = eight_at_even(b + 2 + i % 32);
        raw.head.x = two_at(b);
    }
    static DV_MEMBER void widen(const raw_eight &raw, int64_t, float (&v)[8])
    {
        const float d = dv_f16_to_f32((uint16_t)raw.head.x);
        const uint64_t above = raw.bytes ^ 0x8080808080808080u; /* q + 128 */
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] = d * whole(bits_of(above, e, 0, 255), 128);
    }
};

/* Sixteen bytes of halves behind `HEAD` bytes, low ones first. */
template <int BYTES, int HEAD> DV_DEV uint64_t halves_of(const uint8_t *row, int64_t i)
{
    return eight_at_even(row + i / 32 * BYTES + HEAD + (i & 8));
}

template <> struct eight_of<SEQMIX_Q4_0> {
    static constexpr int BLOCK = 32, BYTES = 18;
    static DV_MEMBER void fetch(const uint8_t *row, int64_t i, raw_eight &raw)
    {
        raw.bytes = halves_of<BYTES, 2>(row, i);
        raw.head.x = two_at(row + i / BLOCK * BYTES);
    }
    static DV_MEMBER void widen(const raw_eight &raw, int64_t i, float (&v)[8])
    {
        const float d = dv_f16_to_f32((uint16_t)raw.head.x);
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] = d * whole(bits_of(raw.bytes, e, (int)(i & 16) / 4, 15), 8);
    }
};

template <> struct eight_of<SEQMIX_IQ4_NL> {
    static constexpr int BLOCK = 32, BYTES = 18;
    static DV_MEMBER void fetch(const uint8_t *row, int64_t i, raw_eight &raw)
    {
        eight_of<SEQMIX_Q4_0>::fetch(row, i, raw);
    }
    static DV_MEMBER void widen(const raw_eight &raw, int64_t i, float (&v)[8])
    {
        const float d = dv_f16_to_f32((uint16_t)raw.head.x);
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] = d * (float)iq4_nl_value((int)bits_of(raw.bytes, e, (int)(i & 16) / 4, 15));
    }
};

/* Halves under fifth bits, a byte of those an eight. */
DV_DEV unsigned five_of(const raw_eight &raw, int64_t i, int e)
{
    return bits_of(raw.bytes, e, (int)(i & 16) / 4, 15) | ((unsigned)raw.high >> e & 1) << 4;
}

template <> struct eight_of<SEQMIX_Q5_0> {
    static constexpr int BLOCK = 32, BYTES = 22;
    static DV_MEMBER void fetch(const uint8_t *row, int64_t i, raw_eight &raw)
    {
        const uint8_t *b = row + i / BLOCK * BYTES;
        raw.bytes = halves_of<BYTES, 6>(row, i);
        raw.high = b[2 + i % 32 / 8];
        raw.head.x = two_at(b);
    }
    static DV_MEMBER void widen(const raw_eight &raw, int64_t i, float (&v)[8])
    {
        const float d = dv_f16_to_f32((uint16_t)raw.head.x);
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] = d * whole(five_of(raw, i, e), 16);
    }
};

template <> struct eight_of<SEQMIX_Q5_1> {
    static constexpr int BLOCK = 32, BYTES = 24;
    static DV_MEMBER void fetch(const uint8_t *row, int64_t i, raw_eight &raw)
    {
        const uint8_t *b = row + i / BLOCK * BYTES;
        const uint64_t head = eight_at(b);
        raw.bytes = eight_at(b + 8 + (i & 8));
        raw.head.x = (unsigned)head;
        raw.high = head >> (32 + i % 32) & 255;
    }
    static DV_MEMBER void widen(const raw_eight &raw, int64_t i, float (&v)[8])
    {
        const float d = dv_f16_to_f32((uint16_t)raw.head.x), m = dv_f16_to_f32((uint16_t)(raw.head.x >> 16));
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] = d * whole(five_of(raw, i, e), 0) + m;
    }
};

/* Q4_K, or with a fifth bit Q5_K. */
template <bool FIFTH> struct eight_of_k {
    static constexpr int BLOCK = 256, BYTES = FIFTH ? 176 : 144;
    static DV_MEMBER void fetch(const uint8_t *row, int64_t i, raw_eight &raw)
    {
        const uint8_t *b = row + i / BLOCK * BYTES;
        raw.head = dv_ldv(reinterpret_cast<const uint4 *>(b));
        if (FIFTH) raw.high = eight_at(b + 16 + i % 32);
        raw.bytes = eight_at(b + (FIFTH ? 48 : 16) + i % 256 / 64 * 32 + i % 32);
    }
    static DV_MEMBER void widen(const raw_eight &raw, int64_t i, float (&v)[8])
    {
        const int j = (int)(i % 256 / 32), byte = 8 * (j % 4);
        const unsigned first = raw.head.y >> byte & 255, second = raw.head.z >> byte & 255, rest = raw.head.w >> byte;
        const unsigned scale = j < 4 ? first & 63 : (rest & 15) | first >> 6 << 4;
        const unsigned offset = j < 4 ? second & 63 : (rest >> 4 & 15) | second >> 6 << 4;
        const float ds = dv_f16_to_f32((uint16_t)raw.head.x) * whole(scale, 0);
        const float mt = dv_f16_to_f32((uint16_t)(raw.head.x >> 16)) * whole(offset, 0);
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] = ds * whole(bits_of(raw.bytes, e, j % 2 * 4, 15) | (FIFTH ? bits_of(raw.high, e, j, 1) << 4 : 0), 0) -
                   mt;
    }
};
template <> struct eight_of<SEQMIX_Q4_K> : eight_of_k<false> {
};
template <> struct eight_of<SEQMIX_Q5_K> : eight_of_k<true> {
};

template <> struct eight_of<SEQMIX_Q6_K> {
    static constexpr int BLOCK = 256, BYTES = 210;
    static DV_MEMBER void fetch(const uint8_t *row, int64_t i, raw_eight &raw)
    {
        const uint8_t *b = row + i / BLOCK * BYTES;
        const int k = (int)(i % 256), half = k / 128;
        raw.bytes = eight_at_even(b + 64 * half + k % 64);
        raw.high = eight_at_even(b + 128 + 32 * half + k % 32);
        raw.head.x = b[192 + k / 16];
        raw.head.y = two_at(b + 208);
    }
    static DV_MEMBER void widen(const raw_eight &raw, int64_t i, float (&v)[8])
    {
        const int quarter = (int)(i % 128 / 32);
        const float d = dv_f16_to_f32((uint16_t)raw.head.y) * (float)(int8_t)raw.head.x;
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] =
                d * whole(bits_of(raw.bytes, e, quarter / 2 * 4, 15) | bits_of(raw.high, e, 2 * quarter, 3) << 4, 32);
    }
};

/* X(ID) of all that have an eight_of. */
#define EIGHT_DTYPES(X) X(SEQMIX_F32) X(SEQMIX_BF16) X(SEQMIX_F16) EIGHT_BLOCK_DTYPES(X)
#define EIGHT_BLOCK_DTYPES(X)                                                                                          \
    X(SEQMIX_Q8_0)                                                                                                     \
    X(SEQMIX_Q4_0) X(SEQMIX_IQ4_NL) X(SEQMIX_Q5_0) X(SEQMIX_Q5_1) X(SEQMIX_Q4_K) X(SEQMIX_Q5_K) X(SEQMIX_Q6_K)

/* The same of a block-quantised tensor whose dtype is known when it runs. */
DV_DEV void fetch_block_eight(const seqmix_tensor &t, int64_t index, int64_t i, raw_eight &raw)
{
    const uint8_t *data = static_cast<const uint8_t *>(t.data);
    switch (t.dtype) {
#define FETCH(ID)                                                                                                      \
case ID:                                                                                                               \
    eight_of<ID>::fetch(data + index * t.stride[0] / eight_of<ID>::BLOCK * eight_of<ID>::BYTES, i, raw);               \
    break;
        EIGHT_BLOCK_DTYPES(FETCH)
#undef FETCH
    default:
        break;
    }
}

DV_DEV void widen_block_eight(const seqmix_tensor &t, const raw_eight &raw, int64_t i, float (&v)[8])
{
    switch (t.dtype) {
#define WIDEN(ID)                                                                                                      \
case ID:                                                                                                               \
    eight_of<ID>::widen(raw, i, v);                                                                                    \
    break;
        EIGHT_BLOCK_DTYPES(WIDEN)
#undef WIDEN
    default:
        break;
    }
}

#endif
