/* SPDX-License-Identifier: MIT */
/* Rules of act_rows (experimental). R rows, D channels; a has D of them or one. */
#include "check_internal.h"

seqmix_status seqmix_check_act(struct seqmix_context *ctx, const seqmix_act_args *args, unsigned how)
{
    enum { R, D, WIDTH, N_DIMS };
    enum { FIELD_A, FIELD_B, FIELD_Y };
    const bool binary = args->kind == SEQMIX_ACT_ROWS_SILU_MUL || args->kind == SEQMIX_ACT_ROWS_SIGMOID_MUL;
    struct seqmix_dim dims[N_DIMS] = {{"R", 0, false}, {"D", 0, false}, {"a.shape[1]", 0, false}};
    const struct seqmix_field fields[] = {
        {"a", &args->a, SEQMIX_ROWS, SEQMIX_IS_X, 2, 2, {R, WIDTH}, 0},
        {"b", &args->b, SEQMIX_ROWS | SEQMIX_OPTIONAL, SEQMIX_IS_X, 2, 2, {R, D}, 0},
        {"y", &args->y, SEQMIX_ROWS | SEQMIX_WRITTEN, SEQMIX_IS_X, 2, 2, {R, D}, 1u << FIELD_A | 1u << FIELD_B},
    };
    struct seqmix_form form = SEQMIX_FORM(fields, dims);

    SEQMIX_TRY(seqmix_check_enum(ctx, "kind", args->kind, SEQMIX_ACT_ROWS_SIGMOID_MUL));
    if (binary != seqmix_present(&args->b))
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "b is %s, kind=%" PRId32 " %s",
                           binary ? "missing (its rank is 0)" : "given", args->kind,
                           binary ? "needs it" : "does not use it");
    SEQMIX_TRY(seqmix_check_form(ctx, &form));
    if (dims[WIDTH].size != dims[D].size && !(binary && dims[WIDTH].size == 1))
        return seqmix_fail(ctx, SEQMIX_ERR_SHAPE, "a.shape[1]=%" PRId64 " is not D=%" PRId64 "%s", dims[WIDTH].size,
                           dims[D].size, binary ? " or 1" : "");
    SEQMIX_TRY(seqmix_check_rows(ctx, dims[R].size));
    return seqmix_check_memory(ctx, &form, how);
}
