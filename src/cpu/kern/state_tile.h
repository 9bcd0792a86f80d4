/* SPDX-License-Identifier: MIT */
/*
 * Tiles of a state between the pool and contiguous f32: n_rows x n_lanes elements, element (i, l) at tile[i*width + l]. The
 * pool's axis that lies on the lanes may have any stride.
 */
#ifndef SEQMIX_CPU_KERN_STATE_TILE_H
#define SEQMIX_CPU_KERN_STATE_TILE_H

#include "rows.h"

static inline void tile_load(const seqmix_tensor *pool, int64_t offset, int64_t row_stride, int64_t lane_stride,
                             int64_t n_rows, int64_t n_lanes, int64_t width, float *tile)
{
    for (int64_t i = 0; i < n_rows; i++) {
        float *row = tile + i * width;
        vector_load(pool, offset + i * row_stride, lane_stride, n_lanes, 0, row);
        for (int64_t l = n_lanes; l < width; l++)
            row[l] = 0;
    }
}

static inline void tile_store(const seqmix_tensor *pool, int64_t offset, int64_t row_stride, int64_t lane_stride,
                              int64_t n_rows, int64_t n_lanes, int64_t width, const float *tile)
{
    for (int64_t i = 0; i < n_rows; i++) {
        const float *row = tile + i * width;
        const int64_t at = offset + i * row_stride;
        if (lane_stride == 1)
            for (int64_t l = 0; l < n_lanes; l += V_LANES)
                row_put_lanes(pool, at + l, v_load(row + l), lanes_left(n_lanes, l));
        else
            for (int64_t l = 0; l < n_lanes; l++)
                seqmix_store_f32(pool, at + l * lane_stride, row[l]);
    }
}

#endif
