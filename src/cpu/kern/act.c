/* SPDX-License-Identifier: MIT */
/* Activations (equations: seqmix.h). Task: one row. y may be a or b. */
#include "../vec/vec_math.h"
#include "isa.h"
#include "parallel.h"
#include "rows.h"

static vf activate(int32_t kind, vf a)
{
    if (kind == SEQMIX_ACT_ROWS_SIGMOID_MUL) return v_sigmoid(a);
    if (kind != SEQMIX_ACT_ROWS_RELU2) return v_silu(a);
    const vf positive = v_max(v_zero(), a); /* a NaN stays */
    return v_mul(positive, positive);
}

static void act_task(void *arg, int64_t row, int32_t worker)
{
    const seqmix_act_args *args = arg;
    const int64_t channels = args->y.shape[1], at_a = row * args->a.stride[0];
    const bool binary = seqmix_present(&args->b), one = args->a.shape[1] == 1;
    (void)worker;
    if (channels == 0) return;
    const vf factor = one ? activate(args->kind, v_set1(seqmix_load_f32(&args->a, at_a))) : v_zero();
    for (int64_t i = 0; i < channels; i += V_LANES) {
        const int n = lanes_left(channels, i);
        vf y = one ? factor : activate(args->kind, row_lanes(&args->a, at_a + i, n));
        if (binary) y = v_mul(y, row_lanes(&args->b, row * args->b.stride[0] + i, n));
        row_put_lanes(&args->y, row * args->y.stride[0] + i, y, n);
    }
}

seqmix_status KERN(act_rows_plan)(const struct seqmix_context *ctx, const seqmix_act_args *args,
                                  struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    plan->kernel = KERN_NAME("act");
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(act_rows)(struct seqmix_context *ctx, const seqmix_act_args *args, void *workspace)
{
    seqmix_act_args copy = *args;
    (void)workspace;
    return seqmix_parallel_for(ctx, args->y.shape[0], act_task, &copy);
}
