/* SPDX-License-Identifier: MIT */
/* One case: build it, run it, judge it, whatever signals it raises. */
#define _POSIX_C_SOURCE 200809L

#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include "cpu.h"
#include "harness.h"
#include "report.h"

static bool is_chunk(int64_t rows)
{
    return rows == 16 || rows == 32 || rows == 64 || rows == 128 || rows == 256;
}

/* The plain chunk form of the same call, with the chunk that the rung really used. */
static bool run_plain(const struct call *call, int64_t grain, struct call *out, struct verdict *verdict)
{
    struct call same = *call;
    const int32_t chunk = (int32_t)grain;
    memcpy((char *)&same.args + call->op->family->chunk_offset, &chunk, sizeof chunk);
    check_rebind(&same);
    return check_run_oracle(&seqmix_kernels__chunk_plain, &same, false, out, verdict);
}

void check_numbers(const struct rung *rung, struct call *call, struct verdict *verdict)
{
    const struct check_op *op = call->op;
    const int64_t grain = check_grain(rung->serial, call);
    const bool chunked = op->family->chunk_offset != 0 && !op->step;
    const bool plain =
        chunked && call->x == SEQMIX_F32 && is_chunk(grain) && rung->table != &seqmix_kernels__chunk_plain;
    const bool ref = !chunked && rung->table != &seqmix_kernels__ref;
    struct call want, before, peer = {.n_slabs = 0};
    bool ready = check_run_oracle(&seqmix_kernels__ref64, call, true, &want, verdict);
    if (plain) ready = run_plain(call, grain, &peer, verdict) && ready;
    if (ref) ready = check_run_oracle(&seqmix_kernels__ref, call, false, &peer, verdict) && ready;
    check_clone(call, &before);
    check_snapshot(call);
    if (ready && check_run(rung->serial, call, verdict)) {
        char why[160];
        if (!check_untouched(call, why, sizeof why)) check_fail(verdict, "%s", why);
        check_compare(call, &before, &want, grain, verdict);
        if (plain) check_against_peer(call, &before, &peer, &want, 3, "the plain chunk form", verdict);
        if (ref) check_against_peer(call, &before, &peer, &want, 2, "rung 0", verdict);
    }
    check_release(&want);
    check_release(&before);
    check_release(&peer);
}

/* ---------------------------------------------------------------- signals */

static sigjmp_buf escape;
static _Thread_local bool may_escape; /* only the thread that judges can leave a case */
static char running[96];
static const int caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { N_CAUGHT = sizeof caught / sizeof caught[0] };

static void on_signal(int number)
{
    static const char text[] = "FAIL a worker thread raised a signal in ";
    if (may_escape) siglongjmp(escape, number);
    if (write(STDERR_FILENO, text, sizeof text - 1) > 0 && write(STDERR_FILENO, running, strlen(running)) > 0)
        (void)!write(STDERR_FILENO, "\n", 1);
    _exit(1);
}

static const char *signal_name(int number)
{
    switch (number) {
    case SIGSEGV:
        return "SIGSEGV";
    case SIGBUS:
        return "SIGBUS";
    case SIGFPE:
        return "SIGFPE";
    case SIGILL:
        return "SIGILL";
    default:
        return "SIGABRT";
    }
}

static void judge(const struct rung *rung, const struct check_op *op, seqmix_dtype x, const struct class_use *use,
                  int64_t variant, uint64_t seed, struct verdict *verdict)
{
    struct call call;
    check_build(&call, op, x, use, variant, seed);
    if (use->name >= CLASS_FIRST_PROPERTY) {
        struct rng rng = check_rng(seed + (uint64_t)variant, check_class_name(use->name));
        check_property(rung, &call, use->name, &rng, verdict);
    } else {
        check_numbers(rung, &call, verdict);
    }
    check_release(&call);
}

void check_case(const struct rung *rung, const struct check_op *op, seqmix_dtype x, const struct class_use *use,
                int64_t variant, uint64_t seed, struct verdict *verdict)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_NODEFER}, before[N_CAUGHT];
    *verdict = (struct verdict){.ok = true};
    for (int i = 0; i < N_CAUGHT; i++)
        sigaction(caught[i], &action, &before[i]);
    check_id(running, sizeof running, op, x, use->name, variant);
    may_escape = true;
    const int number = sigsetjmp(escape, 1);
    if (number == 0)
        judge(rung, op, x, use, variant, seed, verdict);
    else
        check_fail(verdict, "raised %s", signal_name(number));
    check_free_all();
    may_escape = false;
    for (int i = 0; i < N_CAUGHT; i++)
        sigaction(caught[i], &before[i], NULL);
}
