/* SPDX-License-Identifier: MIT */
/* Collects verdicts and prints them: a table of errors per rung, op, dtype and bound; one of properties; or JSON. */
#define _POSIX_C_SOURCE 200809L

#include "report.h"

#include <stdlib.h>
#include <time.h>

enum { N_DTYPES = 3, N_PROPERTIES = CLASS_COUNT - CLASS_FIRST_PROPERTY, MAX_OPS = 64 };

struct worst {
    double value;
    char id[96], field[16];
    int64_t row, head;
};

/* One line of the table of errors. */
struct cell {
    int cases, failed;
    double bound;
    struct worst a, b;
};

struct tally {
    int cases, failed;
};

struct rung_report {
    const char *name;
    bool inherited[MAX_OPS];
    struct cell cells[MAX_OPS][N_DTYPES][BOUND_KINDS];
    struct tally properties[MAX_OPS][N_DTYPES][N_PROPERTIES];
};

struct report {
    const struct check_options *options;
    struct timespec start;
    int n_rungs, checks, failed, excused, first;
    struct rung_report rungs[CHECK_MAX_RUNGS];
};

struct report *check_report_new(const struct check_options *options)
{
    struct report *report = calloc(1, sizeof *report);
    if (report == NULL) {
        fprintf(stderr, "seqmix-check: out of memory\n");
        exit(2);
    }
    report->options = options;
    clock_gettime(CLOCK_MONOTONIC, &report->start);
    return report;
}

static struct rung_report *rung_of(struct report *report, const char *name)
{
    for (int i = 0; i < report->n_rungs; i++)
        if (strcmp(report->rungs[i].name, name) == 0) return &report->rungs[i];
    report->rungs[report->n_rungs].name = name;
    return &report->rungs[report->n_rungs++];
}

static void keep_worst(struct worst *worst, double value, const char *id, const struct verdict *v)
{
    if (worst->id[0] != '\0' && !(value > worst->value)) return;
    worst->value = value;
    worst->row = v->row;
    worst->head = v->head;
    snprintf(worst->id, sizeof worst->id, "%s", id);
    snprintf(worst->field, sizeof worst->field, "%s", v->field);
}

static FILE *failures_to(const struct report *report)
{
    return report->options->json ? stderr : stdout;
}

void check_report_case(struct report *report, const char *rung, const struct check_op *op, seqmix_dtype x,
                       const struct class_use *use, const char *id, const struct verdict *v)
{
    struct rung_report *at = rung_of(report, rung);
    const ptrdiff_t o = op - check_ops;
    report->checks++;
    report->failed += !v->ok;
    report->excused += v->ok && v->excused;
    if (!v->ok) {
        FILE *to = failures_to(report);
        const char *backend = report->options->backend_name;
        fprintf(to, "FAIL seqmix-check%s%s --rung %s --seed %llu --case %s\n     %s\n",
                backend != NULL ? " --backend " : "", backend != NULL ? backend : "", rung,
                (unsigned long long)report->options->seed, id, v->why);
    }
    if (use->name >= CLASS_FIRST_PROPERTY) {
        struct tally *tally = &at->properties[o][x - SEQMIX_F32][use->name - CLASS_FIRST_PROPERTY];
        tally->cases++;
        tally->failed += !v->ok;
        return;
    }
    struct cell *cell = &at->cells[o][x - SEQMIX_F32][use->bound];
    cell->cases++;
    cell->failed += !v->ok;
    if (!v->judged) return;
    cell->bound = v->bound;
    keep_worst(&cell->a, v->a, id, v);
    keep_worst(&cell->b, v->b, id, v);
}

void check_report_inherited(struct report *report, const char *rung, const struct check_op *op)
{
    rung_of(report, rung)->inherited[op - check_ops] = true;
}

void check_report_trouble(struct report *report, const char *what, const char *why)
{
    report->checks++;
    report->failed++;
    fprintf(failures_to(report), "FAIL %s: %s\n", what, why);
}

/* ---------------------------------------------------------------- tables */

static void print_errors(const struct rung_report *rung)
{
    bool any = false;
    for (int o = 0; o < check_n_ops; o++)
        for (int d = 0; d < N_DTYPES; d++)
            for (int b = 0; b < BOUND_KINDS; b++) {
                const struct cell *cell = &rung->cells[o][d][b];
                if (cell->cases == 0) continue;
                if (!any)
                    printf(
                        "\n%s: errors against the recurrence in double; (a) of a tensor <= bound, (b) of a vector <= 4 "
                        "bounds\n%-22s %-4s %-12s %6s %5s %9s %9s %8s  %s\n",
                        rung->name, "op", "X", "data", "cases", "fail", "worst (a)", "worst (b)", "bound",
                        "case of worst (b), tensor, row, head");
                any = true;
                printf("%-22s %-4s %-12s %6d %5d %9.1e %9.1e %8.0e  %s %s %d %d\n", check_ops[o].name,
                       seqmix_dtype_name(d + SEQMIX_F32), check_bound_name((enum check_bound)b), cell->cases,
                       cell->failed, cell->a.value, cell->b.value, cell->bound, cell->b.id, cell->b.field,
                       (int)cell->b.row, (int)cell->b.head);
            }
}

static void print_properties(const struct rung_report *rung)
{
    bool any = false;
    for (int o = 0; o < check_n_ops; o++) {
        struct tally sums[N_PROPERTIES] = {{0, 0}};
        int cases = 0;
        for (int p = 0; p < N_PROPERTIES; p++)
            for (int d = 0; d < N_DTYPES; d++) {
                sums[p].cases += rung->properties[o][d][p].cases;
                sums[p].failed += rung->properties[o][d][p].failed;
                cases += rung->properties[o][d][p].cases;
            }
        if (cases == 0) continue;
        if (!any) {
            printf("\n%s: properties, cases that hold (forms, chunks and residual within bounds, the others bit for "
                   "bit)\n%-22s",
                   rung->name, "op");
            for (int p = 0; p < N_PROPERTIES; p++)
                printf(" %11s", check_class_name((enum check_class)(p + CLASS_FIRST_PROPERTY)));
            putchar('\n');
        }
        any = true;
        printf("%-22s", check_ops[o].name);
        for (int p = 0; p < N_PROPERTIES; p++) {
            char text[32] = "-";
            if (sums[p].cases > 0) snprintf(text, sizeof text, "%d/%d", sums[p].cases - sums[p].failed, sums[p].cases);
            printf(" %11s", text);
        }
        putchar('\n');
    }
}

static void print_inherited(const struct rung_report *rung)
{
    int n = 0;
    for (int o = 0; o < check_n_ops; o++)
        n += rung->inherited[o];
    if (n > 0) printf("\n%s: %d slots inherited from the rung below, not run again\n", rung->name, n);
}

/* ---------------------------------------------------------------- JSON */

static const char *separator(struct report *report)
{
    return report->first++ == 0 ? "\n" : ",\n";
}

static void json_op(struct report *report, const struct rung_report *rung, int o)
{
    const char *op = check_ops[o].name;
    if (rung->inherited[o])
        printf("%s{\"kind\":\"inherited\",\"rung\":\"%s\",\"op\":\"%s\"}", separator(report), rung->name, op);
    for (int d = 0; d < N_DTYPES; d++) {
        const char *dtype = seqmix_dtype_name(d + SEQMIX_F32);
        for (int b = 0; b < BOUND_KINDS; b++) {
            const struct cell *c = &rung->cells[o][d][b];
            if (c->cases == 0) continue;
            printf(
                "%s{\"kind\":\"accuracy\",\"rung\":\"%s\",\"op\":\"%s\",\"dtype\":\"%s\",\"data\":\"%s\",\"cases\":%d,"
                "\"failed\":%d,\"bound\":%g,\"worst_a\":%.6g,\"worst_a_case\":\"%s\",\"worst_b\":%.6g,\"worst_b_case\":"
                "\"%s\",\"tensor\":\"%s\",\"row\":%d,\"head\":%d}",
                separator(report), rung->name, op, dtype, check_bound_name((enum check_bound)b), c->cases, c->failed,
                c->bound, c->a.value < 1e300 ? c->a.value : 1e300, c->a.id, c->b.value < 1e300 ? c->b.value : 1e300,
                c->b.id, c->b.field, (int)c->b.row, (int)c->b.head);
        }
        for (int p = 0; p < N_PROPERTIES; p++) {
            const struct tally *t = &rung->properties[o][d][p];
            if (t->cases > 0)
                printf("%s{\"kind\":\"property\",\"rung\":\"%s\",\"op\":\"%s\",\"dtype\":\"%s\",\"property\":\"%s\","
                       "\"cases\":%d,"
                       "\"failed\":%d}",
                       separator(report), rung->name, op, dtype,
                       check_class_name((enum check_class)(p + CLASS_FIRST_PROPERTY)), t->cases, t->failed);
        }
    }
}

int check_report_end(struct report *report)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double seconds =
        (double)(now.tv_sec - report->start.tv_sec) + 1e-9 * (double)(now.tv_nsec - report->start.tv_nsec);
    const int failed = report->failed, checks = report->checks;
    if (report->options->list) {
        free(report);
        return 0;
    }
    if (report->options->json) putchar('[');
    for (int i = 0; i < report->n_rungs; i++) {
        if (report->options->json) {
            for (int o = 0; o < check_n_ops; o++)
                json_op(report, &report->rungs[i], o);
            continue;
        }
        print_errors(&report->rungs[i]);
        print_properties(&report->rungs[i]);
        print_inherited(&report->rungs[i]);
    }
    if (report->options->json)
        printf(
            "%s{\"kind\":\"summary\",\"checks\":%d,\"failed\":%d,\"excused\":%d,\"seed\":%llu,\"seconds\":%.1f}\n]\n",
            separator(report), checks, failed, report->excused, (unsigned long long)report->options->seed, seconds);
    if (!report->options->json && report->excused > 0)
        printf("\n%d over a bound, but no farther off than the oracle itself when every input is off by half an ulp of "
               "f32\n",
               report->excused);
    if (!report->options->json)
        printf("\n%d checks, %d failed (seed %llu, %.1f s)\n", checks, failed,
               (unsigned long long)report->options->seed, seconds);
    free(report);
    return failed > 0 || checks == 0;
}
