/* SPDX-License-Identifier: MIT */
/*
 * Workers: the caller's runner in any order and on real threads, a runner that breaks its contract, the built-in pool, contexts
 * side by side. Bits never depend on any of it.
 */
#define _POSIX_C_SOURCE 200809L
#include <check.h>
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fixture.h"

static struct call call, serial;

/* What the call of an op writes without workers. */
static void run_serially(const struct op *op)
{
    seqmix_ctx *ctx = make_context(NULL);
    call_init(&serial, op);
    expect_success(ctx, &serial);
    seqmix_ctx_destroy(ctx);
}

enum manner {
    REVERSED,
    SHUFFLED,
    THREADS,
    BAD_WORKER,
    NEGATIVE_WORKER,
    LOST_TASK,
    REPEATED_TASK,
    BAD_TASK,
    NEGATIVE_TASK,
    NONE_AT_ALL
};

struct runner {
    enum manner manner;
    int32_t n_workers;
    atomic_int calls;
};

struct job {
    seqmix_task_fn fn;
    void *arg;
    int64_t n_tasks;
    int32_t worker;
    atomic_llong *next;
};

static void *work(void *user)
{
    const struct job *job = user;
    for (long long task; (task = atomic_fetch_add(job->next, 1)) < job->n_tasks;)
        job->fn(job->arg, task, job->worker);
    return NULL;
}

static void run_on_threads(const struct runner *runner, seqmix_task_fn fn, void *arg, int64_t n_tasks)
{
    pthread_t threads[8];
    struct job jobs[8];
    atomic_llong next = 0;
    for (int32_t w = 0; w < runner->n_workers; w++) {
        jobs[w] = (struct job){fn, arg, n_tasks, w, &next};
        ck_assert_int_eq(pthread_create(&threads[w], NULL, work, &jobs[w]), 0);
    }
    for (int32_t w = 0; w < runner->n_workers; w++)
        pthread_join(threads[w], NULL);
}

static void run(void *user, seqmix_task_fn fn, void *arg, int64_t n_tasks)
{
    struct runner *runner = user;
    const int32_t last_worker = runner->n_workers - 1;
    atomic_fetch_add(&runner->calls, 1);
    switch (runner->manner) {
    case REVERSED:
        for (int64_t task = n_tasks - 1; task >= 0; task--)
            fn(arg, task, last_worker);
        break;
    case SHUFFLED: /* the odd ones, then the even ones */
        for (int64_t i = 0; i < n_tasks; i++) {
            const int64_t odd = n_tasks / 2, task = i < odd ? 2 * i + 1 : 2 * (i - odd);
            fn(arg, task, (int32_t)(i % runner->n_workers));
        }
        break;
    case THREADS:
        run_on_threads(runner, fn, arg, n_tasks);
        break;
    case NONE_AT_ALL:
        break;
    default:
        for (int64_t task = 0; task < n_tasks; task++) {
            const bool last = task == n_tasks - 1;
            if (last && runner->manner == LOST_TASK) break;
            if (last && runner->manner == REPEATED_TASK) fn(arg, task, 0);
            if (last && runner->manner == BAD_TASK) fn(arg, n_tasks, 0);
            if (last && runner->manner == NEGATIVE_TASK) fn(arg, -1, 0);
            fn(arg, task,
               !last                               ? 0
               : runner->manner == BAD_WORKER      ? runner->n_workers
               : runner->manner == NEGATIVE_WORKER ? -1
                                                   : 0);
        }
    }
}

START_TEST(callers_runner)
{
    int used = 0;
    for (int i = 0; i < N_OPS; i++) {
        run_serially(&ops[i]);
        for (enum manner manner = REVERSED; manner <= THREADS; manner++) {
            struct runner runner = {manner, 1 + _i, 0};
            const seqmix_ctx_desc desc = {
                .struct_size = sizeof desc, .n_workers = 1 + _i, .parallel = run, .parallel_user = &runner};
            seqmix_ctx *ctx = make_context(&desc);
            call_init(&call, &ops[i]);
            expect_success(ctx, &call);
            ck_assert_mem_eq(call.arena, serial.arena, ARENA);
            used += atomic_load(&runner.calls);
            seqmix_ctx_destroy(ctx);
        }
    }
    ck_assert_int_gt(used, 3 * N_OPS / 2); /* most of these small calls have several tasks */
}
END_TEST

/* A runner that breaks its contract ends the op with INTERNAL; the context still works. */
START_TEST(broken_runner)
{
    struct runner runner = {(enum manner)_i, 2, 0};
    const seqmix_ctx_desc desc = {
        .struct_size = sizeof desc, .n_workers = 2, .parallel = run, .parallel_user = &runner};
    seqmix_ctx *ctx = make_context(&desc);
    for (int i = 0; i < N_OPS; i++) {
        runner.manner = (enum manner)_i;
        atomic_store(&runner.calls, 0);
        call_init(&call, &ops[i]);
        const seqmix_status status = call_run(ctx, &call);
        if (atomic_load(&runner.calls) == 0) continue;
        ck_assert_int_eq(status, SEQMIX_ERR_INTERNAL);
        ck_assert_ptr_nonnull(strstr(seqmix_last_error(ctx), "runner"));
        if (_i == BAD_WORKER) ck_assert_ptr_nonnull(strstr(seqmix_last_error(ctx), "worker 2 of 2"));
        if (_i == NEGATIVE_WORKER) ck_assert_ptr_nonnull(strstr(seqmix_last_error(ctx), "worker -1 of 2"));
        if (_i == BAD_TASK || _i == NEGATIVE_TASK)
            ck_assert_ptr_nonnull(
                strstr(seqmix_last_error(ctx), _i == BAD_TASK ? "called task " : "called task -1 of "));
        runner.manner = SHUFFLED;
        run_serially(&ops[i]);
        call_init(&call, &ops[i]);
        expect_success(ctx, &call);
        ck_assert_mem_eq(call.arena, serial.arena, ARENA);
    }
    seqmix_ctx_destroy(ctx);
}
END_TEST

START_TEST(pool)
{
    const int32_t workers[] = {1, 2, 3, 7};
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc, .n_workers = workers[_i]};
    seqmix_ctx *ctx = make_context(&desc);
    for (int i = 0; i < N_OPS; i++) {
        run_serially(&ops[i]);
        for (int repeat = 0; repeat < 20; repeat++) {
            call_init(&call, &ops[i]);
            expect_success(ctx, &call);
            ck_assert_mem_eq(call.arena, serial.arena, ARENA);
        }
    }
    seqmix_ctx_destroy(ctx);
}
END_TEST

/* Threads of this process; 0 where the system doesn't tell. */
static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    for (const struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;)
        n += entry->d_name[0] != '.';
    if (tasks != NULL) closedir(tasks);
    return n;
}

/* A pool is n_workers threads with the caller's, from creation to destruction; a runner or one worker needs none. */
START_TEST(pool_threads)
{
    struct runner runner = {REVERSED, 3, 0};
    const seqmix_ctx_desc plain = {.struct_size = sizeof plain, .n_workers = 1},
                          pooled = {.struct_size = sizeof pooled, .n_workers = 3};
    const seqmix_ctx_desc callers = {
        .struct_size = sizeof callers, .n_workers = 3, .parallel = run, .parallel_user = &runner};
    const int before = count_threads();
    if (before == 0) return;
    seqmix_ctx *without[2] = {make_context(&plain), make_context(&callers)};
    ck_assert_int_eq(count_threads(), before);
    seqmix_ctx *ctx = make_context(&pooled);
    const int with = count_threads();
    ck_assert_int_ge(with, before + 2); /* a sanitizer may have its own */
    seqmix_ctx_destroy(ctx);
    for (int wait = 0; wait < 1000 && count_threads() > with - 2; wait++)
        nanosleep(&(struct timespec){0, 1000000}, NULL); /* a joined thread takes a moment to vanish */
    ck_assert_int_le(count_threads(), with - 2);
    seqmix_ctx_destroy(without[0]);
    seqmix_ctx_destroy(without[1]);
}
END_TEST

/* A larger matrix product and batch, where workers really share the work. */
START_TEST(large_calls)
{
    enum { ROWS = 33, SIZE = 96 };
    static float x[ROWS * SIZE], weight[SIZE * SIZE], y[2][ROWS * SIZE];
    for (int i = 0; i < SIZE * SIZE; i++)
        weight[i] = (float)(i % 53 - 26) / 53.0f;
    for (int i = 0; i < ROWS * SIZE; i++)
        x[i] = (float)(i % 31 - 15) / 31.0f;
    for (int32_t side = 0; side < 2; side++) {
        const seqmix_ctx_desc desc = {.struct_size = sizeof desc, .n_workers = side == 0 ? 1 : 4};
        seqmix_ctx *ctx = make_context(&desc);
        const seqmix_linear_args args = {.struct_size = sizeof args,
                                         .x = {x, SEQMIX_F32, 2, {ROWS, SIZE}, {SIZE, 1}},
                                         .weight = {weight, SEQMIX_F32, 2, {SIZE, SIZE}, {SIZE, 1}},
                                         .y = {y[side], SEQMIX_F32, 2, {ROWS, SIZE}, {SIZE, 1}}};
        size_t bytes;
        for (int repeat = 0; repeat < 10; repeat++) {
            ck_assert_int_eq(seqmix_linear_workspace(ctx, &args, &bytes), SEQMIX_OK);
            void *workspace = aligned_alloc(SEQMIX_WORKSPACE_ALIGN, (bytes / 256 + 1) * 256);
            ck_assert_int_eq(seqmix_linear(ctx, &args, workspace, bytes), SEQMIX_OK);
            free(workspace);
        }
        seqmix_ctx_destroy(ctx);
    }
    ck_assert_mem_eq(y[0], y[1], sizeof y[0]);
}
END_TEST

struct side {
    int32_t n_workers;
    struct call call, expected;
    bool same;
};

static void *use_context(void *user)
{
    struct side *side = user;
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc, .n_workers = side->n_workers};
    seqmix_ctx *ctx = NULL;
    side->same = seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx, NULL, 0) == SEQMIX_OK;
    for (int round = 0; side->same && round < 20 * N_OPS; round++) {
        const struct op *op = &ops[round % N_OPS];
        if (op != side->expected.op) {
            call_init(&side->expected, op);
            side->same = side->same && call_run(ctx, &side->expected) == SEQMIX_OK;
        }
        call_init(&side->call, op);
        side->same = side->same && call_run(ctx, &side->call) == SEQMIX_OK &&
                     memcmp(side->call.arena, side->expected.arena, ARENA) == 0;
    }
    seqmix_ctx_destroy(ctx);
    return NULL;
}

START_TEST(two_contexts_at_once)
{
    static struct side sides[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        sides[i].n_workers = 1 + i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_context, &sides[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        ck_assert(sides[i].same);
    }
    ck_assert_mem_eq(sides[0].expected.arena, sides[1].expected.arena, ARENA);
}
END_TEST

/* A runner may be called while another context's is active: here each task of the first makes a call on the second. */
struct nested {
    seqmix_ctx *inner;
    struct call call;
    int ok, calls;
};

static void run_nested(void *user, seqmix_task_fn fn, void *arg, int64_t n_tasks)
{
    struct nested *nested = user;
    for (int64_t task = 0; task < n_tasks; task++) {
        call_init(&nested->call, &ops[task % N_OPS]);
        nested->ok += call_run(nested->inner, &nested->call) == SEQMIX_OK;
        nested->calls++;
        fn(arg, task, 0);
    }
}

START_TEST(context_inside_runner)
{
    static struct nested nested;
    struct runner runner = {REVERSED, 2, 0};
    const seqmix_ctx_desc inner = {
        .struct_size = sizeof inner, .n_workers = 2, .parallel = run, .parallel_user = &runner};
    const seqmix_ctx_desc outer = {.struct_size = sizeof outer, .parallel = run_nested, .parallel_user = &nested};
    nested.inner = make_context(&inner);
    seqmix_ctx *ctx = make_context(&outer);
    for (int i = 0; i < N_OPS; i++) {
        run_serially(&ops[i]);
        call_init(&call, &ops[i]);
        expect_success(ctx, &call);
        ck_assert_mem_eq(call.arena, serial.arena, ARENA);
    }
    ck_assert_int_gt(nested.calls, 0);
    ck_assert_int_eq(nested.ok, nested.calls);
    seqmix_ctx_destroy(ctx);
    seqmix_ctx_destroy(nested.inner);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("threads");
    TCase *tcase = tcase_create("workers");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, callers_runner, 0, 4);
    tcase_add_loop_test(tcase, broken_runner, BAD_WORKER, NONE_AT_ALL + 1);
    tcase_add_loop_test(tcase, pool, 0, 4);
    tcase_add_test(tcase, pool_threads);
    tcase_add_test(tcase, large_calls);
    tcase_add_test(tcase, two_contexts_at_once);
    tcase_add_test(tcase, context_inside_runner);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
