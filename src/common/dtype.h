/* SPDX-License-Identifier: MIT */
/* Element types: sizes, blocks, and exact conversions between f32 and the 16-bit formats. */
#ifndef SEQMIX_COMMON_DTYPE_H
#define SEQMIX_COMMON_DTYPE_H

#include <seqmix/seqmix.h>
#include <string.h>

/* Outputs and state pools of the double-precision oracle. No public call accepts it. */
enum { SEQMIX_F64_INTERNAL = 64 };

enum { SEQMIX_MAX_BLOCK = 256 };

/* Elements of a block of a block-quantised type; 1 for a plain type. */
static inline int64_t seqmix_dtype_block(seqmix_dtype dtype)
{
    switch (dtype) {
    case SEQMIX_Q8_0:
    case SEQMIX_Q4_0:
    case SEQMIX_Q5_0:
    case SEQMIX_Q5_1:
    case SEQMIX_IQ4_NL:
        return 32;
    case SEQMIX_Q4_K:
    case SEQMIX_Q5_K:
    case SEQMIX_Q6_K:
        return SEQMIX_MAX_BLOCK;
    default:
        return 1;
    }
}

/* Bytes of an element of a plain type, of a block of a block-quantised one; 0 for no dtype. */
static inline size_t seqmix_dtype_size(seqmix_dtype dtype)
{
    switch (dtype) {
    case SEQMIX_F32:
    case SEQMIX_I32:
        return 4;
    case SEQMIX_BF16:
    case SEQMIX_F16:
        return 2;
    case SEQMIX_F64_INTERNAL:
        return 8;
    case SEQMIX_Q8_0:
        return 34;
    case SEQMIX_Q4_0:
    case SEQMIX_IQ4_NL:
        return 18;
    case SEQMIX_Q5_0:
        return 22;
    case SEQMIX_Q5_1:
        return 24;
    case SEQMIX_Q4_K:
        return 144;
    case SEQMIX_Q5_K:
        return 176;
    case SEQMIX_Q6_K:
        return 210;
    default:
        return 0;
    }
}

/* Bytes from a tensor's first element to the one at `offset`, a multiple of the dtype's block. */
static inline int64_t seqmix_dtype_bytes(seqmix_dtype dtype, int64_t offset)
{
    return offset / seqmix_dtype_block(dtype) * (int64_t)seqmix_dtype_size(dtype);
}

static inline const char *seqmix_dtype_name(seqmix_dtype dtype)
{
    switch (dtype) {
    case SEQMIX_F32:
        return "f32";
    case SEQMIX_BF16:
        return "bf16";
    case SEQMIX_F16:
        return "f16";
    case SEQMIX_I32:
        return "i32";
    case SEQMIX_F64_INTERNAL:
        return "f64";
    case SEQMIX_Q8_0:
        return "q8_0";
    case SEQMIX_Q4_0:
        return "q4_0";
    case SEQMIX_Q5_0:
        return "q5_0";
    case SEQMIX_Q5_1:
        return "q5_1";
    case SEQMIX_IQ4_NL:
        return "iq4_nl";
    case SEQMIX_Q4_K:
        return "q4_k";
    case SEQMIX_Q5_K:
        return "q5_k";
    case SEQMIX_Q6_K:
        return "q6_k";
    default:
        return "no dtype";
    }
}

static inline float seqmix_bits_f32(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t seqmix_f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float seqmix_bf16_to_f32(uint16_t h)
{
    return seqmix_bits_f32((uint32_t)h << 16);
}

/* Round to nearest, ties to even; a NaN stays a quiet NaN. */
static inline uint16_t seqmix_f32_to_bf16(float value)
{
    const uint32_t bits = seqmix_f32_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float seqmix_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 0x1fu, mantissa = h & 0x3ffu;
    if (exponent == 0x1fu) return seqmix_bits_f32(sign | 0x7f800000u | mantissa << 13);
    if (exponent != 0) return seqmix_bits_f32(sign | (exponent + 112u) << 23 | mantissa << 13);
    /* subnormal: mantissa * 2^-24, exact in f32 */
    const float magnitude = (float)mantissa * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
}

/* Round to nearest, ties to even; overflows to infinity, does not saturate; a NaN stays a quiet NaN. */
static inline uint16_t seqmix_f32_to_f16(float value)
{
    const uint32_t bits = seqmix_f32_bits(value), sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* >= 65520 */
    if (magnitude < 0x38800000u) {
        /* below 2^-14: adding 0.5 leaves mantissa*2^-24, rounded by the hardware, in the low bits */
        const uint32_t rounded = seqmix_f32_bits(seqmix_bits_f32(magnitude) + 0.5f);
        return (uint16_t)(sign | (rounded - 0x3f000000u));
    }
    return (uint16_t)(sign | (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13);
}

#endif
