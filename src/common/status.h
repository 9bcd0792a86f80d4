/* SPDX-License-Identifier: MIT */
#ifndef SEQMIX_COMMON_STATUS_H
#define SEQMIX_COMMON_STATUS_H

#include "ctx.h"

/* The identifier of a code, "SEQMIX_ERR_SHAPE"; never NULL, also for unknown codes. */
const char *seqmix_status_identifier(seqmix_status status);

/* Puts "<op>: <message>" into the context and returns `status`. */
seqmix_status seqmix_fail(struct seqmix_context *ctx, seqmix_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same into a caller's buffer, which may be NULL. */
seqmix_status seqmix_fail_text(char *why, size_t why_len, seqmix_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define SEQMIX_TRY(expression)                                                                                         \
    do {                                                                                                               \
        const seqmix_status seqmix_try_status = (expression);                                                          \
        if (seqmix_try_status != SEQMIX_OK) return seqmix_try_status;                                                  \
    } while (0)

#endif
