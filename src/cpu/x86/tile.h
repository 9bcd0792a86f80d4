/* SPDX-License-Identifier: MIT */
/*
 * AMX tiles, which no lane can express: eight registers of 16 rows x 64 bytes. One instruction adds a product of two tiles of
 * bf16 to a tile of 16 x 16 f32 sums; the reason for this folder is that a delta rule of bf16 rows then took 34 ms where f32
 * lanes took 54 (docs/BENCH.md). Sums round to nearest and flush subnormals, whatever the thread's mode.
 *
 *   left operand    16 x 32: row i holds its 32 elements along k
 *   right operand   32 x 16: row k/2 holds the elements (k, n) and (k+1, n) of 16 columns n side by side
 *
 * In memory a matrix of bf16 is a row of tiles of TILE elements, each contiguous: a left one [rows/16][k/32], a right one
 * [k/32][columns/16]. A *pair* is such a matrix twice, `plane` elements apart: what bf16 keeps of each value, and what bf16
 * keeps of the rest.
 */
#ifndef SEQMIX_CPU_X86_TILE_H
#define SEQMIX_CPU_X86_TILE_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

enum { TILE = 512, TILE_SIDE = 16, TILE_DEPTH = 32, TILE_BYTES = 64 /* of a row */, SQUARE = 2 * TILE_SIDE };

/* Tile numbers are literals: they become part of the instruction. */
#define amx_zero(tile)               _tile_zero(tile)
#define amx_load(tile, from, stride) _tile_loadd(tile, from, stride)
#define amx_store(tile, to, stride)  _tile_stored(tile, to, stride)
#define amx_dot(sums, left, right)   _tile_dpbf16ps(sums, left, right)

/* gcc 12 does not tell its optimiser that a tile load reads memory: what was stored for it must be stored by now. */
#define amx_fence() __asm__ volatile("" ::: "memory")

/* All eight tiles at full size; once a task, and released at its end, so that the system need not save 8 KiB a switch. A
 * constant, since gcc 12's _tile_loadconfig names the first 8 bytes only and lets stores to the others be dropped. */
static inline void amx_begin(void)
{
    static const struct {
        uint8_t palette, start_row, zero[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {
        .palette = 1,
        .row_bytes = {TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES},
        .rows = {TILE_SIDE, TILE_SIDE, TILE_SIDE, TILE_SIDE, TILE_SIDE, TILE_SIDE, TILE_SIDE, TILE_SIDE}};
    _tile_loadconfig(&config);
}

static inline void amx_end(void)
{
    _tile_release();
}

/* ---------------------------------------------------------------- squares of 2 x 2 tiles, in the tiles 0 to 3 */

static inline void square_zero(void)
{
    amx_zero(0);
    amx_zero(1);
    amx_zero(2);
    amx_zero(3);
}

/* The square += left * right over `depth` tiles along k. `left_row` elements lie between rows of tiles, `right_k` between tiles
 * along k. A square that is not wide has one column of tiles. */
static inline __attribute__((always_inline)) void square_add_form(const uint16_t *left, int64_t left_row,
                                                                  const uint16_t *right, int64_t right_k, int64_t depth,
                                                                  bool wide)
{
    for (int64_t k = 0; k < depth; k++, left += TILE, right += right_k) {
        amx_load(4, left, TILE_BYTES);
        amx_load(6, right, TILE_BYTES);
        amx_dot(0, 4, 6);
        amx_load(5, left + left_row, TILE_BYTES);
        amx_dot(2, 5, 6);
        if (!wide) continue;
        amx_load(7, right + TILE, TILE_BYTES);
        amx_dot(1, 4, 7);
        amx_dot(3, 5, 7);
    }
}

static inline void square_add(const uint16_t *left, int64_t left_row, const uint16_t *right, int64_t right_k,
                              int64_t depth, bool wide)
{
    amx_fence();
    if (wide)
        square_add_form(left, left_row, right, right_k, depth, true);
    else
        square_add_form(left, left_row, right, right_k, depth, false);
}

/* The same for pairs, on the sides whose plane is not 0. The product of two rests is below what f32 keeps. */
static inline void square_add_pairs(const uint16_t *left, int64_t left_plane, int64_t left_row, const uint16_t *right,
                                    int64_t right_plane, int64_t right_k, int64_t depth, bool wide)
{
    if (left_plane != 0) square_add(left + left_plane, left_row, right, right_k, depth, wide);
    if (right_plane != 0) square_add(left, left_row, right + right_plane, right_k, depth, wide);
    square_add(left, left_row, right, right_k, depth, wide);
}

/* To rows of f32, `stride` elements apart. */
static inline void square_store(float *out, int64_t stride, bool wide)
{
    const int64_t bytes = stride * (int64_t)sizeof *out;
    amx_store(0, out, bytes);
    amx_store(2, out + TILE_SIDE * stride, bytes);
    if (wide) {
        amx_store(1, out + TILE_SIDE, bytes);
        amx_store(3, out + TILE_SIDE * stride + TILE_SIDE, bytes);
    }
}

/* From there. */
static inline void square_load(const float *from, int64_t stride, bool wide)
{
    const int64_t bytes = stride * (int64_t)sizeof *from;
    amx_fence();
    amx_load(0, from, bytes);
    amx_load(2, from + TILE_SIDE * stride, bytes);
    if (wide) {
        amx_load(1, from + TILE_SIDE, bytes);
        amx_load(3, from + TILE_SIDE * stride + TILE_SIDE, bytes);
    }
}

#endif
