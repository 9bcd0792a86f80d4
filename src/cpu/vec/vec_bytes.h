/* SPDX-License-Identifier: MIT */
/*
 * Lanes of bytes, for weights as they are stored: vi is V_LANES 32-bit lanes. A lane belongs to a row of the weights, and
 * row[l] is where that of lane l begins.
 *
 *   vi_set1 vi_and vi_or vi_sll vi_srl    constants, bits, shifts of all lanes by one number
 *   vi_word vi_words4                     the 32-bit number at row[l]+at; the four numbers from there on
 *   vi_table                              each byte, < 16, replaced out of a table of 16
 *   v_number                              every lane, a signed number, as a float
 *   v_byte v_signed_byte                  byte b of every lane as a float; as a signed one times 2^24
 *   v_bits v_f16_pair                     the lanes' own bits as floats; their low and high halves as f16
 *   v_rows_f16                            the f16 at row[l]+at
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

static inline vi vi_word(const uint8_t *const row[V_LANES], int64_t at)
{
    uint32_t out[V_LANES];
    vi a;
    for (int l = 0; l < V_LANES; l++)
        memcpy(&out[l], row[l] + at, sizeof *out);
    memcpy(&a, out, sizeof a);
    return a;
}

static inline void vi_words4(const uint8_t *const row[V_LANES], int64_t at, vi out[4])
{
    for (int i = 0; i < 4; i++)
        out[i] = vi_word(row, at + 4 * i);
}

static inline vi vi_table(const int8_t table[16], vi a)
{
    uint8_t bytes[16];
    memcpy(bytes, &a, sizeof bytes);
    for (int i = 0; i < 16; i++)
        bytes[i] = (uint8_t)table[bytes[i]];
    memcpy(&a, bytes, sizeof bytes);
    return a;
}

static inline vf v_number(vi a)
{
    return __builtin_convertvector((vmask)a, vf);
}

static inline vf v_byte(vi a, int b)
{
    return __builtin_convertvector((vmask)(a >> 8 * b & 0xff), vf);
}

static inline vf v_signed_byte(vi a, int b)
{
    return __builtin_convertvector((vmask)(a >> 8 * b << 24), vf);
}

static inline vf v_bits(vi a)
{
    return (vf)a;
}

static inline void v_f16_pair(vi a, vf out[2])
{
    float low[V_LANES], high[V_LANES];
    for (int l = 0; l < V_LANES; l++) {
        low[l] = seqmix_f16_to_f32((uint16_t)a[l]);
        high[l] = seqmix_f16_to_f32((uint16_t)(a[l] >> 16));
    }
    out[0] = v_load(low);
    out[1] = v_load(high);
}

static inline vf v_rows_f16(const uint8_t *const row[V_LANES], int64_t at)
{
    float out[V_LANES];
    for (int l = 0; l < V_LANES; l++)
        out[l] = seqmix_f16_to_f32((uint16_t)(row[l][at] | row[l][at + 1] << 8));
    return v_load(out);
}

#else

static inline __m128i vi_quarter(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static inline int32_t vi_number(const uint8_t *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static inline int16_t vi_half(const uint8_t *p)
{
    int16_t half;
    memcpy(&half, p, sizeof half);
    return half;
}

static inline __m128i vi_number4(const uint8_t *const row[4], int64_t at)
{
    return _mm_setr_epi32(vi_number(row[0] + at), vi_number(row[1] + at), vi_number(row[2] + at),
                          vi_number(row[3] + at));
}

static inline __m128i vi_half8(const uint8_t *const row[8], int64_t at)
{
    return _mm_setr_epi16(vi_half(row[0] + at), vi_half(row[1] + at), vi_half(row[2] + at), vi_half(row[3] + at),
                          vi_half(row[4] + at), vi_half(row[5] + at), vi_half(row[6] + at), vi_half(row[7] + at));
}

#    if defined(SEQMIX_ISA_AVX2)

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

static inline vi vi_word(const uint8_t *const row[V_LANES], int64_t at)
{
    return _mm256_set_m128i(vi_number4(row + 4, at), vi_number4(row, at));
}

/* Four rows, and four more, of four words each: two squares side by side. */
static inline void vi_words4(const uint8_t *const row[V_LANES], int64_t at, vi out[4])
{
    vi a[4];
    for (int i = 0; i < 4; i++)
        a[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(vi_quarter(row[i] + at)), vi_quarter(row[i + 4] + at), 1);
    const vi b0 = _mm256_unpacklo_epi32(a[0], a[1]), b1 = _mm256_unpackhi_epi32(a[0], a[1]);
    const vi b2 = _mm256_unpacklo_epi32(a[2], a[3]), b3 = _mm256_unpackhi_epi32(a[2], a[3]);
    out[0] = _mm256_unpacklo_epi64(b0, b2);
    out[1] = _mm256_unpackhi_epi64(b0, b2);
    out[2] = _mm256_unpacklo_epi64(b1, b3);
    out[3] = _mm256_unpackhi_epi64(b1, b3);
}

static inline vi vi_table(const int8_t table[16], vi a)
{
    const __m128i entries = _mm_loadu_si128((const __m128i *)(const void *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(entries), a);
}

static inline vf v_number(vi a)
{
    return _mm256_cvtepi32_ps(a);
}

/* One shuffle picks the byte and clears the other three. */
static inline vf v_byte(vi a, int b)
{
    const int32_t none = (int32_t)0x80808000u;
    const __m256i pick = _mm256_setr_epi32(none | b, none | (4 + b), none | (8 + b), none | (12 + b), none | b,
                                           none | (4 + b), none | (8 + b), none | (12 + b));
    return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(a, pick));
}

static inline vf v_signed_byte(vi a, int b)
{
    const int32_t none = 0x808080, unit = 1 << 24;
    const __m256i pick =
        _mm256_setr_epi32(none | b * unit, none | (4 + b) * unit, none | (8 + b) * unit, none | (12 + b) * unit,
                          none | b * unit, none | (4 + b) * unit, none | (8 + b) * unit, none | (12 + b) * unit);
    return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(a, pick));
}

static inline vf v_bits(vi a)
{
    return _mm256_castsi256_ps(a);
}

static inline void v_f16_pair(vi a, vf out[2])
{
    const __m256i apart = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12,
                                           13, 2, 3, 6, 7, 10, 11, 14, 15);
    const __m256i halves = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(a, apart), 0xd8);
    out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    out[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
}

static inline vf v_rows_f16(const uint8_t *const row[V_LANES], int64_t at)
{
    return _mm256_cvtph_ps(vi_half8(row, at));
}

#    else

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

static inline vi vi_of_quarters(__m128i a, __m128i b, __m128i c, __m128i d)
{
    const vi two = _mm512_inserti32x4(_mm512_castsi128_si512(a), b, 1);
    return _mm512_inserti32x4(_mm512_inserti32x4(two, c, 2), d, 3);
}

static inline vi vi_word(const uint8_t *const row[V_LANES], int64_t at)
{
    return vi_of_quarters(vi_number4(row, at), vi_number4(row + 4, at), vi_number4(row + 8, at),
                          vi_number4(row + 12, at));
}

/* Four times four rows of four words each: four squares side by side. */
static inline void vi_words4(const uint8_t *const row[V_LANES], int64_t at, vi out[4])
{
    vi a[4];
    for (int i = 0; i < 4; i++)
        a[i] = vi_of_quarters(vi_quarter(row[i] + at), vi_quarter(row[i + 4] + at), vi_quarter(row[i + 8] + at),
                              vi_quarter(row[i + 12] + at));
    const vi b0 = _mm512_unpacklo_epi32(a[0], a[1]), b1 = _mm512_unpackhi_epi32(a[0], a[1]);
    const vi b2 = _mm512_unpacklo_epi32(a[2], a[3]), b3 = _mm512_unpackhi_epi32(a[2], a[3]);
    out[0] = _mm512_unpacklo_epi64(b0, b2);
    out[1] = _mm512_unpackhi_epi64(b0, b2);
    out[2] = _mm512_unpacklo_epi64(b1, b3);
    out[3] = _mm512_unpackhi_epi64(b1, b3);
}

static inline vi vi_table(const int8_t table[16], vi a)
{
    const __m128i entries = _mm_loadu_si128((const __m128i *)(const void *)table);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), a);
}

static inline vf v_number(vi a)
{
    return _mm512_cvtepi32_ps(a);
}

/* One shuffle picks the byte and clears the other three. */
static inline vf v_byte(vi a, int b)
{
    const int32_t none = (int32_t)0x80808000u;
    const __m128i pick = _mm_setr_epi32(none | b, none | (4 + b), none | (8 + b), none | (12 + b));
    return _mm512_cvtepi32_ps(_mm512_shuffle_epi8(a, _mm512_broadcast_i32x4(pick)));
}

static inline vf v_signed_byte(vi a, int b)
{
    return _mm512_cvtepi32_ps(_mm512_slli_epi32(_mm512_srli_epi32(a, (unsigned)(8 * b)), 24));
}

static inline vf v_bits(vi a)
{
    return _mm512_castsi512_ps(a);
}

static inline void v_f16_pair(vi a, vf out[2])
{
    out[0] = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a));
    out[1] = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(a, 16)));
}

static inline vf v_rows_f16(const uint8_t *const row[V_LANES], int64_t at)
{
    return _mm512_cvtph_ps(_mm256_set_m128i(vi_half8(row + 8, at), vi_half8(row, at)));
}

#    endif
#endif

#endif
