/* SPDX-License-Identifier: MIT */
#include "parallel.h"

#include <stdatomic.h>

#include "pool.h"
#include "status.h"

/* What a caller's runner gets in place of the kernel's task: it is held to its contract. */
struct guarded {
    seqmix_task_fn fn;
    void *arg;
    int64_t n_tasks;
    int32_t n_workers;
    _Atomic int64_t runs;
    _Atomic int64_t bad_calls;            /* calls with a worker or task out of range */
    _Atomic int64_t bad_worker, bad_task; /* of the last such call */
};

static void guarded_task(void *arg, int64_t task, int32_t worker)
{
    struct guarded *guarded = arg;
    if (worker < 0 || worker >= guarded->n_workers || task < 0 || task >= guarded->n_tasks) {
        atomic_store(&guarded->bad_worker, worker);
        atomic_store(&guarded->bad_task, task);
        atomic_fetch_add(&guarded->bad_calls, 1);
        return;
    }
    guarded->fn(guarded->arg, task, worker);
    atomic_fetch_add(&guarded->runs, 1);
}

static seqmix_status run_callers(struct seqmix_context *ctx, int64_t n_tasks, seqmix_task_fn fn, void *arg)
{
    struct guarded guarded = {.fn = fn, .arg = arg, .n_tasks = n_tasks, .n_workers = ctx->n_workers};
    const char *op = ctx->op;
    ctx->in_runner = true;
    ctx->parallel(ctx->parallel_user, guarded_task, &guarded, n_tasks);
    ctx->in_runner = false;
    ctx->op = op; /* of a call from inside the runner, neither the name nor the message is left */
    ctx->error[0] = '\0';
    if (atomic_load(&guarded.bad_calls) != 0)
        return seqmix_fail(ctx, SEQMIX_ERR_INTERNAL,
                           "the parallel runner called task %lld of %lld on worker %lld of %d",
                           (long long)atomic_load(&guarded.bad_task), (long long)n_tasks,
                           (long long)atomic_load(&guarded.bad_worker), (int)ctx->n_workers);
    const long long runs = atomic_load(&guarded.runs);
    if (runs != n_tasks)
        return seqmix_fail(ctx, SEQMIX_ERR_INTERNAL, "the parallel runner ran %lld tasks of %lld", runs,
                           (long long)n_tasks);
    return SEQMIX_OK;
}

seqmix_status seqmix_parallel_for(struct seqmix_context *ctx, int64_t n_tasks, seqmix_task_fn fn, void *arg)
{
    if (n_tasks > 1 && ctx->parallel != NULL && !ctx->in_runner) return run_callers(ctx, n_tasks, fn, arg);
    if (n_tasks > 1 && ctx->pool != NULL) {
        seqmix_pool_run(ctx->pool, fn, arg, n_tasks);
        return SEQMIX_OK;
    }
    for (int64_t task = 0; task < n_tasks; task++)
        fn(arg, task, 0);
    return SEQMIX_OK;
}
