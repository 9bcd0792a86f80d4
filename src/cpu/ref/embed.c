/* SPDX-License-Identifier: MIT */
/* y[r] = table[tokens[r]], converted. Task: one row. */
#include "blocks.h"
#include "ref.h"

static void embed_task(void *arg, int64_t row, int32_t worker)
{
    const seqmix_embed_args *a = arg;
    const int64_t from = a->tokens[row] * a->table.stride[0], to = row * a->y.stride[0], channels = a->y.shape[1];
    float wide[SEQMIX_MAX_BLOCK];
    (void)worker;
    for (int64_t i = 0; i < channels; i += SEQMIX_MAX_BLOCK) {
        const int64_t n = channels - i < SEQMIX_MAX_BLOCK ? channels - i : SEQMIX_MAX_BLOCK;
        seqmix_widen_run(a->table.dtype, a->table.data, from + i, n, wide);
        for (int64_t j = 0; j < n; j++)
            ref_put(&a->y, to + i + j, (real)wide[j]);
    }
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
