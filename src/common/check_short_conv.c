/* SPDX-License-Identifier: MIT */
/* Rules of short_conv_rows and short_conv_step. R rows, D channels, K width. */
#include "check_internal.h"

seqmix_status seqmix_check_conv(struct seqmix_context *ctx, const seqmix_conv_args *args, unsigned how)
{
    enum { R, D, K, SLOTS, HISTORY, N_DIMS };
    enum { FIELD_X };
    const unsigned may_be = (how & SEQMIX_CHECK_STEP) != 0 ? 1u << FIELD_X : 0;
    struct seqmix_dim dims[N_DIMS] = {{"R", 0, false}, {"D", 0, false}, {"K", 0, false}, {"slots", 0, false}};
    const int64_t width = args->weight.rank == 2 ? args->weight.shape[1] : 0;
    dims[HISTORY] = (struct seqmix_dim){"K-1", width > 0 ? width - 1 : 0, true};
    const struct seqmix_field fields[] = {
        {"x", &args->x, SEQMIX_ROWS, SEQMIX_IS_X, 2, 2, {R, D}, 0},
        {"weight", &args->weight, 0, SEQMIX_IS_X_OR_F32, 2, 2, {D, K}, 0},
        {"bias", &args->bias, SEQMIX_OPTIONAL, SEQMIX_IS_X_OR_F32, 1, 1, {D}, 0},
        {"state", &args->state, SEQMIX_OPTIONAL | SEQMIX_WRITTEN, SEQMIX_IS_X_OR_F32, 3, 3, {SLOTS, D, HISTORY}, 0},
        {"y", &args->y, SEQMIX_ROWS | SEQMIX_WRITTEN, SEQMIX_IS_X, 2, 2, {R, D}, may_be},
    };
    struct seqmix_form form = SEQMIX_FORM(fields, dims);

    SEQMIX_TRY(seqmix_check_enum(ctx, "activation", args->activation, SEQMIX_ACT_SILU));
    SEQMIX_TRY(seqmix_check_form(ctx, &form));
    if (dims[K].size == 0) return seqmix_fail(ctx, SEQMIX_ERR_SHAPE, "weight.shape[1]=0, K must be 1 to 16");
    SEQMIX_TRY(seqmix_check_rows(ctx, dims[R].size));
    SEQMIX_TRY(seqmix_check_limit(ctx, &dims[K], SEQMIX_LIMIT_WIDTH));
    SEQMIX_TRY(seqmix_check_memory(ctx, &form, how));
    return seqmix_check_batch(ctx, args->batch, dims[R].size, seqmix_slots(&args->state), how);
}
