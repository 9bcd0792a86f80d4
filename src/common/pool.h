/* SPDX-License-Identifier: MIT */
/* The built-in worker pool: idle workers sleep, the calling thread is worker 0. Owned by one context. */
#ifndef SEQMIX_COMMON_POOL_H
#define SEQMIX_COMMON_POOL_H

#include <seqmix/seqmix.h>

struct seqmix_pool;

/* A pool of n_workers (>= 2), the caller included; NULL when memory or threads are not to be had. */
struct seqmix_pool *seqmix_pool_create(int32_t n_workers);
void seqmix_pool_destroy(struct seqmix_pool *pool);

/* fn(arg, task, worker) for every task, on the workers that are awake in time; returns when all are done. In a forked child, whose copy of the pool
 * has no threads, it starts new ones; where that fails the caller runs every task itself. */
void seqmix_pool_run(struct seqmix_pool *pool, seqmix_task_fn fn, void *arg, int64_t n_tasks);

#endif
