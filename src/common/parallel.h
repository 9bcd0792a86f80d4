/* SPDX-License-Identifier: MIT */
/* Runs tasks serially, through the caller's runner, or on the context's pool. Tasks are cut by shape, never by worker count. */
#ifndef SEQMIX_COMMON_PARALLEL_H
#define SEQMIX_COMMON_PARALLEL_H

#include "ctx.h"

/* Calls fn(arg, task, worker) once for every task in [0, n_tasks), worker in [0, ctx->n_workers); returns when all are done.
 * SEQMIX_ERR_INTERNAL when the caller's runner broke its contract (worker out of range, a task not run exactly once). */
seqmix_status seqmix_parallel_for(struct seqmix_context *ctx, int64_t n_tasks, seqmix_task_fn fn, void *arg);

#endif
