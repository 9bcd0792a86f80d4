/* SPDX-License-Identifier: MIT */
/* Rules of argmax (experimental). R rows of V numbers. */
#include "check_internal.h"

seqmix_status seqmix_check_argmax(struct seqmix_context *ctx, const seqmix_argmax_args *args, unsigned how)
{
    enum { R, V, N_DIMS };
    struct seqmix_dim dims[N_DIMS] = {{"R", 0, false}, {"V", 0, false}};
    const struct seqmix_field fields[] = {
        {"x", &args->x, SEQMIX_ROWS, SEQMIX_IS_X, 2, 2, {R, V}, 0},
        {"index", &args->index, SEQMIX_WRITTEN, SEQMIX_IS_I32, 1, 1, {R}, 0},
    };
    struct seqmix_form form = SEQMIX_FORM(fields, dims);

    SEQMIX_TRY(seqmix_check_zero(ctx, "zero0", args->zero0));
    SEQMIX_TRY(seqmix_check_form(ctx, &form));
    SEQMIX_TRY(seqmix_check_rows(ctx, dims[R].size));
    SEQMIX_TRY(seqmix_check_limit(ctx, &dims[V], INT32_MAX));
    return seqmix_check_memory(ctx, &form, how);
}
