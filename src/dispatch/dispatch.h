/* SPDX-License-Identifier: MIT */
/* Private to the front desk. */
#ifndef SEQMIX_DISPATCH_DISPATCH_H
#define SEQMIX_DISPATCH_DISPATCH_H

#include "ctx.h"

/* Chooses the best rung of a context under its cap and the environment's. */
seqmix_status seqmix_choose_rung(const seqmix_ctx_desc *desc, const struct seqmix_kernels **rung, char *why,
                                 size_t why_len);

/* Copies a caller's struct of another version in: a shorter one is completed with zeros, a longer one is accepted iff its
 * unknown tail is zero. On failure `why` says which struct and the sizes. */
seqmix_status seqmix_copy_struct(void *to, size_t size, const void *from, const char *what, char *why, size_t why_len);

seqmix_status seqmix_context_create(const seqmix_ctx_desc *desc, seqmix_ctx **out, char *why, size_t why_len);
void seqmix_context_destroy(seqmix_ctx *ctx);
seqmix_status seqmix_context_set_stream(seqmix_ctx *ctx, void *stream);
const char *seqmix_context_last_error(const seqmix_ctx *ctx);
seqmix_status seqmix_context_alloc(seqmix_ctx *ctx, size_t bytes, void **out);
void seqmix_context_free(seqmix_ctx *ctx, void *memory);
seqmix_status seqmix_context_copy(seqmix_ctx *ctx, void *to, const void *from, size_t bytes);
seqmix_status seqmix_context_sync(seqmix_ctx *ctx);
seqmix_status seqmix_context_elapsed(seqmix_ctx *ctx, double *milliseconds);

#endif
