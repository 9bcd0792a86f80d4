/* SPDX-License-Identifier: MIT */
/* Rules of rope_rows (experimental). R rows, H heads, D channels, the first n_dims of them turned. */
#include <float.h>

#include "check_internal.h"

static seqmix_status check_options(struct seqmix_context *ctx, const seqmix_rope_args *args)
{
    SEQMIX_TRY(seqmix_check_enum(ctx, "pairing", args->pairing, SEQMIX_ROPE_INTERLEAVED));
    SEQMIX_TRY(seqmix_check_zero(ctx, "zero0", args->zero0));
    if (!(args->theta > 0 && args->theta <= FLT_MAX))
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "theta=%g, must be above 0 and finite", (double)args->theta);
    if (!(args->freq_scale >= 0 && args->freq_scale <= FLT_MAX))
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "freq_scale=%g, must be 0 or more, and finite",
                           (double)args->freq_scale);
    return SEQMIX_OK;
}

/* Positions of a host context; a device context's are its kernel's business. */
static seqmix_status check_positions(struct seqmix_context *ctx, const seqmix_rope_args *args, int64_t rows)
{
    if (rows > 0 && args->positions == NULL)
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "positions is NULL, R=%" PRId64, rows);
    SEQMIX_TRY(seqmix_check_ints(ctx, "positions", args->positions));
    if (ctx->backend != SEQMIX_BACKEND_CPU) return SEQMIX_OK;
    for (int64_t r = 0; r < rows; r++)
        if (args->positions[r] < 0)
            return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "positions[%" PRId64 "]=%" PRId32 " is negative", r,
                               args->positions[r]);
    return SEQMIX_OK;
}

seqmix_status seqmix_check_rope(struct seqmix_context *ctx, const seqmix_rope_args *args, unsigned how)
{
    enum { R, H, D, N_DIMS };
    enum { FIELD_X, FIELD_Y };
    struct seqmix_dim dims[N_DIMS] = {{"R", 0, false}, {"H", 0, false}, {"D", 0, false}};
    const struct seqmix_field fields[] = {
        {"x", &args->x, SEQMIX_ROWS, SEQMIX_IS_X, 3, 3, {R, H, D}, 0},
        {"y", &args->y, SEQMIX_ROWS | SEQMIX_WRITTEN, SEQMIX_IS_X, 3, 3, {R, H, D}, 1u << FIELD_X},
    };
    struct seqmix_form form = SEQMIX_FORM(fields, dims);

    SEQMIX_TRY(check_options(ctx, args));
    SEQMIX_TRY(seqmix_check_form(ctx, &form));
    const int64_t turned = args->n_dims != 0 ? args->n_dims : dims[D].size;
    if (turned < 0 || turned > dims[D].size || turned % 2 != 0)
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG,
                           "n_dims=%" PRId32 " (0 = D), must be even and at most D=%" PRId64, args->n_dims,
                           dims[D].size);
    SEQMIX_TRY(seqmix_check_rows(ctx, dims[R].size));
    SEQMIX_TRY(seqmix_check_limit(ctx, &dims[D], SEQMIX_LIMIT_HEAD_DIM));
    SEQMIX_TRY(seqmix_check_memory(ctx, &form, how));
    return (how & SEQMIX_CHECK_QUERY) != 0 ? SEQMIX_OK : check_positions(ctx, args, dims[R].size);
}
