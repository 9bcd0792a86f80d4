/* SPDX-License-Identifier: MIT */
/*
 * A sleeping pool. One job at a time: the caller publishes it under the lock, wakes the workers, takes tasks itself from the
 * shared counter and waits until every woken worker has left the job. Which worker runs which task is open, so results must
 * not depend on it (parallel.h).
 */
#define _POSIX_C_SOURCE 200809L
#include "pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

struct worker {
    struct seqmix_pool *pool;
    pthread_t thread;
    int32_t index; /* 1..n_workers-1 */
};

struct seqmix_pool {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pid_t owner; /* the process whose threads these are */
    int32_t n_threads, busy;
    uint64_t job; /* number of the current job; workers wait for it to change */
    bool stop;
    seqmix_task_fn fn;
    void *arg;
    int64_t n_tasks;
    _Atomic int64_t next;
    int32_t capacity;
    struct worker workers[];
};

static void take_tasks(struct seqmix_pool *pool, int32_t worker)
{
    const int64_t n_tasks = pool->n_tasks;
    for (;;) {
        const int64_t task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (task >= n_tasks) return;
        pool->fn(pool->arg, task, worker);
    }
}

static void *worker_main(void *arg)
{
    const struct worker *self = arg;
    struct seqmix_pool *pool = self->pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->stop && pool->job == seen)
            pthread_cond_wait(&pool->work, &pool->lock);
        if (pool->stop) break;
        seen = pool->job;
        pthread_mutex_unlock(&pool->lock);
        take_tasks(pool, self->index);
        pthread_mutex_lock(&pool->lock);
        if (--pool->busy == 0) pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Starts the threads of a pool that has none; false when not all could be started (n_threads tells how many run). */
static bool start_threads(struct seqmix_pool *pool)
{
    pool->owner = getpid();
    pool->job = 0;
    pool->busy = 0;
    pool->n_threads = 0;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    for (int32_t i = 0; i < pool->capacity; i++) {
        struct worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->index = i + 1;
        if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) return false;
        pool->n_threads = i + 1;
    }
    return true;
}

struct seqmix_pool *seqmix_pool_create(int32_t n_workers)
{
    const size_t n_threads = (size_t)n_workers - 1;
    struct seqmix_pool *pool = calloc(1, sizeof *pool + n_threads * sizeof(struct worker));
    if (pool == NULL) return NULL;
    pool->capacity = (int32_t)n_threads;
    if (start_threads(pool)) return pool;
    seqmix_pool_destroy(pool);
    return NULL;
}

void seqmix_pool_destroy(struct seqmix_pool *pool)
{
    if (pool == NULL) return;
    if (pool->owner == getpid()) { /* a forked child has no threads to join */
        pthread_mutex_lock(&pool->lock);
        pool->stop = true;
        pthread_cond_broadcast(&pool->work);
        pthread_mutex_unlock(&pool->lock);
        for (int32_t i = 0; i < pool->n_threads; i++)
            pthread_join(pool->workers[i].thread, NULL);
        pthread_cond_destroy(&pool->done);
        pthread_cond_destroy(&pool->work);
        pthread_mutex_destroy(&pool->lock);
    }
    free(pool);
}

void seqmix_pool_run(struct seqmix_pool *pool, seqmix_task_fn fn, void *arg, int64_t n_tasks)
{
    if (pool->owner != getpid()) (void)start_threads(pool);
    pthread_mutex_lock(&pool->lock);
    pool->fn = fn;
    pool->arg = arg;
    pool->n_tasks = n_tasks;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    pool->busy = pool->n_threads;
    pool->job++;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    take_tasks(pool, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->busy > 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
