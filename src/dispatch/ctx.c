/* SPDX-License-Identifier: MIT */
/* Life of a context, and the experimental memory helpers: the only place where the library allocates. */
#define _POSIX_C_SOURCE 200809L
#include "ctx.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dispatch.h"
#include "pool.h"
#include "status.h"

enum { DEFAULT_MAX_SEQS = 4096, MOST_SEQS = 1 << 24, MOST_WORKERS = 1024 };

static seqmix_status check_desc(const seqmix_ctx_desc *desc, char *why, size_t why_len)
{
    const seqmix_status bad = SEQMIX_ERR_INVALID_ARG;
    if (desc->backend != SEQMIX_BACKEND_CPU && desc->backend != SEQMIX_BACKEND_CUDA)
        return seqmix_fail_text(why, why_len, bad, "desc.backend=%d is no backend", (int)desc->backend);
    if ((desc->flags & ~(uint32_t)SEQMIX_CTX_FAST) != 0)
        return seqmix_fail_text(why, why_len, bad, "desc.flags=0x%x has unknown bits", (unsigned)desc->flags);
    if (desc->device < -1 || (desc->backend == SEQMIX_BACKEND_CPU && desc->device > 0))
        return seqmix_fail_text(why, why_len, bad, "desc.device=%d is no device of backend %d", (int)desc->device,
                                (int)desc->backend);
    if (desc->level_cap < 0)
        return seqmix_fail_text(why, why_len, bad, "desc.level_cap=%d is negative", (int)desc->level_cap);
    if (desc->n_workers < 0 || desc->n_workers > MOST_WORKERS)
        return seqmix_fail_text(why, why_len, bad, "desc.n_workers=%d is not in 0..%d", (int)desc->n_workers,
                                MOST_WORKERS);
    if (desc->max_seqs < 0 || desc->max_seqs > MOST_SEQS)
        return seqmix_fail_text(why, why_len, bad, "desc.max_seqs=%d is not in 0..%d", (int)desc->max_seqs, MOST_SEQS);
    if (desc->zero0 != 0) return seqmix_fail_text(why, why_len, bad, "desc.zero0=%d is not 0", (int)desc->zero0);
    if (desc->backend == SEQMIX_BACKEND_CPU && desc->stream != NULL)
        return seqmix_fail_text(why, why_len, bad, "desc.stream is set, but a CPU context has no stream");
    return SEQMIX_OK;
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

seqmix_status seqmix_context_create(const seqmix_ctx_desc *caller, seqmix_ctx **out, char *why, size_t why_len)
{
    seqmix_ctx_desc desc;
    *out = NULL;
    if (caller == NULL) return seqmix_fail_text(why, why_len, SEQMIX_ERR_INVALID_ARG, "desc is NULL");
    SEQMIX_TRY(seqmix_copy_struct(&desc, sizeof desc, caller, "desc", why, why_len));
    SEQMIX_TRY(check_desc(&desc, why, why_len));
    const struct seqmix_kernels *rung = NULL;
    SEQMIX_TRY(seqmix_choose_rung(&desc, &rung, why, why_len));

    struct seqmix_context *ctx = calloc(1, sizeof *ctx);
    if (ctx == NULL) return seqmix_fail_text(why, why_len, SEQMIX_ERR_OUT_OF_MEMORY, "no memory for a context");
    ctx->pub.api = seqmix_get_api(SEQMIX_ABI_VERSION);
    ctx->rung = rung;
    ctx->flags = desc.flags;
    ctx->backend = desc.backend;
    ctx->device = desc.device;
    ctx->n_workers = desc.n_workers > 0 ? desc.n_workers : 1;
    ctx->max_seqs = desc.max_seqs > 0 ? desc.max_seqs : DEFAULT_MAX_SEQS;
    ctx->parallel = desc.parallel;
    ctx->parallel_user = desc.parallel_user;
    ctx->stream = desc.stream;
    ctx->mark = now_ms();

    ctx->slots_capacity = 1;
    while (ctx->slots_capacity <= 2 * (int64_t)ctx->max_seqs)
        ctx->slots_capacity *= 2;
    ctx->slots = malloc((size_t)ctx->slots_capacity * sizeof *ctx->slots);
    if (rung->memory != NULL) ctx->device_state = calloc(1, rung->memory->state_bytes);
    const bool wants_pool = ctx->parallel == NULL && ctx->n_workers > 1;
    if (ctx->slots == NULL || (rung->memory != NULL && ctx->device_state == NULL)) {
        seqmix_context_destroy(&ctx->pub);
        return seqmix_fail_text(why, why_len, SEQMIX_ERR_OUT_OF_MEMORY, "no memory for max_seqs=%d",
                                (int)desc.max_seqs);
    }
    if (wants_pool && (ctx->pool = seqmix_pool_create(ctx->n_workers)) == NULL) {
        seqmix_context_destroy(&ctx->pub);
        return seqmix_fail_text(why, why_len, SEQMIX_ERR_OUT_OF_MEMORY,
                                "n_workers=%d, but the system gives no more threads", (int)desc.n_workers);
    }
    for (int64_t i = 0; i < ctx->slots_capacity; i++)
        ctx->slots[i].slot = -1;
    ctx->op = "ctx_create";
    const seqmix_status status = rung->memory != NULL ? rung->memory->open(ctx) : SEQMIX_OK;
    if (status != SEQMIX_OK) {
        (void)seqmix_fail_text(why, why_len, status, "%s", ctx->error);
        seqmix_context_destroy(&ctx->pub);
        return status;
    }
    *out = &ctx->pub;
    return SEQMIX_OK;
}

void seqmix_context_destroy(seqmix_ctx *pub)
{
    struct seqmix_context *ctx = (struct seqmix_context *)pub;
    if (ctx == NULL) return;
    if (ctx->rung->memory != NULL) ctx->rung->memory->close(ctx);
    seqmix_pool_destroy(ctx->pool);
    free(ctx->device_state);
    free(ctx->slots);
    free(ctx);
}

seqmix_status seqmix_context_set_stream(seqmix_ctx *pub, void *stream)
{
    struct seqmix_context *ctx = (struct seqmix_context *)pub;
    ctx->op = "ctx_set_stream";
    if (ctx->backend == SEQMIX_BACKEND_CPU && stream != NULL)
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "stream is set, but a CPU context has no stream");
    ctx->stream = stream;
    return SEQMIX_OK;
}

const char *seqmix_context_last_error(const seqmix_ctx *pub)
{
    return ((const struct seqmix_context *)pub)->error;
}

seqmix_status seqmix_context_alloc(seqmix_ctx *pub, size_t bytes, void **out)
{
    struct seqmix_context *ctx = (struct seqmix_context *)pub;
    const size_t align = SEQMIX_WORKSPACE_ALIGN;
    ctx->op = "mem_alloc";
    if (ctx->rung->memory != NULL) return ctx->rung->memory->alloc(ctx, bytes, out);
    if (bytes > PTRDIFF_MAX - align) return seqmix_fail(ctx, SEQMIX_ERR_OUT_OF_MEMORY, "bytes=%zu is too many", bytes);
    const size_t rounded = bytes > 0 ? (bytes + align - 1) / align * align : align;
    *out = aligned_alloc(align, rounded);
    return *out != NULL ? SEQMIX_OK : seqmix_fail(ctx, SEQMIX_ERR_OUT_OF_MEMORY, "bytes=%zu are not to be had", bytes);
}

void seqmix_context_free(seqmix_ctx *pub, void *memory)
{
    struct seqmix_context *ctx = (struct seqmix_context *)pub;
    if (ctx->rung->memory != NULL)
        ctx->rung->memory->release(ctx, memory);
    else
        free(memory);
}

seqmix_status seqmix_context_copy(seqmix_ctx *pub, void *to, const void *from, size_t bytes)
{
    struct seqmix_context *ctx = (struct seqmix_context *)pub;
    ctx->op = "mem_copy";
    if (ctx->rung->memory != NULL) return ctx->rung->memory->copy(ctx, to, from, bytes);
    if (bytes > 0) memmove(to, from, bytes);
    return SEQMIX_OK;
}

seqmix_status seqmix_context_sync(seqmix_ctx *pub)
{
    struct seqmix_context *ctx = (struct seqmix_context *)pub;
    ctx->op = "sync";
    return ctx->rung->memory != NULL ? ctx->rung->memory->sync(ctx) : SEQMIX_OK;
}

seqmix_status seqmix_context_elapsed(seqmix_ctx *pub, double *milliseconds)
{
    struct seqmix_context *ctx = (struct seqmix_context *)pub;
    ctx->op = "elapsed";
    if (ctx->rung->memory != NULL) return ctx->rung->memory->elapsed(ctx, milliseconds);
    const double now = now_ms();
    *milliseconds = now - ctx->mark;
    ctx->mark = now;
    return SEQMIX_OK;
}
