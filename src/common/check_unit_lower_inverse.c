/* SPDX-License-Identifier: MIT */
/* Rules of unit_lower_inverse: matrices [batch..., n, n]. */
#include "check_internal.h"

seqmix_status seqmix_check_inverse(struct seqmix_context *ctx, const seqmix_inverse_args *args, unsigned how)
{
    enum { FIELD_A, FIELD_INV };
    /* one dim per axis, named after a's: inv must equal a in each */
    struct seqmix_dim dims[SEQMIX_MAX_RANK] = {{"a.shape[0]", 0, false}, {"a.shape[1]", 0, false},
                                               {"a.shape[2]", 0, false}, {"a.shape[3]", 0, false},
                                               {"a.shape[4]", 0, false}, {"a.shape[5]", 0, false}};
    const bool known = args->a.rank >= 2 && args->a.rank <= SEQMIX_MAX_RANK;
    const int rank = known ? args->a.rank : 2;
    const struct seqmix_field fields[] = {
        {"a", &args->a, 0, SEQMIX_IS_X, 2, SEQMIX_MAX_RANK, {0, 1, 2, 3, 4, 5}, 0},
        {"inv", &args->inv, SEQMIX_WRITTEN, SEQMIX_IS_X, rank, rank, {0, 1, 2, 3, 4, 5}, 1u << FIELD_A},
    };
    struct seqmix_form form = SEQMIX_FORM(fields, dims);

    SEQMIX_TRY(seqmix_check_zero(ctx, "zero0", args->zero0));
    SEQMIX_TRY(seqmix_check_form(ctx, &form));
    if (args->a.shape[rank - 1] != args->a.shape[rank - 2])
        return seqmix_fail(ctx, SEQMIX_ERR_SHAPE, "a.shape[%d]=%" PRId64 " differs from a.shape[%d]=%" PRId64, rank - 1,
                           args->a.shape[rank - 1], rank - 2, args->a.shape[rank - 2]);
    if (args->a.shape[rank - 1] == 0)
        return seqmix_fail(ctx, SEQMIX_ERR_SHAPE, "a.shape[%d]=0, n must be 1 or more", rank - 1);
    return seqmix_check_memory(ctx, &form, how);
}
