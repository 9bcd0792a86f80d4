/* SPDX-License-Identifier: MIT */
/*
 * Gated RMSNorm (equation: seqmix.h). Task: one row. A group's input to the norm is kept in the worker's part of the workspace
 * between the two passes, so the gate is evaluated once; y may be x or z.
 */
#include "../vec/vec_math.h"
#include "isa.h"
#include "parallel.h"
#include "rows.h"
#include "workspace.h"

#include <math.h>

struct norm {
    const seqmix_norm_args *args;
    float *scratch; /* [worker][group] */
    int64_t group;
};

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

static void norm_task(void *arg, int64_t t, int32_t worker)
{
    const struct norm *norm = arg;
    const seqmix_norm_args *a = norm->args;
    const bool gated = seqmix_present(&a->z), gate_first = gated && !a->norm_before_gate;
    float *input = norm->scratch + worker * norm->group;
    for (int64_t first = 0; first < a->x.shape[1]; first += norm->group) {
        vf squares = v_zero();
        for (int64_t i = 0; i < norm->group; i += V_LANES) {
            const int n = lanes_left(norm->group, i);
            vf u = row_lanes(&a->x, t * a->x.stride[0] + first + i, n);
            if (gate_first) u = v_mul(u, gate_lanes(a, t * a->z.stride[0] + first + i, n));
            v_store_n(input + i, u, n);
            squares = v_fma(u, u, squares);
        }
        const vf factor = v_set1(1 / sqrtf(v_sum(squares) / (float)norm->group + a->eps));
        for (int64_t i = 0; i < norm->group; i += V_LANES) {
            const int n = lanes_left(norm->group, i);
            vf y = v_mul(v_load_n(input + i, n), factor);
            if (seqmix_present(&a->weight)) y = v_mul(y, weight_lanes(a, first + i, n));
            if (gated && !gate_first) y = v_mul(y, gate_lanes(a, t * a->z.stride[0] + first + i, n));
            row_put_lanes(&a->y, t * a->y.stride[0] + first + i, y, n);
        }
    }
}

static float *layout(const struct seqmix_context *ctx, int64_t group, struct seqmix_cursor *cursor)
{
    return seqmix_take(cursor, (size_t)ctx->n_workers * (size_t)group * sizeof(float));
}

static int64_t group_size(const seqmix_norm_args *args)
{
    return args->group > 0 ? args->group : args->x.shape[1];
}

seqmix_status KERN(gated_rms_norm_rows_plan)(const struct seqmix_context *ctx, const seqmix_norm_args *args,
                                             struct seqmix_plan *plan)
{
    struct seqmix_cursor cursor = {NULL, 0};
    (void)layout(ctx, group_size(args), &cursor);
    plan->kernel = KERN_NAME("gated_rms_norm");
    plan->workspace = cursor.used;
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(gated_rms_norm_rows)(struct seqmix_context *ctx, const seqmix_norm_args *args, void *workspace)
{
    struct seqmix_cursor cursor = {workspace, 0};
    const int64_t group = group_size(args);
    struct norm norm = {args, layout(ctx, group, &cursor), group};
    if (group == 0) return SEQMIX_OK;
    return seqmix_parallel_for(ctx, args->x.shape[0], norm_task, &norm);
}
