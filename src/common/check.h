/* SPDX-License-Identifier: MIT */
/*
 * Every rule about shapes, strides, dtypes, aliasing and slots. A check returns SEQMIX_OK or the first broken rule, with its
 * sentence in the context: "ssd_chunk_forward: B.shape[1]=3 does not divide H=8". Nothing has been written by then.
 */
#ifndef SEQMIX_COMMON_CHECK_H
#define SEQMIX_COMMON_CHECK_H

#include "batch.h"
#include "ctx.h"

enum {
    SEQMIX_CHECK_STEP = 1, /* the few-row form of the op */
    SEQMIX_CHECK_QUERY = 2 /* a query: neither data pointers nor batch arrays are looked at */
};

/* args->batch is normalised (batch.h) but its arrays are not yet trusted. */
seqmix_status seqmix_check_conv(struct seqmix_context *ctx, const seqmix_conv_args *args, unsigned how);
seqmix_status seqmix_check_scan(struct seqmix_context *ctx, const seqmix_scan_args *args, unsigned how);
seqmix_status seqmix_check_ssd(struct seqmix_context *ctx, const seqmix_ssd_args *args, unsigned how);
seqmix_status seqmix_check_deltanet(struct seqmix_context *ctx, const seqmix_deltanet_args *args, unsigned how);
seqmix_status seqmix_check_inverse(struct seqmix_context *ctx, const seqmix_inverse_args *args, unsigned how);
seqmix_status seqmix_check_norm(struct seqmix_context *ctx, const seqmix_norm_args *args, unsigned how);
seqmix_status seqmix_check_linear(struct seqmix_context *ctx, const seqmix_linear_args *args, unsigned how);
seqmix_status seqmix_check_embed(struct seqmix_context *ctx, const seqmix_embed_args *args, unsigned how);
seqmix_status seqmix_check_rope(struct seqmix_context *ctx, const seqmix_rope_args *args, unsigned how);
seqmix_status seqmix_check_attention(struct seqmix_context *ctx, const seqmix_attention_args *args, unsigned how);
seqmix_status seqmix_check_route(struct seqmix_context *ctx, const seqmix_route_args *args, unsigned how);
seqmix_status seqmix_check_act(struct seqmix_context *ctx, const seqmix_act_args *args, unsigned how);
seqmix_status seqmix_check_moe(struct seqmix_context *ctx, const seqmix_moe_args *args, unsigned how);
seqmix_status seqmix_check_argmax(struct seqmix_context *ctx, const seqmix_argmax_args *args, unsigned how);

/* Batch rules shared by all ops with state; `slots` < 0 means no pool. */
seqmix_status seqmix_check_batch(struct seqmix_context *ctx, const seqmix_batch *batch, int64_t rows, int64_t slots,
                                 unsigned how);

/* The same on a host mirror without a context (seqmix_batch_check): `batch` as the caller gave it. */
seqmix_status seqmix_batch_check_host(const seqmix_batch *batch, int64_t rows, int64_t slots, char *why,
                                      size_t why_len);

#endif
