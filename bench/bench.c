/* SPDX-License-Identifier: MIT */
/*
 * seqmix-bench: which entries there are, in which contexts they run, and where the results go. Everything is measured in one
 * process: the machine's peaks first, then the ops, then OpenBLAS on the same products, then the peak again.
 */
#define _POSIX_C_SOURCE 200809L

#include "model.h"
#include "targets.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct list {
    struct seqmix_bench_entry *entries;
    int n, capacity, repeats; /* repeats: entries left out because their sizes are there already */
};

/* What --quick runs: one model for each op, its first projection for `linear`. */
static const struct {
    const char *op, *shape;
} quick_runs[] = {
    {"deltanet_chunk_forward", "qwen3.5-9b"},
    {"deltanet_step", "qwen3.5-9b"},
    {"ssd_chunk_forward", "nemotron-nano-9b-v2"},
    {"ssd_step", "nemotron-nano-9b-v2"},
    {"selective_scan_rows", "mamba-130m"},
    {"selective_scan_step", "mamba-130m"},
    {"short_conv_rows", "qwen3.5-9b"},
    {"short_conv_step", "qwen3.5-9b"},
    {"gated_rms_norm_rows", "nemotron-nano-9b-v2"},
    {"unit_lower_inverse", "qwen3.5-9b"},
    {"linear", "mamba-130m"},
};

int seqmix_bench_in_quick(const char *op, const char *shape)
{
    for (size_t i = 0; i < sizeof quick_runs / sizeof quick_runs[0]; i++)
        if (strcmp(op, quick_runs[i].op) == 0 && strcmp(shape, quick_runs[i].shape) == 0) return 1;
    return 0;
}

/* Two entries that do the same work on tensors of the same sizes, though for different models. */
int seqmix_bench_same_work(const struct seqmix_bench_entry *a, const struct seqmix_bench_entry *b)
{
    if (a->op != b->op || a->rows != b->rows || a->dtype != b->dtype || a->decode != b->decode || a->seqs != b->seqs)
        return 0;
    struct seqmix_bench_plan x = {.n_fields = 0}, y = {.n_fields = 0};
    a->op->plan(a, &x);
    b->op->plan(b, &y);
    if (x.n_fields != y.n_fields || memcmp(&x.args, &y.args, sizeof x.args) != 0) return 0;
    for (int i = 0; i < x.n_fields; i++)
        if (memcmp(&x.fields[i].view, &y.fields[i].view, sizeof x.fields[i].view) != 0) return 0;
    return 1;
}

static int append(struct list *list, const struct seqmix_bench_entry *entry, int keep_repeats)
{
    for (int i = 0; i < list->n && !keep_repeats; i++)
        if (seqmix_bench_same_work(&list->entries[i], entry)) {
            list->repeats++;
            return 0;
        }
    if (list->n == list->capacity) {
        const int capacity = list->capacity > 0 ? 2 * list->capacity : 256;
        struct seqmix_bench_entry *more = realloc(list->entries, (size_t)capacity * sizeof more[0]);
        if (more == NULL) return -1;
        list->entries = more;
        list->capacity = capacity;
    }
    list->entries[list->n++] = *entry;
    return 0;
}

/* All rows and dtypes of one op at one shape, and one projection if the op is `linear`. */
static int append_rows(struct list *list, struct seqmix_bench_entry entry, const struct seqmix_bench_options *o)
{
    const int n = entry.decode ? o->n_decode : o->n_prefill;
    const int64_t *rows = entry.decode ? o->decode : o->prefill;
    for (int d = 0; d < o->n_dtypes; d++)
        for (int i = 0; i < n; i++) {
            entry.dtype = o->dtypes[d];
            entry.rows = rows[i];
            if (append(list, &entry, o->repeats) != 0) return -1;
        }
    return 0;
}

static int append_op(struct list *list, const struct seqmix_bench_op *op, const struct seqmix_shape *shape, int decode,
                     const struct seqmix_bench_options *o)
{
    struct seqmix_bench_entry entry = {.op = op, .shape = shape, .decode = decode};
    if (!(decode ? op->decode : op->prefill) || !op->has(shape)) return 0;
    if (fnmatch(o->op, op->name, 0) != 0 || fnmatch(o->shape, shape->name, 0) != 0) return 0;
    if (o->quick && !seqmix_bench_in_quick(op->name, shape->name)) return 0;
    if (op->id != SEQMIX_OP_LINEAR) return append_rows(list, entry, o);
    for (int i = 0; i < (o->quick ? 1 : shape->n_linear); i++) {
        entry.linear = &shape->linear[i];
        if (append_rows(list, entry, o) != 0) return -1;
    }
    return 0;
}

/* Prefill first, then decode; by op, then by model. */
static int make_list(struct list *list, const struct seqmix_shape *shapes, int n_shapes,
                     const struct seqmix_bench_options *o)
{
    for (int decode = 0; decode < 2; decode++)
        for (int i = 0; i < seqmix_bench_n_ops; i++)
            for (int s = 0; s < n_shapes; s++)
                if (append_op(list, &seqmix_bench_ops[i], &shapes[s], decode, o) != 0) return -1;
    return 0;
}

static void print_list(const struct seqmix_shape *shapes, int n_shapes)
{
    for (int s = 0; s < n_shapes; s++) {
        printf("%s\n", shapes[s].name);
        for (int i = 0; i < seqmix_bench_n_ops; i++) {
            const struct seqmix_bench_op *op = &seqmix_bench_ops[i];
            if (!op->has(&shapes[s])) continue;
            for (int l = 0; l < (op->id == SEQMIX_OP_LINEAR ? shapes[s].n_linear : 1); l++) {
                const struct seqmix_bench_entry entry = {
                    .op = op, .shape = &shapes[s], .linear = &shapes[s].linear[l], .rows = 1, .dtype = SEQMIX_F32};
                struct seqmix_bench_plan plan = {.n_fields = 0};
                op->plan(&entry, &plan);
                printf("  %-24s %-30s %s%s\n", op->name, plan.dims, op->prefill ? "prefill " : "",
                       op->decode ? "decode" : "");
            }
        }
    }
}

/* ---- running ---- */

struct run {
    const struct seqmix_bench_options *o;
    FILE *text;
    seqmix_ctx *ctx[8];
    struct seqmix_bench_roofline roofline;
    double started;
    struct seqmix_bench_result *results;
    int n_results, n_refused;
};

static int open_contexts(struct run *run)
{
    for (int i = 0; i < run->o->n_levels; i++) {
        const seqmix_ctx_desc desc = {.struct_size = sizeof desc,
                                      .backend = SEQMIX_BACKEND_CPU,
                                      .level_cap = run->o->levels[i],
                                      .n_workers = run->o->workers};
        char why[256];
        if (seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &run->ctx[i], why, sizeof why) != SEQMIX_OK) {
            fprintf(stderr, "seqmix-bench: no context: %s\n", why);
            return -1;
        }
    }
    return 0;
}

static void keep_result(struct run *run, const struct seqmix_bench_result *result)
{
    run->n_results++;
    if (result->samples == 0 && result->skipped[0] == '\0') run->n_refused++;
    seqmix_bench_print_result(run->text, result);
    fflush(run->text);
}

/* One entry in every context; with --rung all, only where that very rung answers. */
static void run_entry(struct run *run, const struct seqmix_bench_entry *entry)
{
    const struct seqmix_bench_options *o = run->o;
    if (o->total > 0 && seqmix_bench_seconds() - run->started > o->total) {
        struct seqmix_bench_result *result = &run->results[run->n_results];
        *result = (struct seqmix_bench_result){.entry = *entry, .kernel = "-"};
        snprintf(result->skipped, sizeof result->skipped, "not started within %.0f s (--total)", o->total);
        keep_result(run, result);
        return;
    }
    for (int i = 0; i < o->n_levels; i++) {
        struct seqmix_bench_result *result = &run->results[run->n_results];
        const int32_t only_level = o->every_level ? o->levels[i] : 0;
        if (seqmix_bench_measure(run->ctx[i], entry, only_level, o, &run->roofline, result)) keep_result(run, result);
    }
}

static void run_list(struct run *run, const struct list *list)
{
    for (int i = 0; i < list->n; i++) {
        if (i == 0 || list->entries[i].decode != list->entries[i - 1].decode)
            seqmix_bench_print_header(run->text, list->entries[i].decode);
        run_entry(run, &list->entries[i]);
    }
    seqmix_bench_roofline_again(&run->roofline);
    const double kept = run->roofline.fma_after / run->roofline.fma;
    if (list->repeats > 0)
        fprintf(run->text, "\n%d lines with the sizes of another one were left out (--repeats runs them)\n",
                list->repeats);
    if (kept < 0.9 || kept > 1.1)
        fprintf(run->text,
                "\nNote: the multiply-add peak is now %.0f %% of what it was: something else used the machine\n",
                100 * kept);
}

static int write_file(const char *path, const char *what, const struct run *run,
                      const struct seqmix_bench_openblas *blas)
{
    FILE *file = path != NULL ? fopen(path, "w") : stdout;
    int failed = file == NULL;
    if (!failed && blas != NULL)
        failed = seqmix_bench_write_json(file, &run->roofline, blas, run->results, run->n_results);
    else if (!failed)
        failed = seqmix_bench_write_plot(file, &run->roofline, run->results, run->n_results);
    if (file != NULL && path != NULL) failed |= fclose(file) != 0;
    if (failed)
        fprintf(stderr, "seqmix-bench: %s: could not write the %s\n", path != NULL ? path : "standard output", what);
    return failed ? -1 : 0;
}

static int run_all(struct run *run, const struct list *list)
{
    static struct seqmix_bench_openblas blas;
    const struct seqmix_bench_options *o = run->o;
    seqmix_bench_openblas_prepare(o->workers);
    if (open_contexts(run) != 0) return 2;
    seqmix_bench_roofline_measure(&run->roofline, o->workers, o->quick);
    seqmix_bench_print_machine(run->text, &run->roofline);
    run->results = calloc((size_t)(list->n * o->n_levels + 1), sizeof run->results[0]);
    if (run->results == NULL) {
        fprintf(stderr, "seqmix-bench: no memory for %d results\n", list->n * o->n_levels);
        return 2;
    }
    if (!o->roofline_only) {
        run_list(run, list);
        seqmix_bench_openblas_measure(&blas, run->results, run->n_results, o);
        seqmix_bench_print_openblas(run->text, &blas);
    }
    int failed = 0;
    if (o->json_wanted) failed |= write_file(o->json, "JSON", run, &blas);
    if (o->plot != NULL) failed |= write_file(o->plot, "plot", run, NULL);
    if (run->n_refused > 0)
        fprintf(stderr, "seqmix-bench: %d result%s refused: not within bounds of the recurrence\n", run->n_refused,
                run->n_refused == 1 ? " was" : "s were");
    return failed ? 2 : run->n_refused > 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    static struct seqmix_shape shapes[SEQMIX_SHAPES_MAX];
    static struct run run;
    struct seqmix_bench_options o;
    const int parsed = seqmix_bench_parse(argc, argv, &o);
    if (parsed != 0) return parsed > 0 ? 0 : 2;
    if (o.suite != NULL) return seqmix_bench_targets(&o);
    if (o.model != NULL) return seqmix_bench_model(&o, argv);
    char why[512], dir[4096];
    int n_shapes = -1;
    if (o.shapes_dir != NULL || seqmix_shapes_find_dir(dir, sizeof dir, why, sizeof why) == 0)
        n_shapes = seqmix_shapes_load_dir(o.shapes_dir != NULL ? o.shapes_dir : dir, shapes, SEQMIX_SHAPES_MAX, why,
                                          sizeof why);
    if (n_shapes < 0) {
        fprintf(stderr, "seqmix-bench: %s\n", why);
        return 2;
    }
    if (o.list) {
        print_list(shapes, n_shapes);
        return 0;
    }
    struct list list = {NULL, 0, 0, 0};
    int status = 2;
    run.o = &o;
    run.started = seqmix_bench_seconds();
    run.text = o.json_wanted && o.json == NULL ? stderr : stdout;
    if (make_list(&list, shapes, n_shapes, &o) != 0)
        fprintf(stderr, "seqmix-bench: no memory for the list of entries\n");
    else if (list.n == 0 && !o.roofline_only)
        fprintf(stderr, "seqmix-bench: nothing to run: no op '%s' at a shape '%s'\n", o.op, o.shape);
    else
        status = run_all(&run, &list);
    for (int i = 0; i < o.n_levels; i++)
        seqmix_ctx_destroy(run.ctx[i]);
    free(run.results);
    free(list.entries);
    return status;
}
