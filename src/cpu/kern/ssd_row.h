/* SPDX-License-Identifier: MIT */
/* What belongs to one row of SSD: step size, decay, output. Shared by the sequence form and the step. */
#ifndef SEQMIX_CPU_KERN_SSD_ROW_H
#define SEQMIX_CPU_KERN_SSD_ROW_H

#include "../vec/vec_math.h"
#include "batch.h"
#include "rows.h"

enum { SSD_DIM = 256 }; /* limit of P and N */

/* The step size and the decay of row t, head h. */
static inline float ssd_step_size(const seqmix_ssd_args *a, int64_t t, int64_t h, float *decay)
{
    float lanes[V_LANES], delta = seqmix_load_f32(&a->dt, t * a->dt.stride[0] + h * a->dt.stride[1]);
    if (seqmix_present(&a->dt_bias)) delta += seqmix_load_f32(&a->dt_bias, h * a->dt_bias.stride[0]);
    if (a->dt_softplus) {
        v_store(lanes, v_softplus(v_set1(delta)));
        delta = lanes[0];
    }
    if (a->dt_min > 0 && delta < a->dt_min) delta = a->dt_min;
    if (a->dt_max > 0 && delta > a->dt_max) delta = a->dt_max;
    const float g = delta * seqmix_load_f32(&a->A, h * a->A.stride[0]);
    v_store(lanes, v_exp_neg(v_min(v_zero(), v_set1(g))));
    *decay = lanes[0];
    return delta;
}

/* The step sizes and the logarithms of the decays of the rows [t, t+n). */
static inline void ssd_step_sizes(const seqmix_ssd_args *a, int64_t t, int64_t n, int64_t h, float *delta, float *logs)
{
    const vf bias = v_set1(seqmix_present(&a->dt_bias) ? seqmix_load_f32(&a->dt_bias, h * a->dt_bias.stride[0]) : 0);
    const vf rate = v_set1(seqmix_load_f32(&a->A, h * a->A.stride[0]));
    for (int64_t i = 0; i < n; i += V_LANES) {
        const int lanes = lanes_left(n, i);
        float raw[V_LANES] = {0};
        vector_load(&a->dt, (t + i) * a->dt.stride[0] + h * a->dt.stride[1], a->dt.stride[0], lanes, 0, raw);
        vf d = v_add(v_load(raw), bias);
        if (a->dt_softplus) d = v_softplus(d);
        if (a->dt_min > 0) d = v_max(v_set1(a->dt_min), d); /* NaN comes through */
        if (a->dt_max > 0) d = v_min(v_set1(a->dt_max), d);
        v_store_n(delta + i, d, lanes);
        v_store_n(logs + i, v_min(v_zero(), v_mul(d, rate)), lanes);
    }
}

/* skip[h, p..p+n). */
static inline vf ssd_skip_lanes(const seqmix_ssd_args *a, int64_t h, int64_t p, int n)
{
    if (a->skip.rank == 1) return v_set1(seqmix_load_f32(&a->skip, h * a->skip.stride[0]));
    float lanes[V_LANES] = {0};
    vector_load(&a->skip, h * a->skip.stride[0] + p * a->skip.stride[1], a->skip.stride[1], n, 0, lanes);
    return v_load(lanes);
}

/* Adds skip*x to S*C, applies the gate z and stores y[t,h,p..p+n). */
static inline void ssd_finish(const seqmix_ssd_args *a, int64_t t, int64_t h, int64_t p, vf x, vf y, int n)
{
    if (seqmix_present(&a->skip)) y = v_fma(ssd_skip_lanes(a, h, p, n), x, y);
    if (seqmix_present(&a->z)) y = v_mul(y, v_silu(row_lanes(&a->z, t * a->z.stride[0] + h * a->z.stride[1] + p, n)));
    row_put_lanes(&a->y, t * a->y.stride[0] + h * a->y.stride[1] + p, y, n);
}

#endif
