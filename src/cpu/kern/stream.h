/* SPDX-License-Identifier: MIT */
/* Outputs too large for the caches go past them: the lines are not read before they are written, and evict nothing. */
#ifndef SEQMIX_CPU_KERN_STREAM_H
#define SEQMIX_CPU_KERN_STREAM_H

#include "rows.h"
#include "tune.h"

/* Whether to: y, a matrix of rows, is large, all its full vectors are aligned, and it is no input at the same time. */
static inline bool streams(const seqmix_tensor *y, const seqmix_tensor *x)
{
    return y->dtype == SEQMIX_F32 && y->data != x->data && y->stride[0] % V_LANES == 0 &&
           (uintptr_t)y->data % (V_LANES * sizeof(float)) == 0 &&
           seqmix_tensor_count(y) >= TUNE_STREAM_BYTES / (int64_t)sizeof(float);
}

/* row_put_lanes, past the caches if the tensor streams; v_stream_end follows. */
static inline void row_put_stream(const seqmix_tensor *y, int64_t offset, vf value, int n, bool stream)
{
    if (stream && n == V_LANES)
        v_stream((float *)y->data + offset, value);
    else
        row_put_lanes(y, offset, value, n);
}

/* The same for n elements of a row. */
static inline void row_stream(const seqmix_tensor *y, int64_t offset, int64_t n, const float *in)
{
    for (int64_t i = 0; i < n; i += V_LANES) {
        const int lanes = lanes_left(n, i);
        row_put_stream(y, offset + i, v_load_n(in + i, lanes), lanes, true);
    }
}

#endif
