/* SPDX-License-Identifier: MIT */
/* y[r] = table[tokens[r]], converted. Task: one row. */
#include "ref.h"

static void embed_task(void *arg, int64_t row, int32_t worker)
{
    const seqmix_embed_args *a = arg;
    const int64_t from = a->tokens[row] * a->table.stride[0], to = row * a->y.stride[0];
    (void)worker;
    for (int64_t i = 0; i < a->y.shape[1]; i++)
        ref_put(&a->y, to + i, ref_get(&a->table, from + i));
}

seqmix_status REF(embed_rows_plan)(const struct seqmix_context *ctx, const seqmix_embed_args *args,
                                   struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    return ref_plan(plan, REF_RUNG "/embed", 0);
}

seqmix_status REF(embed_rows)(struct seqmix_context *ctx, const seqmix_embed_args *args, void *workspace)
{
    seqmix_embed_args copy = *args;
    (void)workspace;
    return seqmix_parallel_for(ctx, args->n_tokens, embed_task, &copy);
}
