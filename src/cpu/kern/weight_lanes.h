/* SPDX-License-Identifier: MIT */
/*
 * Weights of any dtype in lanes that are outputs: V_LANES rows at a time, input by input. Four bytes of every row are turned
 * into V_LANES lanes while they are still bytes, which is 4 to 8 times less to move than turning floats. A block-quantised value
 * is q*scale + offset with one rounding, as q*scale is exact: the f32 value that common/blocks.c gives.
 *
 * They go to a sink: into a panel [input][PANEL] of f32, or, of blocks, times x straight to sums. A sum goes over RUN inputs from zero, and
 * the runs are added in order. The inputs come as the bytes hold them, ascending within each run, several runs in turn, so that
 * as many chains of additions are under way.
 */
#ifndef SEQMIX_CPU_KERN_WEIGHT_LANES_H
#define SEQMIX_CPU_KERN_WEIGHT_LANES_H

#include <stdbool.h>

#include "../vec/vec_bytes.h"
#include "blocks.h"

/* What is inlined is unrolled over registers, which must not stay arrays. With a sanitizer's checks in between that takes clang
 * minutes, so there nothing is. */
#ifdef SEQMIX_SANITIZED
#    define LANES_INLINE static __attribute__((noinline))
#    define LANES_UNROLL
#else
#    define LANES_INLINE static inline __attribute__((always_inline))
#    define LANES_UNROLL _Pragma("GCC unroll 8")
#endif

enum { PANEL_VECTORS = 2, PANEL = PANEL_VECTORS * V_LANES };
enum { RUN = 16, BLOCK = 32, BLOCKS = 4, UNIT = BLOCK * BLOCKS };

/* What v_signed_byte is too large by. */
#define BYTE_UNIT 0x1p-24f

/* ---------------------------------------------------------------- the sink */

struct sink {
    float *panel;   /* where the next input goes, */
    const float *x; /* or NULL, and this is what it is multiplied by */
    vf total, sum[UNIT / RUN];
};

LANES_INLINE void sink_begin(struct sink *s)
{
    LANES_UNROLL for (int c = 0; c < UNIT / RUN; c++) s->sum[c] = v_zero();
}

LANES_INLINE void sink_put(struct sink *s, int input, vf weight)
{
    if (s->panel != NULL)
        v_store(s->panel + input * PANEL, weight);
    else
        s->sum[input / RUN] = v_fma(weight, v_set1(s->x[input]), s->sum[input / RUN]);
}

/* Ends so many inputs. */
LANES_INLINE void sink_end(struct sink *s, int inputs)
{
    if (s->panel != NULL) {
        s->panel += inputs * PANEL;
        return;
    }
    LANES_UNROLL for (int c = 0; c < inputs / RUN; c++) s->total = v_add(s->total, s->sum[c]);
    s->x += inputs;
}

/* What multiplies byte b of a lane where it stands, as 256^b times what it is. */
struct byte_scale {
    vf at[4];
};

LANES_INLINE struct byte_scale byte_scale(vf scale)
{
    struct byte_scale s = {
        {scale, v_mul(scale, v_set1(0x1p-8f)), v_mul(scale, v_set1(0x1p-16f)), v_mul(scale, v_set1(0x1p-24f))}};
    return s;
}

/* Four inputs of every block from `input` of it on, the blocks taking turns: what `mask` leaves of the bytes of bytes[c],
 * < 128, times scale, plus offset. */
LANES_INLINE void sink_bytes(struct sink *s, int blocks, int input, const vi bytes[BLOCKS], uint32_t mask,
                             const struct byte_scale scale[BLOCKS], const vf offset[BLOCKS])
{
    LANES_UNROLL for (int b = 0; b < 4; b++) LANES_UNROLL for (int c = 0; c < blocks; c++) sink_put(
        s, c * BLOCK + input + b, v_fma(v_number(vi_and(bytes[c], vi_set1(mask << 8 * b))), scale[c].at[b], offset[c]));
}

/* The same of signed bytes; scale is already times BYTE_UNIT. */
LANES_INLINE void sink_signed(struct sink *s, int blocks, int input, const vi bytes[BLOCKS], const vf scale[BLOCKS])
{
    LANES_UNROLL for (int b = 0; b < 4; b++) LANES_UNROLL for (int c = 0; c < blocks; c++)
        sink_put(s, c * BLOCK + input + b, v_mul(v_signed_byte(bytes[c], b), scale[c]));
}

/* ---------------------------------------------------------------- bytes */

LANES_INLINE vi low_halves(vi bytes)
{
    return vi_and(bytes, vi_set1(0x0f0f0f0f));
}

LANES_INLINE vi high_halves(vi bytes)
{
    return low_halves(vi_srl(bytes, 4));
}

/* Bits 0 to 3 of every lane to bit 4 of its bytes 0 to 3. */
LANES_INLINE vi fifth_bits(vi bits)
{
    const vi four = vi_and(bits, vi_set1(15)), pairs = vi_or(four, vi_sll(four, 7));
    return vi_and(vi_sll(vi_or(pairs, vi_sll(pairs, 14)), 4), vi_set1(0x10101010));
}

/* Asks for `bytes` of every row at `at`. */
LANES_INLINE void ask_rows(const uint8_t *const row[V_LANES], int64_t at, int64_t bytes)
{
    const int64_t line = 64;
    for (int64_t b = 0; b < bytes; b += line)
        for (int l = 0; l < V_LANES; l++)
            v_prefetch((const void *)((uintptr_t)row[l] + (uintptr_t)(at + b)));
}

/* ---------------------------------------------------------------- no blocks: into a panel only (weight_dots.h multiplies) */

/* 16 bytes of every row. */
LANES_INLINE void plain_words(seqmix_dtype dtype, const uint8_t *const row[V_LANES], int64_t at, int input,
                              struct sink *s)
{
    vi words[4];
    vi_words4(row, at, words);
    LANES_UNROLL for (int i = 0; i < 4; i++) if (dtype == SEQMIX_F32)
    {
        sink_put(s, input + i, v_bits(words[i]));
    }
    else if (dtype == SEQMIX_F16)
    {
        vf pair[2];
        v_f16_pair(words[i], pair);
        sink_put(s, input + 2 * i, pair[0]);
        sink_put(s, input + 2 * i + 1, pair[1]);
    }
    else
    {
        sink_put(s, input + 2 * i, v_bits(vi_sll(words[i], 16)));
        sink_put(s, input + 2 * i + 1, v_bits(vi_and(words[i], vi_set1(0xffff0000))));
    }
}

/* Some runs, in turn. */
LANES_INLINE void plain_runs(seqmix_dtype dtype, const uint8_t *const row[V_LANES], int64_t at, int runs,
                             struct sink *s)
{
    const int size = dtype == SEQMIX_F32 ? 4 : 2, step = 16 / size;
    sink_begin(s);
    LANES_UNROLL for (int i = 0; i < RUN; i += step) LANES_UNROLL for (int c = 0; c < runs; c++)
        plain_words(dtype, row, at + (c * RUN + i) * size, c * RUN + i, s);
    sink_end(s, runs * RUN);
}

/* The last inputs, less than a run, and zeros. */
LANES_INLINE void plain_tail(seqmix_dtype dtype, const uint8_t *const row[V_LANES], int64_t at, int64_t n,
                             struct sink *s)
{
    const int64_t size = dtype == SEQMIX_F32 ? 4 : 2;
    uint8_t tails[V_LANES][RUN * 4] = {{0}};
    const uint8_t *tail[V_LANES];
    for (int l = 0; l < V_LANES; l++) {
        memcpy(tails[l], row[l] + at, (size_t)(n * size));
        tail[l] = tails[l];
    }
    plain_runs(dtype, tail, 0, 1, s);
}

LANES_INLINE void plain_lanes(seqmix_dtype dtype, const uint8_t *const row[V_LANES], int64_t at, int64_t n,
                              int64_t ahead, struct sink *s)
{
    const int64_t size = dtype == SEQMIX_F32 ? 4 : 2;
    const int runs = dtype == SEQMIX_F32 ? 2 : 4; /* two lines of a row */
    int64_t i = 0;
    for (; i + runs * RUN <= n; i += runs * RUN) {
        ask_rows(row, at + i * size + ahead, runs * RUN * size);
        plain_runs(dtype, row, at + i * size, runs, s);
    }
    for (; i + RUN <= n; i += RUN)
        plain_runs(dtype, row, at + i * size, 1, s);
    if (i < n) plain_tail(dtype, row, at + i * size, n - i, s);
}

/* ---------------------------------------------------------------- blocks of 32: a run each */

LANES_INLINE void q8_0_runs(const uint8_t *const row[V_LANES], int64_t at, int blocks, struct sink *s)
{
    vf scale[BLOCKS];
    vi words[BLOCKS][4], bytes[BLOCKS];
    LANES_UNROLL for (int c = 0; c < blocks; c++) scale[c] = v_mul(v_rows_f16(row, at + c * 34), v_set1(BYTE_UNIT));
    sink_begin(s);
    LANES_UNROLL for (int half = 0; half < 2; half++)
    {
        LANES_UNROLL for (int c = 0; c < blocks; c++) vi_words4(row, at + c * 34 + 2 + 16 * half, words[c]);
        LANES_UNROLL for (int i = 0; i < 4; i++)
        {
            LANES_UNROLL for (int c = 0; c < blocks; c++) bytes[c] = words[c][i];
            sink_signed(s, blocks, 16 * half + 4 * i, bytes, scale);
        }
    }
    sink_end(s, blocks * BLOCK);
}

LANES_INLINE void iq4_nl_runs(const uint8_t *const row[V_LANES], int64_t at, int blocks, struct sink *s)
{
    vf scale[BLOCKS];
    vi words[BLOCKS][4], bytes[BLOCKS];
    LANES_UNROLL for (int c = 0; c < blocks; c++)
    {
        scale[c] = v_mul(v_rows_f16(row, at + c * 18), v_set1(BYTE_UNIT));
        vi_words4(row, at + c * 18 + 2, words[c]);
    }
    sink_begin(s);
    LANES_UNROLL for (int half = 0; half < 2; half++) LANES_UNROLL for (int i = 0; i < 4; i++)
    {
        LANES_UNROLL for (int c = 0; c < blocks; c++) bytes[c] =
            vi_table(seqmix_iq4_nl_values, half == 0 ? low_halves(words[c][i]) : high_halves(words[c][i]));
        sink_signed(s, blocks, 16 * half + 4 * i, bytes, scale);
    }
    sink_end(s, blocks * BLOCK);
}

/* Q4_0, Q5_0 and Q5_1. */
LANES_INLINE void q45_runs(seqmix_dtype dtype, const uint8_t *const row[V_LANES], int64_t at, int blocks,
                           struct sink *s)
{
    const bool five = dtype != SEQMIX_Q4_0, has_offset = dtype == SEQMIX_Q5_1;
    const int64_t size = five ? has_offset ? 24 : 22 : 18, head = has_offset ? 4 : 2;
    struct byte_scale scale[BLOCKS];
    vf offset[BLOCKS];
    vi words[BLOCKS][4], bits[BLOCKS], bytes[BLOCKS];
    LANES_UNROLL for (int c = 0; c < blocks; c++)
    {
        const int64_t block = at + c * size;
        const vf d = v_rows_f16(row, block);
        scale[c] = byte_scale(d);
        offset[c] = has_offset ? v_rows_f16(row, block + 2) : v_mul(d, v_set1(five ? -16 : -8));
        bits[c] = five ? vi_word(row, block + head) : vi_set1(0);
        vi_words4(row, block + head + (five ? 4 : 0), words[c]);
    }
    sink_begin(s);
    LANES_UNROLL for (int half = 0; half < 2; half++) LANES_UNROLL for (int i = 0; i < 4; i++)
    {
        LANES_UNROLL for (int c = 0; c < blocks; c++)
        {
            bytes[c] = half == 0 ? words[c][i] : vi_srl(words[c][i], 4);
            if (five) bytes[c] = vi_or(low_halves(bytes[c]), fifth_bits(vi_srl(bits[c], 16 * half + 4 * i)));
        }
        sink_bytes(s, blocks, 16 * half + 4 * i, bytes, five ? 0x1f : 0x0f, scale, offset);
    }
    sink_end(s, blocks * BLOCK);
}

LANES_INLINE void small_runs(seqmix_dtype dtype, const uint8_t *const row[V_LANES], int64_t at, int blocks,
                             struct sink *s)
{
    if (dtype == SEQMIX_Q8_0)
        q8_0_runs(row, at, blocks, s);
    else if (dtype == SEQMIX_IQ4_NL)
        iq4_nl_runs(row, at, blocks, s);
    else
        q45_runs(dtype, row, at, blocks, s);
}

LANES_INLINE void small_lanes(seqmix_dtype dtype, const uint8_t *const row[V_LANES], int64_t at, int64_t n,
                              int64_t ahead, struct sink *s)
{
    const int64_t size = (int64_t)seqmix_dtype_size(dtype);
    for (; s->panel == NULL && n >= UNIT; n -= UNIT, at += BLOCKS * size) {
        ask_rows(row, at + ahead, BLOCKS * size);
        small_runs(dtype, row, at, BLOCKS, s);
    }
    for (; n > 0; n -= BLOCK, at += size) {
        ask_rows(row, at + ahead, size);
        small_runs(dtype, row, at, 1, s);
    }
}

/* ---------------------------------------------------------------- blocks of 256 */

/* The scales of sub-blocks 0 to 3 and 4 to 7, then their offsets, out of the 12 bytes of 6-bit numbers. */
LANES_INLINE void unpack_k_scales(const vi packed[3], vi numbers[4])
{
    const vi six = vi_set1(0x3f3f3f3f), two = vi_set1(0x30303030);
    numbers[0] = vi_and(packed[0], six);
    numbers[1] = vi_or(low_halves(packed[2]), vi_and(vi_srl(packed[0], 2), two));
    numbers[2] = vi_and(packed[1], six);
    numbers[3] = vi_or(high_halves(packed[2]), vi_and(vi_srl(packed[1], 2), two));
}

/* Q4_K and Q5_K. 32 bytes are sub-block 2c in their low halves and 2c+1 in the high ones: two of them are a unit. */
LANES_INLINE void q45_k_unit(bool five, const uint8_t *const row[V_LANES], int64_t halves, int64_t fifths, int shift,
                             const struct byte_scale scale[BLOCKS], const vf offset[BLOCKS], struct sink *s)
{
    const vi fifth = vi_set1(0x10101010);
    sink_begin(s);
    LANES_UNROLL for (int part = 0; part < 2; part++)
    {
        vi words[2][4], bits[4], bytes[BLOCKS];
        LANES_UNROLL for (int c = 0; c < 2; c++) vi_words4(row, halves + 32 * c + 16 * part, words[c]);
        if (five) vi_words4(row, fifths + 16 * part, bits);
        LANES_UNROLL for (int i = 0; i < 4; i++)
        {
            LANES_UNROLL for (int c = 0; c < BLOCKS; c++)
            {
                bytes[c] = c % 2 == 0 ? words[c / 2][i] : vi_srl(words[c / 2][i], 4);
                if (five) bytes[c] = vi_or(low_halves(bytes[c]), vi_and(vi_sll(vi_srl(bits[i], shift + c), 4), fifth));
            }
            sink_bytes(s, BLOCKS, 16 * part + 4 * i, bytes, five ? 0x1f : 0x0f, scale, offset);
        }
    }
    sink_end(s, UNIT);
}

LANES_INLINE void q45_k_block(bool five, const uint8_t *const row[V_LANES], int64_t at, struct sink *s)
{
    vi head[4], numbers[4];
    vf d[2];
    vi_words4(row, at, head);
    v_f16_pair(head[0], d);
    d[1] = v_sub(v_zero(), d[1]);
    unpack_k_scales(head + 1, numbers);
    for (int half = 0; half < 2; half++) {
        struct byte_scale scale[BLOCKS];
        vf offset[BLOCKS];
        LANES_UNROLL for (int j = 0; j < BLOCKS; j++)
        {
            scale[j] = byte_scale(v_mul(d[0], v_byte(numbers[half], j)));
            offset[j] = v_mul(d[1], v_byte(numbers[2 + half], j));
        }
        q45_k_unit(five, row, at + (five ? 48 : 16) + 64 * half, at + 16, 4 * half, scale, offset, s);
    }
}

/* Half a block, a unit: 64 bytes with the elements 0 to 63 in their low halves, 64 to 127 in the high ones; 32 bytes of 2 bits. */
LANES_INLINE void q6_k_unit(const uint8_t *const row[V_LANES], int64_t halves, int64_t twos,
                            const vf scales[2 * BLOCKS], struct sink *s)
{
    const vi two = vi_set1(0x30303030);
    sink_begin(s);
    LANES_UNROLL for (int part = 0; part < 2; part++)
    {
        struct byte_scale scale[BLOCKS];
        vf offset[BLOCKS];
        vi words[2][4], bits[4], bytes[BLOCKS];
        LANES_UNROLL for (int c = 0; c < BLOCKS; c++)
        {
            scale[c] = byte_scale(scales[2 * c + part]);
            offset[c] = v_mul(scales[2 * c + part], v_set1(-32));
        }
        LANES_UNROLL for (int c = 0; c < 2; c++) vi_words4(row, halves + 32 * c + 16 * part, words[c]);
        vi_words4(row, twos + 16 * part, bits);
        LANES_UNROLL for (int i = 0; i < 4; i++)
        {
            LANES_UNROLL for (int c = 0; c < BLOCKS; c++)
            {
                const vi half = c < 2 ? low_halves(words[c][i]) : high_halves(words[c - 2][i]);
                bytes[c] = vi_or(half, vi_and(vi_sll(vi_srl(bits[i], 2 * c), 4), two));
            }
            sink_bytes(s, BLOCKS, 16 * part + 4 * i, bytes, 0x3f, scale, offset);
        }
    }
    sink_end(s, UNIT);
}

LANES_INLINE void q6_k_block(const uint8_t *const row[V_LANES], int64_t at, struct sink *s)
{
    const vf d = v_mul(v_rows_f16(row, at + 208), v_set1(BYTE_UNIT));
    vi numbers[4];
    vi_words4(row, at + 192, numbers);
    for (int half = 0; half < 2; half++) {
        vf scales[2 * BLOCKS];
        LANES_UNROLL for (int j = 0; j < 2 * BLOCKS; j++) scales[j] =
            v_mul(d, v_signed_byte(numbers[2 * half + j / 4], j % 4));
        q6_k_unit(row, at + 64 * half, at + 128 + 32 * half, scales, s);
    }
}

LANES_INLINE void big_lanes(seqmix_dtype dtype, const uint8_t *const row[V_LANES], int64_t at, int64_t n, int64_t ahead,
                            struct sink *s)
{
    const int64_t size = (int64_t)seqmix_dtype_size(dtype);
    for (; n > 0; n -= SEQMIX_MAX_BLOCK, at += size) {
        ask_rows(row, at + ahead, size);
        if (dtype == SEQMIX_Q6_K)
            q6_k_block(row, at, s);
        else
            q45_k_block(dtype == SEQMIX_Q5_K, row, at, s);
    }
}

/* ---------------------------------------------------------------- any */

/* n inputs of V_LANES rows, whole blocks, from byte `at` on; asks for what lies `ahead` bytes further. A panel has room for
 * whole runs. */
LANES_INLINE void weight_lanes(seqmix_dtype dtype, const uint8_t *const row[V_LANES], int64_t at, int64_t n,
                               int64_t ahead, struct sink *s)
{
    if (seqmix_dtype_block(dtype) == 1)
        plain_lanes(dtype, row, at, n, ahead, s);
    else if (seqmix_dtype_block(dtype) == BLOCK)
        small_lanes(dtype, row, at, n, ahead, s);
    else
        big_lanes(dtype, row, at, n, ahead, s);
}

#endif
