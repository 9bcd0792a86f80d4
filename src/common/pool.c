/* SPDX-License-Identifier: MIT */
/*
 * A sleeping pool. One job at a time: the caller opens its gate, wakes as many workers as there is work for, takes tasks itself
 * from the shared counter and, when none is left, shuts the gate: a worker that wakes later stays out, so a short job costs the
 * caller a wake-up call but not the wake-up. It then waits for those that are still inside, for a moment awake, since their last
 * tasks are mostly about to end, then asleep. Which worker runs which task is open, so results must not depend on it
 * (parallel.h). Measurements of this and two other designs: docs/BENCH.md.
 */
#define _POSIX_C_SOURCE 200809L
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* Looks of a waiting caller at the gate, about ten microseconds: a sleeping one takes longer than that to come back. And of a
 * worker at the semaphore before it sleeps, about sixty: between the ops of a decode step there is less. */
enum { SPIN_LOOKS = 20000, LINGER_LOOKS = 100 };

/* The gate: OPEN while workers may enter, plus INSIDE for each that has. */
enum { OPEN = 1, INSIDE = 2 };

struct worker {
    struct seqmix_pool *pool;
    pthread_t thread;
    int32_t index; /* 1..n_workers-1 */
};

struct seqmix_pool {
    pid_t owner; /* the process whose threads these are */
    int32_t capacity, n_threads;
    sem_t work; /* a token says: look at the gate */
    sem_t done; /* the last worker has left, and the caller had gone to sleep */
    atomic_bool stop, caller_sleeps;
    _Atomic int32_t gate;
    seqmix_task_fn fn; /* the job; written while the gate is 0 */
    void *arg;
    int64_t n_tasks;
    _Atomic int64_t next;
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

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0) /* a signal handler ran */
        ;
}

/* A worker's next token: the next job mostly comes at once, and a sleeping worker would be late for it. */
static void wait_for_work(struct seqmix_pool *pool)
{
    for (int i = 0; i < LINGER_LOOKS; i++) {
        if (sem_trywait(&pool->work) == 0) return;
        (void)sched_yield(); /* whoever else wants this core has it */
    }
    wait_for(&pool->work);
}

static bool enter(struct seqmix_pool *pool)
{
    int32_t gate = atomic_load(&pool->gate);
    while ((gate & OPEN) != 0)
        if (atomic_compare_exchange_weak(&pool->gate, &gate, gate + INSIDE)) return true;
    return false;
}

static void *worker_main(void *arg)
{
    const struct worker *self = arg;
    struct seqmix_pool *pool = self->pool;
    for (;;) {
        wait_for_work(pool);
        if (atomic_load(&pool->stop)) return NULL;
        if (!enter(pool)) continue;
        take_tasks(pool, self->index);
        const bool last = atomic_fetch_sub(&pool->gate, INSIDE) == INSIDE;
        if (last && atomic_exchange(&pool->caller_sleeps, false)) sem_post(&pool->done);
    }
}

/* Starts the threads of a pool that has none; false when not all could be started (n_threads tells how many run). */
static bool start_threads(struct seqmix_pool *pool)
{
    pool->owner = getpid();
    pool->n_threads = 0;
    atomic_store(&pool->gate, 0);
    atomic_store(&pool->caller_sleeps, false);
    sem_init(&pool->work, 0, 0);
    sem_init(&pool->done, 0, 0);
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
        atomic_store(&pool->stop, true);
        for (int32_t i = 0; i < pool->n_threads; i++)
            sem_post(&pool->work);
        for (int32_t i = 0; i < pool->n_threads; i++)
            pthread_join(pool->workers[i].thread, NULL);
        sem_destroy(&pool->done);
        sem_destroy(&pool->work);
    }
    free(pool);
}

static void open_gate(struct seqmix_pool *pool)
{
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store(&pool->gate, OPEN);
    const int64_t useful = pool->n_tasks - 1, wanted = useful < pool->n_threads ? useful : pool->n_threads;
    int tokens = 0; /* that nobody has taken yet: whoever does will find this gate open */
    sem_getvalue(&pool->work, &tokens);
    for (int64_t i = tokens; i < wanted; i++)
        sem_post(&pool->work);
}

static void shut_gate(struct seqmix_pool *pool)
{
    int32_t gate = atomic_fetch_sub(&pool->gate, OPEN) - OPEN;
    for (int i = 0; gate != 0 && i < SPIN_LOOKS; i++)
        gate = atomic_load(&pool->gate);
    if (gate == 0) return;
    atomic_store(&pool->caller_sleeps, true);
    /* the last worker may have left before it could see that; who takes the flag back knows which */
    if (atomic_load(&pool->gate) == 0 && atomic_exchange(&pool->caller_sleeps, false)) return;
    wait_for(&pool->done);
}

void seqmix_pool_run(struct seqmix_pool *pool, seqmix_task_fn fn, void *arg, int64_t n_tasks)
{
    if (pool->owner != getpid()) (void)start_threads(pool);
    pool->fn = fn;
    pool->arg = arg;
    pool->n_tasks = n_tasks;
    open_gate(pool);
    take_tasks(pool, 0);
    shut_gate(pool);
}
