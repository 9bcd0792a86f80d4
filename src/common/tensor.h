/* SPDX-License-Identifier: MIT */
/* Reading and writing single elements of a seqmix_tensor. Offsets are in elements and 64-bit. */
#ifndef SEQMIX_COMMON_TENSOR_H
#define SEQMIX_COMMON_TENSOR_H

#include <stdbool.h>

#include "dtype.h"

static inline bool seqmix_present(const seqmix_tensor *t)
{
    return t->rank != 0;
}

/* Number of elements; 0 when any axis is 0. */
static inline int64_t seqmix_tensor_count(const seqmix_tensor *t)
{
    int64_t count = 1;
    for (int axis = 0; axis < t->rank; axis++)
        count *= t->shape[axis];
    return count;
}

static inline float seqmix_load_f32(const seqmix_tensor *t, int64_t offset)
{
    switch (t->dtype) {
    case SEQMIX_BF16:
        return seqmix_bf16_to_f32(((const uint16_t *)t->data)[offset]);
    case SEQMIX_F16:
        return seqmix_f16_to_f32(((const uint16_t *)t->data)[offset]);
    default:
        return ((const float *)t->data)[offset];
    }
}

static inline void seqmix_store_f32(const seqmix_tensor *t, int64_t offset, float value)
{
    switch (t->dtype) {
    case SEQMIX_BF16:
        ((uint16_t *)t->data)[offset] = seqmix_f32_to_bf16(value);
        break;
    case SEQMIX_F16:
        ((uint16_t *)t->data)[offset] = seqmix_f32_to_f16(value);
        break;
    default:
        ((float *)t->data)[offset] = value;
        break;
    }
}

/* Matrix i of a tensor of rank 3, such as an expert's weights. */
static inline seqmix_tensor seqmix_matrix(const seqmix_tensor *t, int64_t i)
{
    seqmix_tensor matrix = {.data = t->data, .dtype = t->dtype, .rank = 2};
    for (int axis = 0; axis < 2; axis++) {
        matrix.shape[axis] = t->shape[axis + 1];
        matrix.stride[axis] = t->stride[axis + 1];
    }
    if (t->data != NULL) matrix.data = (char *)t->data + seqmix_dtype_bytes(t->dtype, i * t->stride[0]);
    return matrix;
}

#endif
