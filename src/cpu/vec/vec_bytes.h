/* SPDX-License-Identifier: MIT */
/*
 * Lanes of bytes, for block-quantised weights: vi is V_LANES 32-bit lanes, each four bytes that later become four vectors of
 * floats. Lanes form quads of 4 (16 bytes) and octets of 8 (32 bytes); where there are fewer lanes the first is meant.
 *
 *   vi_set1 vi_and vi_or vi_sll vi_srl            constants, bits, shifts of all lanes by a constant
 *   vi_quads vi_octets                            16 or 32 bytes at p + g*stride in quad or octet g
 *   vi_words                                      the 32-bit number at p + g*stride in all lanes of quad g
 *   vi_srl_quad vi_srl_octet                      lane l of a quad right by 4*l; octet 0 right by a, octet 1 by b
 *   vi_table                                      each byte, < 16, replaced out of a table of 16
 *   v_byte v_load_i8                              byte b of every lane as a float; V_LANES signed bytes as floats
 *   v_quads v_octets                              p[g*step] in all lanes of quad or octet g
 *   v_set1_f16 v_quads_f16                        the f16 at p in all lanes, at p + g*stride in quad g
 *   v_sum4                                        the sums of four vectors, all in one order
 */
#ifndef SEQMIX_CPU_VEC_VEC_BYTES_H
#define SEQMIX_CPU_VEC_VEC_BYTES_H

#include "vec.h"

#if defined(SEQMIX_ISA_GENERIC)

typedef uint32_t vi __attribute__((vector_size(16)));

static inline vi vi_set1(uint32_t x)
{
    return (vi){x, x, x, x};
}

static inline vi vi_and(vi a, vi b)
{
    return a & b;
}

static inline vi vi_or(vi a, vi b)
{
    return a | b;
}

static inline vi vi_sll(vi a, int n)
{
    return a << n;
}

static inline vi vi_srl(vi a, int n)
{
    return a >> n;
}

static inline vi vi_quads(const uint8_t *p, int64_t stride)
{
    vi a;
    (void)stride;
    memcpy(&a, p, sizeof a);
    return a;
}

static inline vi vi_octets(const uint8_t *p, int64_t stride)
{
    return vi_quads(p, stride);
}

static inline vi vi_words(const uint8_t *p, int64_t stride)
{
    uint32_t word;
    (void)stride;
    memcpy(&word, p, sizeof word);
    return vi_set1(word);
}

static inline vi vi_srl_quad(vi a)
{
    return a >> (vi){0, 4, 8, 12};
}

static inline vi vi_srl_octet(vi a, int first, int second)
{
    (void)second;
    return a >> first;
}

static inline vi vi_table(const uint8_t table[16], vi a)
{
    uint8_t bytes[16];
    memcpy(bytes, &a, sizeof bytes);
    for (int i = 0; i < 16; i++)
        bytes[i] = table[bytes[i]];
    memcpy(&a, bytes, sizeof bytes);
    return a;
}

static inline vf v_byte(vi a, int b)
{
    return __builtin_convertvector((vmask)(a >> 8 * b & 0xff), vf);
}

static inline vf v_load_i8(const int8_t *p)
{
    return (vf){(float)p[0], (float)p[1], (float)p[2], (float)p[3]};
}

static inline vf v_quads(const float *p, int step)
{
    (void)step;
    return v_set1(p[0]);
}

static inline vf v_octets(const float *p, int step)
{
    (void)step;
    return v_set1(p[0]);
}

static inline vf v_set1_f16(const uint8_t *p)
{
    return v_set1(seqmix_f16_to_f32((uint16_t)(p[0] | p[1] << 8)));
}

static inline vf v_quads_f16(const uint8_t *p, int64_t stride)
{
    (void)stride;
    return v_set1_f16(p);
}

static inline void v_sum4(const vf a[4], float *out)
{
    for (int i = 0; i < 4; i++)
        out[i] = v_sum(a[i]);
}

#elif defined(SEQMIX_ISA_AVX2)

typedef __m256i vi;

static inline vi vi_set1(uint32_t x)
{
    return _mm256_set1_epi32((int32_t)x);
}

static inline vi vi_and(vi a, vi b)
{
    return _mm256_and_si256(a, b);
}

static inline vi vi_or(vi a, vi b)
{
    return _mm256_or_si256(a, b);
}

static inline vi vi_sll(vi a, int n)
{
    return _mm256_slli_epi32(a, n);
}

static inline vi vi_srl(vi a, int n)
{
    return _mm256_srli_epi32(a, n);
}

static inline vi vi_quads(const uint8_t *p, int64_t stride)
{
    const __m128i *first = (const __m128i *)(const void *)p, *second = (const __m128i *)(const void *)(p + stride);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(first)), _mm_loadu_si128(second), 1);
}

static inline vi vi_octets(const uint8_t *p, int64_t stride)
{
    (void)stride;
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

static inline vi vi_words(const uint8_t *p, int64_t stride)
{
    int32_t first, second;
    memcpy(&first, p, sizeof first);
    memcpy(&second, p + stride, sizeof second);
    return _mm256_set_m128i(_mm_set1_epi32(second), _mm_set1_epi32(first));
}

static inline vi vi_srl_quad(vi a)
{
    return _mm256_srlv_epi32(a, _mm256_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12));
}

static inline vi vi_srl_octet(vi a, int first, int second)
{
    (void)second;
    return _mm256_srl_epi32(a, _mm_cvtsi32_si128(first));
}

static inline vi vi_table(const uint8_t table[16], vi a)
{
    const __m128i entries = _mm_loadu_si128((const __m128i *)(const void *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(entries), a);
}

/* One shuffle picks the byte and clears the other three. */
static inline vf v_byte(vi a, int b)
{
    const int32_t none = (int32_t)0x80808000u;
    const __m256i pick = _mm256_setr_epi32(none | b, none | (4 + b), none | (8 + b), none | (12 + b), none | b,
                                           none | (4 + b), none | (8 + b), none | (12 + b));
    return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(a, pick));
}

static inline vf v_load_i8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

static inline vf v_quads(const float *p, int step)
{
    return _mm256_set_m128(_mm_set1_ps(p[step]), _mm_set1_ps(p[0]));
}

static inline vf v_octets(const float *p, int step)
{
    (void)step;
    return _mm256_set1_ps(p[0]);
}

static inline __m128i v_set1_half(const uint8_t *p)
{
    int16_t half;
    memcpy(&half, p, sizeof half);
    return _mm_set1_epi16(half);
}

static inline vf v_set1_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(v_set1_half(p));
}

static inline vf v_quads_f16(const uint8_t *p, int64_t stride)
{
    return _mm256_cvtph_ps(_mm_unpacklo_epi64(v_set1_half(p), v_set1_half(p + stride)));
}

static inline __m128 v_halves(vf a)
{
    return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
}

#else

typedef __m512i vi;

static inline vi vi_set1(uint32_t x)
{
    return _mm512_set1_epi32((int32_t)x);
}

static inline vi vi_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}

static inline vi vi_or(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}

static inline vi vi_sll(vi a, int n)
{
    return _mm512_slli_epi32(a, (unsigned)n);
}

static inline vi vi_srl(vi a, int n)
{
    return _mm512_srli_epi32(a, (unsigned)n);
}

static inline vi vi_quads(const uint8_t *p, int64_t stride)
{
    const __m128i first = _mm_loadu_si128((const __m128i *)(const void *)p);
    vi a = _mm512_castsi128_si512(first);
    a = _mm512_inserti32x4(a, _mm_loadu_si128((const __m128i *)(const void *)(p + stride)), 1);
    a = _mm512_inserti32x4(a, _mm_loadu_si128((const __m128i *)(const void *)(p + 2 * stride)), 2);
    return _mm512_inserti32x4(a, _mm_loadu_si128((const __m128i *)(const void *)(p + 3 * stride)), 3);
}

static inline vi vi_octets(const uint8_t *p, int64_t stride)
{
    const __m256i first = _mm256_loadu_si256((const __m256i *)(const void *)p);
    const __m256i second = _mm256_loadu_si256((const __m256i *)(const void *)(p + stride));
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

static inline vi vi_words(const uint8_t *p, int64_t stride)
{
    int32_t word[4];
    for (int g = 0; g < 4; g++)
        memcpy(&word[g], p + g * stride, sizeof word[g]);
    const __m128i words = _mm_loadu_si128((const __m128i *)(const void *)word);
    const __m512i quads = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_epi32(quads, _mm512_castsi128_si512(words));
}

static inline vi vi_srl_quad(vi a)
{
    return _mm512_srlv_epi32(a, _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12));
}

static inline vi vi_srl_octet(vi a, int first, int second)
{
    const __m512i by = _mm512_inserti64x4(_mm512_set1_epi32(first), _mm256_set1_epi32(second), 1);
    return _mm512_srlv_epi32(a, by);
}

static inline vi vi_table(const uint8_t table[16], vi a)
{
    const __m128i entries = _mm_loadu_si128((const __m128i *)(const void *)table);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), a);
}

/* One shuffle picks the byte and clears the other three. */
static inline vf v_byte(vi a, int b)
{
    const int32_t none = (int32_t)0x80808000u;
    const __m512i pick =
        _mm512_broadcast_i32x4(_mm_setr_epi32(none | b, none | (4 + b), none | (8 + b), none | (12 + b)));
    return _mm512_cvtepi32_ps(_mm512_shuffle_epi8(a, pick));
}

static inline vf v_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

static inline vf v_quads(const float *p, int step)
{
    const __m512 four = _mm512_castps128_ps512(_mm_setr_ps(p[0], p[step], p[2 * step], p[3 * step]));
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3), four);
}

static inline vf v_octets(const float *p, int step)
{
    return _mm512_insertf32x8(_mm512_set1_ps(p[0]), _mm256_set1_ps(p[step]), 1);
}

static inline vf v_set1_f16(const uint8_t *p)
{
    int16_t half;
    memcpy(&half, p, sizeof half);
    return _mm512_cvtph_ps(_mm256_set1_epi16(half));
}

static inline vf v_quads_f16(const uint8_t *p, int64_t stride)
{
    uint16_t half[8] = {0};
    for (int g = 0; g < 4; g++)
        memcpy(&half[g], p + g * stride, sizeof half[g]);
    const __m128 four = _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(const void *)half));
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3),
                                 _mm512_castps128_ps512(four));
}

static inline __m128 v_halves(vf a)
{
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
}

#endif

#if !defined(SEQMIX_ISA_GENERIC)
/* v_sum's own order, four at a time. */
static inline void v_sum4(const vf a[4], float *out)
{
    const __m128 a0 = v_halves(a[0]), a1 = v_halves(a[1]), a2 = v_halves(a[2]), a3 = v_halves(a[3]);
    const __m128 first = _mm_add_ps(_mm_movelh_ps(a0, a1), _mm_movehl_ps(a1, a0));
    const __m128 second = _mm_add_ps(_mm_movelh_ps(a2, a3), _mm_movehl_ps(a3, a2));
    _mm_storeu_ps(out, _mm_add_ps(_mm_shuffle_ps(first, second, 0x88), _mm_shuffle_ps(first, second, 0xdd)));
}
#endif

#endif
