/* SPDX-License-Identifier: MIT */
/*
 * Block-quantised weights, one block at a time: what the bytes mean. The fast kernels widen the same values in their own order
 * (cpu/kern/weight_lanes.h); this is the plain form that they are judged by.
 */
#ifndef SEQMIX_COMMON_BLOCKS_H
#define SEQMIX_COMMON_BLOCKS_H

#include "dtype.h"

/* What a 4-bit index of SEQMIX_IQ4_NL stands for. */
extern const int8_t seqmix_iq4_nl_values[16];

/* Scale and offset of sub-block i < 8 of a Q4_K or Q5_K block, out of its 12 bytes of 6-bit numbers. */
static inline void seqmix_k_scale(const uint8_t packed[12], int i, uint8_t *scale, uint8_t *offset)
{
    if (i < 4) {
        *scale = packed[i] & 63;
        *offset = packed[i + 4] & 63;
    } else {
        *scale = (uint8_t)((packed[i + 4] & 15) | packed[i - 4] >> 6 << 4);
        *offset = (uint8_t)(packed[i + 4] >> 4 | packed[i] >> 6 << 4);
    }
}

/* The f32 values of one block of a block-quantised dtype: seqmix_dtype_block(dtype) of them. */
void seqmix_widen_block(seqmix_dtype dtype, const void *block, float *out);

/* n elements, a multiple of the block, from the one at `offset` on, of any dtype with elements of at most 4 bytes. */
void seqmix_widen_run(seqmix_dtype dtype, const void *data, int64_t offset, int64_t n, float *out);

#endif
