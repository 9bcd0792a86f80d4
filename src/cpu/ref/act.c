/* SPDX-License-Identifier: MIT */
/* Activations between the products of a perceptron: silu(a)*b, relu(a)^2, silu(a), sigmoid(a)*b. Task: one row. y may be a
 * or b. */
#include "ref.h"

static real act(const seqmix_act_args *args, int64_t row, int64_t i)
{
    const int64_t at = args->a.shape[1] == 1 ? 0 : i;
    const real a = ref_get(&args->a, row * args->a.stride[0] + at);
    const real b = seqmix_present(&args->b) ? ref_get(&args->b, row * args->b.stride[0] + i) : 1;
    switch (args->kind) {
    case SEQMIX_ACT_ROWS_SILU_MUL:
        return ref_silu(a) * b;
    case SEQMIX_ACT_ROWS_RELU2:
        return a < 0 ? 0 : a * a;
    case SEQMIX_ACT_ROWS_SILU:
        return ref_silu(a);
    default:
        return ref_sigmoid(a) * b;
    }
}

static void act_task(void *arg, int64_t row, int32_t worker)
{
    const seqmix_act_args *args = arg;
    (void)worker;
    for (int64_t i = 0; i < args->y.shape[1]; i++)
        ref_put(&args->y, row * args->y.stride[0] + i, act(args, row, i));
}

seqmix_status REF(act_rows_plan)(const struct seqmix_context *ctx, const seqmix_act_args *args,
                                 struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    return ref_plan(plan, REF_RUNG "/act", 0);
}

seqmix_status REF(act_rows)(struct seqmix_context *ctx, const seqmix_act_args *args, void *workspace)
{
    seqmix_act_args copy = *args;
    (void)workspace;
    return seqmix_parallel_for(ctx, args->y.shape[0], act_task, &copy);
}
