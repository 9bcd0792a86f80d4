/* SPDX-License-Identifier: MIT */
/*
 * What the chunk forms of the delta rule and of SSD have in common. A cell is up to CELL rows of one sequence; keys and queries
 * are SSD's B and C. With S the state before the cell, c the decays and W the values that the rows add:
 *   read    through_i = c_0 .. c_i, fades_ij = c_j+1 .. c_i; row i sees through_i*(Q S)_i + sum_j<=i fades_ij (q_i.k_j) W_j
 *   write   after r rows S is through_r-1*S + sum_t<r fades_r-1,t k_t W_t^T
 * Only products of decays are formed: nothing can overflow, and no logarithm is taken. W is kept times SCALE, a power of
 * two, and so is the state as an operand: tiles would flush subnormals. Sizes up to 2^87 keep their range.
 */
#ifndef SEQMIX_CPU_X86_CHUNK_H
#define SEQMIX_CPU_X86_CHUNK_H

#include "../kern/cut.h"
#include "../kern/rows.h"
#include "../kern/tune.h"
#include "batch.h"
#include "pack.h"

enum {
    CELL = 64,
    CELL_TILES = CELL / TILE_SIDE,
    CELL_DEPTH = CELL / TILE_DEPTH,
    TRIANGLE = CELL_TILES * CELL_DEPTH * TILE /* the plane of a pair [CELL][CELL] on the left */
};
#define SCALE   0x1p40f
#define UNSCALE 0x1p-40f

/* What a group's heads share in a cell: its keys and queries as operands. */
struct chunk_keys {
    int64_t dim, blocks;      /* of keys; in blocks of 32, zeros behind */
    int64_t rows;             /* of the cell, in whole squares; zeros behind */
    uint16_t *keys, *queries; /* left, rows x dim */
    uint16_t *down;           /* keys^T, right, dim x rows */
    uint16_t *across;         /* keys^T, left, dim x rows */
    float *queries_keys;      /* [CELL][CELL]; where j > i, anything */
};

/* What a head adds: its decays. */
struct chunk_decays {
    float decay[CELL], through[CELL];
    float fades[CELL][CELL]; /* 0 where j > i */
};

/* A head's state: [dim in whole blocks][width], and as a right pair times SCALE. */
struct chunk_state {
    float *rows;
    uint16_t *right;
};

static inline int64_t whole(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Rows of a cell when the caller asks for so many, 0 = no wish. */
static inline int64_t chunk_rows(int32_t chunk)
{
    return chunk > 0 && chunk < CELL ? chunk : CELL;
}

/* Asks for the columns [first, first+count) of a head in the cell behind the rows [begin, begin+n) of a sequence. */
static inline void chunk_prefetch(const struct seqmix_seq *seq, const seqmix_tensor *rows, int64_t begin, int64_t n,
                                  int64_t head, int64_t first, int64_t count)
{
    for (int64_t t = begin + n; t < begin + 2 * n && t < seq->end; t++)
        row_prefetch(rows, t * rows->stride[0] + head * rows->stride[1] + first, count);
}

/* n rows of `dim` bf16 as left tiles. */
static inline void chunk_pack(const seqmix_tensor *rows, int64_t offset, int64_t n, const struct chunk_keys *c,
                              uint16_t *left)
{
    for (int64_t i = 0; i < c->rows; i++) {
        uint16_t *to = left + i / TILE_SIDE * c->blocks * TILE + i % TILE_SIDE * TILE_DEPTH;
        const uint16_t *from = i < n ? (const uint16_t *)rows->data + offset + i * rows->stride[0] : NULL;
        for (int64_t b = 0; b < c->blocks; b++)
            if (from != NULL)
                pack_copy(to + b * TILE, from + b * TILE_DEPTH, c->dim - b * TILE_DEPTH);
            else
                pack_zero(to + b * TILE);
    }
}

/* The transposes of the packed keys. */
static inline void chunk_turn_keys(const struct chunk_keys *c)
{
    for (int64_t b = 0; b < c->blocks; b++) {
        uint16_t *down = c->down + b * CELL_TILES * TILE;
        for (int64_t i = 0; i < c->rows / TILE_SIDE; i++)
            tile_turn(c->keys + (i * c->blocks + b) * TILE, down + i * TILE);
        for (int64_t i = 0; i < c->rows / TILE_DEPTH; i++)
            tile_lay(down + 2 * i * TILE, down + (2 * i + 1) * TILE, c->across + (2 * b * CELL_DEPTH + i) * TILE,
                     CELL_DEPTH * TILE);
    }
}

/* dots[i][j] = left_i . key_j for the squares that reach below the diagonal. */
static inline void chunk_dots(const struct chunk_keys *c, const uint16_t *left, float *dots)
{
    for (int64_t i = 0; i < c->rows; i += SQUARE)
        for (int64_t j = 0; j <= i; j += SQUARE) {
            square_zero();
            square_add(left + i / TILE_SIDE * c->blocks * TILE, c->blocks * TILE, c->down + j / TILE_SIDE * TILE,
                       CELL_TILES * TILE, c->blocks, true);
            square_store(dots + i * CELL + j, CELL, true);
        }
}

/* The lanes of block `block` whose row is below n. */
static inline vmask lanes_below(int64_t n, int64_t block)
{
    const int64_t left = n - block * V_LANES;
    return v_mask_first(left > 0 ? left : 0);
}

/* decay[0..n) is given; rows behind change nothing. */
static inline void chunk_decays(struct chunk_decays *d, int64_t n, int64_t rows)
{
    vf fade[CELL_TILES];
    float through = 1;
    for (int b = 0; b < CELL_TILES; b++)
        fade[b] = v_zero();
    for (int64_t i = 0; i < rows; i++) {
        if (i >= n) d->decay[i] = 1;
        d->through[i] = through *= d->decay[i];
        const vf c = v_set1(d->decay[i]);
        for (int b = 0; b < CELL_TILES; b++) {
            fade[b] = v_select(lanes_below(i, b), v_mul(c, fade[b]), v_zero());
            fade[b] = v_select(lanes_below(i + 1, b), v_select(lanes_below(i, b), fade[b], v_set1(1)), v_zero());
            v_store(&d->fades[i][b * V_LANES], fade[b]);
        }
    }
}

/* n rows of a lower triangle [CELL][CELL] as a left pair. */
static inline void chunk_pack_triangle(const float *rows, int64_t n, uint16_t *left)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t b = 0; b < CELL_DEPTH; b++)
            pack_left(left + (i / TILE_SIDE * CELL_DEPTH + b) * TILE + i % TILE_SIDE * TILE_DEPTH, TRIANGLE,
                      v_load(rows + i * CELL + b * TILE_DEPTH), v_load(rows + i * CELL + b * TILE_DEPTH + V_LANES));
}

/* Where rows i and i+1, i even, of 16 columns lie in a right operand of `width` columns. */
static inline int64_t chunk_right_row(int64_t i, int64_t column, int64_t width)
{
    return (i / TILE_DEPTH * (width / TILE_SIDE) + column / TILE_SIDE) * TILE + i % TILE_DEPTH / 2 * TILE_DEPTH;
}

/* Planes of pairs: right ones over the rows of a cell, and states. */
static inline int64_t chunk_right_plane(int64_t width)
{
    return CELL_DEPTH * (width / TILE_SIDE) * TILE;
}

static inline int64_t chunk_state_plane(const struct chunk_keys *c, int64_t width)
{
    return c->blocks * (width / TILE_SIDE) * TILE;
}

/* The state's right operand from its rows. */
static inline void chunk_pack_state(const struct chunk_keys *c, int64_t width, const struct chunk_state *s)
{
    const vf scale = v_set1(SCALE);
    for (int64_t d = 0; d < c->blocks * TILE_DEPTH; d += 2) {
        const float *row = s->rows + d * width;
        for (int64_t column = 0; column < width; column += V_LANES)
            pack_right(s->right + chunk_right_row(d, column, width), chunk_state_plane(c, width),
                       v_mul(scale, v_load(row + column)), v_mul(scale, v_load(row + width + column)));
    }
}

/* One square of left*S, rows [i, i+32) x columns [column, column+32). */
static inline void chunk_read_square(const struct chunk_keys *c, const uint16_t *left, int64_t i, int64_t width,
                                     const struct chunk_state *s, int64_t column, float square[SQUARE * SQUARE])
{
    const bool wide = width - column > TILE_SIDE;
    square_zero();
    square_add_pairs(left + i / TILE_SIDE * c->blocks * TILE, 0, c->blocks * TILE, s->right + column / TILE_SIDE * TILE,
                     chunk_state_plane(c, width), width / TILE_SIDE * TILE, c->blocks, wide);
    square_store(square, SQUARE, wide);
}

/* One square of left*right where the left is a pair and a lower triangle over the cell's rows: nothing to the right of row i's
 * square. The right is a pair where its plane is not 0. */
static inline void chunk_mix_square(const uint16_t *left, int64_t i, int64_t width, const uint16_t *right,
                                    int64_t right_plane, int64_t column, float *out, int64_t stride)
{
    const bool wide = width - column > TILE_SIDE;
    const int64_t left_row = CELL_DEPTH * TILE;
    square_zero();
    square_add_pairs(left + i / TILE_SIDE * left_row, TRIANGLE, left_row, right + column / TILE_SIDE * TILE,
                     right_plane, width / TILE_SIDE * TILE, i / TILE_DEPTH + 1, wide);
    square_store(out, stride, wide);
}

/* out = through*S + K^T W for values W that were weighed by the fades of a row; out may be s. Packs its operand, if any. */
static inline void chunk_write(const struct chunk_keys *c, int64_t width, const struct chunk_state *s, float through,
                               const uint16_t *weighed, const struct chunk_state *out)
{
    const vf keep = v_set1(through), scale = v_set1(SCALE), unscale = v_set1(UNSCALE);
    float square[SQUARE * SQUARE];
    for (int64_t d = 0; d < c->blocks * TILE_DEPTH; d += SQUARE)
        for (int64_t column = 0; column < width; column += SQUARE) {
            const bool wide = width - column > TILE_SIDE;
            const uint16_t *left = c->across + d / TILE_SIDE * CELL_DEPTH * TILE;
            const uint16_t *right = weighed + column / TILE_SIDE * TILE;
            square_zero();
            square_add_pairs(left, 0, CELL_DEPTH * TILE, right, chunk_right_plane(width), width / TILE_SIDE * TILE,
                             c->rows / TILE_DEPTH, wide);
            square_store(square, SQUARE, wide);
            for (int64_t half = 0; half <= (int64_t)wide; half++) {
                const int64_t at = d * width + column + half * V_LANES;
                const float *from = s->rows + at, *sums = square + half * V_LANES;
                float *to = out->rows + at;
                const int64_t tile = chunk_right_row(d, column + half * V_LANES, width);
                uint16_t *operand = out->right != NULL ? out->right + tile : NULL;
                for (int64_t r = 0; r < SQUARE; r += 2) {
                    const vf a = v_fma(unscale, v_load(sums + r * SQUARE), v_mul(keep, v_load(from + r * width)));
                    const vf b =
                        v_fma(unscale, v_load(sums + (r + 1) * SQUARE), v_mul(keep, v_load(from + (r + 1) * width)));
                    v_store(to + r * width, a);
                    v_store(to + (r + 1) * width, b);
                    if (operand == NULL) continue;
                    pack_right(operand + r / 2 * TILE_DEPTH, chunk_state_plane(c, width), v_mul(scale, a),
                               v_mul(scale, b));
                }
            }
        }
}

#endif
