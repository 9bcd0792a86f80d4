/* SPDX-License-Identifier: MIT */
/*
 * Tiles of a state between the pool and contiguous f32: n_rows x n_lanes elements, element (i, l) at tile[i*width + l]. The
 * pool's axis that lies on the lanes may have any stride.
 */
#ifndef SEQMIX_CPU_KERN_STATE_TILE_H
#define SEQMIX_CPU_KERN_STATE_TILE_H

#include "rows.h"

/* Whether the pool is f32 with the tile's rows contiguous along the other axis, so that squares can be turned around. */
static inline bool tile_turns(const seqmix_tensor *pool, int64_t row_stride, int64_t lane_stride)
{
    return pool->data != NULL && pool->dtype == SEQMIX_F32 && row_stride == 1 && lane_stride != 1;
}

/* Whether the pool is f32 with the tile's lanes side by side: what most callers have. */
static inline bool tile_lies_whole(const seqmix_tensor *pool, int64_t lane_stride, int64_t n_lanes, int64_t width)
{
    return pool->data != NULL && pool->dtype == SEQMIX_F32 && lane_stride == 1 && n_lanes == width &&
           width % V_LANES == 0;
}

static inline void tile_load(const seqmix_tensor *pool, int64_t offset, int64_t row_stride, int64_t lane_stride,
                             int64_t n_rows, int64_t n_lanes, int64_t width, float *tile)
{
    int64_t done = 0;
    if (tile_turns(pool, row_stride, lane_stride) && n_lanes % V_LANES == 0) {
        const float *from = (const float *)pool->data + offset;
        done = n_rows / V_LANES * V_LANES;
        for (int64_t l = 0; l < n_lanes; l += V_LANES)
            for (int64_t i = 0; i < done; i += V_LANES)
                v_transpose(from + l * lane_stride + i, lane_stride, tile + i * width + l, width);
        for (int64_t i = 0; i < done; i++)
            for (int64_t l = n_lanes; l < width; l++)
                tile[i * width + l] = 0;
    }
    if (tile_lies_whole(pool, lane_stride, n_lanes, width))
        for (; done < n_rows; done++)
            for (int64_t l = 0; l < width; l += V_LANES)
                v_store(tile + done * width + l, v_load((const float *)pool->data + offset + done * row_stride + l));
    for (int64_t i = done; i < n_rows; i++) {
        float *row = tile + i * width;
        vector_load(pool, offset + i * row_stride, lane_stride, n_lanes, 0, row);
        for (int64_t l = n_lanes; l < width; l++)
            row[l] = 0;
    }
}

static inline void tile_store(const seqmix_tensor *pool, int64_t offset, int64_t row_stride, int64_t lane_stride,
                              int64_t n_rows, int64_t n_lanes, int64_t width, const float *tile)
{
    int64_t done = 0;
    if (tile_turns(pool, row_stride, lane_stride) && n_lanes % V_LANES == 0) {
        float *to = (float *)pool->data + offset;
        done = n_rows / V_LANES * V_LANES;
        for (int64_t l = 0; l < n_lanes; l += V_LANES)
            for (int64_t i = 0; i < done; i += V_LANES)
                v_transpose(tile + i * width + l, width, to + l * lane_stride + i, lane_stride);
    }
    if (tile_lies_whole(pool, lane_stride, n_lanes, width))
        for (; done < n_rows; done++)
            for (int64_t l = 0; l < width; l += V_LANES)
                v_store((float *)pool->data + offset + done * row_stride + l, v_load(tile + done * width + l));
    for (int64_t i = done; i < n_rows; i++) {
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
