/* SPDX-License-Identifier: MIT */
/* What SSD's kernels of rung cuda-sm80 share. */
#ifndef SEQMIX_CUDA_SSD_CUH
#define SEQMIX_CUDA_SSD_CUH

#include "rows.cuh"

/* delta of head h from its raw dt. */
DV_DEV float ssd_step_size(const seqmix_ssd_args &a, float dt, int64_t h)
{
    float delta = dt + get_or(a.dt_bias, h * a.dt_bias.stride[0], 0);
    if (a.dt_softplus != 0) delta = softplus(delta);
    if (a.dt_min > 0 && delta < a.dt_min) delta = a.dt_min;
    if (a.dt_max > 0 && delta > a.dt_max) delta = a.dt_max;
    return delta;
}

/* A positive log decay counts as 0, NaN stays, and below -1e4 all is 0 (NUMERICS.md rule 1). */
DV_DEV float bounded_log_decay(float log_decay)
{
    const float g = !(log_decay > 0) ? log_decay : 0;
    return g < -1e4f ? -1e4f : g;
}

#endif
