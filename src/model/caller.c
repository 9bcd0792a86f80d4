/* SPDX-License-Identifier: MIT */
/* The ops a model uses, by number (see caller.h). */
#include "caller.h"

#include <string.h>

/* The args structs differ, so each op gets the two functions of its own; X(ID, name). */
#define MODEL_OPS(X)                                                                                                   \
    X(SHORT_CONV_ROWS, short_conv_rows)                                                                                \
    X(SHORT_CONV_STEP, short_conv_step)                                                                                \
    X(SELECTIVE_SCAN_ROWS, selective_scan_rows)                                                                        \
    X(SELECTIVE_SCAN_STEP, selective_scan_step)                                                                        \
    X(SSD_CHUNK_FORWARD, ssd_chunk_forward)                                                                            \
    X(SSD_STEP, ssd_step)                                                                                              \
    X(DELTANET_CHUNK_FORWARD, deltanet_chunk_forward)                                                                  \
    X(DELTANET_STEP, deltanet_step)                                                                                    \
    X(GATED_RMS_NORM_ROWS, gated_rms_norm_rows)                                                                        \
    X(LINEAR, linear)                                                                                                  \
    X(EMBED_ROWS, embed_rows)                                                                                          \
    X(ATTENTION_ROWS, attention_rows)                                                                                  \
    X(ROPE_ROWS, rope_rows)                                                                                            \
    X(MOE_ROUTE, moe_route)                                                                                            \
    X(MOE_EXPERTS, moe_experts)                                                                                        \
    X(ACT_ROWS, act_rows)

static const char *op_name(int32_t op)
{
    switch (op) {
#define NAME(ID, name)                                                                                                 \
    case SEQMIX_OP_##ID:                                                                                               \
        return #name;
        MODEL_OPS(NAME)
    default:
        return "?";
    }
}

static seqmix_status query(seqmix_ctx *ctx, int32_t op, const void *args, size_t *bytes)
{
    switch (op) {
#define QUERY(ID, name)                                                                                                \
    case SEQMIX_OP_##ID:                                                                                               \
        return seqmix_##name##_workspace(ctx, args, bytes);
        MODEL_OPS(QUERY)
    default:
        return SEQMIX_ERR_INTERNAL;
    }
}

static seqmix_status run(seqmix_ctx *ctx, int32_t op, const void *args, void *workspace, size_t bytes)
{
    switch (op) {
#define RUN(ID, name)                                                                                                  \
    case SEQMIX_OP_##ID:                                                                                               \
        return seqmix_##name(ctx, args, workspace, bytes);
        MODEL_OPS(RUN)
    default:
        return SEQMIX_ERR_INTERNAL;
    }
}

static int32_t find(const seqmix_caller *caller, int32_t op)
{
    int32_t i = 0;
    while (i < caller->n_called && caller->called[i].op != op)
        i++;
    return i;
}

static seqmix_status note_kernel(seqmix_caller *caller, int32_t op, const void *args)
{
    if (find(caller, op) < caller->n_called || caller->n_called == SEQMIX_MAX_CALLED) return SEQMIX_OK;
    seqmix_called c = {.op = op, .name = op_name(op)};
    seqmix_status status = seqmix_op_query(caller->ctx, op, args, SEQMIX_QUERY_KERNEL, &c.kernel);
    if (status == SEQMIX_OK) status = seqmix_op_query(caller->ctx, op, args, SEQMIX_QUERY_LEVEL, &c.level);
    if (status == SEQMIX_OK) caller->called[caller->n_called++] = c;
    return status;
}

static seqmix_status run_timed(seqmix_caller *caller, int32_t op, const void *args)
{
    double ms;
    seqmix_status status = seqmix_elapsed(caller->ctx, &ms);
    if (status == SEQMIX_OK) status = run(caller->ctx, op, args, caller->workspace, caller->workspace_bytes);
    if (status == SEQMIX_OK) status = seqmix_elapsed(caller->ctx, &ms);
    int32_t i = find(caller, op);
    if (status != SEQMIX_OK || i == caller->n_called) return status;
    caller->profile->op_ms[i] += ms;
    caller->profile->op_calls[i]++;
    caller->profile->kind_ms[caller->kind] += ms;
    return status;
}

seqmix_status seqmix_call(seqmix_caller *caller, int32_t op, const void *args)
{
    if (!caller->measuring && caller->profile != NULL) return run_timed(caller, op, args);
    if (!caller->measuring) return run(caller->ctx, op, args, caller->workspace, caller->workspace_bytes);
    size_t bytes = 0;
    seqmix_status status = query(caller->ctx, op, args, &bytes);
    if (status != SEQMIX_OK) return status;
    if (bytes > caller->workspace_bytes) caller->workspace_bytes = bytes;
    return note_kernel(caller, op, args);
}
