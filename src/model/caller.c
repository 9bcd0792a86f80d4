/* SPDX-License-Identifier: MIT */
/* The ops a model uses, by number (see caller.h). */
#include "caller.h"

#include <string.h>

static const char *op_name(int32_t op)
{
    switch (op) {
    case SEQMIX_OP_SHORT_CONV_ROWS:
        return "short_conv_rows";
    case SEQMIX_OP_SHORT_CONV_STEP:
        return "short_conv_step";
    case SEQMIX_OP_SELECTIVE_SCAN_ROWS:
        return "selective_scan_rows";
    case SEQMIX_OP_SELECTIVE_SCAN_STEP:
        return "selective_scan_step";
    case SEQMIX_OP_GATED_RMS_NORM_ROWS:
        return "gated_rms_norm_rows";
    case SEQMIX_OP_LINEAR:
        return "linear";
    case SEQMIX_OP_EMBED_ROWS:
        return "embed_rows";
    default:
        return "?";
    }
}

static seqmix_status query(seqmix_ctx *ctx, int32_t op, const void *args, size_t *bytes)
{
    switch (op) {
    case SEQMIX_OP_SHORT_CONV_ROWS:
        return seqmix_short_conv_rows_workspace(ctx, args, bytes);
    case SEQMIX_OP_SHORT_CONV_STEP:
        return seqmix_short_conv_step_workspace(ctx, args, bytes);
    case SEQMIX_OP_SELECTIVE_SCAN_ROWS:
        return seqmix_selective_scan_rows_workspace(ctx, args, bytes);
    case SEQMIX_OP_SELECTIVE_SCAN_STEP:
        return seqmix_selective_scan_step_workspace(ctx, args, bytes);
    case SEQMIX_OP_GATED_RMS_NORM_ROWS:
        return seqmix_gated_rms_norm_rows_workspace(ctx, args, bytes);
    case SEQMIX_OP_LINEAR:
        return seqmix_linear_workspace(ctx, args, bytes);
    case SEQMIX_OP_EMBED_ROWS:
        return seqmix_embed_rows_workspace(ctx, args, bytes);
    default:
        return SEQMIX_ERR_INTERNAL;
    }
}

static seqmix_status run(seqmix_ctx *ctx, int32_t op, const void *args, void *workspace, size_t bytes)
{
    switch (op) {
    case SEQMIX_OP_SHORT_CONV_ROWS:
        return seqmix_short_conv_rows(ctx, args, workspace, bytes);
    case SEQMIX_OP_SHORT_CONV_STEP:
        return seqmix_short_conv_step(ctx, args, workspace, bytes);
    case SEQMIX_OP_SELECTIVE_SCAN_ROWS:
        return seqmix_selective_scan_rows(ctx, args, workspace, bytes);
    case SEQMIX_OP_SELECTIVE_SCAN_STEP:
        return seqmix_selective_scan_step(ctx, args, workspace, bytes);
    case SEQMIX_OP_GATED_RMS_NORM_ROWS:
        return seqmix_gated_rms_norm_rows(ctx, args, workspace, bytes);
    case SEQMIX_OP_LINEAR:
        return seqmix_linear(ctx, args, workspace, bytes);
    case SEQMIX_OP_EMBED_ROWS:
        return seqmix_embed_rows(ctx, args, workspace, bytes);
    default:
        return SEQMIX_ERR_INTERNAL;
    }
}

static seqmix_status note_kernel(seqmix_caller *caller, int32_t op, const void *args)
{
    for (int32_t i = 0; i < caller->n_called; i++)
        if (caller->called[i].op == op) return SEQMIX_OK;
    if (caller->n_called == SEQMIX_MAX_CALLED) return SEQMIX_OK;
    seqmix_called c = {.op = op, .name = op_name(op)};
    seqmix_status status = seqmix_op_query(caller->ctx, op, args, SEQMIX_QUERY_KERNEL, &c.kernel);
    if (status == SEQMIX_OK) status = seqmix_op_query(caller->ctx, op, args, SEQMIX_QUERY_LEVEL, &c.level);
    if (status == SEQMIX_OK) caller->called[caller->n_called++] = c;
    return status;
}

seqmix_status seqmix_call(seqmix_caller *caller, int32_t op, const void *args)
{
    if (!caller->measuring) return run(caller->ctx, op, args, caller->workspace, caller->workspace_bytes);
    size_t bytes = 0;
    seqmix_status status = query(caller->ctx, op, args, &bytes);
    if (status != SEQMIX_OK) return status;
    if (bytes > caller->workspace_bytes) caller->workspace_bytes = bytes;
    return note_kernel(caller, op, args);
}
