/* SPDX-License-Identifier: MIT */
/*
 * The lines of the targets suite and how each is measured. Every op is verified against the recurrence in double before it is
 * timed (bench_measure.c); every time is taken among bursts of known work (race.c), and percentages are of what those bursts
 * reached in the same process. Work is counted as in bench_ops.c.
 */
#define _POSIX_C_SOURCE 200809L

#include "targets.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    COPY_BLOCK = 32 << 20, /* bytes of one memcpy beside the decode steps: long enough for libc's best form */
    FASTEST_BUDGETS = 4
};

static const double GIGA = 1e9, MICRO = 1e-6;

/* ---- the shapes of the issue, and some so small that a call is all overhead ---- */

static const struct seqmix_shape qwen = {
    .name = "qwen3.5-9b", .conv = {8192, 4, 0}, .deltanet = {16, 32, 128, 128, 0}, .inverse = {64, 32}};
static const struct seqmix_shape nano = {.name = "nemotron-nano-9b-v2", .ssd = {128, 80, 8, 128}};
static const struct seqmix_shape mamba = {.name = "mamba-130m", .scan = {1536, 16, 1}};
static const struct seqmix_shape few = {.name = "four heads", .deltanet = {2, 4, 128, 128, 0}, .ssd = {4, 80, 1, 128}};
static const struct seqmix_shape tiny = {.name = "tiny",
                                         .conv = {1, 2, 0},
                                         .scan = {1, 1, 1},
                                         .ssd = {1, 1, 1, 1},
                                         .deltanet = {1, 1, 1, 1, 0},
                                         .norm = {1, 1, 1, 0}};
static const struct seqmix_shape two_heads = {.name = "two heads", .deltanet = {1, 2, 1, 1, 0}};
static const struct seqmix_shape two_tasks = {.name = "two heads", .deltanet = {1, 2, 128, 128, 0}};

/* ---- cases ---- */

void seqmix_target_note(struct seqmix_target *t, const char *format, ...)
{
    va_list list;
    size_t used = strlen(t->note);
    if (used > 0 && used + 2 < sizeof t->note) {
        memcpy(t->note + used, "; ", 3);
        used += 2;
    }
    va_start(list, format);
    vsnprintf(t->note + used, sizeof t->note - used, format, list);
    va_end(list);
}

static const struct seqmix_bench_op *find_op(const char *name)
{
    for (int i = 0; i < seqmix_bench_n_ops; i++)
        if (strcmp(seqmix_bench_ops[i].name, name) == 0) return &seqmix_bench_ops[i];
    return NULL;
}

static void say_what(const struct seqmix_target_case *c, const struct seqmix_bench_entry *entry,
                     struct seqmix_target *t)
{
    snprintf(t->shape, sizeof t->shape, "%s %s, %" PRId64 " row%s, %s", entry->shape->name, c->result.dims, entry->rows,
             entry->rows == 1 ? "" : "s", seqmix_bench_dtype_name(entry->dtype));
    snprintf(t->kernel, sizeof t->kernel, "%s", c->result.kernel);
    snprintf(t->rung, sizeof t->rung, "%.*s", (int)strcspn(c->result.kernel, "/"), c->result.kernel);
}

int seqmix_target_open(struct seqmix_suite *suite, const struct seqmix_target_line *line, int workers, int decode,
                       double cycle_bytes, struct seqmix_target_case *out, struct seqmix_target *t)
{
    const struct seqmix_bench_entry entry = {
        .op = find_op(line->op), .shape = line->shape, .rows = line->rows, .dtype = line->dtype, .decode = decode};
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc, .level_cap = line->level, .n_workers = workers};
    char why[256];
    memset(out, 0, sizeof *out);
    if (seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &out->ctx, why, sizeof why) != SEQMIX_OK) {
        seqmix_target_note(t, "no context: %s", why);
        return -1;
    }
    int failed = !seqmix_bench_examine(out->ctx, &entry, suite->o, &out->result);
    say_what(out, &entry, t);
    if (!failed) failed = seqmix_bench_open(&out->c, out->ctx, &entry, (size_t)cycle_bytes, &out->result) != 0;
    if (!failed) return 0;
    if (out->result.skipped[0] == '\0') suite->n_refused++;
    seqmix_target_note(t, "%s", out->result.skipped[0] != '\0' ? out->result.skipped : out->result.verdict.text);
    seqmix_ctx_destroy(out->ctx);
    return -1;
}

void seqmix_target_close(struct seqmix_target_case *c)
{
    seqmix_bench_case_close(&c->c);
    seqmix_ctx_destroy(c->ctx);
}

int seqmix_target_run(void *user)
{
    struct seqmix_target_case *c = user;
    const int at = c->at;
    c->at = at + 1 < c->c.n_copies ? at + 1 : 0;
    return seqmix_bench_case_run(&c->c, at) == SEQMIX_OK ? 0 : -1;
}

/* Runs a race; its first racer's words go into the note. 0 or -1. */
static int race(struct seqmix_suite *suite, struct seqmix_racer *racers, int n, struct seqmix_burst *burst, int fastest,
                struct seqmix_target *t)
{
    /* two workers are rarely undisturbed both: their fastest call shows up late */
    const double budget = fastest ? FASTEST_BUDGETS * suite->o->budget : suite->o->budget;
    char words[64];
    if (seqmix_race(racers, n, burst, budget, fastest) != 0) {
        seqmix_target_note(t, "a call failed");
        suite->n_refused++;
        return -1;
    }
    seqmix_race_words(&racers[0], words, sizeof words);
    seqmix_target_note(t, "%s", words);
    t->measured = 1;
    return 0;
}

/* ---- kinds of lines ---- */

static void note_rung(const struct seqmix_suite *suite, const struct seqmix_target_line *line, struct seqmix_target *t)
{
    if (line->level == 0 && !suite->has_avx512) seqmix_target_note(t, "set for AVX-512, which this CPU lacks");
}

/* Per cent of the multiply-add peak. */
static void measure_peak(struct seqmix_suite *suite, const struct seqmix_target_line *line, struct seqmix_target *t)
{
    struct seqmix_burst *burst = line->level == SEQMIX_LEVEL_CPU_AVX2 ? &suite->fma_avx2 : &suite->fma;
    struct seqmix_target_case c;
    if (burst->peaks == NULL) {
        seqmix_target_note(t, "this CPU has no AVX2");
        return;
    }
    if (seqmix_target_open(suite, line, 1, 0, 0, &c, t) != 0) return;
    struct seqmix_racer racer = {.run = seqmix_target_run, .user = &c};
    if (race(suite, &racer, 1, burst, 0, t) == 0) {
        const double rate = c.result.flops / racer.seconds;
        t->value = 100 * rate / burst->best;
        snprintf(t->baseline, sizeof t->baseline, "%.1f GFLOP/s multiply-add (%s)", burst->best / GIGA,
                 burst->peaks->isa);
        seqmix_target_note(t, "%.2f ms, %.1f GFLOP/s", 1e3 * racer.seconds, rate / GIGA);
        note_rung(suite, line, t);
    }
    seqmix_target_close(&c);
}

/* How many times faster bf16 on AMX is than f32 on the best rung. */
static void measure_amx(struct seqmix_suite *suite, const struct seqmix_target_line *line, struct seqmix_target *t)
{
    struct seqmix_target_line wide = *line;
    struct seqmix_target_case bf16, f32;
    wide.dtype = SEQMIX_F32;
    if (!suite->has_amx) {
        seqmix_target_note(t, "this CPU has no AMX");
        return;
    }
    if (seqmix_target_open(suite, &wide, 1, 0, 0, &f32, t) != 0) return;
    snprintf(t->baseline, sizeof t->baseline, "f32 on %s", t->kernel);
    if (seqmix_target_open(suite, line, 1, 0, 0, &bf16, t) == 0) {
        struct seqmix_racer racers[2] = {{.run = seqmix_target_run, .user = &bf16},
                                         {.run = seqmix_target_run, .user = &f32}};
        if (bf16.result.level != SEQMIX_LEVEL_CPU_AMX)
            seqmix_target_note(t, "this library has no AMX kernel for it, or the system grants no AMX");
        else if (race(suite, racers, 2, &suite->fma, 0, t) == 0)
            t->value = racers[1].seconds / racers[0].seconds;
        seqmix_target_close(&bf16);
    }
    seqmix_target_close(&f32);
}

/* Exponentials per second. */
static void measure_exps(struct seqmix_suite *suite, const struct seqmix_target_line *line, struct seqmix_target *t)
{
    struct seqmix_target_case c;
    if (seqmix_target_open(suite, line, 1, 0, 0, &c, t) != 0) return;
    struct seqmix_racer racer = {.run = seqmix_target_run, .user = &c};
    if (race(suite, &racer, 1, &suite->fma, 0, t) == 0) {
        t->value = c.result.exps / racer.seconds / GIGA;
        seqmix_target_note(t, "%.2f ms", 1e3 * racer.seconds);
        note_rung(suite, line, t);
    }
    seqmix_target_close(&c);
}

/* A copy between the two buffers of the suite. */
struct copy {
    struct seqmix_burst *buffers;
    int64_t n, at; /* floats of a copy; where the next one starts */
};

static int run_stream(void *user)
{
    const struct copy *c = user;
    c->buffers->peaks->stream(c->buffers->to, c->buffers->from, c->n);
    return 0;
}

static int run_memcpy(void *user)
{
    struct copy *c = user;
    memcpy(c->buffers->to + c->at, c->buffers->from + c->at, (size_t)c->n * sizeof(float));
    c->at = c->at + 2 * c->n <= c->buffers->n ? c->at + c->n : 0;
    return 0;
}

/* The time of an op that only moves rows, over that of a copy of as many bytes. */
static void measure_copy(struct seqmix_suite *suite, const struct seqmix_target_line *line, struct seqmix_target *t)
{
    struct seqmix_target_case c;
    if (seqmix_target_open(suite, line, 1, 0, 0, &c, t) != 0) return;
    struct copy copy = {&suite->copy, line->rows * line->shape->conv.D, 0};
    struct seqmix_racer racers[3] = {
        {.run = seqmix_target_run, .user = &c}, {.run = run_stream, .user = &copy}, {.run = run_memcpy, .user = &copy}};
    if (copy.n > suite->copy.n)
        seqmix_target_note(t, "no memory to copy as many bytes");
    else if (race(suite, racers, 3, &suite->copy, 0, t) == 0) {
        const int by_memcpy = racers[2].seconds < racers[1].seconds;
        const double best = racers[by_memcpy ? 2 : 1].seconds, bytes = 2.0 * (double)copy.n * sizeof(float);
        t->value = racers[0].seconds / best;
        snprintf(t->baseline, sizeof t->baseline, "%s of %.0f MiB, %.1f GB/s", by_memcpy ? "memcpy" : "stream copy",
                 bytes / 2 / 1048576, bytes / best / GIGA);
        seqmix_target_note(t, "%.2f ms, stream copy %.2f ms, memcpy %.2f ms", 1e3 * racers[0].seconds,
                           1e3 * racers[1].seconds, 1e3 * racers[2].seconds);
    }
    seqmix_target_close(&c);
}

/* The bytes a decode step moves per second, in per cent of what memcpy moves. */
static void measure_decode(struct seqmix_suite *suite, const struct seqmix_target_line *line, struct seqmix_target *t)
{
    struct seqmix_target_case c;
    if (seqmix_target_open(suite, line, 1, 1, suite->dram_bytes, &c, t) != 0) return;
    struct copy copy = {&suite->copy, COPY_BLOCK / sizeof(float), 0};
    struct seqmix_racer racers[2] = {{.run = seqmix_target_run, .user = &c}, {.run = run_memcpy, .user = &copy}};
    if (race(suite, racers, 2, &suite->copy, 0, t) == 0) {
        const double rate = (c.result.read_bytes + c.result.write_bytes) / racers[0].seconds;
        const double baseline = 2.0 * COPY_BLOCK / racers[1].seconds;
        t->value = 100 * rate / baseline;
        snprintf(t->baseline, sizeof t->baseline, "memcpy %.1f GB/s", baseline / GIGA);
        seqmix_target_note(t, "%.1f us, %.1f GB/s, %d states of %.0f MiB together", racers[0].seconds / MICRO,
                           rate / GIGA, c.c.n_copies, suite->dram_bytes / 1048576);
    }
    seqmix_target_close(&c);
}

/* Times a line with one worker and with two. 0 or -1. */
static int race_workers(struct seqmix_suite *suite, const struct seqmix_target_line *line, int decode,
                        struct seqmix_target *t, double seconds[2])
{
    struct seqmix_target_case one, two;
    int status = -1;
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        seqmix_target_note(t, "this machine has one CPU");
        return -1;
    }
    if (seqmix_target_open(suite, line, 1, decode, 0, &one, t) != 0) return -1;
    if (seqmix_target_open(suite, line, 2, decode, 0, &two, t) == 0) {
        struct seqmix_racer racers[2] = {{.run = seqmix_target_run, .user = &two},
                                         {.run = seqmix_target_run, .user = &one}};
        status = race(suite, racers, 2, &suite->fma, 1, t);
        seconds[0] = racers[1].seconds;
        seconds[1] = racers[0].seconds;
        seqmix_target_close(&two);
    }
    seqmix_target_close(&one);
    return status;
}

static void measure_workers(struct seqmix_suite *suite, const struct seqmix_target_line *line, struct seqmix_target *t)
{
    double seconds[2];
    if (race_workers(suite, line, 0, t, seconds) != 0) return;
    t->value = seconds[0] / seconds[1];
    snprintf(t->baseline, sizeof t->baseline, "one worker, %.2f ms", 1e3 * seconds[0]);
    seqmix_target_note(t, "%.2f ms", 1e3 * seconds[1]);
}

/* What a call costs whose work is nothing; the dearest of the ops. */
static void measure_overhead(struct seqmix_suite *suite, const struct seqmix_target_line *line, struct seqmix_target *t)
{
    enum { N = 5 };
    static const char *const ops[N] = {"deltanet_step", "ssd_step", "selective_scan_step", "short_conv_step",
                                       "gated_rms_norm_rows"};
    struct seqmix_target_case cases[N];
    struct seqmix_racer racers[N];
    int n = 0, dearest = 0;
    for (; n < N; n++) {
        struct seqmix_target_line own = *line;
        own.op = ops[n];
        if (seqmix_target_open(suite, &own, 1, 1, 0, &cases[n], t) != 0) break;
        racers[n] = (struct seqmix_racer){.run = seqmix_target_run, .user = &cases[n]};
    }
    if (n == N && race(suite, racers, N, &suite->fma, 0, t) == 0) {
        for (int i = 0; i < N; i++) {
            if (racers[i].seconds > racers[dearest].seconds) dearest = i;
            seqmix_target_note(t, "%s %.2f", ops[i], racers[i].seconds / MICRO);
        }
        t->value = racers[dearest].seconds / MICRO;
        snprintf(t->shape, sizeof t->shape, "%s, all sizes 1, 1 row, f32", ops[dearest]);
        snprintf(t->kernel, sizeof t->kernel, "%s", cases[dearest].result.kernel);
    }
    while (n > 0)
        seqmix_target_close(&cases[--n]);
}

/* What a second worker adds to a call whose two tasks are nothing. */
static void measure_join(struct seqmix_suite *suite, const struct seqmix_target_line *line, struct seqmix_target *t)
{
    double seconds[2];
    if (race_workers(suite, line, 1, t, seconds) != 0) return;
    t->value = (seconds[1] - seconds[0]) / MICRO;
    seqmix_target_note(t, "%.2f us with two workers, %.2f with one", seconds[1] / MICRO, seconds[0] / MICRO);
}

/* What two workers lose on a call that is short but worth sharing: time over half of one worker's. */
static void measure_share(struct seqmix_suite *suite, const struct seqmix_target_line *line, struct seqmix_target *t)
{
    double seconds[2];
    if (race_workers(suite, line, 0, t, seconds) != 0) return;
    t->value = (seconds[1] - seconds[0] / 2) / MICRO;
    seqmix_target_note(t, "%.1f us with two workers, %.1f with one", seconds[1] / MICRO, seconds[0] / MICRO);
}

/* ---- the lines ---- */

#define DELTA "deltanet_chunk_forward"
#define SSD   "ssd_chunk_forward"
#define PEAK  "% of FMA peak"
#define PLAIN "x plain time per row"

// clang-format off
const struct seqmix_target_line seqmix_target_lines[] = {
    {"delta rule prefill, 2048 rows", PEAK, 75, 85, 0, 1, measure_peak, DELTA, &qwen, 2048, SEQMIX_F32, 0},
    {"delta rule prefill, 512 rows", PEAK, 75, 85, 0, 1, measure_peak, DELTA, &qwen, 512, SEQMIX_F32, 0},
    {"delta rule prefill, 64 rows", PEAK, 75, 85, 0, 1, measure_peak, DELTA, &qwen, 64, SEQMIX_F32, 0},
    {"delta rule prefill, bf16 on AMX", "x f32", 1.6, 2.2, 0, 1, measure_amx, DELTA, &qwen, 2048, SEQMIX_BF16, 0},
    {"SSD prefill, 2048 rows", PEAK, 72, 85, 0, 1, measure_peak, SSD, &nano, 2048, SEQMIX_F32, 0},
    {"SSD prefill, bf16 on AMX", "x f32", 2, 2.5, 0, 1, measure_amx, SSD, &nano, 2048, SEQMIX_BF16, 0},
    {"selective scan, 2048 rows", "G exp/s", 5, 7, 0, 1, measure_exps, "selective_scan_rows", &mamba, 2048, SEQMIX_F32,
     0},
    {"short conv + silu, 2048 rows", "x copy time", 1.3, 1.1, 1, 1, measure_copy, "short_conv_rows", &qwen, 2048,
     SEQMIX_F32, 0},
    {"decode step, delta rule", "% of memcpy", 88, 95, 0, 1, measure_decode, "deltanet_step", &qwen, 1, SEQMIX_F32, 0},
    {"decode step, SSD", "% of memcpy", 88, 95, 0, 1, measure_decode, "ssd_step", &nano, 1, SEQMIX_F32, 0},
    {"decode step, selective scan", "% of memcpy", 88, 95, 0, 1, measure_decode, "selective_scan_step", &mamba, 1,
     SEQMIX_F32, 0},
    {"unit_lower_inverse, 256 of 64x64", PEAK, 30, 45, 0, 1, measure_peak, "unit_lower_inverse", &qwen, 512, SEQMIX_F32,
     0},
    {"two workers, delta rule", "x one worker", 1.85, 0, 0, 1, measure_workers, DELTA, &qwen, 2048, SEQMIX_F32, 0},
    {"two workers, SSD", "x one worker", 1.85, 0, 0, 1, measure_workers, SSD, &nano, 2048, SEQMIX_F32, 0},
    {"two workers, delta rule, 4 heads", "x one worker", 1.85, 0, 0, 1, measure_workers, DELTA, &few, 2048, SEQMIX_F32,
     0},
    {"two workers, SSD, 4 heads", "x one worker", 1.85, 0, 0, 1, measure_workers, SSD, &few, 2048, SEQMIX_F32, 0},
    {"AVX2 rung, delta rule prefill", PEAK, 65, 75, 0, 1, measure_peak, DELTA, &qwen, 2048, SEQMIX_F32,
     SEQMIX_LEVEL_CPU_AVX2},
    {"AVX2 rung, SSD prefill", PEAK, 65, 75, 0, 1, measure_peak, SSD, &nano, 2048, SEQMIX_F32, SEQMIX_LEVEL_CPU_AVX2},
    {"ragged rows, delta rule", PLAIN, 1.05, 0, 1, 4, seqmix_measure_variants, DELTA, &qwen, 2048, SEQMIX_F32, 0},
    {"slots, delta rule", PLAIN, 1.05, 0, 1, 0, NULL, NULL, NULL, 0, 0, 0},
    {"checkpoints, delta rule", PLAIN, 1.05, 0, 1, 0, NULL, NULL, NULL, 0, 0, 0},
    {"packed inputs, delta rule", PLAIN, 1.05, 0, 1, 0, NULL, NULL, NULL, 0, 0, 0},
    {"ragged rows, SSD", PLAIN, 1.05, 0, 1, 4, seqmix_measure_variants, SSD, &nano, 2048, SEQMIX_F32, 0},
    {"slots, SSD", PLAIN, 1.05, 0, 1, 0, NULL, NULL, NULL, 0, 0, 0},
    {"checkpoints, SSD", PLAIN, 1.05, 0, 1, 0, NULL, NULL, NULL, 0, 0, 0},
    {"packed inputs, SSD", PLAIN, 1.05, 0, 1, 0, NULL, NULL, NULL, 0, 0, 0},
    {"calling overhead, one row", "us", 1, 0, 1, 1, measure_overhead, NULL, &tiny, 1, SEQMIX_F32, 0},
    {"fork and join, empty tasks", "us", 0, 0, 1, 1, measure_join, "deltanet_step", &two_heads, 1, SEQMIX_F32, 0},
    {"fork and join, two busy workers", "us", 0, 0, 1, 1, measure_share, DELTA, &two_tasks, 64, SEQMIX_F32, 0},
};
// clang-format on

const int seqmix_n_target_lines = (int)(sizeof seqmix_target_lines / sizeof seqmix_target_lines[0]);
