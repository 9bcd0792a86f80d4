/* SPDX-License-Identifier: MIT */
/* Every op of ops.def as a value: its wrapper, its slots in a dispatch table, its generator. Nothing here names an op. */
#include "batch.h"
#include "harness.h"

/* An op whose family has no entry here is reported as an op without generator. */
static const struct family *const families[] = {
    &check_conv,  &check_scan, &check_ssd,       &check_deltanet, &check_inverse, &check_norm, &check_linear,
    &check_embed, &check_rope, &check_attention, &check_route,    &check_act,     &check_moe,  &check_argmax};

/* The wrappers take typed args; tables are called with the batch normalised, as the front desk does. */
#define SEQMIX_OP(ID, op, family, is_step)                                                                             \
    static seqmix_status call_##op(seqmix_ctx *ctx, const union check_args *args, void *workspace, size_t bytes)       \
    {                                                                                                                  \
        return seqmix_##op(ctx, &args->op, workspace, bytes);                                                          \
    }                                                                                                                  \
    static seqmix_status workspace_##op(seqmix_ctx *ctx, const union check_args *args, size_t *bytes)                  \
    {                                                                                                                  \
        return seqmix_##op##_workspace(ctx, &args->op, bytes);                                                         \
    }                                                                                                                  \
    static seqmix_status plan_##op(const struct seqmix_kernels *table, struct seqmix_context *ctx,                     \
                                   union check_args *args, struct seqmix_plan *plan)                                   \
    {                                                                                                                  \
        return table->op##_plan(ctx, &args->op, plan);                                                                 \
    }                                                                                                                  \
    static seqmix_status run_##op(const struct seqmix_kernels *table, struct seqmix_context *ctx,                      \
                                  union check_args *args, void *workspace)                                             \
    {                                                                                                                  \
        return table->op(ctx, &args->op, workspace);                                                                   \
    }                                                                                                                  \
    static bool same_##op(const struct seqmix_kernels *a, const struct seqmix_kernels *b)                              \
    {                                                                                                                  \
        return a->op == b->op;                                                                                         \
    }
#include "ops.def"

struct check_op check_ops[] = {
#define SEQMIX_OP(ID, op, family, is_step)                                                                             \
    {SEQMIX_OP_##ID, #op,       #family,  NULL,     (is_step) != 0, sizeof(seqmix_##family##_args), call_##op,         \
     workspace_##op, plan_##op, run_##op, same_##op},
#include "ops.def"
};

const int check_n_ops = (int)(sizeof check_ops / sizeof check_ops[0]);

void check_ops_init(void)
{
    for (int i = 0; i < check_n_ops; i++)
        for (size_t f = 0; f < sizeof families / sizeof families[0]; f++)
            if (strcmp(check_ops[i].family_name, families[f]->name) == 0) check_ops[i].family = families[f];
}

const struct check_op *check_find_op(const char *name)
{
    for (int i = 0; i < check_n_ops; i++)
        if (strcmp(check_ops[i].name, name) == 0) return &check_ops[i];
    return NULL;
}

const struct check_op *check_sibling(const struct check_op *op)
{
    for (int i = 0; i < check_n_ops; i++)
        if (check_ops[i].family == op->family && check_ops[i].step != op->step) return &check_ops[i];
    return NULL;
}
