/* SPDX-License-Identifier: MIT */
/*
 * The values of block-quantised weights, bit for bit those of the formats' definition (the table in seqmix.h): a product of a
 * scale and a number of few bits is exact in f32, so only the one sum rounds. All numbers are little-endian.
 *
 *     Q8_0     d, q[32] i8
 *     Q4_0     d, 16 bytes: element i in the low half of byte i, i+16 in the high half; so IQ4_NL
 *     Q5_0     d, 4 bytes: bit i is the fifth of element i; 16 bytes as above. Q5_1: d, m, then the same
 *     Q4_K     d, m, 12 bytes of scales and offsets (seqmix_k_scale), 128 bytes: sub-block 2c in the low halves of bytes
 *              32c to 32c+31, 2c+1 in the high ones. Q5_K: 32 bytes before them, bit j of byte i the fifth of element 32j+i
 *     Q6_K     low halves of bytes, then high ones, of 64 bytes for every 128 elements; 2 bits more from 32 bytes; 16 scales i8; d
 */
#include "blocks.h"

const int8_t seqmix_iq4_nl_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static float half_at(const uint8_t *bytes)
{
    return seqmix_f16_to_f32((uint16_t)(bytes[0] | bytes[1] << 8));
}

static void widen_q8_0(const uint8_t *block, float *out)
{
    const float d = half_at(block);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)(int8_t)block[2 + i];
}

static void widen_q4_0(const uint8_t *block, float *out)
{
    const float d = half_at(block);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((block[2 + i] & 15) - 8);
        out[i + 16] = d * (float)((block[2 + i] >> 4) - 8);
    }
}

static void widen_iq4_nl(const uint8_t *block, float *out)
{
    const float d = half_at(block);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)seqmix_iq4_nl_values[block[2 + i] & 15];
        out[i + 16] = d * (float)seqmix_iq4_nl_values[block[2 + i] >> 4];
    }
}

/* Element i < 32 of 4 bytes of high bits and 16 of halves. */
static int five_bits(const uint8_t *bytes, int i)
{
    const int low = i < 16 ? bytes[4 + i] & 15 : bytes[4 + i - 16] >> 4;
    return low | (bytes[i / 8] >> (i % 8) & 1) << 4;
}

static void widen_q5_0(const uint8_t *block, float *out)
{
    const float d = half_at(block);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)(five_bits(block + 2, i) - 16);
}

static void widen_q5_1(const uint8_t *block, float *out)
{
    const float d = half_at(block), m = half_at(block + 2);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)five_bits(block + 4, i) + m;
}

/* Q4_K, or with a fifth bit Q5_K. */
static void widen_q45_k(const uint8_t *block, int fifth, float *out)
{
    const float d = half_at(block), m = half_at(block + 2);
    const uint8_t *high = block + 16, *low = high + (fifth != 0 ? 32 : 0);
    for (int j = 0; j < 8; j++) {
        uint8_t scale, offset;
        seqmix_k_scale(block + 4, j, &scale, &offset);
        const float ds = d * (float)scale, mt = m * (float)offset;
        for (int i = 0; i < 32; i++) {
            const int byte = low[j / 2 * 32 + i], q = j % 2 == 0 ? byte & 15 : byte >> 4;
            out[32 * j + i] = ds * (float)(q | (fifth != 0 ? (high[i] >> j & 1) << 4 : 0)) - mt;
        }
    }
}

static void widen_q6_k(const uint8_t *block, float *out)
{
    const uint8_t *low = block, *high = block + 128, *scales = block + 192;
    const float d = half_at(block + 208);
    for (int i = 0; i < 256; i++) {
        const int half = i / 128, at = i % 128, byte = low[64 * half + at % 64];
        const int q = (at < 64 ? byte & 15 : byte >> 4) | (high[32 * half + at % 32] >> (at / 32 * 2) & 3) << 4;
        out[i] = d * (float)(int8_t)scales[i / 16] * (float)(q - 32);
    }
}

void seqmix_widen_block(seqmix_dtype dtype, const void *block, float *out)
{
    switch (dtype) {
    case SEQMIX_Q8_0:
        widen_q8_0(block, out);
        break;
    case SEQMIX_Q4_0:
        widen_q4_0(block, out);
        break;
    case SEQMIX_IQ4_NL:
        widen_iq4_nl(block, out);
        break;
    case SEQMIX_Q5_0:
        widen_q5_0(block, out);
        break;
    case SEQMIX_Q5_1:
        widen_q5_1(block, out);
        break;
    case SEQMIX_Q4_K:
    case SEQMIX_Q5_K:
        widen_q45_k(block, dtype == SEQMIX_Q5_K, out);
        break;
    default:
        widen_q6_k(block, out);
        break;
    }
}

void seqmix_widen_run(seqmix_dtype dtype, const void *data, int64_t offset, int64_t n, float *out)
{
    const int64_t block = seqmix_dtype_block(dtype), size = (int64_t)seqmix_dtype_size(dtype);
    if (n == 0) return; /* data may be NULL then */
    const char *at = (const char *)data + offset / block * size;
    for (int64_t i = 0; i < n; i += block, at += size, out += block) {
        if (block > 1) {
            seqmix_widen_block(dtype, at, out);
        } else if (dtype == SEQMIX_F32) {
            memcpy(out, at, sizeof *out);
        } else {
            uint16_t half;
            memcpy(&half, at, sizeof half);
            *out = dtype == SEQMIX_BF16 ? seqmix_bf16_to_f32(half) : seqmix_f16_to_f32(half);
        }
    }
}
