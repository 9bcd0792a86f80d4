/* SPDX-License-Identifier: MIT */
/*
 * Tries every cause on a copy of the case, alone, and if none explains the dump, two at a time. To stay quick on large dumps
 * this is done on the first rows, at least up to the first bad one; what explains those is then tried on all of them. A cause
 * explains the dump if with it every output that failed is compared and nothing fails.
 */
#include <math.h>
#include <stdlib.h>

#include "tensor.h"
#include "validate_case.h"

/* Multiply-adds: about half a second on one core for each single cause, and some ten seconds for all pairs. */
static const double single_budget = 2e8, pair_budget = 5e9;

enum { MOST_SINGLES = 96, MOST_PROMISING = 24, CONFIRMED = 6 };

struct search {
    struct seqmix_val_dump *dump;
    const struct seqmix_val_verdict *verdict;
    double bound;
    const struct seqmix_val_cause *by_shape;
    int64_t rows; /* of the dump that causes are tried on */
    bool final_only;
    struct seqmix_val_findings *found;
};

#define BY_SHAPE(name, which)                                                                                          \
    {                                                                                                                  \
        name, 0, 0, NULL,                                                                                              \
            which " transposed: its shape fits only with the last two axes in the other order than expected"           \
    }

static const struct seqmix_val_cause shape_causes[] = {
    BY_SHAPE("initial-state-transposed", "initial state"),
    BY_SHAPE("final-state-transposed", "final state"),
    BY_SHAPE("state-transposed", "state"),
};

static const struct seqmix_val_cause *cause_by_shape(const struct seqmix_val_dump *dump)
{
    const int which = (dump->initial_by_shape ? 1 : 0) + (dump->state_out.transposed ? 2 : 0);
    return which > 0 ? &shape_causes[which - 1] : NULL;
}

/* Multiply-adds of one row. */
static double row_cost(struct seqmix_val_case *c)
{
    const seqmix_tensor *out = seqmix_val_output(c);
    const union seqmix_val_args *a = &c->args;
    switch (c->op->family) {
    case SEQMIX_VAL_conv:
        return (double)(a->conv.weight.shape[0] * a->conv.weight.shape[1]);
    case SEQMIX_VAL_scan:
        return 3.0 * (double)(a->scan.A.shape[0] * a->scan.A.shape[1]);
    case SEQMIX_VAL_ssd:
        return 3.0 * (double)(a->ssd.x.shape[1] * a->ssd.x.shape[2] * a->ssd.B.shape[2]);
    case SEQMIX_VAL_deltanet:
        return 4.0 * (double)(a->deltanet.v.shape[1] * a->deltanet.v.shape[2] * a->deltanet.k.shape[2]);
    case SEQMIX_VAL_linear:
        return (double)(a->linear.weight.shape[0] * a->linear.weight.shape[1]);
    default:
        break;
    }
    return out->rank > 0 && out->shape[0] > 0 ? (double)seqmix_tensor_count(out) / (double)out->shape[0] : 1;
}

/* Applies one or two causes to a copy and compares. False: they make no sense here. */
static bool try_causes(struct search *s, const struct seqmix_val_cause *const cause[2], int64_t rows,
                       struct seqmix_val_verdict *verdict)
{
    struct seqmix_val_case trial;
    struct seqmix_val_result result;
    char why[SEQMIX_VAL_TEXT];
    if (!seqmix_val_copy(&s->dump->base, rows, &trial)) return false;
    bool ok = true;
    for (int i = 0; i < 2 && ok; i++)
        if (cause[i] != NULL && cause[i]->apply != NULL) ok = cause[i]->apply(&trial);
    ok = ok && seqmix_val_evaluate(&trial, &result, why) &&
         seqmix_val_judge(s->dump, &trial, &result, s->bound, verdict) && !trial.memory.exhausted;
    seqmix_val_free(&trial.memory);
    return ok && verdict->error[0].compared + verdict->error[1].compared > 0;
}

/* Whether everything that failed without the cause was compared with it, and nothing fails. */
static bool explains(const struct search *s, const struct seqmix_val_verdict *with)
{
    for (int i = 0; i < 2; i++) {
        const struct seqmix_val_error *without = &s->verdict->error[i];
        const bool excused = i == 1 && with->state_excused;
        if (without->name != NULL && !without->pass && with->error[i].name == NULL && !excused) return false;
    }
    return with->pass;
}

static void add_finding(struct search *s, const struct seqmix_val_cause *first, const struct seqmix_val_cause *second,
                        const struct seqmix_val_verdict *verdict)
{
    struct seqmix_val_findings *f = s->found;
    const struct seqmix_val_finding finding = {{first, second}, *verdict};
    int at = f->n < SEQMIX_VAL_FINDINGS ? f->n : SEQMIX_VAL_FINDINGS - 1;
    if (f->n == SEQMIX_VAL_FINDINGS && !(verdict->ratio < f->found[at].verdict.ratio)) return;
    for (; at > 0 && f->found[at - 1].verdict.ratio > verdict->ratio; at--)
        f->found[at] = f->found[at - 1];
    f->found[at] = finding;
    if (f->n < SEQMIX_VAL_FINDINGS) f->n++;
}

/* Whether the first `rows` rows show the fault: the dump fails on them as it is. */
static bool shows_fault(struct search *s, int64_t rows)
{
    const struct seqmix_val_cause *const none[2] = {NULL, NULL};
    struct seqmix_val_verdict verdict;
    if (s->by_shape != NULL && s->verdict->pass) return true;
    return try_causes(s, none, rows, &verdict) && !verdict.pass && (rows < s->dump->base.rows || !s->verdict->pass);
}

static int64_t fewer(int64_t rows, double budget, double cost)
{
    const double most = budget / (cost > 1 ? cost : 1);
    return most < (double)rows ? (int64_t)(most > 1 ? most : 1) : rows;
}

/* Where only the final state is wrong, all rows are needed; of a large dump then only causes that concern it are tried. */
static void choose_rows(struct search *s, int64_t wanted)
{
    struct seqmix_val_case *c = &s->dump->base;
    const struct seqmix_val_error *out = &s->verdict->error[0];
    const double cost = row_cost(c);
    s->rows = wanted == 0 ? fewer(c->rows, single_budget, cost) : wanted < c->rows ? wanted : c->rows;
    s->final_only = (out->name == NULL || out->pass) && s->rows < c->rows && s->by_shape == NULL;
    if (s->final_only) s->rows = c->rows;
    if (out->name != NULL && !out->pass && out->bad_row >= s->rows && c->op->family != SEQMIX_VAL_inverse)
        s->rows = out->bad_row + 1;
    if (s->rows < c->rows && !shows_fault(s, s->rows)) s->rows = c->rows;
}

static void try_singles(struct search *s)
{
    const struct seqmix_val_cause *const tables[] = {seqmix_val_causes_common, seqmix_val_causes_dt,
                                                     seqmix_val_causes_delta, seqmix_val_causes_rows};
    const unsigned family = 1u << s->dump->base.op->family;
    for (int t = 0; t < 4; t++)
        for (const struct seqmix_val_cause *cause = tables[t]; cause->name != NULL; cause++) {
            const struct seqmix_val_cause *const both[2] = {s->by_shape != NULL ? s->by_shape : cause,
                                                            s->by_shape != NULL ? cause : NULL};
            struct seqmix_val_verdict verdict;
            if ((cause->families & family) == 0 || s->found->n_tried == MOST_SINGLES) continue;
            if (s->final_only && (cause->touches & SEQMIX_VAL_TOUCH_FINAL) == 0) continue;
            if (!try_causes(s, both, s->rows, &verdict)) continue;
            s->found->n_tried++;
            add_finding(s, both[0], both[1], &verdict);
        }
}

/* How many of the nearest singles can be paired, and on how many rows: at least as many as show the fault. */
static int plan_pairs(struct search *s, int64_t *rows)
{
    const double cost = row_cost(&s->dump->base);
    const struct seqmix_val_error *out = &s->verdict->error[0];
    const int64_t least = out->name != NULL && !out->pass && s->dump->base.op->family != SEQMIX_VAL_inverse
                              ? (out->bad_row >= 0 ? out->bad_row + 1 : s->rows)
                              : s->rows;
    int n = s->found->n;
    while (n > 1 && (double)n * (n - 1) / 2 * (double)least * cost > pair_budget)
        n--;
    const int64_t most = fewer(s->rows, pair_budget, cost * (n > 1 ? (double)n * (n - 1) / 2 : 1));
    *rows = most > least ? most : least;
    return n;
}

/* Two together, in the order of their errors alone: screened on few rows, then compared on all that singles were compared on. */
static void try_pairs(struct search *s)
{
    const struct seqmix_val_cause *near[MOST_SINGLES];
    int64_t rows;
    const int n = plan_pairs(s, &rows);
    int promising = 0;
    for (int i = 0; i < n; i++)
        near[i] = s->found->found[i].cause[0];
    for (int j = 1; j < n; j++)
        for (int i = 0; i < j && promising < MOST_PROMISING; i++) {
            const struct seqmix_val_cause *const pair[2] = {near[i], near[j]};
            struct seqmix_val_verdict verdict;
            if ((pair[0]->touches & pair[1]->touches) != 0 || !try_causes(s, pair, rows, &verdict)) continue;
            s->found->n_pairs++;
            if (!verdict.pass) continue;
            promising++;
            if (rows < s->rows && (!try_causes(s, pair, s->rows, &verdict) || !verdict.pass)) continue;
            add_finding(s, pair[0], pair[1], &verdict);
        }
}

/* Moves what explains the dump to the front. What was tried on some rows only has to hold on all of them. */
static void rank(struct search *s)
{
    struct seqmix_val_findings *f = s->found;
    const bool cut = s->rows < s->dump->base.rows;
    int confirmed = 0;
    for (int i = 0; i < f->n; i++) {
        struct seqmix_val_finding finding = f->found[i];
        if (!finding.verdict.pass) continue;
        if (cut && (confirmed++ == CONFIRMED || !try_causes(s, finding.cause, s->dump->base.rows, &finding.verdict)))
            continue;
        if (!explains(s, &finding.verdict)) continue;
        for (int j = i; j > f->n_explaining; j--)
            f->found[j] = f->found[j - 1];
        f->found[f->n_explaining++] = finding;
    }
}

bool seqmix_val_find_causes(struct seqmix_val_dump *dump, const struct seqmix_val_verdict *verdict, int64_t rows,
                            double bound, struct seqmix_val_findings *findings)
{
    struct search s = {.dump = dump, .verdict = verdict, .bound = bound, .found = findings};
    *findings = (struct seqmix_val_findings){0};
    s.by_shape = cause_by_shape(dump);
    if (s.by_shape != NULL && verdict->pass) {
        findings->n_tried = 1;
        findings->rows = dump->base.rows;
        add_finding(&s, s.by_shape, NULL, verdict);
        findings->n_explaining = 1;
        return true;
    }
    choose_rows(&s, rows);
    findings->rows = s.rows;
    try_singles(&s);
    rank(&s);
    if (findings->n_explaining == 0 && s.by_shape == NULL) {
        try_pairs(&s);
        rank(&s);
    }
    return true;
}
