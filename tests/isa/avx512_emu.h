/* SPDX-License-Identifier: MIT */
/*
 * AVX-512 on a machine without it: included ahead of the product's own sources (-include), so that the very lines of
 * src/cpu/vec/vec_avx512.h run on what SIMDe makes of each intrinsic, and on the few below that SIMDe lacks. Those touch no
 * element outside their mask, so that a sanitizer sees what the hardware would fault on.
 */
#ifndef SEQMIX_TESTS_AVX512_EMU_H
#define SEQMIX_TESTS_AVX512_EMU_H

#ifdef __AVX512F__
#    error "this header stands in for AVX-512: compile for x86-64-v3"
#endif

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <immintrin.h>
#include <simde/x86/avx512.h>

#include <stdint.h>

static inline __m512 emu_maskz_loadu_ps(__mmask16 mask, const void *from)
{
    float lanes[16] = {0};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) lanes[i] = ((const float *)from)[i];
    return _mm512_loadu_ps(lanes);
}
#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps emu_maskz_loadu_ps

static inline void emu_mask_storeu_ps(void *to, __mmask16 mask, __m512 a)
{
    float lanes[16];
    _mm512_storeu_ps(lanes, a);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) ((float *)to)[i] = lanes[i];
}
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps emu_mask_storeu_ps

static inline __m256i emu_maskz_loadu_epi16(__mmask16 mask, const void *from)
{
    uint16_t lanes[16] = {0};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) lanes[i] = ((const uint16_t *)from)[i];
    return _mm256_loadu_si256((const __m256i *)(const void *)lanes);
}
#undef _mm256_maskz_loadu_epi16
#define _mm256_maskz_loadu_epi16 emu_maskz_loadu_epi16

static inline void emu_mask_storeu_epi16(void *to, __mmask16 mask, __m256i a)
{
    uint16_t lanes[16];
    _mm256_storeu_si256((__m256i *)(void *)lanes, a);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) ((uint16_t *)to)[i] = lanes[i];
}
#undef _mm256_mask_storeu_epi16
#define _mm256_mask_storeu_epi16 emu_mask_storeu_epi16

static inline __m512i emu_cvtepu16_epi32(__m256i a)
{
    uint16_t lanes[16];
    uint32_t wide[16];
    _mm256_storeu_si256((__m256i *)(void *)lanes, a);
    for (int i = 0; i < 16; i++)
        wide[i] = lanes[i];
    return _mm512_loadu_si512(wide);
}
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32 emu_cvtepu16_epi32

/* The low half of each element. */
static inline __m256i emu_cvtepi32_epi16(__m512i a)
{
    uint32_t wide[16];
    uint16_t lanes[16];
    _mm512_storeu_si512(wide, a);
    for (int i = 0; i < 16; i++)
        lanes[i] = (uint16_t)wide[i];
    return _mm256_loadu_si256((const __m256i *)(const void *)lanes);
}
#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16 emu_cvtepi32_epi16

static inline __m512i emu_cvtepi8_epi32(__m128i a)
{
    int8_t lanes[16];
    int32_t wide[16];
    _mm_storeu_si128((__m128i *)(void *)lanes, a);
    for (int i = 0; i < 16; i++)
        wide[i] = lanes[i];
    return _mm512_loadu_si512(wide);
}
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32 emu_cvtepi8_epi32

static inline __m512 emu_cvtepi32_ps(__m512i a)
{
    int32_t lanes[16];
    float wide[16];
    _mm512_storeu_si512(lanes, a);
    for (int i = 0; i < 16; i++)
        wide[i] = (float)lanes[i];
    return _mm512_loadu_ps(wide);
}
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps emu_cvtepi32_ps

/* Half 0 or 1. */
static inline __m256 emu_extractf32x8_ps(__m512 a, int half)
{
    float lanes[16];
    _mm512_storeu_ps(lanes, a);
    return _mm256_loadu_ps(lanes + 8 * half);
}
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps emu_extractf32x8_ps

static inline __m512i emu_srai_epi32(__m512i a, unsigned count)
{
    int32_t lanes[16];
    _mm512_storeu_si512(lanes, a);
    for (int i = 0; i < 16; i++)
        lanes[i] >>= count;
    return _mm512_loadu_si512(lanes);
}
#undef _mm512_srai_epi32
#define _mm512_srai_epi32 emu_srai_epi32

/* Faults off a 64-byte boundary, as the instruction does. */
static inline void emu_stream_ps(void *to, __m512 a)
{
    if ((uintptr_t)to % 64 != 0) __builtin_trap();
    _mm512_storeu_ps(to, a);
}
#undef _mm512_stream_ps
#define _mm512_stream_ps emu_stream_ps

/* The f16 conversions of the level below, twice. */
static inline __m512 emu_cvtph_ps(__m256i a)
{
    float wide[16];
    _mm256_storeu_ps(wide, _mm256_cvtph_ps(_mm256_castsi256_si128(a)));
    _mm256_storeu_ps(wide + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)));
    return _mm512_loadu_ps(wide);
}
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps emu_cvtph_ps

static inline __m256i emu_cvtps_ph(__m512 a)
{
    float wide[16];
    _mm512_storeu_ps(wide, a);
    return _mm256_setr_m128i(_mm256_cvtps_ph(_mm256_loadu_ps(wide), _MM_FROUND_TO_NEAREST_INT),
                             _mm256_cvtps_ph(_mm256_loadu_ps(wide + 8), _MM_FROUND_TO_NEAREST_INT));
}
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph(a, rounding)                                                                                   \
    ((void)sizeof(char[(rounding) == _MM_FROUND_TO_NEAREST_INT ? 1 : -1]), emu_cvtps_ph(a))

/* What vec.h asks for. */
#define __AVX512F__  1
#define __AVX512BW__ 1
#define __AVX512DQ__ 1
#define __AVX512VL__ 1

#endif
