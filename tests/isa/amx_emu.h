/* SPDX-License-Identifier: MIT */
/*
 * AMX-BF16 on a machine without it: included behind avx512_emu.h, ahead of the product's own sources. Eight tiles a thread, the
 * configuration checked as the hardware does where it would fault (here: SIGABRT, which seqmix-check reports), TDPBF16PS with
 * the manual's arithmetic: even and odd products of a tile row summed apart from zero by fused steps, then added, then added to
 * the sums; subnormals are 0 on the way in and out, to nearest even. And the AVX512-BF16 conversion, which treats subnormals
 * likewise.
 */
#ifndef SEQMIX_TESTS_AMX_EMU_H
#define SEQMIX_TESTS_AMX_EMU_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What LDTILECFG reads. */
struct emu_tile_config {
    uint8_t palette, start_row, zero[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

struct emu_tiles {
    bool configured;
    struct emu_tile_config config;
    _Alignas(64) unsigned char data[8][16][64];
};

static inline struct emu_tiles *emu_tiles(void)
{
    static _Thread_local struct emu_tiles tiles;
    return &tiles;
}

static inline void emu_tile_check(bool right, const char *what)
{
    if (right) return;
    fprintf(stderr, "tiles: %s\n", what);
    abort();
}

static inline void emu_tile_loadconfig(const void *from)
{
    static const struct emu_tile_config none;
    struct emu_tiles *t = emu_tiles();
    _Static_assert(sizeof t->config == 64, "LDTILECFG reads 64 bytes");
    memcpy(&t->config, from, sizeof t->config);
    emu_tile_check(t->config.palette == 1, "the palette is not 1");
    emu_tile_check(t->config.start_row == 0, "the start row is not 0");
    emu_tile_check(memcmp(t->config.zero, none.zero, sizeof none.zero) == 0, "reserved bytes are not 0");
    for (int i = 0; i < 16; i++) {
        const int rows = t->config.rows[i], bytes = t->config.row_bytes[i];
        emu_tile_check(i < 8 ? rows <= 16 && bytes <= 64 : rows == 0 && bytes == 0, "a tile larger than 16 x 64 bytes");
        emu_tile_check((rows == 0) == (bytes == 0), "a tile with rows of nothing, or no rows");
    }
    memset(t->data, 0, sizeof t->data);
    t->configured = true;
}

static inline void emu_tile_release(void)
{
    struct emu_tiles *t = emu_tiles();
    memset(t, 0, sizeof *t);
}

/* A tile that an instruction names. */
static inline unsigned char (*emu_tile(int tile))[64]
{
    struct emu_tiles *t = emu_tiles();
    emu_tile_check(t->configured, "used without a configuration");
    emu_tile_check(tile >= 0 && tile < 8 && t->config.rows[tile] > 0, "a tile that is not configured");
    return t->data[tile];
}

static inline void emu_tile_zero(int tile)
{
    memset(emu_tile(tile), 0, sizeof(unsigned char[16][64]));
}

static inline void emu_tile_loadd(int tile, const void *from, int64_t stride)
{
    unsigned char(*rows)[64] = emu_tile(tile);
    const struct emu_tile_config *c = &emu_tiles()->config;
    emu_tile_zero(tile);
    for (int i = 0; i < c->rows[tile]; i++)
        memcpy(rows[i], (const unsigned char *)from + i * stride, c->row_bytes[tile]);
}

static inline void emu_tile_stored(int tile, void *to, int64_t stride)
{
    unsigned char(*rows)[64] = emu_tile(tile);
    const struct emu_tile_config *c = &emu_tiles()->config;
    for (int i = 0; i < c->rows[tile]; i++)
        memcpy((unsigned char *)to + i * stride, rows[i], c->row_bytes[tile]);
}

static inline float emu_wide(uint32_t half)
{
    const uint32_t bits = half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* One row of sums, with subnormals off: n of them, over `depth` pairs along k. */
static __attribute__((noinline, unused)) void emu_tile_row(float *sums, const uint32_t *left,
                                                           const unsigned char (*right)[64], int n, int depth)
{
    float even[16] = {0}, odd[16] = {0};
    for (int k = 0; k < depth; k++) {
        uint32_t pairs[16];
        const float a = emu_wide(left[k] & 0xffff), b = emu_wide(left[k] >> 16);
        memcpy(pairs, right[k], sizeof pairs);
        for (int i = 0; i < 16; i++) {
            even[i] = fmaf(a, emu_wide(pairs[i] & 0xffff), even[i]);
            odd[i] = fmaf(b, emu_wide(pairs[i] >> 16), odd[i]);
        }
    }
    for (int i = 0; i < n; i++)
        sums[i] += even[i] + odd[i];
}

static inline void emu_tile_dpbf16ps(int sums, int left, int right)
{
    unsigned char(*out)[64] = emu_tile(sums), (*a)[64] = emu_tile(left), (*b)[64] = emu_tile(right);
    const struct emu_tile_config *c = &emu_tiles()->config;
    const int depth = c->row_bytes[left] / 4, n = c->row_bytes[sums] / 4;
    emu_tile_check(sums != left && sums != right && left != right, "one tile in two places of a product");
    emu_tile_check(c->rows[sums] == c->rows[left] && c->row_bytes[sums] == c->row_bytes[right] &&
                       depth == c->rows[right] && c->row_bytes[left] % 4 == 0 && c->row_bytes[sums] % 4 == 0,
                   "a product of tiles that do not fit");
    const unsigned mode = _mm_getcsr(), flush_and_zero = 0x8040, rounding = 0x6000;
    _mm_setcsr((mode | flush_and_zero) & ~rounding);
    for (int i = 0; i < c->rows[sums]; i++) {
        float row[16];
        uint32_t pairs[16];
        memcpy(row, out[i], sizeof row);
        memcpy(pairs, a[i], sizeof pairs);
        emu_tile_row(row, pairs, (const unsigned char(*)[64])b, n, depth);
        memcpy(out[i], row, sizeof row);
    }
    _mm_setcsr(mode);
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig emu_tile_loadconfig
#define _tile_release    emu_tile_release
#define _tile_zero       emu_tile_zero
#define _tile_loadd      emu_tile_loadd
#define _tile_stored     emu_tile_stored
#define _tile_dpbf16ps   emu_tile_dpbf16ps

static inline uint16_t emu_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7f800000u) == 0) return (uint16_t)(bits >> 16 & 0x8000u);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* The second operand's 16 lanes, then the first one's. */
static inline __m512i emu_cvtne2ps_pbh(__m512 high, __m512 low)
{
    float lanes[32];
    uint16_t halves[32];
    _mm512_storeu_ps(lanes, low);
    _mm512_storeu_ps(lanes + 16, high);
    for (int i = 0; i < 32; i++)
        halves[i] = emu_to_bf16(lanes[i]);
    return _mm512_loadu_si512(halves);
}
#undef _mm512_cvtne2ps_pbh
#define _mm512_cvtne2ps_pbh emu_cvtne2ps_pbh

static inline __m512i emu_maskz_loadu_epi16_32(__mmask32 mask, const void *from)
{
    uint16_t lanes[32] = {0};
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1) lanes[i] = ((const uint16_t *)from)[i];
    return _mm512_loadu_si512(lanes);
}
#undef _mm512_maskz_loadu_epi16
#define _mm512_maskz_loadu_epi16 emu_maskz_loadu_epi16_32

#endif
