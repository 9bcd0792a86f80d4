/* SPDX-License-Identifier: MIT */
/* Rules of ssd_chunk_forward and ssd_step. R rows, H heads, P head dim, N state, G groups. */
#include <float.h>

#include "check_internal.h"

/* dt_max = inf is a bound that never binds; dt_min = inf would make every step infinite. */
static seqmix_status check_dt_range(struct seqmix_context *ctx, float dt_min, float dt_max)
{
    if (!(dt_min >= 0 && dt_min <= FLT_MAX))
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "dt_min=%g, must be 0 or more, and finite", (double)dt_min);
    if (!(dt_max >= 0)) return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "dt_max=%g, must be 0 or more", (double)dt_max);
    if (dt_max > 0 && dt_min > dt_max)
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "dt_min=%g exceeds dt_max=%g", (double)dt_min, (double)dt_max);
    return SEQMIX_OK;
}

static seqmix_status check_options(struct seqmix_context *ctx, const seqmix_ssd_args *args)
{
    SEQMIX_TRY(seqmix_check_enum(ctx, "dt_softplus", args->dt_softplus, 1));
    SEQMIX_TRY(seqmix_check_chunk(ctx, args->chunk));
    SEQMIX_TRY(check_dt_range(ctx, args->dt_min, args->dt_max));
    return seqmix_check_zero(ctx, "zero0", args->zero0);
}

seqmix_status seqmix_check_ssd(struct seqmix_context *ctx, const seqmix_ssd_args *args, unsigned how)
{
    enum { R, H, P, N, G, SLOTS, N_DIMS };
    const unsigned rows = SEQMIX_ROWS, optional = SEQMIX_OPTIONAL;
    struct seqmix_dim dims[N_DIMS] = {{"R", 0, false}, {"H", 0, false}, {"P", 0, false},
                                      {"N", 0, false}, {"G", 0, false}, {"slots", 0, false}};
    const struct seqmix_field fields[] = {
        {"x", &args->x, rows, SEQMIX_IS_X, 3, 3, {R, H, P}, 0},
        {"dt", &args->dt, 0, SEQMIX_IS_X_OR_F32, 2, 2, {R, H}, 0},
        {"A", &args->A, 0, SEQMIX_IS_F32, 1, 1, {H}, 0},
        {"B", &args->B, rows, SEQMIX_IS_X, 3, 3, {R, G, N}, 0},
        {"C", &args->C, rows, SEQMIX_IS_X, 3, 3, {R, G, N}, 0},
        {"skip", &args->skip, optional, SEQMIX_IS_X_OR_F32, 1, 2, {H, P}, 0},
        {"dt_bias", &args->dt_bias, optional, SEQMIX_IS_X_OR_F32, 1, 1, {H}, 0},
        {"z", &args->z, rows | optional, SEQMIX_IS_X, 3, 3, {R, H, P}, 0},
        {"state", &args->state, optional | SEQMIX_WRITTEN, SEQMIX_IS_ANY, 4, 4, {SLOTS, H, P, N}, 0},
        {"y", &args->y, rows | SEQMIX_WRITTEN, SEQMIX_IS_X, 3, 3, {R, H, P}, 0},
    };
    struct seqmix_form form = SEQMIX_FORM(fields, dims);

    SEQMIX_TRY(check_options(ctx, args));
    SEQMIX_TRY(seqmix_check_form(ctx, &form));
    SEQMIX_TRY(seqmix_check_divides(ctx, "B", 1, dims[G].size, &dims[H]));
    SEQMIX_TRY(seqmix_check_rows(ctx, dims[R].size));
    SEQMIX_TRY(seqmix_check_limit(ctx, &dims[P], SEQMIX_LIMIT_HEAD_DIM));
    SEQMIX_TRY(seqmix_check_limit(ctx, &dims[N], SEQMIX_LIMIT_HEAD_DIM));
    SEQMIX_TRY(seqmix_check_memory(ctx, &form, how));
    return seqmix_check_batch(ctx, args->batch, dims[R].size, seqmix_slots(&args->state), how);
}
