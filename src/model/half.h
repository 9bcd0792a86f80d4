/* SPDX-License-Identifier: MIT */
/* 16-bit floats, as bits, to and from f32: to nearest, ties to even. */
#ifndef SEQMIX_MODEL_HALF_H
#define SEQMIX_MODEL_HALF_H

#include <stdint.h>
#include <string.h>

static inline float seqmix_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t seqmix_bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float seqmix_float_of_bf16(uint16_t half)
{
    return seqmix_float_of_bits((uint32_t)half << 16);
}

static inline uint16_t seqmix_bf16_of_float(float value)
{
    const uint32_t bits = seqmix_bits_of_float(value);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float seqmix_float_of_f16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u) return seqmix_float_of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    /* the exponent's bias by a product, which subnormals survive */
    return seqmix_float_of_bits(sign | seqmix_bits_of_float(seqmix_float_of_bits(rest << 13) * 0x1p112f));
}

/* Of a finite value; what is beyond the range becomes the largest f16. */
static inline uint16_t seqmix_f16_of_float(float value)
{
    const uint32_t bits = seqmix_bits_of_float(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7bffu);
    /* below 2^-14, adding 0.5 leaves multiples of 2^-24 in the low bits */
    if (magnitude < 0x38800000u)
        return (uint16_t)(sign | (seqmix_bits_of_float(seqmix_float_of_bits(magnitude) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13);
}

#endif
