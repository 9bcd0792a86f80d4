/* SPDX-License-Identifier: MIT */
/*
 * Block-quantised weights in lanes. A group is 8 vectors of floats: V_LANES/4 blocks of 32 elements, or a part of a block of
 * 256. Its bytes are loaded as they lie, four to a lane, and byte b of all lanes is one vector: so the vectors hold the
 * elements in an order of their own, the same for every row of a dtype, and block_order puts x into it. The first and the last
 * four vectors of all groups form two streams, added up apart: one chain of additions would be too slow. Each value is
 * q*scale + offset with one rounding, as q*scale is exact: the f32 value that common/blocks.c gives.
 */
#ifndef SEQMIX_CPU_KERN_BLOCK_LANES_H
#define SEQMIX_CPU_KERN_BLOCK_LANES_H

#include <stdbool.h>

#include "../vec/vec_bytes.h"
#include "blocks.h"

#define BLOCK_INLINE static inline __attribute__((always_inline))

enum {
    GROUP_VECTORS = 8,
    GROUP = GROUP_VECTORS * V_LANES,
    STREAM_VECTORS = 4,
    SMALL_BLOCK = 32,
    SMALL_BLOCKS = GROUP / SMALL_BLOCK
};

/* IQ4_NL's values + 128, so that they are bytes without sign. */
static const uint8_t iq4_nl_table[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

/* w = byte*scale + offset for the four bytes of every lane. */
BLOCK_INLINE void widen_bytes(vi bytes, vf scale, vf offset, vf w[4])
{
    w[0] = v_fma(v_byte(bytes, 0), scale, offset);
    w[1] = v_fma(v_byte(bytes, 1), scale, offset);
    w[2] = v_fma(v_byte(bytes, 2), scale, offset);
    w[3] = v_fma(v_byte(bytes, 3), scale, offset);
}

BLOCK_INLINE vi low_halves(vi bytes)
{
    return vi_and(bytes, vi_set1(0x0f0f0f0f));
}

BLOCK_INLINE vi high_halves(vi bytes)
{
    return low_halves(vi_srl(bytes, 4));
}

/* Bits 0 to 3 of every lane to bit 4 of its bytes 0 to 3. */
BLOCK_INLINE vi fifth_bits(vi bits)
{
    const vi four = vi_and(bits, vi_set1(15)), pairs = vi_or(four, vi_sll(four, 7));
    return vi_and(vi_sll(vi_or(pairs, vi_sll(pairs, 14)), 4), vi_set1(0x10101010));
}

BLOCK_INLINE void widen_q8_0_group(const uint8_t *at, vf w[GROUP_VECTORS])
{
    enum { SIZE = 34, VECTORS = SMALL_BLOCK / V_LANES };
    for (int g = 0; g < SMALL_BLOCKS; g++) {
        const vf d = v_set1_f16(at + g * SIZE);
        for (int v = 0; v < VECTORS; v++)
            w[g * VECTORS + v] = v_mul(d, v_load_i8((const int8_t *)(at + g * SIZE + 2) + v * V_LANES));
    }
}

/* A group of a dtype with blocks of 32. */
BLOCK_INLINE void widen_small_group(seqmix_dtype dtype, const uint8_t *at, vf w[GROUP_VECTORS])
{
    const int64_t size = (int64_t)seqmix_dtype_size(dtype);
    if (dtype == SEQMIX_Q8_0) {
        widen_q8_0_group(at, w);
        return;
    }
    const bool five = dtype == SEQMIX_Q5_0 || dtype == SEQMIX_Q5_1;
    const vf d = v_quads_f16(at, size);
    const vf offset = dtype == SEQMIX_Q5_1   ? v_quads_f16(at + 2, size)
                      : dtype == SEQMIX_Q5_0 ? v_mul(d, v_set1(-16))
                      : dtype == SEQMIX_Q4_0 ? v_mul(d, v_set1(-8))
                                             : v_mul(d, v_set1(-128));
    const int64_t head = dtype == SEQMIX_Q5_1 ? 4 : 2;
    const vi bytes = vi_quads(at + head + (five ? 4 : 0), size);
    vi low = low_halves(bytes), high = high_halves(bytes);
    if (five) {
        const vi bits = vi_srl_quad(vi_words(at + head, size));
        low = vi_or(low, fifth_bits(bits));
        high = vi_or(high, fifth_bits(vi_srl(bits, 16)));
    } else if (dtype == SEQMIX_IQ4_NL) {
        low = vi_table(iq4_nl_table, low);
        high = vi_table(iq4_nl_table, high);
    }
    widen_bytes(low, d, offset, w);
    widen_bytes(high, d, offset, w + 4);
}

/* What a block of 256 multiplies and adds: 8 sub-blocks of Q4_K and Q5_K, 16 of Q6_K (whose offset is -32*scale). Room for the
 * reads of a vector or of an odd octet behind the last. */
struct block_scales {
    float scale[32], offset[32];
};

/* The 8 scales and 8 offsets of Q4_K and Q5_K, 6 bits each, as bytes. */
BLOCK_INLINE void unpack_k_scales(const uint8_t *packed, uint32_t scales[2], uint32_t offsets[2])
{
    uint32_t word[3];
    memcpy(word, packed, sizeof word);
    scales[0] = word[0] & 0x3f3f3f3f;
    offsets[0] = word[1] & 0x3f3f3f3f;
    scales[1] = (word[2] & 0x0f0f0f0f) | (word[0] >> 2 & 0x30303030);
    offsets[1] = (word[2] >> 4 & 0x0f0f0f0f) | (word[1] >> 2 & 0x30303030);
}

BLOCK_INLINE void widen_scales(seqmix_dtype dtype, const uint8_t *block, struct block_scales *s)
{
    int8_t bytes[2][16] = {{0}};
    if (dtype == SEQMIX_Q6_K) {
        const vf d = v_set1_f16(block + 208);
        for (int i = 0; i < 16; i += V_LANES)
            v_store(s->scale + i, v_mul(d, v_load_i8((const int8_t *)block + 192 + i)));
        return;
    }
    uint32_t scales[2], offsets[2];
    const vf d = v_set1_f16(block), m = v_sub(v_zero(), v_set1_f16(block + 2));
    unpack_k_scales(block + 4, scales, offsets);
    memcpy(bytes[0], scales, sizeof scales);
    memcpy(bytes[1], offsets, sizeof offsets);
    for (int i = 0; i < 8; i += V_LANES) {
        v_store(s->scale + i, v_mul(d, v_load_i8(bytes[0] + i)));
        v_store(s->offset + i, v_mul(m, v_load_i8(bytes[1] + i)));
    }
}

/* Group i of a block of 256. */
BLOCK_INLINE void widen_big_group(seqmix_dtype dtype, const uint8_t *block, int i, const struct block_scales *s,
                                  vf w[GROUP_VECTORS])
{
    const int at = 4 * V_LANES * i, octet = at / 32; /* of the 128 bytes of halves */
    if (dtype == SEQMIX_Q6_K) {
        const vi bytes = vi_octets(block + at, 32);
        const vi bits =
            vi_srl_octet(vi_octets(block + 128 + 32 * (at / 64) + at % 32, 0), octet % 2 * 2, (octet + 1) % 2 * 2);
        const vi two = vi_set1(0x30303030), low = vi_or(low_halves(bytes), vi_and(vi_sll(bits, 4), two));
        const vi high = vi_or(high_halves(bytes), vi_and(bits, two));
        const float *scale = s->scale + at / 64 * 8 + at % 64 / 16;
        const vf first = v_quads(scale, 1), second = v_quads(scale + 4, 1);
        widen_bytes(low, first, v_mul(first, v_set1(-32)), w);
        widen_bytes(high, second, v_mul(second, v_set1(-32)), w + 4);
        return;
    }
    const vi bytes = vi_octets(block + (dtype == SEQMIX_Q5_K ? 48 : 16) + at, 32);
    vi low = low_halves(bytes), high = high_halves(bytes);
    if (dtype == SEQMIX_Q5_K) {
        const vi bits = vi_srl_octet(vi_octets(block + 16 + at % 32, 0), 2 * octet, 2 * octet + 2);
        const vi fifth = vi_set1(0x10101010);
        low = vi_or(low, vi_and(vi_sll(bits, 4), fifth));
        high = vi_or(high, vi_and(vi_sll(bits, 3), fifth));
    }
    const float *scale = s->scale + 2 * octet, *offset = s->offset + 2 * octet;
    widen_bytes(low, v_octets(scale, 2), v_octets(offset, 2), w);
    widen_bytes(high, v_octets(scale + 1, 2), v_octets(offset + 1, 2), w + 4);
}

BLOCK_INLINE void store_group(const vf w[GROUP_VECTORS], float *first, float *second)
{
    for (int v = 0; v < STREAM_VECTORS; v++) {
        v_store(first + v * V_LANES, w[v]);
        v_store(second + v * V_LANES, w[v + STREAM_VECTORS]);
    }
}

/* n elements of a row, whole blocks, to the two streams, which have room for whole groups; zeros fill those up. */
BLOCK_INLINE void widen_blocks(seqmix_dtype dtype, const uint8_t *at, int64_t n, float *first, float *second)
{
    const int64_t size = (int64_t)seqmix_dtype_size(dtype);
    vf w[GROUP_VECTORS];
    if (seqmix_dtype_block(dtype) == SMALL_BLOCK) {
        uint8_t tail[SMALL_BLOCKS * 34] = {0};
        for (int64_t i = 0; i < n; i += GROUP, at += SMALL_BLOCKS * size) {
            const int64_t left = (n - i) / SMALL_BLOCK;
            if (left > 0 && left < SMALL_BLOCKS) {
                memcpy(tail, at, (size_t)(left * size));
                at = tail;
            }
            widen_small_group(dtype, at, w);
            store_group(w, first + i / 2, second + i / 2);
        }
        return;
    }
    for (int64_t i = 0; i < n; i += SEQMIX_MAX_BLOCK, at += size) {
        struct block_scales scales;
        widen_scales(dtype, at, &scales);
        for (int g = 0; g < SEQMIX_MAX_BLOCK / GROUP; g++) {
            widen_big_group(dtype, at, g, &scales, w);
            store_group(w, first + (i + g * GROUP) / 2, second + (i + g * GROUP) / 2);
        }
    }
}

/* x[n] in the order of a dtype with blocks, zeros up to whole groups: where the low or the high half of a byte becomes a lane of
 * the first or the second stream, the element that this half is. */
static inline void block_order(seqmix_dtype dtype, const float *x, int64_t n, float *first, float *second)
{
    const int64_t run = dtype == SEQMIX_Q6_K ? 64 : seqmix_dtype_block(dtype) == SMALL_BLOCK ? 16 : 32;
    const bool halves = dtype != SEQMIX_Q8_0;
    for (int64_t i = 0; i < n; i += GROUP)
        for (int64_t v = 0; v < STREAM_VECTORS; v++)
            for (int64_t lane = 0; lane < V_LANES; lane++, first++, second++) {
                const int64_t byte = i / 2 + 4 * lane + v;
                const int64_t low = halves ? byte / run * 2 * run + byte % run : i + v * V_LANES + lane;
                const int64_t high = low + (halves ? run : GROUP / 2);
                *first = low < n ? x[low] : 0;
                *second = high < n ? x[high] : 0;
            }
}

#endif
