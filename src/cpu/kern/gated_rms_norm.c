/* SPDX-License-Identifier: MIT */
/*
 * Gated RMSNorm (equation: seqmix.h). Task: one row. The gate is evaluated in both passes where it comes first: cheaper than
 * asking for workspace. y may be x or z.
 */
#include "../vec/vec_math.h"
#include "isa.h"
#include "parallel.h"
#include "rows.h"

#include <math.h>

static vf gate_lanes(const seqmix_norm_args *a, int64_t offset, int n)
{
    const vf z = row_lanes(&a->z, offset, n);
    return a->gate_act == SEQMIX_NORM_GATE_SIGMOID ? v_sigmoid(z) : v_silu(z);
}

static vf weight_lanes(const seqmix_norm_args *a, int64_t i, int n)
{
    const int64_t stride = a->weight.stride[0], first = i % a->weight.shape[0];
    vf weight;
    if (stride == 1) {
        weight = row_lanes(&a->weight, first, n);
    } else {
        float lanes[V_LANES] = {0};
        vector_load(&a->weight, first * stride, stride, n, 0, lanes);
        weight = v_load(lanes);
    }
    return a->weight_plus_one ? v_add(v_set1(1), weight) : weight;
}

/* What the norm sees of row t at channels i.. */
static vf norm_input(const seqmix_norm_args *a, int64_t t, int64_t i, int n)
{
    const vf x = row_lanes(&a->x, t * a->x.stride[0] + i, n);
    const bool gate_first = seqmix_present(&a->z) && !a->norm_before_gate;
    return gate_first ? v_mul(x, gate_lanes(a, t * a->z.stride[0] + i, n)) : x;
}

static void norm_task(void *arg, int64_t t, int32_t worker)
{
    const seqmix_norm_args *a = arg;
    const int64_t channels = a->x.shape[1], group = a->group > 0 ? a->group : channels;
    (void)worker;
    for (int64_t first = 0; first < channels; first += group) {
        vf squares = v_zero();
        for (int64_t i = 0; i < group; i += V_LANES) {
            const vf u = norm_input(a, t, first + i, lanes_left(group, i));
            squares = v_fma(u, u, squares);
        }
        const vf factor = v_set1(1 / sqrtf(v_sum(squares) / (float)group + a->eps));
        for (int64_t i = 0; i < group; i += V_LANES) {
            const int n = lanes_left(group, i);
            vf y = v_mul(norm_input(a, t, first + i, n), factor);
            if (seqmix_present(&a->weight)) y = v_mul(y, weight_lanes(a, first + i, n));
            if (seqmix_present(&a->z) && a->norm_before_gate)
                y = v_mul(y, gate_lanes(a, t * a->z.stride[0] + first + i, n));
            row_put_lanes(&a->y, t * a->y.stride[0] + first + i, y, n);
        }
    }
}

seqmix_status KERN(gated_rms_norm_rows_plan)(const struct seqmix_context *ctx, const seqmix_norm_args *args,
                                             struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    plan->kernel = KERN_NAME("gated_rms_norm");
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(gated_rms_norm_rows)(struct seqmix_context *ctx, const seqmix_norm_args *args, void *workspace)
{
    seqmix_norm_args copy = *args;
    (void)workspace;
    return seqmix_parallel_for(ctx, args->x.shape[0], norm_task, &copy);
}
