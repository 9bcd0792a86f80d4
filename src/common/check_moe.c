/* SPDX-License-Identifier: MIT */
/* Rules of moe_route and moe_experts (experimental). R rows, E experts of which K are chosen, D inputs, F inner, O outputs. */
#include <float.h>

#include "check_internal.h"

enum { LIMIT_EXPERTS = 1024, LIMIT_GROUPS = 64 };

static seqmix_status check_route_options(struct seqmix_context *ctx, const seqmix_route_args *args)
{
    SEQMIX_TRY(seqmix_check_enum(ctx, "kind", args->kind, SEQMIX_ROUTE_SIGMOID));
    SEQMIX_TRY(seqmix_check_enum(ctx, "renormalise", args->renormalise, 1));
    if (!(args->scale >= 0 && args->scale <= FLT_MAX))
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "scale=%g, must be 0 or more, and finite", (double)args->scale);
    if (args->kind != SEQMIX_ROUTE_SIGMOID && seqmix_present(&args->bias))
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "bias is given, kind=%" PRId32 " does not use it", args->kind);
    return SEQMIX_OK;
}

static seqmix_status check_groups(struct seqmix_context *ctx, const seqmix_route_args *args, int64_t experts,
                                  int64_t top_k)
{
    const int64_t n_group = args->n_group != 0 ? args->n_group : 1;
    const int64_t chosen = args->topk_group != 0 ? args->topk_group : n_group;
    if (n_group < 1 || experts % n_group != 0)
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "n_group=%" PRId64 " does not divide E=%" PRId64, n_group,
                           experts);
    if (n_group > LIMIT_GROUPS)
        return seqmix_fail(ctx, SEQMIX_ERR_UNSUPPORTED, "n_group=%" PRId64 " exceeds the limit %d", n_group,
                           LIMIT_GROUPS);
    if (chosen < 1 || chosen > n_group)
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "topk_group=%" PRId64 " is not in 1..%" PRId64, chosen,
                           n_group);
    if (top_k > chosen * (experts / n_group))
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG,
                           "ids.shape[1]=%" PRId64 " exceeds the %" PRId64 " experts that may be chosen", top_k,
                           chosen * (experts / n_group));
    return SEQMIX_OK;
}

seqmix_status seqmix_check_route(struct seqmix_context *ctx, const seqmix_route_args *args, unsigned how)
{
    enum { R, E, K, N_DIMS };
    const unsigned written = SEQMIX_ROWS | SEQMIX_WRITTEN;
    struct seqmix_dim dims[N_DIMS] = {{"R", 0, false}, {"E", 0, false}, {"K", 0, false}};
    const struct seqmix_field fields[] = {
        {"logits", &args->logits, SEQMIX_ROWS, SEQMIX_IS_F32, 2, 2, {R, E}, 0},
        {"bias", &args->bias, SEQMIX_OPTIONAL, SEQMIX_IS_F32, 1, 1, {E}, 0},
        {"ids", &args->ids, written, SEQMIX_IS_I32, 2, 2, {R, K}, 0},
        {"weights", &args->weights, written, SEQMIX_IS_F32, 2, 2, {R, K}, 0},
    };
    struct seqmix_form form = SEQMIX_FORM(fields, dims);

    SEQMIX_TRY(check_route_options(ctx, args));
    SEQMIX_TRY(seqmix_check_form(ctx, &form));
    SEQMIX_TRY(check_groups(ctx, args, dims[E].size, dims[K].size));
    SEQMIX_TRY(seqmix_check_rows(ctx, dims[R].size));
    SEQMIX_TRY(seqmix_check_limit(ctx, &dims[E], LIMIT_EXPERTS));
    return seqmix_check_memory(ctx, &form, how);
}

/* Expert ids of a host context; a device context's are clamped by its kernel. */
static seqmix_status check_ids(struct seqmix_context *ctx, const seqmix_tensor *ids, int64_t experts)
{
    if (ctx->backend != SEQMIX_BACKEND_CPU || ids->shape[1] == 0) return SEQMIX_OK;
    for (int64_t r = 0; r < ids->shape[0]; r++) {
        const int32_t *row = (const int32_t *)ids->data + r * ids->stride[0];
        for (int64_t k = 0; k < ids->shape[1]; k++) {
            if (row[k] < 0 || row[k] >= experts)
                return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG,
                                   "ids[%" PRId64 "][%" PRId64 "]=%" PRId32 " is not in [0, %" PRId64 ")", r, k, row[k],
                                   experts);
            for (int64_t earlier = 0; earlier < k; earlier++)
                if (row[earlier] == row[k])
                    return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG,
                                       "ids[%" PRId64 "] holds %" PRId32 " twice, at %" PRId64 " and %" PRId64, r,
                                       row[k], earlier, k);
        }
    }
    return SEQMIX_OK;
}

seqmix_status seqmix_check_moe(struct seqmix_context *ctx, const seqmix_moe_args *args, unsigned how)
{
    enum { R, D, K, E, F, O, N_DIMS };
    const unsigned rows = SEQMIX_ROWS;
    const bool gated = args->activation == SEQMIX_ACT_ROWS_SILU_MUL;
    struct seqmix_dim dims[N_DIMS] = {{"R", 0, false}, {"D", 0, false}, {"K", 0, false},
                                      {"E", 0, false}, {"F", 0, false}, {"O", 0, false}};
    const struct seqmix_field fields[] = {
        {"x", &args->x, rows, SEQMIX_IS_X, 2, 2, {R, D}, 0},
        {"ids", &args->ids, rows, SEQMIX_IS_I32, 2, 2, {R, K}, 0},
        {"weights", &args->weights, rows, SEQMIX_IS_F32, 2, 2, {R, K}, 0},
        {"gate", &args->gate, rows | SEQMIX_OPTIONAL, SEQMIX_IS_WEIGHT, 3, 3, {E, F, D}, 0},
        {"up", &args->up, rows, SEQMIX_IS_WEIGHT, 3, 3, {E, F, D}, 0},
        {"down", &args->down, rows, SEQMIX_IS_WEIGHT, 3, 3, {E, O, F}, 0},
        {"y", &args->y, rows | SEQMIX_WRITTEN, SEQMIX_IS_X_OR_F32, 2, 2, {R, O}, 0},
    };
    struct seqmix_form form = SEQMIX_FORM(fields, dims);

    SEQMIX_TRY(seqmix_check_enum(ctx, "activation", args->activation, SEQMIX_ACT_ROWS_SILU));
    SEQMIX_TRY(seqmix_check_enum(ctx, "accumulate", args->accumulate, 1));
    SEQMIX_TRY(seqmix_check_enum(ctx, "invariant", args->invariant, 1));
    if (gated != seqmix_present(&args->gate))
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "gate is %s, activation=%" PRId32 " %s",
                           gated ? "missing (its rank is 0)" : "given", args->activation,
                           gated ? "needs it" : "does not use it");
    SEQMIX_TRY(seqmix_check_form(ctx, &form));
    SEQMIX_TRY(seqmix_check_rows(ctx, dims[R].size));
    SEQMIX_TRY(seqmix_check_limit(ctx, &dims[K], LIMIT_EXPERTS));
    SEQMIX_TRY(seqmix_check_memory(ctx, &form, how));
    return (how & SEQMIX_CHECK_QUERY) != 0 ? SEQMIX_OK : check_ids(ctx, &args->ids, dims[E].size);
}
