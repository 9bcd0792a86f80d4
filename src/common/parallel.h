/* SPDX-License-Identifier: MIT */
/* Runs tasks serially, through the caller's runner, or on the context's pool. No bit of a result depends on how work is cut. */
#ifndef SEQMIX_COMMON_PARALLEL_H
#define SEQMIX_COMMON_PARALLEL_H

#include <stdbool.h>

#include "ctx.h"

/* Calls fn(arg, task, worker) once for every task in [0, n_tasks), worker in [0, ctx->n_workers); returns when all are done.
 * SEQMIX_ERR_INTERNAL when the caller's runner broke its contract (worker out of range, a task not run exactly once). */
seqmix_status seqmix_parallel_for(struct seqmix_context *ctx, int64_t n_tasks, seqmix_task_fn fn, void *arg);

/* Whether so many tasks keep the context's workers busy to the end; `alike` ones do when each worker gets as many. Only what has
 * the same bits however it is cut may be cut by it. */
static inline bool seqmix_tasks_enough(const struct seqmix_context *ctx, int64_t n_tasks, bool alike)
{
    return ctx->n_workers == 1 || n_tasks >= 2 * (int64_t)ctx->n_workers || (alike && n_tasks % ctx->n_workers == 0);
}

#endif
