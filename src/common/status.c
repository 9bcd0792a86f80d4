/* SPDX-License-Identifier: MIT */
/* Status codes in words, and the one place that formats an error message. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

const char *seqmix_status_identifier(seqmix_status status)
{
    switch (status) {
    case SEQMIX_OK:
        return "SEQMIX_OK";
    case SEQMIX_ERR_INVALID_ARG:
        return "SEQMIX_ERR_INVALID_ARG";
    case SEQMIX_ERR_SHAPE:
        return "SEQMIX_ERR_SHAPE";
    case SEQMIX_ERR_STRIDE:
        return "SEQMIX_ERR_STRIDE";
    case SEQMIX_ERR_DTYPE:
        return "SEQMIX_ERR_DTYPE";
    case SEQMIX_ERR_ALIAS:
        return "SEQMIX_ERR_ALIAS";
    case SEQMIX_ERR_STRUCT_TOO_NEW:
        return "SEQMIX_ERR_STRUCT_TOO_NEW";
    case SEQMIX_ERR_UNSUPPORTED:
        return "SEQMIX_ERR_UNSUPPORTED";
    case SEQMIX_ERR_UNAVAILABLE:
        return "SEQMIX_ERR_UNAVAILABLE";
    case SEQMIX_ERR_OUT_OF_MEMORY:
        return "SEQMIX_ERR_OUT_OF_MEMORY";
    case SEQMIX_ERR_WORKSPACE:
        return "SEQMIX_ERR_WORKSPACE";
    case SEQMIX_ERR_BACKEND:
        return "SEQMIX_ERR_BACKEND";
    case SEQMIX_ERR_INTERNAL:
        return "SEQMIX_ERR_INTERNAL";
    default:
        return "SEQMIX_ERR_UNKNOWN";
    }
}

seqmix_status seqmix_fail(struct seqmix_context *ctx, seqmix_status status, const char *format, ...)
{
    va_list list;
    int used = 0;
    if (ctx->op != NULL) used = snprintf(ctx->error, sizeof ctx->error, "%s: ", ctx->op);
    va_start(list, format);
    vsnprintf(ctx->error + used, sizeof ctx->error - (size_t)used, format, list);
    va_end(list);
    return status;
}

seqmix_status seqmix_fail_text(char *why, size_t why_len, seqmix_status status, const char *format, ...)
{
    va_list list;
    if (why == NULL || why_len == 0) return status;
    va_start(list, format);
    vsnprintf(why, why_len, format, list);
    va_end(list);
    return status;
}
