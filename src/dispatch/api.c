/* SPDX-License-Identifier: MIT */
/*
 * The checked entry points behind the function table. Every call takes the same four steps: copy the caller's struct in,
 * check it, ask the rungs from the best down who takes it, hand over. Nothing is written before the last.
 */
#include <string.h>

#include "batch.h"
#include "check.h"
#include "ctx.h"
#include "dispatch.h"
#include "status.h"

/* Copies a caller's struct in; the context gets the message. */
static seqmix_status copy_in(struct seqmix_context *ctx, void *to, size_t size, const void *from, const char *what)
{
    char why[160];
    const seqmix_status status = seqmix_copy_struct(to, size, from, what, why, sizeof why);
    return status == SEQMIX_OK ? status : seqmix_fail(ctx, status, "%s", why);
}

/* Replaces *batch by its normalised copy in `storage`. */
static seqmix_status take_batch(struct seqmix_context *ctx, const seqmix_batch **batch, const seqmix_tensor *rows_of,
                                bool step, seqmix_batch *storage)
{
    seqmix_batch given;
    const int64_t rows = rows_of->shape[0];
    if (*batch != NULL) SEQMIX_TRY(copy_in(ctx, &given, sizeof given, *batch, "batch"));
    /* a row count out of range is refused by the op's check, which needs some batch to look at */
    const bool sane = rows_of->rank > 0 && rows >= 0 && rows <= INT32_MAX;
    seqmix_batch_normalise(*batch != NULL ? &given : NULL, sane ? rows : 0, step, storage);
    *batch = storage;
    return SEQMIX_OK;
}

/* Per family: what else than the args struct itself has to be copied in. */
#define WITH_BATCH(family, rows_of)                                                                                    \
    static seqmix_status take_##family(struct seqmix_context *ctx, seqmix_##family##_args *args, bool step,            \
                                       seqmix_batch *batch)                                                            \
    {                                                                                                                  \
        return take_batch(ctx, &args->batch, &args->rows_of, step, batch);                                             \
    }
#define WITHOUT_BATCH(family)                                                                                          \
    static seqmix_status take_##family(struct seqmix_context *ctx, seqmix_##family##_args *args, bool step,            \
                                       seqmix_batch *batch)                                                            \
    {                                                                                                                  \
        (void)ctx, (void)args, (void)step, (void)batch;                                                                \
        return SEQMIX_OK;                                                                                              \
    }
WITH_BATCH(conv, x)
WITH_BATCH(scan, x)
WITH_BATCH(ssd, x)
WITH_BATCH(deltanet, v)
WITHOUT_BATCH(inverse)
WITHOUT_BATCH(norm)
WITHOUT_BATCH(linear)
WITHOUT_BATCH(embed)
WITHOUT_BATCH(rope)
WITH_BATCH(attention, q)
WITHOUT_BATCH(route)
WITHOUT_BATCH(act)
WITHOUT_BATCH(moe)
WITHOUT_BATCH(argmax)

static seqmix_status check_workspace(struct seqmix_context *ctx, const struct seqmix_plan *plan, const void *workspace,
                                     size_t bytes)
{
    if (plan->workspace == 0) return SEQMIX_OK;
    if (workspace == NULL || bytes < plan->workspace)
        return seqmix_fail(ctx, SEQMIX_ERR_WORKSPACE, "workspace_bytes=%zu is less than the %zu needed",
                           workspace != NULL ? bytes : 0, plan->workspace);
    if ((uintptr_t)workspace % SEQMIX_WORKSPACE_ALIGN != 0)
        return seqmix_fail(ctx, SEQMIX_ERR_WORKSPACE, "workspace is not aligned to %d bytes", SEQMIX_WORKSPACE_ALIGN);
    return SEQMIX_OK;
}

/* Per op: prepare (copy, check, choose the rung), and the two slots made of it. */
#define SEQMIX_OP(ID, op_name, family, step)                                                                           \
    static seqmix_status op_name##_prepare(struct seqmix_context *ctx, const void *caller, unsigned how,               \
                                           seqmix_##family##_args *args, seqmix_batch *batch,                          \
                                           const struct seqmix_kernels **rung, struct seqmix_plan *plan)               \
    {                                                                                                                  \
        ctx->op = #op_name;                                                                                            \
        ctx->error[0] = '\0';                                                                                          \
        if (caller == NULL) return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "args is NULL");                           \
        SEQMIX_TRY(copy_in(ctx, args, sizeof *args, caller, "args"));                                                  \
        SEQMIX_TRY(take_##family(ctx, args, (step) != 0, batch));                                                      \
        SEQMIX_TRY(seqmix_check_##family(ctx, args, how | ((step) != 0 ? SEQMIX_CHECK_STEP : 0u)));                    \
        for (*rung = ctx->rung; *rung != NULL; *rung = (*rung)->lower) {                                               \
            memset(plan, 0, sizeof *plan);                                                                             \
            const seqmix_status status = (*rung)->op_name##_plan(ctx, args, plan);                                     \
            if (status != SEQMIX_ERR_UNSUPPORTED) return status;                                                       \
        }                                                                                                              \
        return seqmix_fail(ctx, SEQMIX_ERR_UNAVAILABLE, "no rung takes this call");                                    \
    }                                                                                                                  \
    static seqmix_status op_name##_call(seqmix_ctx *pub, const seqmix_##family##_args *caller, void *workspace,        \
                                        size_t bytes)                                                                  \
    {                                                                                                                  \
        struct seqmix_context *ctx = (struct seqmix_context *)pub;                                                     \
        seqmix_##family##_args args;                                                                                   \
        seqmix_batch batch;                                                                                            \
        const struct seqmix_kernels *rung = NULL;                                                                      \
        struct seqmix_plan plan;                                                                                       \
        if (ctx == NULL) return SEQMIX_ERR_INVALID_ARG;                                                                \
        SEQMIX_TRY(op_name##_prepare(ctx, caller, 0, &args, &batch, &rung, &plan));                                    \
        SEQMIX_TRY(check_workspace(ctx, &plan, workspace, bytes));                                                     \
        return rung->op_name(ctx, &args, workspace);                                                                   \
    }                                                                                                                  \
    static seqmix_status op_name##_ask(struct seqmix_context *ctx, const void *caller, int32_t *level,                 \
                                       struct seqmix_plan *plan)                                                       \
    {                                                                                                                  \
        seqmix_##family##_args args;                                                                                   \
        seqmix_batch batch;                                                                                            \
        const struct seqmix_kernels *rung = NULL;                                                                      \
        SEQMIX_TRY(op_name##_prepare(ctx, caller, SEQMIX_CHECK_QUERY, &args, &batch, &rung, plan));                    \
        while (rung->lower != NULL && rung->lower->op_name == rung->op_name)                                           \
            rung = rung->lower; /* inherited: the owner is further down */                                             \
        *level = rung->level;                                                                                          \
        return SEQMIX_OK;                                                                                              \
    }                                                                                                                  \
    static seqmix_status op_name##_size(seqmix_ctx *pub, const seqmix_##family##_args *caller, size_t *bytes)          \
    {                                                                                                                  \
        int32_t level;                                                                                                 \
        struct seqmix_plan plan;                                                                                       \
        if (pub == NULL || bytes == NULL) return SEQMIX_ERR_INVALID_ARG;                                               \
        SEQMIX_TRY(op_name##_ask((struct seqmix_context *)pub, caller, &level, &plan));                                \
        *bytes = plan.workspace;                                                                                       \
        return SEQMIX_OK;                                                                                              \
    }
#include "ops.def"

/* The convolution's step and the mixer's on its rows; nothing is written unless both are legal. */
#define CONV_STEP(family)                                                                                              \
    static seqmix_status family##_conv_step(seqmix_ctx *pub, const seqmix_conv_args *conv,                             \
                                            const seqmix_##family##_args *mixer)                                       \
    {                                                                                                                  \
        struct seqmix_context *ctx = (struct seqmix_context *)pub;                                                     \
        const struct seqmix_kernels *conv_rung = NULL, *rung = NULL;                                                   \
        seqmix_conv_args conv_args;                                                                                    \
        seqmix_##family##_args args;                                                                                   \
        seqmix_batch conv_batch, batch;                                                                                \
        struct seqmix_plan plan;                                                                                       \
        if (ctx == NULL) return SEQMIX_ERR_INVALID_ARG;                                                                \
        SEQMIX_TRY(short_conv_step_prepare(ctx, conv, 0, &conv_args, &conv_batch, &conv_rung, &plan));                 \
        SEQMIX_TRY(family##_step_prepare(ctx, mixer, 0, &args, &batch, &rung, &plan));                                 \
        if (conv_rung == rung && rung->family##_conv_step != NULL) {                                                   \
            const seqmix_status status = rung->family##_conv_step(ctx, &conv_args, &args);                             \
            if (status != SEQMIX_ERR_UNSUPPORTED) return status;                                                       \
        }                                                                                                              \
        SEQMIX_TRY(conv_rung->short_conv_step(ctx, &conv_args, NULL));                                                 \
        return rung->family##_step(ctx, &args, NULL);                                                                  \
    }
CONV_STEP(deltanet)
CONV_STEP(ssd)

static seqmix_status op_query(seqmix_ctx *pub, int32_t op, const void *args, int32_t what, void *value)
{
    struct seqmix_context *ctx = (struct seqmix_context *)pub;
    struct seqmix_plan plan;
    int32_t level = 0;
    if (ctx == NULL || value == NULL) return SEQMIX_ERR_INVALID_ARG;
    switch (op) {
#define SEQMIX_OP(ID, op_name, family, step)                                                                           \
    case SEQMIX_OP_##ID:                                                                                               \
        SEQMIX_TRY(op_name##_ask(ctx, args, &level, &plan));                                                           \
        break;
#include "ops.def"
    default:
        ctx->op = "op_query";
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "op=%d is no op", (int)op);
    }
    switch (what) {
    case SEQMIX_QUERY_KERNEL:
        memcpy(value, &plan.kernel, sizeof plan.kernel);
        return SEQMIX_OK;
    case SEQMIX_QUERY_GRAIN:
        memcpy(value, &plan.grain, sizeof plan.grain);
        return SEQMIX_OK;
    case SEQMIX_QUERY_LEVEL:
        memcpy(value, &level, sizeof level);
        return SEQMIX_OK;
    default:
        return seqmix_fail(ctx, SEQMIX_ERR_UNSUPPORTED, "what=%d is no query of this library", (int)what);
    }
}

static seqmix_status batch_check(const seqmix_batch *caller, int64_t rows, int64_t slots, char *why, size_t why_len)
{
    seqmix_batch batch;
    if (caller == NULL) return seqmix_fail_text(why, why_len, SEQMIX_ERR_INVALID_ARG, "batch is NULL");
    SEQMIX_TRY(seqmix_copy_struct(&batch, sizeof batch, caller, "batch", why, why_len));
    return seqmix_batch_check_host(&batch, rows, slots, why, why_len);
}

static const struct seqmix_api_experimental experimental_table = {
    .struct_size = sizeof experimental_table,
    .version = SEQMIX_EXPERIMENTAL_VERSION,
#define SEQMIX_OP(ID, op_name, family, step)
#define SEQMIX_OP_EXPERIMENTAL(ID, op_name, family, step)                                                              \
    .op_name = op_name##_call, .op_name##_workspace = op_name##_size,
#include "ops.def"
    .deltanet_conv_step = deltanet_conv_step,
    .ssd_conv_step = ssd_conv_step,
    .mem_alloc = seqmix_context_alloc,
    .mem_free = seqmix_context_free,
    .mem_copy = seqmix_context_copy,
    .sync = seqmix_context_sync,
    .elapsed = seqmix_context_elapsed,
};

static const void *experimental(uint32_t version)
{
    return version == SEQMIX_EXPERIMENTAL_VERSION ? &experimental_table : NULL;
}

static const struct seqmix_api table = {
    .struct_size = sizeof table,
    .abi_version = SEQMIX_ABI_VERSION,
    .ctx_create = seqmix_context_create,
    .ctx_destroy = seqmix_context_destroy,
    .ctx_set_stream = seqmix_context_set_stream,
    .last_error = seqmix_context_last_error,
    .status_name = seqmix_status_identifier,
    .op_query = op_query,
    .batch_check = batch_check,
    .experimental = experimental,
#define SEQMIX_OP(ID, op_name, family, step) .op_name = op_name##_call, .op_name##_workspace = op_name##_size,
#define SEQMIX_OP_EXPERIMENTAL(ID, op_name, family, step)
#include "ops.def"
};

const struct seqmix_api *seqmix_get_api(uint32_t abi_version)
{
    return abi_version >> 16 == SEQMIX_ABI_MAJOR ? &table : NULL;
}
