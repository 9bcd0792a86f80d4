/* SPDX-License-Identifier: MIT */
/* Rules of linear and embed_rows (experimental). R rows, I inputs, O outputs; V table rows, D channels. */
#include "check_internal.h"

seqmix_status seqmix_check_linear(struct seqmix_context *ctx, const seqmix_linear_args *args, unsigned how)
{
    enum { R, I, O, N_DIMS };
    enum { FIELD_X, FIELD_WEIGHT, FIELD_BIAS, FIELD_RESIDUAL };
    struct seqmix_dim dims[N_DIMS] = {{"R", 0, false}, {"I", 0, false}, {"O", 0, false}};
    const struct seqmix_field fields[] = {
        {"x", &args->x, SEQMIX_ROWS, SEQMIX_IS_X, 2, 2, {R, I}, 0},
        {"weight", &args->weight, SEQMIX_ROWS, SEQMIX_IS_WEIGHT, 2, 2, {O, I}, 0},
        {"bias", &args->bias, SEQMIX_OPTIONAL, SEQMIX_IS_X_OR_F32, 1, 1, {O}, 0},
        {"residual", &args->residual, SEQMIX_ROWS | SEQMIX_OPTIONAL, SEQMIX_IS_X_OR_F32, 2, 2, {R, O}, 0},
        {"y", &args->y, SEQMIX_ROWS | SEQMIX_WRITTEN, SEQMIX_IS_X_OR_F32, 2, 2, {R, O}, 1u << FIELD_RESIDUAL},
    };
    struct seqmix_form form = SEQMIX_FORM(fields, dims);

    SEQMIX_TRY(seqmix_check_enum(ctx, "invariant", args->invariant, 1));
    SEQMIX_TRY(seqmix_check_form(ctx, &form));
    if (seqmix_present(&args->residual) && args->residual.dtype != args->y.dtype)
        return seqmix_fail(ctx, SEQMIX_ERR_DTYPE, "residual.dtype=%s differs from y.dtype=%s",
                           seqmix_dtype_name(args->residual.dtype), seqmix_dtype_name(args->y.dtype));
    SEQMIX_TRY(seqmix_check_rows(ctx, dims[R].size));
    return seqmix_check_memory(ctx, &form, how);
}

/* Token ids of a host context; a device context's are clamped by its kernel. */
static seqmix_status check_tokens(struct seqmix_context *ctx, const seqmix_embed_args *args, int64_t vocabulary)
{
    if (args->n_tokens > 0 && args->tokens == NULL)
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "tokens is NULL, n_tokens=%" PRId32, args->n_tokens);
    if (ctx->backend != SEQMIX_BACKEND_CPU) return SEQMIX_OK;
    for (int32_t i = 0; i < args->n_tokens; i++)
        if (args->tokens[i] < 0 || args->tokens[i] >= vocabulary)
            return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG,
                               "tokens[%" PRId32 "]=%" PRId32 " is not in [0, %" PRId64 ")", i, args->tokens[i],
                               vocabulary);
    return SEQMIX_OK;
}

seqmix_status seqmix_check_embed(struct seqmix_context *ctx, const seqmix_embed_args *args, unsigned how)
{
    enum { V, D, N_TOKENS, N_DIMS };
    struct seqmix_dim dims[N_DIMS] = {{"V", 0, false}, {"D", 0, false}, {"n_tokens", args->n_tokens, true}};
    const struct seqmix_field fields[] = {
        {"table", &args->table, SEQMIX_ROWS, SEQMIX_IS_WEIGHT, 2, 2, {V, D}, 0},
        {"y", &args->y, SEQMIX_ROWS | SEQMIX_WRITTEN, SEQMIX_IS_ANY, 2, 2, {N_TOKENS, D}, 0},
    };
    struct seqmix_form form = SEQMIX_FORM(fields, dims);

    if (args->n_tokens < 0)
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "n_tokens=%" PRId32 " is negative", args->n_tokens);
    SEQMIX_TRY(seqmix_check_form(ctx, &form));
    SEQMIX_TRY(seqmix_check_memory(ctx, &form, how));
    return (how & SEQMIX_CHECK_QUERY) != 0 ? SEQMIX_OK : check_tokens(ctx, args, dims[V].size);
}
