/* SPDX-License-Identifier: MIT */
/*
 * The built-in pool beyond the ordinary call (threads.c): idle workers use no processor, a forked child has workers of its own,
 * missing threads are an error at creation and none later, contexts run side by side, come and go. pthread_create is replaced
 * here, so that it can fail when asked to.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"

typedef int (*create_fn)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static atomic_int threads_left = INT32_MAX; /* how many more may be created */

/* Takes the place of libc's for the library too. */
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                                          void *(*start)(void *), void *arg)
{
    void *const found = dlsym(RTLD_NEXT, "pthread_create");
    create_fn create;
    memcpy(&create, &found, sizeof create);
    if (atomic_fetch_sub(&threads_left, 1) <= 0) return 11; /* EAGAIN */
    return create(thread, attributes, start, arg);
}

static struct call call, serial[N_OPS];

static seqmix_ctx *make_pool(int32_t n_workers)
{
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc, .n_workers = n_workers};
    return make_context(&desc);
}

/* What the calls of all ops write without workers. */
static void setup(void)
{
    seqmix_ctx *ctx = make_context(NULL);
    for (int i = 0; i < N_OPS; i++) {
        call_init(&serial[i], &ops[i]);
        expect_success(ctx, &serial[i]);
    }
    seqmix_ctx_destroy(ctx);
}

/* Whether every op works and writes those bits; asserts nothing, for children and threads. */
static bool all_ops(seqmix_ctx *ctx, struct call *own)
{
    for (int i = 0; i < N_OPS; i++) {
        call_init(own, &ops[i]);
        if (call_run(ctx, own) != SEQMIX_OK || memcmp(own->arena, serial[i].arena, ARENA) != 0) return false;
    }
    return true;
}

static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    for (const struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;)
        n += entry->d_name[0] != '.';
    if (tasks != NULL) closedir(tasks);
    return n;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

START_TEST(idle_workers_sleep)
{
    seqmix_ctx *ctx = make_pool(4);
    ck_assert(all_ops(ctx, &call));
    pause_ms(20);
    const double before = processor_seconds();
    pause_ms(300);
    ck_assert_double_lt(processor_seconds() - before, 0.1); /* one that spins would use 0.3 s */
    seqmix_ctx_destroy(ctx);
}
END_TEST

/* ---- fork ---- */

/* Not under the sanitizers: ThreadSanitizer does not follow threads into a child, and AddressSanitizer's malloc hangs there when
 * another thread was in it at the fork (seen in backtraces of such children). */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { N_CHILDREN = 0 };
#else
enum { N_CHILDREN = 8 };
#endif

/* The exit status of a child that runs fn(ctx). */
static int in_child(seqmix_ctx *ctx, int (*fn)(seqmix_ctx *))
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL); /* libcheck's handler would kill the parent */
        alarm(30);                /* rather than hang */
        _exit(fn(ctx));
    }
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* 0 when the child gets its own two workers and right results. A sanitizer may have threads too. */
static int use_and_destroy(seqmix_ctx *ctx)
{
    const int before = count_threads();
    if (!all_ops(ctx, &call)) return 1;
    if (before > 0 && count_threads() != before + 2) return 2;
    if (!all_ops(ctx, &call)) return 3;
    seqmix_ctx_destroy(ctx);
    for (int wait = 0; wait < 1000 && count_threads() > before; wait++)
        pause_ms(1);
    return count_threads() > before ? 4 : 0;
}

static int only_destroy(seqmix_ctx *ctx)
{
    seqmix_ctx_destroy(ctx);
    return 0;
}

static int fork_again(seqmix_ctx *ctx)
{
    if (!all_ops(ctx, &call)) return 1;
    const pid_t child = fork();
    if (child == 0) _exit(use_and_destroy(ctx));
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 5;
    return all_ops(ctx, &call) ? 0 : 6;
}

static int without_threads(seqmix_ctx *ctx)
{
    const int before = count_threads();
    atomic_store(&threads_left, 1);
    if (!all_ops(ctx, &call)) return 1;
    if (before > 0 && count_threads() != before + 1) return 2;
    seqmix_ctx_destroy(ctx);
    return 0;
}

START_TEST(forked_child)
{
    int (*const children[])(seqmix_ctx *) = {use_and_destroy, only_destroy, fork_again, without_threads};
    seqmix_ctx *ctx = make_pool(3);
    if (_i % 2 != 0) ck_assert(all_ops(ctx, &call));
    const int before = count_threads();
    ck_assert_int_eq(in_child(ctx, children[_i / 2]), 0);
    ck_assert_int_eq(count_threads(), before);
    ck_assert(all_ops(ctx, &call));
    seqmix_ctx_destroy(ctx);
}
END_TEST

struct busy {
    atomic_bool stop, wrong;
    seqmix_ctx *ctx;
    struct call call;
};

static void *keep_calling(void *user)
{
    struct busy *busy = user;
    while (!atomic_load(&busy->stop))
        if (!all_ops(busy->ctx, &busy->call)) atomic_store(&busy->wrong, true);
    return NULL;
}

/* Another context is in the middle of its calls when the process forks. */
START_TEST(fork_beside_calls)
{
    static struct busy busy;
    pthread_t thread;
    seqmix_ctx *ctx = make_pool(3);
    busy.ctx = make_pool(2);
    ck_assert_int_eq(pthread_create(&thread, NULL, keep_calling, &busy), 0);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(in_child(ctx, use_and_destroy), 0);
    atomic_store(&busy.stop, true);
    pthread_join(thread, NULL);
    ck_assert(!atomic_load(&busy.wrong));
    seqmix_ctx_destroy(busy.ctx);
    seqmix_ctx_destroy(ctx);
}
END_TEST

/* ---- threads that are not to be had ---- */

START_TEST(threads_refused)
{
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc, .n_workers = 5};
    seqmix_ctx *ctx = NULL;
    char why[256];
    const int before = count_threads();
    atomic_store(&threads_left, _i);
    ck_assert_int_eq(seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx, why, sizeof why),
                     SEQMIX_ERR_OUT_OF_MEMORY);
    ck_assert_ptr_null(ctx);
    ck_assert_str_eq(why, "n_workers=5, but the system gives no more threads");
    for (int wait = 0; wait < 1000 && count_threads() > before; wait++)
        pause_ms(1);
#ifndef __SANITIZE_THREAD__ /* it starts a thread of its own */
    ck_assert_int_eq(count_threads(), before);
#endif
    atomic_store(&threads_left, 4);
    ctx = make_pool(5);
    ck_assert(all_ops(ctx, &call));
    seqmix_ctx_destroy(ctx);
}
END_TEST

/* ---- many contexts ---- */

static void *use_pool(void *user)
{
    struct busy *busy = user;
    seqmix_ctx *ctx = make_pool(3);
    for (int round = 0; round < 50; round++)
        if (!all_ops(ctx, &busy->call)) atomic_store(&busy->wrong, true);
    seqmix_ctx_destroy(ctx);
    return NULL;
}

START_TEST(pools_side_by_side)
{
    enum { N = 3 };
    static struct busy sides[N];
    pthread_t threads[N];
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_pool, &sides[i]), 0);
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        ck_assert(!atomic_load(&sides[i].wrong));
    }
}
END_TEST

/* Destroyed before its threads ran, and right after a call, while late workers are still waking up. */
START_TEST(come_and_go)
{
    for (int round = 0; round < 200; round++) {
        seqmix_ctx_destroy(make_pool(4));
        seqmix_ctx *ctx = make_pool(2 + round % 3);
        call_init(&call, &ops[round % N_OPS]);
        ck_assert_int_eq(call_run(ctx, &call), SEQMIX_OK);
        seqmix_ctx_destroy(ctx);
    }
}
END_TEST

/* Tasks so long that the caller, done first, goes to sleep until the last worker wakes it. */
START_TEST(caller_waits)
{
    enum { ROWS = 48, SIZE = 384 };
    static float x[ROWS * SIZE], weight[SIZE * SIZE], y[2][ROWS * SIZE];
    const int32_t n_workers[2] = {1, 3};
    for (int i = 0; i < SIZE * SIZE; i++)
        weight[i] = (float)(i % 53 - 26) / 53.0f;
    for (int i = 0; i < ROWS * SIZE; i++)
        x[i] = (float)(i % 31 - 15) / 31.0f;
    for (int side = 0; side < 2; side++) {
        seqmix_ctx *ctx = make_pool(n_workers[side]);
        const seqmix_linear_args args = {.struct_size = sizeof args,
                                         .x = {x, SEQMIX_F32, 2, {ROWS, SIZE}, {SIZE, 1}},
                                         .weight = {weight, SEQMIX_F32, 2, {SIZE, SIZE}, {SIZE, 1}},
                                         .y = {y[side], SEQMIX_F32, 2, {ROWS, SIZE}, {SIZE, 1}}};
        size_t bytes;
        ck_assert_int_eq(seqmix_linear_workspace(ctx, &args, &bytes), SEQMIX_OK);
        void *workspace = aligned_alloc(SEQMIX_WORKSPACE_ALIGN, (bytes / 256 + 1) * 256);
        for (int repeat = 0; repeat < 30; repeat++) {
            memset(y[side], 0, sizeof y[side]);
            ck_assert_int_eq(seqmix_linear(ctx, &args, workspace, bytes), SEQMIX_OK);
            if (side > 0) ck_assert_mem_eq(y[1], y[0], sizeof y[0]);
        }
        free(workspace);
        seqmix_ctx_destroy(ctx);
    }
}
END_TEST

/* ---- a call from inside the runner of the same context ---- */

struct own_context {
    seqmix_ctx *ctx;
    struct call inner;
    int calls, wrong;
    bool fails;
};

static void run_with_calls(void *user, seqmix_task_fn fn, void *arg, int64_t n_tasks)
{
    struct own_context *own = user;
    own->calls++;
    for (int64_t task = n_tasks - 1; task >= 0; task--) {
        const int op = (int)(task % N_OPS);
        call_init(&own->inner, &ops[op]);
        if (own->fails) own->inner.args.struct_size = 0;
        const seqmix_status status = call_run(own->ctx, &own->inner);
        own->wrong += own->fails ? status != SEQMIX_ERR_INVALID_ARG
                                 : status != SEQMIX_OK || memcmp(own->inner.arena, serial[op].arena, ARENA) != 0;
        fn(arg, task, 0);
    }
}

START_TEST(call_inside_own_runner)
{
    static struct own_context own;
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc, .parallel = run_with_calls, .parallel_user = &own};
    own.fails = _i != 0;
    own.ctx = make_context(&desc);
    for (int i = 0; i < N_OPS; i++) {
        const int before = own.calls;
        call_init(&call, &ops[i]);
        ck_assert_int_eq(call_run(own.ctx, &call), SEQMIX_OK);
        ck_assert_str_eq(seqmix_last_error(own.ctx), "");
        ck_assert_mem_eq(call.arena, serial[i].arena, ARENA);
        ck_assert_int_le(own.calls, before + 1); /* those inside are serial */
    }
    ck_assert_int_gt(own.calls, 0);
    ck_assert_int_eq(own.wrong, 0);
    seqmix_ctx_destroy(own.ctx);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *tcase = tcase_create("pool");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, idle_workers_sleep);
    tcase_add_loop_test(tcase, forked_child, 0, N_CHILDREN);
    tcase_add_loop_test(tcase, fork_beside_calls, 0, N_CHILDREN > 0);
    tcase_add_loop_test(tcase, threads_refused, 0, 4);
    tcase_add_test(tcase, pools_side_by_side);
    tcase_add_test(tcase, come_and_go);
    tcase_add_test(tcase, caller_waits);
    tcase_add_loop_test(tcase, call_inside_own_runner, 0, 2);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
