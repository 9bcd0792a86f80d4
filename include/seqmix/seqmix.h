/* SPDX-License-Identifier: MIT */
/*
 * seqmix: sequence mixers of modern language models. This header is the manual.
 */
#ifndef SEQMIX_SEQMIX_H
#define SEQMIX_SEQMIX_H

#include <stddef.h>
#include <stdint.h>

#include <seqmix/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#    define SEQMIX_CHECKED __attribute__((warn_unused_result))
#    define SEQMIX_API     __attribute__((visibility("default")))
#else
#    define SEQMIX_CHECKED
#    define SEQMIX_API
#endif

/* ================================================================ status */

typedef int32_t seqmix_status;
enum {
    SEQMIX_OK = 0,
    SEQMIX_ERR_INVALID_ARG = 10,
    SEQMIX_ERR_SHAPE = 11,
    SEQMIX_ERR_STRIDE = 12,
    SEQMIX_ERR_DTYPE = 13,
    SEQMIX_ERR_ALIAS = 14,
    SEQMIX_ERR_STRUCT_TOO_NEW = 15,
    SEQMIX_ERR_UNSUPPORTED = 20,
    SEQMIX_ERR_UNAVAILABLE = 21,
    SEQMIX_ERR_OUT_OF_MEMORY = 30,
    SEQMIX_ERR_WORKSPACE = 31,
    SEQMIX_ERR_BACKEND = 40,
    SEQMIX_ERR_INTERNAL = 50
};

/* ================================================================ tensors */

typedef int32_t seqmix_dtype;
enum { SEQMIX_F32 = 1, SEQMIX_BF16 = 2, SEQMIX_F16 = 3 }; /* 0 is no dtype */

#define SEQMIX_MAX_RANK 6

typedef struct seqmix_tensor {
    void *data;
    int32_t dtype;
    int32_t rank; /* 0 = absent */
    int64_t shape[SEQMIX_MAX_RANK];
    int64_t stride[SEQMIX_MAX_RANK]; /* in elements */
} seqmix_tensor;

/* ================================================================ rows, sequences, slots, checkpoints */

typedef struct seqmix_batch {
    uint32_t struct_size;
    int32_t n_seqs;   /* 0 = 1 (for _step: R) */
    int32_t max_rows; /* host-known bound on one sequence's rows; 0 = R */
    int32_t n_checkpoints;
    const int32_t *row_begin;  /* [n_seqs+1] ascending, first 0, last <= R; NULL = one sequence (_step: one row each) */
    const int32_t *read_slot;  /* [n_seqs]; -1 = start from zero; NULL = slot i for sequence i */
    const int32_t *write_slot; /* [n_seqs]; -1 = do not store; NULL = read_slot */
    const int32_t *ckpt_seq;   /* [n_checkpoints] sorted by (seq, row) */
    const int32_t *ckpt_row;   /* rows of that sequence consumed so far in this call, 1..len */
    const int32_t *ckpt_slot;  /* slot that receives the state after exactly that many rows; -1 = none */
} seqmix_batch;

/* ================================================================ context */

enum { SEQMIX_BACKEND_CPU = 0, SEQMIX_BACKEND_CUDA = 1 };
enum {
    SEQMIX_LEVEL_BEST = 0,
    SEQMIX_LEVEL_CPU_REF = 1,
    SEQMIX_LEVEL_CPU_GENERIC = 2,
    SEQMIX_LEVEL_CPU_AVX2 = 4,
    SEQMIX_LEVEL_CPU_AVX512 = 6,
    SEQMIX_LEVEL_CPU_AMX = 8,
    SEQMIX_LEVEL_CUDA_SIMPLE = 1,
    SEQMIX_LEVEL_CUDA_SM80 = 4,
    SEQMIX_LEVEL_CUDA_SM90 = 6
};
enum { SEQMIX_CTX_FAST = 1 }; /* seqmix_ctx_desc.flags */

#define SEQMIX_WORKSPACE_ALIGN 256

struct seqmix_api;
typedef struct seqmix_ctx {
    const struct seqmix_api *api;
} seqmix_ctx;

typedef void (*seqmix_task_fn)(void *arg, int64_t task, int32_t worker);
typedef void (*seqmix_parallel_fn)(void *user, seqmix_task_fn fn, void *arg, int64_t n_tasks);

typedef struct seqmix_ctx_desc {
    uint32_t struct_size;
    uint32_t flags;
    int32_t backend;
    int32_t device;    /* ordinal; -1 = the current one */
    int32_t level_cap; /* 0 = best rung */
    int32_t n_workers; /* 0 = 1 */
    int32_t max_seqs;  /* 0 = 4096 */
    int32_t zero0;     /* must be 0 */
    seqmix_parallel_fn parallel;
    void *parallel_user;
    void *stream;
} seqmix_ctx_desc;

/* ================================================================ ops */

/* Names of the ops for seqmix_op_query. */
enum {
    SEQMIX_OP_SHORT_CONV_ROWS = 1,
    SEQMIX_OP_SHORT_CONV_STEP = 2,
    SEQMIX_OP_SELECTIVE_SCAN_ROWS = 3,
    SEQMIX_OP_SELECTIVE_SCAN_STEP = 4,
    SEQMIX_OP_SSD_CHUNK_FORWARD = 5,
    SEQMIX_OP_SSD_STEP = 6,
    SEQMIX_OP_DELTANET_CHUNK_FORWARD = 7,
    SEQMIX_OP_DELTANET_STEP = 8,
    SEQMIX_OP_UNIT_LOWER_INVERSE = 9,
    SEQMIX_OP_GATED_RMS_NORM_ROWS = 10,
    SEQMIX_OP_LINEAR = 100,    /* experimental */
    SEQMIX_OP_EMBED_ROWS = 101 /* experimental */
};

enum {
    SEQMIX_QUERY_KERNEL = 1, /* const char *: static name of the kernel that would run this call */
    SEQMIX_QUERY_GRAIN = 2,  /* int64_t: rows per grid cell */
    SEQMIX_QUERY_LEVEL = 3   /* int32_t: level id of the rung that owns that kernel */
};

enum { SEQMIX_ACT_NONE = 0, SEQMIX_ACT_SILU = 1 };

typedef struct seqmix_conv_args {
    uint32_t struct_size;
    int32_t activation; /* SEQMIX_ACT_* */
    const seqmix_batch *batch;
    seqmix_tensor x, weight, bias, state, y;
} seqmix_conv_args;

typedef struct seqmix_scan_args {
    uint32_t struct_size;
    int32_t dt_softplus; /* 0 | 1 */
    const seqmix_batch *batch;
    seqmix_tensor x, dt, A, B, C, skip, dt_bias, z, state, y;
} seqmix_scan_args;

typedef struct seqmix_ssd_args {
    uint32_t struct_size;
    int32_t dt_softplus;  /* 0 | 1 */
    int32_t chunk;        /* 0 | 16 | 32 | 64 | 128 | 256 */
    float dt_min, dt_max; /* 0 = no bound */
    int32_t zero0;        /* must be 0 */
    const seqmix_batch *batch;
    seqmix_tensor x, dt, A, B, C, skip, dt_bias, z, state, y;
} seqmix_ssd_args;

enum {
    SEQMIX_GATE_NONE = 0,
    SEQMIX_GATE_LOG = 1,
    SEQMIX_GATE_ALPHA = 2,
    SEQMIX_GATE_SOFTPLUS = 3,
    SEQMIX_GATE_BOUNDED_SIGMOID = 4
};
enum { SEQMIX_BETA_VALUE = 0, SEQMIX_BETA_SIGMOID = 1, SEQMIX_BETA_SIGMOID2 = 2 };
enum { SEQMIX_HEADS_GROUPED = 0, SEQMIX_HEADS_TILED = 1 };

typedef struct seqmix_deltanet_args {
    uint32_t struct_size;
    int32_t gate_kind; /* SEQMIX_GATE_* */
    int32_t beta_kind; /* SEQMIX_BETA_* */
    int32_t qk_l2norm; /* 0 | 1 */
    int32_t head_map;  /* SEQMIX_HEADS_* */
    int32_t chunk;     /* 0 | 16 | 32 | 64 | 128 | 256 */
    float eps, scale, gate_lower_bound;
    int32_t zero0; /* must be 0 */
    const seqmix_batch *batch;
    seqmix_tensor q, k, v, gate, beta, A, dt_bias, state, o;
} seqmix_deltanet_args;

typedef struct seqmix_inverse_args {
    uint32_t struct_size;
    int32_t zero0; /* must be 0 */
    seqmix_tensor a, inv;
} seqmix_inverse_args;

enum { SEQMIX_NORM_GATE_SILU = 0, SEQMIX_NORM_GATE_SIGMOID = 1 };

typedef struct seqmix_norm_args {
    uint32_t struct_size;
    int32_t group;            /* 0 = D; must divide D */
    int32_t norm_before_gate; /* 0: norm(x*act(z)) | 1: norm(x)*act(z) */
    int32_t gate_act;         /* SEQMIX_NORM_GATE_* */
    int32_t weight_plus_one;  /* 0: w | 1: 1+w */
    float eps;
    seqmix_tensor x, z, weight, y;
} seqmix_norm_args;

#ifdef SEQMIX_EXPERIMENTAL
/* y = x*W^T + bias + residual. */
typedef struct seqmix_linear_args {
    uint32_t struct_size;
    int32_t zero0;
    seqmix_tensor x;        /* [R, I] */
    seqmix_tensor weight;   /* [O, I] any float dtype, independent of x's */
    seqmix_tensor bias;     /* [O] optional, f32 or X */
    seqmix_tensor residual; /* [R, O] optional, y's dtype; may be y */
    seqmix_tensor y;        /* [R, O] X or f32 */
} seqmix_linear_args;

/* y[r] = table[token[r]]. */
typedef struct seqmix_embed_args {
    uint32_t struct_size;
    int32_t n_tokens;
    const int32_t *tokens; /* [n_tokens], in [0, V) */
    seqmix_tensor table;   /* [V, D] any float dtype */
    seqmix_tensor y;       /* [n_tokens, D] any float dtype */
} seqmix_embed_args;
#endif

#include <seqmix/abi.h>

/* The library's only exported symbol. NULL for another ABI major. */
SEQMIX_API const struct seqmix_api *seqmix_get_api(uint32_t abi_version);
typedef const struct seqmix_api *(*seqmix_get_api_fn)(uint32_t abi_version); /* for dlsym */

static inline SEQMIX_CHECKED seqmix_status seqmix_ctx_create(const struct seqmix_api *api, const seqmix_ctx_desc *desc,
                                                             seqmix_ctx **out, char *why, size_t why_len)
{
    *out = NULL;
    if (why != NULL && why_len > 0) why[0] = '\0';
    return api != NULL ? api->ctx_create(desc, out, why, why_len) : SEQMIX_ERR_UNAVAILABLE;
}

static inline void seqmix_ctx_destroy(seqmix_ctx *ctx)
{
    if (ctx != NULL) ctx->api->ctx_destroy(ctx);
}

static inline SEQMIX_CHECKED seqmix_status seqmix_ctx_set_stream(seqmix_ctx *ctx, void *stream)
{
    return ctx->api->ctx_set_stream(ctx, stream);
}

static inline const char *seqmix_last_error(const seqmix_ctx *ctx)
{
    return ctx->api->last_error(ctx);
}

static inline const char *seqmix_status_name(const struct seqmix_api *api, seqmix_status status)
{
    return api->status_name(status);
}

static inline SEQMIX_CHECKED seqmix_status seqmix_op_query(seqmix_ctx *ctx, int32_t op, const void *args, int32_t what,
                                                           void *value)
{
    return ctx->api->op_query(ctx, op, args, what, value);
}

static inline SEQMIX_CHECKED seqmix_status seqmix_batch_check(const struct seqmix_api *api, const seqmix_batch *batch,
                                                              int64_t rows, int64_t slots, char *why, size_t why_len)
{
    return api->batch_check(batch, rows, slots, why, why_len);
}

static inline SEQMIX_CHECKED seqmix_status seqmix_short_conv_rows_workspace(seqmix_ctx *ctx,
                                                                            const seqmix_conv_args *args, size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, short_conv_rows_workspace) ? api->short_conv_rows_workspace(ctx, args, bytes)
                                                          : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_short_conv_rows(seqmix_ctx *ctx, const seqmix_conv_args *args,
                                                                  void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, short_conv_rows) ? api->short_conv_rows(ctx, args, workspace, workspace_bytes)
                                                : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_short_conv_step_workspace(seqmix_ctx *ctx,
                                                                            const seqmix_conv_args *args, size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, short_conv_step_workspace) ? api->short_conv_step_workspace(ctx, args, bytes)
                                                          : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_short_conv_step(seqmix_ctx *ctx, const seqmix_conv_args *args,
                                                                  void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, short_conv_step) ? api->short_conv_step(ctx, args, workspace, workspace_bytes)
                                                : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_selective_scan_rows_workspace(seqmix_ctx *ctx,
                                                                                const seqmix_scan_args *args,
                                                                                size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, selective_scan_rows_workspace) ? api->selective_scan_rows_workspace(ctx, args, bytes)
                                                              : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_selective_scan_rows(seqmix_ctx *ctx, const seqmix_scan_args *args,
                                                                      void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, selective_scan_rows) ? api->selective_scan_rows(ctx, args, workspace, workspace_bytes)
                                                    : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_selective_scan_step_workspace(seqmix_ctx *ctx,
                                                                                const seqmix_scan_args *args,
                                                                                size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, selective_scan_step_workspace) ? api->selective_scan_step_workspace(ctx, args, bytes)
                                                              : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_selective_scan_step(seqmix_ctx *ctx, const seqmix_scan_args *args,
                                                                      void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, selective_scan_step) ? api->selective_scan_step(ctx, args, workspace, workspace_bytes)
                                                    : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_ssd_chunk_forward_workspace(seqmix_ctx *ctx,
                                                                              const seqmix_ssd_args *args,
                                                                              size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, ssd_chunk_forward_workspace) ? api->ssd_chunk_forward_workspace(ctx, args, bytes)
                                                            : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_ssd_chunk_forward(seqmix_ctx *ctx, const seqmix_ssd_args *args,
                                                                    void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, ssd_chunk_forward) ? api->ssd_chunk_forward(ctx, args, workspace, workspace_bytes)
                                                  : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_ssd_step_workspace(seqmix_ctx *ctx, const seqmix_ssd_args *args,
                                                                     size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, ssd_step_workspace) ? api->ssd_step_workspace(ctx, args, bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_ssd_step(seqmix_ctx *ctx, const seqmix_ssd_args *args,
                                                           void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, ssd_step) ? api->ssd_step(ctx, args, workspace, workspace_bytes)
                                         : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_deltanet_chunk_forward_workspace(seqmix_ctx *ctx,
                                                                                   const seqmix_deltanet_args *args,
                                                                                   size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, deltanet_chunk_forward_workspace)
               ? api->deltanet_chunk_forward_workspace(ctx, args, bytes)
               : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_deltanet_chunk_forward(seqmix_ctx *ctx,
                                                                         const seqmix_deltanet_args *args,
                                                                         void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, deltanet_chunk_forward)
               ? api->deltanet_chunk_forward(ctx, args, workspace, workspace_bytes)
               : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_deltanet_step_workspace(seqmix_ctx *ctx,
                                                                          const seqmix_deltanet_args *args,
                                                                          size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, deltanet_step_workspace) ? api->deltanet_step_workspace(ctx, args, bytes)
                                                        : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_deltanet_step(seqmix_ctx *ctx, const seqmix_deltanet_args *args,
                                                                void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, deltanet_step) ? api->deltanet_step(ctx, args, workspace, workspace_bytes)
                                              : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_unit_lower_inverse_workspace(seqmix_ctx *ctx,
                                                                               const seqmix_inverse_args *args,
                                                                               size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, unit_lower_inverse_workspace) ? api->unit_lower_inverse_workspace(ctx, args, bytes)
                                                             : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_unit_lower_inverse(seqmix_ctx *ctx, const seqmix_inverse_args *args,
                                                                     void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, unit_lower_inverse) ? api->unit_lower_inverse(ctx, args, workspace, workspace_bytes)
                                                   : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_gated_rms_norm_rows_workspace(seqmix_ctx *ctx,
                                                                                const seqmix_norm_args *args,
                                                                                size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, gated_rms_norm_rows_workspace) ? api->gated_rms_norm_rows_workspace(ctx, args, bytes)
                                                              : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_gated_rms_norm_rows(seqmix_ctx *ctx, const seqmix_norm_args *args,
                                                                      void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, gated_rms_norm_rows) ? api->gated_rms_norm_rows(ctx, args, workspace, workspace_bytes)
                                                    : SEQMIX_ERR_UNAVAILABLE;
}

#ifdef SEQMIX_EXPERIMENTAL
static inline const struct seqmix_api_experimental *seqmix_experimental(const struct seqmix_api *api)
{
    return SEQMIX_API_HAS(api, experimental)
               ? (const struct seqmix_api_experimental *)api->experimental(SEQMIX_EXPERIMENTAL_VERSION)
               : NULL;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_linear_workspace(seqmix_ctx *ctx, const seqmix_linear_args *args,
                                                                   size_t *bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->linear_workspace(ctx, args, bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_linear(seqmix_ctx *ctx, const seqmix_linear_args *args,
                                                         void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->linear(ctx, args, workspace, workspace_bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_embed_rows_workspace(seqmix_ctx *ctx, const seqmix_embed_args *args,
                                                                       size_t *bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->embed_rows_workspace(ctx, args, bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_embed_rows(seqmix_ctx *ctx, const seqmix_embed_args *args,
                                                             void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->embed_rows(ctx, args, workspace, workspace_bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_mem_alloc(seqmix_ctx *ctx, size_t bytes, void **out)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    *out = NULL;
    return api != NULL ? api->mem_alloc(ctx, bytes, out) : SEQMIX_ERR_UNAVAILABLE;
}

static inline void seqmix_mem_free(seqmix_ctx *ctx, void *memory)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    if (api != NULL) api->mem_free(ctx, memory);
}

static inline SEQMIX_CHECKED seqmix_status seqmix_mem_copy(seqmix_ctx *ctx, void *to, const void *from, size_t bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->mem_copy(ctx, to, from, bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_sync(seqmix_ctx *ctx)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->sync(ctx) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_elapsed(seqmix_ctx *ctx, double *milliseconds)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->elapsed(ctx, milliseconds) : SEQMIX_ERR_UNAVAILABLE;
}
#endif /* SEQMIX_EXPERIMENTAL */

#ifdef __cplusplus
}
#endif
#endif
