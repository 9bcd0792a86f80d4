/* SPDX-License-Identifier: MIT */
/* x86-64-v4: 16 lanes, masks in registers of their own, so that a tail costs what a full vector does. */
#ifndef SEQMIX_CPU_VEC_VEC_AVX512_H
#define SEQMIX_CPU_VEC_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "vec_eighths.h"

enum { V_LANES = 16 };

typedef __m512 vf;
typedef __mmask16 vmask;

/* Brings a cache line nearer, for reading or writing; any address is fine. The asm keeps gcc from taking a function that only
 * prefetches for one without effect and dropping its calls. */
static inline void v_prefetch(const void *p)
{
    __builtin_prefetch(p, 0, 3);
    __asm__ volatile("" : : "r"(p));
}

static inline vf v_set1(float x)
{
    return _mm512_set1_ps(x);
}

static inline vf v_zero(void)
{
    return _mm512_setzero_ps();
}

static inline vf v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void v_store(float *p, vf a)
{
    _mm512_storeu_ps(p, a);
}

/* The first n lanes, 0 <= n <= V_LANES. */
static inline __mmask16 v_first_lanes(int n)
{
    return (__mmask16)((1u << n) - 1);
}

static inline vf v_load_n(const float *p, int n)
{
    return _mm512_maskz_loadu_ps(v_first_lanes(n), p);
}

static inline void v_store_n(float *p, vf a, int n)
{
    _mm512_mask_storeu_ps(p, v_first_lanes(n), a);
}

/* A store of whole lines that are not read again soon, past the caches; p is a multiple of the vector's size. */
static inline void v_stream(float *p, vf a)
{
    _mm512_stream_ps(p, a);
}

/* Ends a run of v_stream, before another thread may read what it wrote. */
static inline void v_stream_end(void)
{
    _mm_sfence();
}

static inline vf v_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

static inline vf v_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

static inline vf v_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

static inline vf v_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

static inline vf v_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline vf v_fnma(vf a, vf b, vf c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

static inline vf v_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

static inline vf v_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

static inline vf v_abs(vf a)
{
    return _mm512_abs_ps(a);
}

static inline vmask v_less(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

/* The first n lanes, 0 <= n; more than V_LANES are all. */
static inline vmask v_mask_first(int64_t n)
{
    return v_first_lanes(n < V_LANES ? (int)n : V_LANES);
}

static inline vf v_select(vmask mask, vf a, vf b)
{
    return _mm512_mask_blend_ps(mask, b, a);
}

static inline float v_sum(vf a)
{
    const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1));
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/* See vec_avx2.h. */
static inline void v_pow2_halves(vf t, vf *first, vf *second)
{
    const __m512i integer = _mm512_sub_epi32(_mm512_castps_si512(t), _mm512_set1_epi32(0x4b400000));
    const __m512i half = _mm512_srai_epi32(integer, 1), bias = _mm512_set1_epi32(127);
    *first = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(half, bias), 23));
    *second = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_sub_epi32(integer, half), bias), 23));
}

static inline vf v_pow2(vf t)
{
    const __m512i integer = _mm512_sub_epi32(_mm512_castps_si512(t), _mm512_set1_epi32(0x4b400000 - 127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(integer, 23));
}

/* For t = x + 1.5*2^20, whose low bits are the nearest eighth of x: 2^eighths, within -126..127. */
static inline vf v_pow2_eighths(vf t)
{
    const __m512i eighths = _mm512_castps_si512(t), table = _mm512_loadu_si512(v_eighths);
    return _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_permutexvar_epi32(eighths, table), _mm512_slli_epi32(eighths, 20)));
}

/* Four floats of the rows i, i+4, i+8 and i+12: one 128-bit part each. */
static inline __m512 v_gather_parts(const float *row, int64_t stride)
{
    __m512 parts = _mm512_castps128_ps512(_mm_loadu_ps(row));
    parts = _mm512_insertf32x4(parts, _mm_loadu_ps(row + 4 * stride), 1);
    parts = _mm512_insertf32x4(parts, _mm_loadu_ps(row + 8 * stride), 2);
    return _mm512_insertf32x4(parts, _mm_loadu_ps(row + 12 * stride), 3);
}

/* out[l*width + i] = in[i*stride + l] for a square of V_LANES: gathered so that each part is a 4x4 square, which turns around
 * without crossing parts. Inserting from memory needs no shuffle unit. */
static inline void v_transpose(const float *in, int64_t stride, float *out, int64_t width)
{
    for (int64_t l = 0; l < V_LANES; l += 4) {
        const __m512 r0 = v_gather_parts(in + l, stride), r1 = v_gather_parts(in + stride + l, stride);
        const __m512 r2 = v_gather_parts(in + 2 * stride + l, stride), r3 = v_gather_parts(in + 3 * stride + l, stride);
        const __m512 t0 = _mm512_unpacklo_ps(r0, r1), t1 = _mm512_unpackhi_ps(r0, r1);
        const __m512 t2 = _mm512_unpacklo_ps(r2, r3), t3 = _mm512_unpackhi_ps(r2, r3);
        _mm512_storeu_ps(out + l * width, _mm512_shuffle_ps(t0, t2, 0x44));
        _mm512_storeu_ps(out + (l + 1) * width, _mm512_shuffle_ps(t0, t2, 0xee));
        _mm512_storeu_ps(out + (l + 2) * width, _mm512_shuffle_ps(t1, t3, 0x44));
        _mm512_storeu_ps(out + (l + 3) * width, _mm512_shuffle_ps(t1, t3, 0xee));
    }
}

static inline vf v_from_bf16(__m256i half)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* Rounded to nearest even; a NaN stays one. */
static inline __m256i v_to_bf16(vf a)
{
    const __m512i bits = _mm512_castps_si512(a), top = _mm512_srli_epi32(bits, 16);
    const __m512i tie = _mm512_add_epi32(_mm512_set1_epi32(0x7fff), _mm512_and_si512(top, _mm512_set1_epi32(1)));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, tie), 16);
    const __m512i quiet = _mm512_or_si512(top, _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), rounded, quiet));
}

static inline vf v_load_bf16(const uint16_t *p)
{
    return v_from_bf16(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

static inline vf v_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

static inline void v_store_bf16(uint16_t *p, vf a)
{
    _mm256_storeu_si256((__m256i *)(void *)p, v_to_bf16(a));
}

static inline void v_store_f16(uint16_t *p, vf a)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

static inline vf v_load_bf16_n(const uint16_t *p, int n)
{
    return v_from_bf16(_mm256_maskz_loadu_epi16(v_first_lanes(n), p));
}

static inline vf v_load_f16_n(const uint16_t *p, int n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v_first_lanes(n), p));
}

static inline void v_store_bf16_n(uint16_t *p, vf a, int n)
{
    _mm256_mask_storeu_epi16(p, v_first_lanes(n), v_to_bf16(a));
}

static inline void v_store_f16_n(uint16_t *p, vf a, int n)
{
    _mm256_mask_storeu_epi16(p, v_first_lanes(n), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

#endif
