/* SPDX-License-Identifier: MIT */
/* x86-64-v3: 8 lanes, fused multiply-add, hardware f16. */
#ifndef SEQMIX_CPU_VEC_VEC_AVX2_H
#define SEQMIX_CPU_VEC_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "vec_eighths.h"

enum { V_LANES = 8 };

typedef __m256 vf;
typedef __m256 vmask;

/* Brings a cache line nearer, for reading or writing; any address is fine. The asm keeps gcc from taking a function that only
 * prefetches for one without effect and dropping its calls. */
static inline void v_prefetch(const void *p)
{
    __builtin_prefetch(p, 0, 3);
    __asm__ volatile("" : : "r"(p));
}

static inline vf v_set1(float x)
{
    return _mm256_set1_ps(x);
}

static inline vf v_zero(void)
{
    return _mm256_setzero_ps();
}

static inline vf v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline void v_store(float *p, vf a)
{
    _mm256_storeu_ps(p, a);
}

/* All-ones in the first n lanes. */
static inline __m256i v_first_lanes(int n)
{
    static const int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    return _mm256_loadu_si256((const __m256i *)(const void *)(ones + 8 - n));
}

static inline vf v_load_n(const float *p, int n)
{
    return _mm256_maskload_ps(p, v_first_lanes(n));
}

static inline void v_store_n(float *p, vf a, int n)
{
    _mm256_maskstore_ps(p, v_first_lanes(n), a);
}

/* A store of whole lines that are not read again soon, past the caches; p is a multiple of the vector's size. */
static inline void v_stream(float *p, vf a)
{
    _mm256_stream_ps(p, a);
}

/* Ends a run of v_stream, before another thread may read what it wrote. */
static inline void v_stream_end(void)
{
    _mm_sfence();
}

static inline vf v_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

static inline vf v_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

static inline vf v_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

static inline vf v_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}

static inline vf v_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline vf v_fnma(vf a, vf b, vf c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

static inline vf v_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}

static inline vf v_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

static inline vf v_abs(vf a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}

static inline vmask v_less(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}

/* The first n lanes, 0 <= n; more than V_LANES are all. */
static inline vmask v_mask_first(int64_t n)
{
    return _mm256_castsi256_ps(v_first_lanes(n < V_LANES ? (int)n : V_LANES));
}

static inline vf v_select(vmask mask, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, mask);
}

static inline float v_sum(vf a)
{
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/* For t = x + 1.5*2^23, whose low bits are the nearest integer of x: 2^half and 2^(integer-half), half = integer/2 rounded
 * down, so that their product reaches every finite result. */
static inline void v_pow2_halves(vf t, vf *first, vf *second)
{
    const __m256i integer = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(0x4b400000));
    const __m256i half = _mm256_srai_epi32(integer, 1), bias = _mm256_set1_epi32(127);
    *first = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    *second = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(integer, half), bias), 23));
}

/* 2^integer for such a t; the integer in -126..127. */
static inline vf v_pow2(vf t)
{
    const __m256i integer = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(0x4b400000 - 127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(integer, 23));
}

/* For t = x + 1.5*2^20, whose low bits are the nearest eighth of x: 2^eighths, within -126..127. */
static inline vf v_pow2_eighths(vf t)
{
    const __m256i eighths = _mm256_castps_si256(t),
                  table = _mm256_loadu_si256((const __m256i *)(const void *)v_eighths);
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_permutevar8x32_epi32(table, eighths), _mm256_slli_epi32(eighths, 20)));
}

/* out[l*width + i] = in[i*stride + l] for a square of V_LANES. */
static inline void v_transpose(const float *in, int64_t stride, float *out, int64_t width)
{
    __m256 r[8], t[8];
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_ps(in + i * stride);
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(out + i * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(out + (i + 4) * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

static inline vf v_load_bf16(const uint16_t *p)
{
    const __m128i half = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

static inline vf v_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

static inline void v_store_bf16(uint16_t *p, vf a)
{
    const __m256i bits = _mm256_castps_si256(a), one = _mm256_set1_epi32(1);
    const __m256i tie = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), _mm256_and_si256(_mm256_srli_epi32(bits, 16), one));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, tie), 16);
    const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    const __m256i half = _mm256_blendv_epi8(rounded, quiet, nan);
    _mm_storeu_si128((__m128i *)(void *)p,
                     _mm_packus_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
}

static inline void v_store_f16(uint16_t *p, vf a)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

#include "vec_half_tails.h"

#endif
