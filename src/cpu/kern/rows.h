/* SPDX-License-Identifier: MIT */
/* Runs of contiguous elements of any dtype to and from f32 lanes. */
#ifndef SEQMIX_CPU_KERN_ROWS_H
#define SEQMIX_CPU_KERN_ROWS_H

#include "../vec/vec.h"
#include "tensor.h"

/* The first n <= V_LANES elements at `offset`. */
static inline vf row_lanes(const seqmix_tensor *t, int64_t offset, int n)
{
    if (t->dtype == SEQMIX_F32) {
        const float *p = (const float *)t->data + offset;
        return n == V_LANES ? v_load(p) : v_load_n(p, n);
    }
    const uint16_t *p = (const uint16_t *)t->data + offset;
    if (t->dtype == SEQMIX_BF16) return n == V_LANES ? v_load_bf16(p) : v_load_bf16_n(p, n);
    return n == V_LANES ? v_load_f16(p) : v_load_f16_n(p, n);
}

static inline void row_put_lanes(const seqmix_tensor *t, int64_t offset, vf value, int n)
{
    if (t->dtype == SEQMIX_F32) {
        float *p = (float *)t->data + offset;
        if (n == V_LANES)
            v_store(p, value);
        else
            v_store_n(p, value, n);
        return;
    }
    uint16_t *p = (uint16_t *)t->data + offset;
    if (t->dtype == SEQMIX_BF16 && n == V_LANES)
        v_store_bf16(p, value);
    else if (t->dtype == SEQMIX_BF16)
        v_store_bf16_n(p, value, n);
    else if (n == V_LANES)
        v_store_f16(p, value);
    else
        v_store_f16_n(p, value, n);
}

/* Asks for n elements at `offset` ahead of their use: rows lie so far apart that the hardware does not see them coming. */
static inline void row_prefetch(const seqmix_tensor *t, int64_t offset, int64_t n)
{
    const int64_t size = (int64_t)seqmix_dtype_size(t->dtype), line = 64;
    if (n == 0) return;
    const char *first = (const char *)t->data + offset * size;
    for (int64_t at = 0; at < n * size; at += line)
        v_prefetch(first + at);
    v_prefetch(first + n * size - 1);
}

/* How many of the lanes from i on lie below n. */
static inline int lanes_left(int64_t n, int64_t i)
{
    return n - i < V_LANES ? (int)(n - i) : V_LANES;
}

/* n elements at `offset` as f32. */
static inline void row_load(const seqmix_tensor *t, int64_t offset, int64_t n, float *out)
{
    int64_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES)
        v_store(out + i, row_lanes(t, offset + i, V_LANES));
    if (i < n) v_store_n(out + i, row_lanes(t, offset + i, (int)(n - i)), (int)(n - i));
}

/* The other way. */
static inline void row_store(const seqmix_tensor *t, int64_t offset, int64_t n, const float *in)
{
    int64_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES)
        row_put_lanes(t, offset + i, v_load(in + i), V_LANES);
    if (i < n) row_put_lanes(t, offset + i, v_load_n(in + i, (int)(n - i)), (int)(n - i));
}

/* n elements at `offset` as f32, in place where the elements are f32 already. */
static inline const float *row_f32(const seqmix_tensor *t, int64_t offset, int64_t n, float *scratch)
{
    if (t->dtype == SEQMIX_F32 && n > 0) return (const float *)t->data + offset;
    row_load(t, offset, n, scratch);
    return scratch;
}

/* n elements `stride` apart as f32; an absent tensor gives `absent`. */
static inline void vector_load(const seqmix_tensor *t, int64_t offset, int64_t stride, int64_t n, float absent,
                               float *out)
{
    if (seqmix_present(t) && stride == 1) {
        row_load(t, offset, n, out);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = seqmix_present(t) ? seqmix_load_f32(t, offset + i * stride) : absent;
}

/* The other way; lanes of `in` past n are not looked at. */
static inline void vector_store(const seqmix_tensor *t, int64_t offset, int64_t stride, int64_t n, const float *in)
{
    if (stride == 1) {
        row_store(t, offset, n, in);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        seqmix_store_f32(t, offset + i * stride, in[i]);
}

/* Sum of x[i]*y[i], in one order whatever else the call holds. */
static inline float row_dot(const float *x, const float *y, int64_t n)
{
    vf sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    int64_t i = 0;
    for (; i + 4 * V_LANES <= n; i += 4 * V_LANES)
        for (int part = 0; part < 4; part++)
            sum[part] = v_fma(v_load(x + i + part * V_LANES), v_load(y + i + part * V_LANES), sum[part]);
    for (; i < n; i += V_LANES) {
        const int lanes = lanes_left(n, i);
        sum[0] = v_fma(v_load_n(x + i, lanes), v_load_n(y + i, lanes), sum[0]);
    }
    return v_sum(v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
}

#endif
