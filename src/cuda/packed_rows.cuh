/* SPDX-License-Identifier: MIT */
/* Host: how the row tensors of a mixer lie in the rows that a convolution writes, for a step of both in one launch. */
#ifndef SEQMIX_CUDA_PACKED_ROWS_CUH
#define SEQMIX_CUDA_PACKED_ROWS_CUH

#include "kernels.h"

/* Channel of the convolution at which the heads of `t` begin, packed; -1: they don't. */
static inline int64_t packed_channel(const seqmix_tensor &y, const seqmix_tensor &t)
{
    const int64_t bytes = y.dtype == SEQMIX_F32 ? 4 : 2;
    const int64_t offset = (int64_t)(reinterpret_cast<uintptr_t>(t.data) - reinterpret_cast<uintptr_t>(y.data));
    const bool packed = t.dtype == y.dtype && (t.shape[1] == 1 || t.stride[1] == t.shape[2]) &&
                        (t.shape[0] <= 1 || t.stride[0] == y.stride[0]) && t.shape[0] == y.shape[0];
    if (!packed || offset < 0 || offset % bytes != 0) return -1;
    return offset / bytes + t.shape[1] * t.shape[2] <= y.shape[1] ? offset / bytes : -1;
}

static inline bool ranges_apart(int64_t a, int64_t n, int64_t b, int64_t m)
{
    return a + n <= b || b + m <= a;
}

/* Whether no byte from the first of a row tensor to its last is the other's. */
static inline bool rows_apart(const seqmix_tensor &a, const seqmix_tensor &b)
{
    const int64_t bytes = a.dtype == SEQMIX_F32 ? 4 : 2;
    int64_t last[2] = {1, 1};
    for (int axis = 0; axis < a.rank; axis++)
        last[0] += (a.shape[axis] - 1) * a.stride[axis];
    for (int axis = 0; axis < b.rank; axis++)
        last[1] += (b.shape[axis] - 1) * b.stride[axis];
    return ranges_apart((int64_t) reinterpret_cast<uintptr_t>(a.data), last[0] * bytes,
                        (int64_t) reinterpret_cast<uintptr_t>(b.data), last[1] * bytes);
}

#endif
