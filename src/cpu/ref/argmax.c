/* SPDX-License-Identifier: MIT */
/* The first greatest element of every row; a NaN never wins. Task: one row. */
#include "ref.h"

static void argmax_task(void *arg, int64_t row, int32_t worker)
{
    const seqmix_argmax_args *a = arg;
    int64_t best = -1;
    real top = 0;
    (void)worker;
    for (int64_t i = 0; i < a->x.shape[1]; i++) {
        const real x = ref_get(&a->x, row * a->x.stride[0] + i);
        if (best < 0 ? x == x : x > top) {
            best = i;
            top = x;
        }
    }
    ref_put_int(&a->index, row * a->index.stride[0], (int32_t)best);
}

seqmix_status REF(argmax_plan)(const struct seqmix_context *ctx, const seqmix_argmax_args *args,
                               struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    return ref_plan(plan, REF_RUNG "/argmax", 0);
}

seqmix_status REF(argmax)(struct seqmix_context *ctx, const seqmix_argmax_args *args, void *workspace)
{
    seqmix_argmax_args copy = *args;
    (void)workspace;
    return seqmix_parallel_for(ctx, args->x.shape[0], argmax_task, &copy);
}
