/* SPDX-License-Identifier: MIT */
/* f32 lanes into rows of bf16 tiles (tile.h). The lanes' own rounding to bf16 costs six instructions, the machine's one. */
#ifndef SEQMIX_CPU_X86_PACK_H
#define SEQMIX_CPU_X86_PACK_H

#include "../vec/vec.h"
#include "tile.h"

_Static_assert((int)V_LANES == (int)TILE_SIDE, "a vector is a row of sums");

/* 32 bf16: those of a, then those of b. Rounded to nearest even; subnormals become 0. */
static inline __m512i bf16_round(vf a, vf b)
{
    return (__m512i)_mm512_cvtne2ps_pbh(b, a);
}

/* What is left of a and b. */
static inline __m512i bf16_rest(vf a, vf b, __m512i rounded)
{
    return bf16_round(v_sub(a, v_from_bf16(_mm512_castsi512_si256(rounded))),
                      v_sub(b, v_from_bf16(_mm512_extracti64x4_epi64(rounded, 1))));
}

/* x0 y0 x1 y1 ... from the two halves x and y. */
static inline __m512i interleave(__m512i halves)
{
    static const uint16_t from[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return _mm512_permutexvar_epi16(_mm512_loadu_si512(from), halves);
}

/* A row of a left tile: 32 elements along k. With a plane, a pair's. */
static inline void pack_left(uint16_t *row, int64_t plane, vf a, vf b)
{
    const __m512i rounded = bf16_round(a, b);
    _mm512_storeu_si512(row, rounded);
    if (plane != 0) _mm512_storeu_si512(row + plane, bf16_rest(a, b, rounded));
}

/* A row of a right tile: the rows k and k+1 of 16 columns. */
static inline void pack_right(uint16_t *row, int64_t plane, vf a, vf b)
{
    const __m512i rounded = bf16_round(a, b);
    _mm512_storeu_si512(row, interleave(rounded));
    if (plane != 0) _mm512_storeu_si512(row + plane, interleave(bf16_rest(a, b, rounded)));
}

/* n <= 32 elements and zeros behind. */
static inline void pack_copy(uint16_t *row, const uint16_t *from, int64_t n)
{
    const __mmask32 first = n < TILE_DEPTH ? (__mmask32)((1u << n) - 1) : ~(__mmask32)0;
    _mm512_storeu_si512(row, _mm512_maskz_loadu_epi16(first, from));
}

static inline void pack_zero(uint16_t *row)
{
    _mm512_storeu_si512(row, _mm512_setzero_si512());
}

/* A left tile of rows x k becomes a right tile of k x rows. */
static inline void tile_turn(const uint16_t *left, uint16_t *right)
{
    v_transpose((const float *)(const void *)left, TILE_SIDE, (float *)(void *)right, TILE_SIDE);
}

/* Two right tiles of 32 k x 16 rows each become two left ones of 16 k x 32 rows, `next` elements apart. */
static inline void tile_lay(const uint16_t *first, const uint16_t *second, uint16_t *left, int64_t next)
{
    static const uint16_t even[32] = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                                      32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
    const __m512i evens = _mm512_loadu_si512(even), odds = _mm512_add_epi16(evens, _mm512_set1_epi16(1));
    for (int pair = 0; pair < TILE_SIDE; pair++) {
        const __m512i a = _mm512_loadu_si512(first + pair * TILE_DEPTH);
        const __m512i b = _mm512_loadu_si512(second + pair * TILE_DEPTH);
        uint16_t *out = left + pair / 8 * next + pair % 8 * 2 * TILE_DEPTH;
        _mm512_storeu_si512(out, _mm512_permutex2var_epi16(a, evens, b));
        _mm512_storeu_si512(out + TILE_DEPTH, _mm512_permutex2var_epi16(a, odds, b));
    }
}

#endif
