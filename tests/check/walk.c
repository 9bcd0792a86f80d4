/* SPDX-License-Identifier: MIT */
/* Walks rungs x ops x dtypes x classes x variants, one case by its id, or just their list; and prints what was found. */
#define _POSIX_C_SOURCE 200809L

#include <fnmatch.h>
#include <stdlib.h>
#include <time.h>

#include "cpu.h"
#include "harness.h"
#include "report.h"

static const seqmix_dtype dtypes[3] = {SEQMIX_F32, SEQMIX_BF16, SEQMIX_F16};

int check_ladder(const struct check_options *options, struct ladder *ladder)
{
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc, .backend = options->backend};
    const char *name = options->rung;
    seqmix_ctx *ctx;
    char why[256];
    ladder->n = 0;
    if (seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx, why, sizeof why) != SEQMIX_OK) {
        fprintf(stderr, "seqmix-check: %s\n", why);
        return -1;
    }
    const struct seqmix_kernels *chain[CHECK_MAX_RUNGS];
    int n = 0;
    for (const struct seqmix_kernels *t = ((struct seqmix_context *)(void *)ctx)->rung;
         t != NULL && n < CHECK_MAX_RUNGS - 1; t = t->lower)
        chain[n++] = t;
    seqmix_ctx_destroy(ctx);
    chain[n] = NULL;
    const bool all = name == NULL || strcmp(name, "all") == 0;
    for (int i = n - 1; i >= 0; i--)
        if (all || strcmp(name, chain[i]->name) == 0)
            ladder->rungs[ladder->n++] = (struct ladder_rung){chain[i], chain[i + 1], chain[i]->name};
    if (options->backend == SEQMIX_BACKEND_CPU && (all || strcmp(name, "chunk-plain") == 0))
        ladder->rungs[ladder->n++] =
            (struct ladder_rung){&seqmix_kernels__chunk_plain, &seqmix_kernels__ref, "chunk-plain"};
    if (ladder->n == 0)
        fprintf(stderr, "seqmix-check: no rung is called %s; the best one here is %s\n", name, chain[0]->name);
    return ladder->n > 0 ? 0 : -1;
}

void check_id(char *out, size_t size, const struct check_op *op, seqmix_dtype x, enum check_class name, int64_t variant)
{
    snprintf(out, size, "%s:%s:%s:%d", op->name, seqmix_dtype_name(x), check_class_name(name), (int)variant);
}

static bool wanted(const struct check_options *options, const char *id)
{
    return options->filter == NULL || fnmatch(options->filter, id, 0) == 0;
}

/* One op in one dtype on one rung. */
static void walk_op(const struct check_options *options, const struct rung *rung, const char *rung_name,
                    const struct check_op *op, seqmix_dtype x, struct report *report)
{
    for (int name = 0; name < CLASS_COUNT; name++) {
        const struct class_use *use = check_use(op, (enum check_class)name);
        if (check_ways.fast && name >= CLASS_FIRST_PROPERTY) break;
        for (int64_t i = 0; use != NULL && i < use->variants[options->level]; i++) {
            char id[96];
            struct verdict verdict;
            const int64_t variant = check_variant(use, options->level, i);
            check_id(id, sizeof id, op, x, use->name, variant);
            if (!wanted(options, id)) continue;
            if (options->list) {
                puts(id);
                continue;
            }
            check_case(rung, op, x, use, variant, options->seed, &verdict);
            check_report_case(report, rung_name, op, x, use, id, &verdict);
        }
    }
}

static void walk_rung(const struct check_options *options, const struct ladder_rung *at, struct report *report)
{
    struct rung rung;
    char why[256] = "";
    if (!check_rung_open(&rung, at->table, at->below, why, sizeof why)) {
        check_report_trouble(report, at->name, why);
        return;
    }
    for (int i = 0; i < check_n_ops; i++) {
        const struct check_op *op = &check_ops[i];
        if (op->family == NULL) {
            check_report_trouble(report, op->name, "an op without generator (tests/check/check_<family>.c)");
        } else if (at->below != NULL && op->same_slot(at->table, at->below)) {
            check_report_inherited(report, at->name, op);
        } else {
            for (int d = 0; d < 3; d++)
                walk_op(options, &rung, at->name, op, dtypes[d], report);
        }
    }
    check_rung_close(&rung);
}

/* "op:dtype:class:variant" */
static bool parse_id(const char *id, const struct check_op **op, seqmix_dtype *x, const struct class_use **use,
                     int64_t *variant)
{
    char parts[4][64];
    if (sscanf(id, "%63[^:]:%63[^:]:%63[^:]:%63s", parts[0], parts[1], parts[2], parts[3]) != 4) return false;
    *op = check_find_op(parts[0]);
    *use = NULL;
    *x = 0;
    if (*op == NULL || (*op)->family == NULL) return false;
    for (int d = 0; d < 3; d++)
        if (strcmp(parts[1], seqmix_dtype_name(dtypes[d])) == 0) *x = dtypes[d];
    for (int name = 0; name < CLASS_COUNT; name++)
        if (strcmp(parts[2], check_class_name((enum check_class)name)) == 0)
            *use = check_use(*op, (enum check_class)name);
    char *end;
    *variant = strtol(parts[3], &end, 10);
    return *x != 0 && *use != NULL && *end == '\0' && *variant >= 0 && *variant < (*use)->variants[LEVEL_FULL];
}

static int replay(const struct check_options *options, const struct ladder *ladder)
{
    const struct check_op *op;
    const struct class_use *use;
    seqmix_dtype x;
    int64_t variant;
    if (!parse_id(options->id, &op, &x, &use, &variant)) {
        fprintf(stderr, "seqmix-check: %s is no case (see --list)\n", options->id);
        return 2;
    }
    int failed = 0;
    for (int i = 0; i < ladder->n; i++) {
        const struct ladder_rung *at = &ladder->rungs[i];
        struct rung rung;
        struct verdict v;
        char why[256] = "";
        if (!check_rung_open(&rung, at->table, at->below, why, sizeof why)) {
            fprintf(stderr, "seqmix-check: %s: %s\n", at->name, why);
            return 2;
        }
        check_case(&rung, op, x, use, variant, options->seed, &v);
        printf("%s %s on %s%s%s\n", v.ok ? "pass" : "FAIL", options->id, at->name, v.ok ? "" : ": ", v.why);
        if (v.judged)
            printf("  (a) %.3g  (b) %.3g  bound %.3g  worst in %s, row %d, head %d\n", v.a, v.b, v.bound, v.field,
                   (int)v.row, (int)v.head);
        failed += !v.ok;
        check_rung_close(&rung);
    }
    printf("%d checks, %d failed\n", ladder->n, failed);
    return failed > 0;
}

int check_walk(const struct check_options *options)
{
    struct ladder ladder;
    if (check_ladder(options, &ladder) != 0) return 2;
    if (options->id != NULL) return replay(options, &ladder);
    if (options->list) ladder.n = 1;
    struct report *report = check_report_new(options);
    for (int i = 0; i < ladder.n; i++)
        walk_rung(options, &ladder.rungs[i], report);
    return check_report_end(report);
}
