/* SPDX-License-Identifier: MIT */
/* The run of the targets suite: every line in turn, the table, the JSON array. */
#define _POSIX_C_SOURCE 200809L

#include "targets.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 64 };

static const double GIGA = 1e9;

/* ---- output ---- */

static const char *verdict(const struct seqmix_target *t)
{
    if (!t->measured) return "null";
    if (t->target <= 0) return "null";
    return (t->at_most ? t->value <= t->target : t->value >= t->target) ? "true" : "false";
}

static void print_target(FILE *out, const struct seqmix_target *t)
{
    char goal[32] = "-", value[32] = "-";
    if (t->target > 0) snprintf(goal, sizeof goal, "%s %.4g", t->at_most ? "<=" : ">=", t->target);
    if (t->measured) snprintf(value, sizeof value, "%.2f", t->value);
    fprintf(out, "%-34s %9s %-21s %-8s %-5s %-13s %s; %s\n", t->name, value, t->unit, goal, verdict(t),
            t->rung[0] != '\0' ? t->rung : "-", t->shape, t->note);
    fflush(out);
}

static void put_goal(FILE *out, const char *key, double value)
{
    fprintf(out, ", ");
    seqmix_bench_put_number(out, key, value > 0 ? value : (double)NAN);
}

int seqmix_targets_write_json(FILE *out, const struct seqmix_target *targets, int n)
{
    for (int i = 0; i < n; i++) {
        const struct seqmix_target *t = &targets[i];
        const struct {
            const char *key, *text;
        } texts[] = {{"rung", t->rung},
                     {"shape", t->shape},
                     {"kernel", t->kernel},
                     {"baseline", t->baseline},
                     {"note", t->note}};
        fprintf(out, "%s\n  {", i == 0 ? "[" : ",");
        seqmix_bench_put_string(out, "name", t->name);
        fprintf(out, ", ");
        seqmix_bench_put_number(out, "value", t->measured ? t->value : (double)NAN);
        fprintf(out, ", ");
        seqmix_bench_put_string(out, "unit", t->unit);
        put_goal(out, "target", t->target);
        put_goal(out, "stretch", t->stretch);
        fprintf(out, ", \"sense\": \"%s\", \"met\": %s", t->at_most ? "at most" : "at least", verdict(t));
        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
            fprintf(out, ", ");
            seqmix_bench_put_string(out, texts[k].key, texts[k].text);
        }
        fprintf(out, "}");
    }
    fprintf(out, "\n]\n");
    return ferror(out) ? -1 : 0;
}

/* ---- the run ---- */

/* Whether Linux lists a CPU flag. */
static int cpu_has(const char *flag)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char word[64];
    int found = 0;
    while (file != NULL && !found && fscanf(file, "%63s", word) == 1)
        found = strcmp(word, flag) == 0;
    if (file != NULL) fclose(file);
    return found;
}

static int open_suite(struct seqmix_suite *suite)
{
    const double llc = seqmix_bench_llc_bytes();
    const struct seqmix_peaks *best = seqmix_peaks_best();
    suite->has_avx512 = cpu_has("avx512f");
    suite->has_amx = cpu_has("amx_bf16");
    suite->dram_bytes = 4 * llc < 64 << 20 ? 64 << 20 : 4 * llc > 512 << 20 ? 512 << 20 : 4 * llc;
    seqmix_burst_fma(&suite->fma, best);
#ifdef SEQMIX_PEAKS_X86
    if (cpu_has("avx2") && cpu_has("fma")) seqmix_burst_fma(&suite->fma_avx2, &seqmix_peaks__avx2);
#endif
    return seqmix_burst_copy(&suite->copy, best, (size_t)suite->dram_bytes);
}

static int write_json(const struct seqmix_bench_options *o, const struct seqmix_target *targets)
{
    FILE *file = o->json != NULL ? fopen(o->json, "w") : stdout;
    int failed = file == NULL || seqmix_targets_write_json(file, targets, seqmix_n_target_lines) != 0;
    if (file != NULL && o->json != NULL) failed |= fclose(file) != 0;
    if (failed)
        fprintf(stderr, "seqmix-bench: %s: could not write the JSON\n", o->json != NULL ? o->json : "standard output");
    return failed ? -1 : 0;
}

int seqmix_bench_targets(const struct seqmix_bench_options *o)
{
    static struct seqmix_target targets[MOST_LINES];
    static struct seqmix_suite suite;
    FILE *text = o->json_wanted && o->json == NULL ? stderr : stdout;
    const double started = seqmix_bench_seconds();
    int met = 0, missed = 0;
    suite.o = o;
    if (open_suite(&suite) != 0) {
        fprintf(stderr, "seqmix-bench: no memory for two buffers of %.0f MiB\n", suite.dram_bytes / 1048576);
        return 2;
    }
    fprintf(text, "%-34s %9s %-21s %-8s %-5s %-13s %s\n", "target", "value", "unit", "asked", "met", "rung",
            "shape; how");
    for (int i = 0; i < seqmix_n_target_lines; i++)
        targets[i] = (struct seqmix_target){.name = seqmix_target_lines[i].name,
                                            .unit = seqmix_target_lines[i].unit,
                                            .target = seqmix_target_lines[i].target,
                                            .stretch = seqmix_target_lines[i].stretch,
                                            .at_most = seqmix_target_lines[i].at_most};
    for (int i = 0; i < seqmix_n_target_lines; i++) {
        struct seqmix_target *t = &targets[i];
        const char *why = fnmatch(o->op, seqmix_target_lines[i].name, 0) != 0           ? "left out by --op"
                          : o->total > 0 && seqmix_bench_seconds() - started > o->total ? "not started within --total"
                                                                                        : NULL;
        for (int k = 0; why != NULL && k < seqmix_target_lines[i].n; k++)
            seqmix_target_note(&t[k], "%s", why);
        if (why == NULL && seqmix_target_lines[i].n > 0)
            seqmix_target_lines[i].measure(&suite, &seqmix_target_lines[i], t);
        met += strcmp(verdict(t), "true") == 0;
        missed += strcmp(verdict(t), "false") == 0;
        print_target(text, t);
    }
    fprintf(text, "\n%d met, %d missed, %d not judged; multiply-add %.1f GFLOP/s (%s), stream copy %.1f GB/s; %.0f s\n",
            met, missed, seqmix_n_target_lines - met - missed, suite.fma.best / GIGA, suite.fma.peaks->isa,
            suite.copy.best / GIGA, seqmix_bench_seconds() - started);
    if (suite.n_refused > 0)
        fprintf(stderr, "seqmix-bench: %d result%s refused\n", suite.n_refused,
                suite.n_refused == 1 ? " was" : "s were");
    const int failed = o->json_wanted && write_json(o, targets) != 0;
    seqmix_burst_close(&suite.copy);
    return failed ? 2 : suite.n_refused > 0 ? 1 : 0;
}
