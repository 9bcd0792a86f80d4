/* SPDX-License-Identifier: MIT */
/* Single elements of block-quantised weights: what common/blocks.c says of their bytes, one element at a time. */
#ifndef SEQMIX_CUDA_BLOCKS_CUH
#define SEQMIX_CUDA_BLOCKS_CUH

#include "rows.cuh"

DV_DEV float half_at(const uint8_t *bytes)
{
    return dv_f16_to_f32((uint16_t)(bytes[0] | bytes[1] << 8));
}

/* Element i < 32 of 16 bytes of halves: low ones first. */
DV_DEV int four_bits(const uint8_t *bytes, int i)
{
    return i < 16 ? bytes[i] & 15 : bytes[i - 16] >> 4;
}

DV_DEV int fifth_bit(const uint8_t *bytes, int i)
{
    return (bytes[i / 8] >> (i % 8) & 1) << 4;
}

DV_DEV int iq4_nl_value(int index)
{
    /* -127 -104 -83 -65 -49 -35 -22 -10, 1 13 25 38 53 69 89 113: bytes in registers, where a table would be local memory */
    const uint64_t eight = index < 8 ? 0xf6eaddcfbfad9881u : 0x7159453526190d01u;
    return (int8_t)(eight >> index % 8 * 8);
}

/* Q4_K, or with a fifth bit Q5_K. */
DV_DEV float q45_k(const uint8_t *block, bool fifth, int at)
{
    const uint8_t *packed = block + 4, *high = block + 16, *low = high + (fifth ? 32 : 0);
    const int j = at / 32, i = at % 32, byte = low[j / 2 * 32 + i];
    int scale, offset;
    if (j < 4) {
        scale = packed[j] & 63;
        offset = packed[j + 4] & 63;
    } else {
        scale = (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4;
        offset = packed[j + 4] >> 4 | packed[j] >> 6 << 4;
    }
    const int q = (j % 2 == 0 ? byte & 15 : byte >> 4) | (fifth ? (high[i] >> j & 1) << 4 : 0);
    const float ds = half_at(block) * (float)scale, mt = half_at(block + 2) * (float)offset;
    return ds * (float)q - mt;
}

DV_DEV float q6_k(const uint8_t *block, int i)
{
    const uint8_t *high = block + 128, *scales = block + 192;
    const int half = i / 128, at = i % 128, byte = block[64 * half + at % 64];
    const int q = (at < 64 ? byte & 15 : byte >> 4) | (high[32 * half + at % 32] >> (at / 32 * 2) & 3) << 4;
    return half_at(block + 208) * (float)(int8_t)scales[i / 16] * (float)(q - 32);
}

/* Element `offset` of a tensor of any dtype. */
DV_DEV float get_block(const seqmix_tensor &t, int64_t offset)
{
    const uint8_t *data = static_cast<const uint8_t *>(t.data);
    const int i = (int)(offset % 32), k = (int)(offset % 256);
    const uint8_t *b;
    switch (t.dtype) {
    case SEQMIX_Q8_0:
        b = data + offset / 32 * 34;
        return half_at(b) * (float)(int8_t)b[2 + i];
    case SEQMIX_Q4_0:
        b = data + offset / 32 * 18;
        return half_at(b) * (float)(four_bits(b + 2, i) - 8);
    case SEQMIX_IQ4_NL:
        b = data + offset / 32 * 18;
        return half_at(b) * (float)iq4_nl_value(four_bits(b + 2, i));
    case SEQMIX_Q5_0:
        b = data + offset / 32 * 22;
        return half_at(b) * (float)((four_bits(b + 6, i) | fifth_bit(b + 2, i)) - 16);
    case SEQMIX_Q5_1:
        b = data + offset / 32 * 24;
        return half_at(b) * (float)(four_bits(b + 8, i) | fifth_bit(b + 4, i)) + half_at(b + 2);
    case SEQMIX_Q4_K:
        return q45_k(data + offset / 256 * 144, false, k);
    case SEQMIX_Q5_K:
        return q45_k(data + offset / 256 * 176, true, k);
    case SEQMIX_Q6_K:
        return q6_k(data + offset / 256 * 210, k);
    default:
        return get(t, offset);
    }
}

/* The product of n elements of x with as many of a weight of any dtype, by a warp, in every lane. */
DV_DEV float dot_lanes(const seqmix_tensor &x, int64_t at, const seqmix_tensor &weight, int64_t from, int64_t n)
{
    float sum = 0;
    for (int64_t i = threadIdx.x % 32; i < n; i += 32)
        sum += get(x, at + i) * get_block(weight, from + i);
    return sum_lanes(sum);
}

#endif
