/* SPDX-License-Identifier: MIT */
/* Rules of deltanet_chunk_forward and deltanet_step. R rows, HK/HV key/value heads, DK/DV their dims. */
#include <float.h>

#include "check_internal.h"

static bool is_raw_gate(int32_t kind)
{
    return kind == SEQMIX_GATE_SOFTPLUS || kind == SEQMIX_GATE_BOUNDED_SIGMOID;
}

static seqmix_status check_options(struct seqmix_context *ctx, const seqmix_deltanet_args *args)
{
    SEQMIX_TRY(seqmix_check_enum(ctx, "gate_kind", args->gate_kind, SEQMIX_GATE_BOUNDED_SIGMOID));
    SEQMIX_TRY(seqmix_check_enum(ctx, "beta_kind", args->beta_kind, SEQMIX_BETA_SIGMOID2));
    SEQMIX_TRY(seqmix_check_enum(ctx, "qk_l2norm", args->qk_l2norm, 1));
    SEQMIX_TRY(seqmix_check_enum(ctx, "head_map", args->head_map, SEQMIX_HEADS_TILED));
    SEQMIX_TRY(seqmix_check_chunk(ctx, args->chunk));
    if (args->qk_l2norm == 1) SEQMIX_TRY(seqmix_check_eps(ctx, args->eps));
    if (!(args->scale >= 0 && args->scale <= FLT_MAX))
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "scale=%g, must be 0 or more, and finite", (double)args->scale);
    const float bound = args->gate_lower_bound;
    if (args->gate_kind == SEQMIX_GATE_BOUNDED_SIGMOID && !(bound < 0 && bound >= -FLT_MAX))
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "gate_lower_bound=%g, must be below 0 and finite",
                           (double)bound);
    return seqmix_check_zero(ctx, "zero0", args->zero0);
}

/* Each gate kind says which of gate, A and dt_bias it reads. */
static seqmix_status check_gate_fields(struct seqmix_context *ctx, const seqmix_deltanet_args *args)
{
    const bool raw = is_raw_gate(args->gate_kind);
    const struct {
        const char *name;
        const seqmix_tensor *tensor;
        bool needed, used;
    } fields[] = {
        {"gate", &args->gate, args->gate_kind != SEQMIX_GATE_NONE, args->gate_kind != SEQMIX_GATE_NONE},
        {"A", &args->A, raw, raw},
        {"dt_bias", &args->dt_bias, false, raw},
    };
    for (int i = 0; i < 3; i++) {
        const bool present = seqmix_present(fields[i].tensor);
        if (fields[i].needed && !present)
            return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG,
                               "%s is missing (its rank is 0), gate_kind=%" PRId32 " needs it", fields[i].name,
                               args->gate_kind);
        if (!fields[i].used && present)
            return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "%s is given, gate_kind=%" PRId32 " does not use it",
                               fields[i].name, args->gate_kind);
    }
    if (args->gate.rank == 2 && args->dt_bias.rank == 2)
        return seqmix_fail(ctx, SEQMIX_ERR_SHAPE, "dt_bias.rank=2, must be 1 with gate.rank=2");
    return SEQMIX_OK;
}

seqmix_status seqmix_check_deltanet(struct seqmix_context *ctx, const seqmix_deltanet_args *args, unsigned how)
{
    enum { R, HK, DK, HV, DV, SLOTS, N_DIMS };
    const unsigned rows = SEQMIX_ROWS, optional = SEQMIX_OPTIONAL, per_channel = args->gate.rank == 3 ? SEQMIX_ROWS : 0;
    const enum seqmix_dtype_rule gate_dtype = is_raw_gate(args->gate_kind) ? SEQMIX_IS_X_OR_F32 : SEQMIX_IS_F32;
    struct seqmix_dim dims[N_DIMS] = {{"R", 0, false},  {"HK", 0, false}, {"DK", 0, false},
                                      {"HV", 0, false}, {"DV", 0, false}, {"slots", 0, false}};
    const struct seqmix_field fields[] = {
        {"q", &args->q, rows, SEQMIX_IS_X, 3, 3, {R, HK, DK}, 0},
        {"k", &args->k, rows, SEQMIX_IS_X, 3, 3, {R, HK, DK}, 0},
        {"v", &args->v, rows, SEQMIX_IS_X, 3, 3, {R, HV, DV}, 0},
        {"gate", &args->gate, per_channel | optional, gate_dtype, 2, 3, {R, HV, DK}, 0},
        {"beta", &args->beta, 0, SEQMIX_IS_X_OR_F32, 2, 2, {R, HV}, 0},
        {"A", &args->A, optional, SEQMIX_IS_F32, 1, 1, {HV}, 0},
        {"dt_bias", &args->dt_bias, optional, SEQMIX_IS_X_OR_F32, 1, 2, {HV, DK}, 0},
        {"state", &args->state, optional | SEQMIX_WRITTEN, SEQMIX_IS_ANY, 4, 4, {SLOTS, HV, DK, DV}, 0},
        {"o", &args->o, rows | SEQMIX_WRITTEN, SEQMIX_IS_X, 3, 3, {R, HV, DV}, 0},
    };
    struct seqmix_form form = SEQMIX_FORM(fields, dims);

    SEQMIX_TRY(check_options(ctx, args));
    SEQMIX_TRY(check_gate_fields(ctx, args));
    SEQMIX_TRY(seqmix_check_form(ctx, &form));
    SEQMIX_TRY(seqmix_check_divides(ctx, "k", 1, dims[HK].size, &dims[HV]));
    if (dims[DK].size == 0) return seqmix_fail(ctx, SEQMIX_ERR_SHAPE, "k.shape[2]=0, DK must be 1 to 256");
    SEQMIX_TRY(seqmix_check_rows(ctx, dims[R].size));
    SEQMIX_TRY(seqmix_check_limit(ctx, &dims[DK], SEQMIX_LIMIT_HEAD_DIM));
    SEQMIX_TRY(seqmix_check_limit(ctx, &dims[DV], SEQMIX_LIMIT_HEAD_DIM));
    SEQMIX_TRY(seqmix_check_memory(ctx, &form, how));
    return seqmix_check_batch(ctx, args->batch, dims[R].size, seqmix_slots(&args->state), how);
}
