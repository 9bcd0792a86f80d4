/* SPDX-License-Identifier: MIT */
/* Rules of selective_scan_rows and selective_scan_step. R rows, D channels, N state, G groups. */
#include "check_internal.h"

seqmix_status seqmix_check_scan(struct seqmix_context *ctx, const seqmix_scan_args *args, unsigned how)
{
    enum { R, D, N, G, SLOTS, N_DIMS };
    const unsigned rows = SEQMIX_ROWS, optional = SEQMIX_OPTIONAL;
    struct seqmix_dim dims[N_DIMS] = {
        {"R", 0, false}, {"D", 0, false}, {"N", 0, false}, {"G", 0, false}, {"slots", 0, false}};
    const struct seqmix_field fields[] = {
        {"x", &args->x, rows, SEQMIX_IS_X, 2, 2, {R, D}, 0},
        {"dt", &args->dt, rows, SEQMIX_IS_X_OR_F32, 2, 2, {R, D}, 0},
        {"A", &args->A, 0, SEQMIX_IS_F32, 2, 2, {D, N}, 0},
        {"B", &args->B, rows, SEQMIX_IS_X, 3, 3, {R, G, N}, 0},
        {"C", &args->C, rows, SEQMIX_IS_X, 3, 3, {R, G, N}, 0},
        {"skip", &args->skip, optional, SEQMIX_IS_X_OR_F32, 1, 1, {D}, 0},
        {"dt_bias", &args->dt_bias, optional, SEQMIX_IS_X_OR_F32, 1, 1, {D}, 0},
        {"z", &args->z, rows | optional, SEQMIX_IS_X, 2, 2, {R, D}, 0},
        {"state", &args->state, optional | SEQMIX_WRITTEN, SEQMIX_IS_ANY, 3, 3, {SLOTS, D, N}, 0},
        {"y", &args->y, rows | SEQMIX_WRITTEN, SEQMIX_IS_X, 2, 2, {R, D}, 0},
    };
    struct seqmix_form form = SEQMIX_FORM(fields, dims);

    SEQMIX_TRY(seqmix_check_enum(ctx, "dt_softplus", args->dt_softplus, 1));
    SEQMIX_TRY(seqmix_check_form(ctx, &form));
    SEQMIX_TRY(seqmix_check_divides(ctx, "B", 1, dims[G].size, &dims[D]));
    SEQMIX_TRY(seqmix_check_rows(ctx, dims[R].size));
    SEQMIX_TRY(seqmix_check_limit(ctx, &dims[N], SEQMIX_LIMIT_HEAD_DIM));
    SEQMIX_TRY(seqmix_check_memory(ctx, &form, how));
    return seqmix_check_batch(ctx, args->batch, dims[R].size, seqmix_slots(&args->state), how);
}
