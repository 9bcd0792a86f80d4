/* SPDX-License-Identifier: MIT */
/* Tensors of the public header over plain memory, dense and as column slices. */
#ifndef SEQMIX_MODEL_VIEW_H
#define SEQMIX_MODEL_VIEW_H

#define SEQMIX_EXPERIMENTAL
#include <seqmix/seqmix.h>

static inline seqmix_tensor seqmix_view1(float *data, int64_t n)
{
    return (seqmix_tensor){.data = data, .dtype = SEQMIX_F32, .rank = 1, .shape = {n}, .stride = {1}};
}

/* Columns [from, from + n) of the rows of a [rows, width] buffer. */
static inline seqmix_tensor seqmix_view2(float *data, int64_t rows, int64_t width, int64_t from, int64_t n)
{
    return (seqmix_tensor){.data = data != NULL ? data + from : NULL,
                           .dtype = SEQMIX_F32,
                           .rank = 2,
                           .shape = {rows, n},
                           .stride = {width, 1}};
}

/* The same columns as [rows, groups, n / groups]. */
static inline seqmix_tensor seqmix_view3(float *data, int64_t rows, int64_t width, int64_t from, int64_t groups,
                                         int64_t n)
{
    seqmix_tensor t = seqmix_view2(data, rows, width, from, n);
    t.rank = 3;
    t.shape[1] = groups;
    t.shape[2] = n / groups;
    t.stride[1] = n / groups;
    t.stride[2] = 1;
    return t;
}

#endif
