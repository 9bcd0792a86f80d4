/* SPDX-License-Identifier: MIT */
/*
 * The ABI of seqmix: the function table behind the inline wrappers of seqmix.h, which includes this file after its
 * types. Programs use the wrappers; bindings of other languages may read the table itself.
 *
 * Growth: append only, inside a new fence, ABI minor + 1. A slot is never moved, retyped or reused; a changed meaning
 * is a new slot with a new name. struct_size tells the table's length, SEQMIX_API_HAS whether a slot lies inside it.
 */
#ifndef SEQMIX_ABI_H
#define SEQMIX_ABI_H

#ifndef SEQMIX_SEQMIX_H
#    error "include <seqmix/seqmix.h>"
#endif

struct seqmix_api {
    /* ---- ABI 0.1: do not move, retype or remove anything down to the next fence ---- */
    uint32_t struct_size;
    uint32_t abi_version;

    seqmix_status (*ctx_create)(const seqmix_ctx_desc *desc, seqmix_ctx **out, char *why, size_t why_len);
    void (*ctx_destroy)(seqmix_ctx *ctx);
    seqmix_status (*ctx_set_stream)(seqmix_ctx *ctx, void *stream);
    const char *(*last_error)(const seqmix_ctx *ctx);
    const char *(*status_name)(seqmix_status status);
    seqmix_status (*op_query)(seqmix_ctx *ctx, int32_t op, const void *args, int32_t what, void *value);
    seqmix_status (*batch_check)(const seqmix_batch *batch, int64_t rows, int64_t slots, char *why, size_t why_len);
    /* the experimental table of exactly this version, or NULL */
    const void *(*experimental)(uint32_t version);

    /* Per op: the checked call, and the query for its workspace. */
#define SEQMIX_SLOT(name, args_type)                                                                                   \
    seqmix_status (*name)(seqmix_ctx * ctx, const args_type *args, void *workspace, size_t workspace_bytes);           \
    seqmix_status (*name##_workspace)(seqmix_ctx * ctx, const args_type *args, size_t *bytes);
    SEQMIX_SLOT(short_conv_rows, seqmix_conv_args)
    SEQMIX_SLOT(short_conv_step, seqmix_conv_args)
    SEQMIX_SLOT(selective_scan_rows, seqmix_scan_args)
    SEQMIX_SLOT(selective_scan_step, seqmix_scan_args)
    SEQMIX_SLOT(ssd_chunk_forward, seqmix_ssd_args)
    SEQMIX_SLOT(ssd_step, seqmix_ssd_args)
    SEQMIX_SLOT(deltanet_chunk_forward, seqmix_deltanet_args)
    SEQMIX_SLOT(deltanet_step, seqmix_deltanet_args)
    SEQMIX_SLOT(unit_lower_inverse, seqmix_inverse_args)
    SEQMIX_SLOT(gated_rms_norm_rows, seqmix_norm_args)
    /* ---- end of ABI 0.1 ---- */
};

/* Whether a table, possibly of an older library, holds a slot. */
#define SEQMIX_API_HAS(api, slot) ((api)->struct_size >= offsetof(struct seqmix_api, slot) + sizeof((api)->slot))

#ifdef SEQMIX_EXPERIMENTAL
/* May change in any release: the version must match exactly. */
#    define SEQMIX_EXPERIMENTAL_VERSION 2u

struct seqmix_api_experimental {
    uint32_t struct_size;
    uint32_t version;
    SEQMIX_SLOT(linear, seqmix_linear_args)
    SEQMIX_SLOT(embed_rows, seqmix_embed_args)
    SEQMIX_SLOT(rope_rows, seqmix_rope_args)
    SEQMIX_SLOT(attention_rows, seqmix_attention_args)
    SEQMIX_SLOT(moe_route, seqmix_route_args)
    SEQMIX_SLOT(act_rows, seqmix_act_args)
    SEQMIX_SLOT(moe_experts, seqmix_moe_args)
    SEQMIX_SLOT(argmax, seqmix_argmax_args)
    seqmix_status (*deltanet_conv_step)(seqmix_ctx *ctx, const seqmix_conv_args *conv,
                                        const seqmix_deltanet_args *mixer);
    seqmix_status (*ssd_conv_step)(seqmix_ctx *ctx, const seqmix_conv_args *conv, const seqmix_ssd_args *mixer);
    seqmix_status (*mem_alloc)(seqmix_ctx *ctx, size_t bytes, void **out);
    void (*mem_free)(seqmix_ctx *ctx, void *memory);
    seqmix_status (*mem_copy)(seqmix_ctx *ctx, void *to, const void *from, size_t bytes);
    seqmix_status (*sync)(seqmix_ctx *ctx);
    seqmix_status (*elapsed)(seqmix_ctx *ctx, double *milliseconds);
};
#endif

#undef SEQMIX_SLOT
#endif
