/* SPDX-License-Identifier: MIT */
/*
 * Weights without blocks in lanes along the inputs: a piece of inputs of some rows of weights times the same of some rows of x, a
 * vector of sums for each pair, from zero. Of what a level has in registers, a tile's sums take most.
 */
#ifndef SEQMIX_CPU_KERN_WEIGHT_DOTS_H
#define SEQMIX_CPU_KERN_WEIGHT_DOTS_H

#include "weight_lanes.h"

/* Tiles have 8 rows of weights by 1 of x, or 4 by 2 or 3. */
enum { DOT_ROWS = 3 };

LANES_INLINE vf plain_load(seqmix_dtype dtype, const uint8_t *row, int64_t i)
{
    if (dtype == SEQMIX_F32) return v_load((const float *)(const void *)row + i);
    const uint16_t *halves = (const uint16_t *)(const void *)row + i;
    return dtype == SEQMIX_F16 ? v_load_f16(halves) : v_load_bf16(halves);
}

/* Adds to total[weights][pitch]; n inputs are whole vectors, rows of x `stride` apart. Asks for what lies `ahead` bytes further,
 * line by line as it goes, since a core waits for few lines at a time; 0: nothing. */
LANES_INLINE void plain_dots(seqmix_dtype dtype, const uint8_t *const *row, int weights, int64_t n, int64_t ahead,
                             const float *x, int64_t stride, int rows, vf *total, int64_t pitch)
{
    const int64_t size = dtype == SEQMIX_F32 ? 4 : 2, line = 64 / size;
    vf sum[8][DOT_ROWS], value[DOT_ROWS];
    LANES_UNROLL for (int s = 0; s < weights; s++) LANES_UNROLL for (int r = 0; r < rows; r++) sum[s][r] = v_zero();
    for (int64_t i = 0; i < n; i += V_LANES) {
        if (ahead > 0 && i % line == 0)
            LANES_UNROLL for (int s = 0; s < weights; s++)
                v_prefetch((const void *)((uintptr_t)row[s] + (uintptr_t)(i * size + ahead)));
        LANES_UNROLL for (int r = 0; r < rows; r++) value[r] = v_load(x + r * stride + i);
        LANES_UNROLL for (int s = 0; s < weights; s++)
        {
            const vf weight = plain_load(dtype, row[s], i);
            LANES_UNROLL for (int r = 0; r < rows; r++) sum[s][r] = v_fma(weight, value[r], sum[s][r]);
        }
    }
    LANES_UNROLL for (int s = 0; s < weights; s++) LANES_UNROLL for (int r = 0; r < rows; r++) total[s * pitch + r] =
        v_add(total[s * pitch + r], sum[s][r]);
}

#endif
