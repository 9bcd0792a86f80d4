/* SPDX-License-Identifier: MIT */
/* The parts of SSD that belong to one row: shared by the recurrence and the plain chunk form. */
#ifndef SEQMIX_CPU_REF_SSD_ROW_H
#define SEQMIX_CPU_REF_SSD_ROW_H

#include "ref.h"

/* d of row t, head h. */
static inline real ref_step_size(const seqmix_ssd_args *a, int64_t t, int64_t h)
{
    const real bias = ref_get_or(&a->dt_bias, h * a->dt_bias.stride[0], 0);
    real delta = ref_get(&a->dt, t * a->dt.stride[0] + h * a->dt.stride[1]) + bias;
    if (a->dt_softplus) delta = ref_softplus(delta);
    if (a->dt_min > 0 && delta < (real)a->dt_min) delta = (real)a->dt_min;
    if (a->dt_max > 0 && delta > (real)a->dt_max) delta = (real)a->dt_max;
    return delta;
}

/* Adds skip*x to S*C, applies the gate z and stores y[t,h,p]. */
static inline void ref_ssd_finish(const seqmix_ssd_args *a, int64_t t, int64_t h, int64_t p, real x, real y)
{
    if (seqmix_present(&a->skip))
        y += ref_get(&a->skip, h * a->skip.stride[0] + (a->skip.rank == 2 ? p * a->skip.stride[1] : 0)) * x;
    if (seqmix_present(&a->z)) y *= ref_silu(ref_get(&a->z, t * a->z.stride[0] + h * a->z.stride[1] + p));
    ref_put(&a->y, t * a->y.stride[0] + h * a->y.stride[1] + p, y);
}

#endif
