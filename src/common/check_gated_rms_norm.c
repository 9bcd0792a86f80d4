/* SPDX-License-Identifier: MIT */
/* Rules of gated_rms_norm_rows. R rows, D channels in groups of `group`. */
#include "check_internal.h"

static seqmix_status check_options(struct seqmix_context *ctx, const seqmix_norm_args *args)
{
    if (args->group < 0) return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "group=%" PRId32 " is negative", args->group);
    SEQMIX_TRY(seqmix_check_enum(ctx, "norm_before_gate", args->norm_before_gate, 1));
    SEQMIX_TRY(seqmix_check_enum(ctx, "gate_act", args->gate_act, SEQMIX_NORM_GATE_SIGMOID));
    SEQMIX_TRY(seqmix_check_enum(ctx, "weight_plus_one", args->weight_plus_one, 1));
    return seqmix_check_eps(ctx, args->eps);
}

seqmix_status seqmix_check_norm(struct seqmix_context *ctx, const seqmix_norm_args *args, unsigned how)
{
    enum { R, D, WIDTH, N_DIMS };
    enum { FIELD_X, FIELD_Z, FIELD_WEIGHT, FIELD_Y };
    struct seqmix_dim dims[N_DIMS] = {{"R", 0, false}, {"D", 0, false}, {"weight.shape[0]", 0, false}};
    const struct seqmix_field fields[] = {
        {"x", &args->x, SEQMIX_ROWS, SEQMIX_IS_X, 2, 2, {R, D}, 0},
        {"z", &args->z, SEQMIX_ROWS | SEQMIX_OPTIONAL, SEQMIX_IS_X, 2, 2, {R, D}, 0},
        {"weight", &args->weight, SEQMIX_OPTIONAL, SEQMIX_IS_X_OR_F32, 1, 1, {WIDTH}, 0},
        {"y", &args->y, SEQMIX_ROWS | SEQMIX_WRITTEN, SEQMIX_IS_X, 2, 2, {R, D}, 1u << FIELD_X | 1u << FIELD_Z},
    };
    struct seqmix_form form = SEQMIX_FORM(fields, dims);

    SEQMIX_TRY(check_options(ctx, args));
    SEQMIX_TRY(seqmix_check_form(ctx, &form));
    const int64_t group = args->group != 0 ? args->group : dims[D].size;
    if (group != 0 && dims[D].size % group != 0)
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "group=%" PRId64 " does not divide D=%" PRId64, group,
                           dims[D].size);
    if (dims[WIDTH].bound && dims[WIDTH].size != dims[D].size && dims[WIDTH].size != group)
        return seqmix_fail(ctx, SEQMIX_ERR_SHAPE,
                           "weight.shape[0]=%" PRId64 " is neither D=%" PRId64 " nor the group size %" PRId64,
                           dims[WIDTH].size, dims[D].size, group);
    SEQMIX_TRY(seqmix_check_rows(ctx, dims[R].size));
    return seqmix_check_memory(ctx, &form, how);
}
