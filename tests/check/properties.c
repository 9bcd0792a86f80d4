/* SPDX-License-Identifier: MIT */
/*
 * Properties that need no oracle, written once for all ops: most compare the memory of a call and of its clone byte by byte.
 * They hold with an f32 pool, whatever X is; the generator gives them one.
 */
#include <math.h>

#include "cpu.h"
#include "harness.h"

/* Runs a view of `whole` over rows [begin, end), reading and writing the given slots. */
static bool run_part(const struct rung *rung, struct call *whole, int64_t begin, int64_t end, int32_t read,
                     int32_t write, struct verdict *verdict)
{
    struct call view;
    check_view(whole, begin, end, &view);
    if (whole->op->family->batch_offset != 0) check_slots(&view, read, write);
    return check_run(rung->serial, &view, verdict);
}

static void whole_is_split(const struct rung *rung, struct call *call, struct rng *rng, struct verdict *verdict)
{
    struct span span[CHECK_MAX_SEQS];
    struct call parts;
    const int64_t grain = check_grain(rung->serial, call), rows = check_rows(call);
    check_spans(call, span);
    check_clone(call, &parts);
    const int64_t cells = (rows - 1) / grain, cut = grain * (1 + check_below(rng, cells));
    if (cells >= 1 && check_run(rung->serial, call, verdict)) {
        const bool ran = run_part(rung, &parts, 0, cut, span[0].read, span[0].write, verdict) &&
                         run_part(rung, &parts, cut, rows, span[0].write, span[0].write, verdict);
        if (ran && !check_memory_same(call, &parts))
            check_fail(verdict, "%d rows and %d + %d rows differ in their bits (grain %d)", (int)rows, (int)cut,
                       (int)(rows - cut), (int)grain);
    }
    check_release(&parts);
}

/* A view of sequence i with its slots and checkpoints. */
static void take_sequence(struct call *whole, const struct span *span, int i, struct call *view)
{
    const struct call *from = whole;
    check_view(whole, span->begin, span->end, view);
    check_slots(view, span->read, span->write);
    int n = 0;
    for (int c = 0; c < from->batch.n_checkpoints; c++) {
        if (from->ckpt_seq[c] != i) continue;
        view->ckpt_seq[n] = 0;
        view->ckpt_row[n] = from->ckpt_row[c];
        view->ckpt_slot[n++] = from->ckpt_slot[c];
    }
    view->batch.n_checkpoints = n;
    check_rebind(view);
}

static void alone_is_company(const struct rung *rung, struct call *call, struct rng *rng, struct verdict *verdict)
{
    struct span spans[CHECK_MAX_SEQS];
    struct call alone, view;
    const int n = check_spans(call, spans);
    check_clone(call, &alone);
    bool ran = check_run(rung->serial, call, verdict);
    if (call->op->family->batch_offset != 0) {
        for (int i = n - 1; i >= 0 && ran; i--) {
            take_sequence(&alone, &spans[i], i, &view);
            ran = check_run(rung->serial, &view, verdict);
        }
    } else {
        const int64_t rows = check_rows(call);
        for (int64_t at = 0, end = 0; at < rows && ran; at = end) {
            end = at + 1 + check_below(rng, rows - at < 4 ? rows - at : 4);
            ran = run_part(rung, &alone, at, end, -1, -1, verdict);
        }
    }
    if (ran && !check_memory_same(call, &alone)) check_fail(verdict, "rows alone and in company differ in their bits");
    check_release(&alone);
}

/* `to` becomes `from` with its sequences in another order and its slots renumbered; slots[i] is the new number of slot i. */
static void renumber(const struct call *from, struct call *to, const struct span *spans, int n, const int *order,
                     const int32_t *slots)
{
    const int pool = check_pool(from);
    int32_t row = 0, checkpoints = 0;
    for (int i = 0; i < n; i++) {
        const struct span *span = &spans[order[i]];
        to->row_begin[i] = row;
        to->read[i] = span->read >= 0 ? slots[span->read] : -1;
        to->write[i] = span->write >= 0 ? slots[span->write] : -1;
        for (int c = 0; c < from->batch.n_checkpoints; c++) {
            if (from->ckpt_seq[c] != order[i]) continue;
            to->ckpt_seq[checkpoints] = i;
            to->ckpt_row[checkpoints] = from->ckpt_row[c];
            to->ckpt_slot[checkpoints++] = from->ckpt_slot[c] >= 0 ? slots[from->ckpt_slot[c]] : -1;
        }
        for (int64_t r = span->begin; r < span->end; r++, row++)
            for (int f = 0; f < from->op->family->n_fields; f++)
                if ((from->op->family->fields[f].flags & FIELD_ROWS) != 0 && seqmix_present(check_field_const(from, f)))
                    check_copy_row(check_field_const(from, f), r, check_field(to, f), row);
    }
    to->row_begin[n] = row;
    to->given |= GIVE_READ | GIVE_WRITE;
    for (int64_t slot = 0; slot < check_field_const(from, pool)->shape[0]; slot++)
        check_copy_row(check_field_const(from, pool), slot, check_field(to, pool), slots[slot]);
    check_rebind(to);
}

static void order_is_free(const struct rung *rung, struct call *call, struct rng *rng, struct verdict *verdict)
{
    struct span spans[CHECK_MAX_SEQS];
    struct call other;
    int order[CHECK_MAX_SEQS];
    int32_t slots[CHECK_MAX_SLOTS];
    const int n = check_spans(call, spans), pool = check_pool(call), out = call->op->family->n_fields - 1;
    const int64_t n_slots = check_field(call, pool)->shape[0];
    for (int i = 0; i < n; i++) {
        const int j = (int)check_below(rng, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int32_t i = 0; i < n_slots; i++) {
        const int32_t j = (int32_t)check_below(rng, i + 1);
        slots[i] = slots[j];
        slots[j] = i;
    }
    check_clone(call, &other);
    renumber(call, &other, spans, n, order, slots);
    if (check_run(rung->serial, call, verdict) && check_run(rung->serial, &other, verdict)) {
        for (int i = 0; i < n; i++)
            for (int64_t r = spans[order[i]].begin; r < spans[order[i]].end; r++)
                if (!check_same_row(check_field(call, out), r, check_field(&other, out),
                                    other.row_begin[i] + r - spans[order[i]].begin))
                    check_fail(verdict, "row %d differs in its bits after permuting the sequences", (int)r);
        for (int64_t slot = 0; slot < n_slots; slot++)
            if (!check_same_row(check_field(call, pool), slot, check_field(&other, pool), slots[slot]))
                check_fail(verdict, "slot %d differs in its bits after renumbering it %d", (int)slot, (int)slots[slot]);
    }
    check_release(&other);
}

static void workers_are_equal(const struct rung *rung, struct call *call, struct verdict *verdict)
{
    seqmix_ctx *const contexts[3] = {rung->two, rung->five, rung->reversed};
    static const char *const names[3] = {"2 workers", "5 workers", "a runner in reverse order"};
    struct call other;
    for (int i = 0; i < 3; i++) {
        check_clone(call, &other);
        struct call one;
        check_clone(call, &one);
        if (check_run(rung->serial, &one, verdict) && check_run(contexts[i], &other, verdict) &&
            !check_memory_same(&one, &other))
            check_fail(verdict, "1 worker and %s differ in their bits", names[i]);
        check_release(&one);
        check_release(&other);
    }
}

/* On a clone: the call that ends at checkpoint c must leave the bits that the checkpoint has in `call`. */
static void grid_checkpoint(const struct rung *rung, const struct call *call, const struct call *start, int c,
                            const struct span *span, struct verdict *verdict)
{
    struct call ends;
    const int pool = check_pool(call);
    check_clone(start, &ends);
    if (run_part(rung, &ends, span->begin, span->begin + call->ckpt_row[c], span->read, call->ckpt_slot[c], verdict) &&
        !check_same_row(check_field_const(call, pool), call->ckpt_slot[c], check_field(&ends, pool),
                        call->ckpt_slot[c]))
        check_fail(verdict, "the checkpoint after row %d of sequence %d has not the bits of a call ending there",
                   (int)call->ckpt_row[c], (int)call->ckpt_seq[c]);
    check_release(&ends);
}

static void checkpoints_are_free(const struct rung *rung, struct call *call, struct verdict *verdict)
{
    struct span spans[CHECK_MAX_SEQS];
    struct call without, start;
    const int pool = check_pool(call), out = call->op->family->n_fields - 1;
    const int64_t grain = check_grain(rung->serial, call);
    bool target[CHECK_MAX_SLOTS] = {false};
    check_spans(call, spans);
    check_clone(call, &start);
    check_clone(call, &without);
    without.batch.n_checkpoints = 0;
    check_rebind(&without);
    if (check_run(rung->serial, call, verdict) && check_run(rung->serial, &without, verdict)) {
        for (int c = 0; c < call->batch.n_checkpoints; c++) {
            if (call->ckpt_slot[c] < 0) continue;
            target[call->ckpt_slot[c]] = true;
            if (call->ckpt_row[c] % grain == 0)
                grid_checkpoint(rung, call, &start, c, &spans[call->ckpt_seq[c]], verdict);
        }
        for (int64_t r = 0; r < check_rows(call); r++)
            if (!check_same_row(check_field(call, out), r, check_field(&without, out), r))
                check_fail(verdict, "row %d differs in its bits with checkpoints on and off", (int)r);
        for (int64_t s = 0; s < check_field(call, pool)->shape[0]; s++)
            if (!target[s] && !check_same_row(check_field(call, pool), s, check_field(&without, pool), s))
                check_fail(verdict, "slot %d differs in its bits with checkpoints on and off", (int)s);
    }
    check_release(&without);
    check_release(&start);
}

/* One row at a time, each checkpoint compared as soon as its row is done. */
static bool run_steps(const struct rung *rung, const struct call *call, struct call *single, const struct span *span,
                      int seq, struct verdict *verdict)
{
    const int pool = check_pool(call);
    for (int64_t r = span->begin; r < span->end; r++) {
        if (!run_part(rung, single, r, r + 1, r == span->begin ? span->read : span->write, span->write, verdict))
            return false;
        for (int c = 0; c < call->batch.n_checkpoints; c++) {
            if (call->ckpt_seq[c] != seq || call->ckpt_row[c] != r + 1 - span->begin || call->ckpt_slot[c] < 0)
                continue;
            check_copy_row(check_field(single, pool), span->write, check_field(single, pool), call->ckpt_slot[c]);
        }
    }
    return span->begin < span->end || run_part(rung, single, span->begin, span->end, span->read, span->write, verdict);
}

static void rows_are_steps(const struct rung *rung, struct call *call, struct verdict *verdict)
{
    struct span spans[CHECK_MAX_SEQS];
    struct call single;
    const int n = check_spans(call, spans);
    check_clone(call, &single);
    bool ran = check_run(rung->serial, call, verdict);
    for (int i = 0; i < n && ran; i++)
        ran = run_steps(rung, call, &single, &spans[i], i, verdict);
    if (ran && !check_memory_same(call, &single))
        check_fail(verdict, "T rows and T one-row steps differ in their bits");
    check_release(&single);
}

/* The same args through the sequence form. */
static void forms_agree(const struct rung *rung, struct call *call, struct verdict *verdict)
{
    struct span spans[CHECK_MAX_SEQS];
    const int n = check_spans(call, spans);
    if ((call->given & GIVE_ROW_BEGIN) == 0) { /* what a step means by none */
        for (int i = 0; i < n; i++) {
            call->row_begin[i] = (int32_t)spans[i].begin;
            call->row_begin[i + 1] = (int32_t)spans[i].end;
        }
        call->batch.n_seqs = n;
        call->batch.max_rows = 1;
        call->given |= GIVE_BATCH | GIVE_ROW_BEGIN;
    }
    call->op = check_sibling(call->op);
    check_rebind(call);
    check_numbers(rung, call, verdict);
}

static void chunks_agree(const struct rung *rung, struct call *call, struct verdict *verdict)
{
    static const int32_t chunks[4] = {16, 32, 128, 256};
    struct call want;
    if (!check_run_oracle(&seqmix_kernels__ref64, call, true, &want, verdict)) return;
    for (int i = 0; i < 4; i++) {
        struct call other;
        check_clone(call, &other);
        memcpy((char *)&other.args + call->op->family->chunk_offset, &chunks[i], sizeof chunks[i]);
        if (check_run(rung->serial, &other, verdict))
            check_compare(&other, NULL, &want, check_grain(rung->serial, &other), verdict);
        if (!verdict->ok) check_fail(verdict, "with chunk %d", (int)chunks[i]);
        check_release(&other);
    }
    check_release(&want);
}

/* (I + L)(inv t) = t for random t, one vector a matrix. */
static void inverse_residual(const struct rung *rung, struct call *call, struct rng *rng, struct verdict *verdict)
{
    struct call input;
    check_clone(call, &input);
    if (check_run(rung->serial, call, verdict)) {
        const seqmix_tensor *a = check_named(&input, "a"), *inv = check_named(call, "inv");
        const int64_t n = a->shape[a->rank - 1], sa = a->stride[a->rank - 1], si = inv->stride[a->rank - 1];
        const int64_t row_a = a->stride[a->rank - 2], row_i = inv->stride[a->rank - 2];
        int64_t index[SEQMIX_MAX_RANK] = {0};
        double t[256], u[256], error = 0, scale = 0;
        do {
            const int64_t at = check_offset(a, index), to = check_offset(inv, index);
            for (int64_t i = 0; i < n; i++)
                t[i] = check_gauss(rng);
            for (int64_t i = 0; i < n; i++) {
                u[i] = 0;
                for (int64_t j = 0; j < n; j++)
                    u[i] += check_get(inv, to + i * row_i + j * si) * t[j];
            }
            for (int64_t i = 0; i < n; i++) {
                double sum = u[i] - t[i];
                for (int64_t j = 0; j < i; j++)
                    sum += check_get(a, at + i * row_a + j * sa) * u[j];
                error += sum * sum;
                scale += t[i] * t[i];
            }
        } while (check_next(a, index, 0, a->rank - 2));
        verdict->a = sqrt(error / scale);
        verdict->bound = 4 * check_bound(call->x, BOUND_ORDINARY);
        verdict->judged = true;
        if (!(verdict->a <= verdict->bound))
            check_fail(verdict, "residual %.3g of (I+L)(inv t) = t exceeds %.3g", verdict->a, verdict->bound);
    }
    check_release(&input);
}

void check_property(const struct rung *rung, struct call *call, enum check_class name, struct rng *rng,
                    struct verdict *verdict)
{
    switch (name) {
    case CLASS_SPLIT:
        whole_is_split(rung, call, rng, verdict);
        break;
    case CLASS_COMPANY:
        alone_is_company(rung, call, rng, verdict);
        break;
    case CLASS_RENUMBER:
        order_is_free(rung, call, rng, verdict);
        break;
    case CLASS_WORKERS:
        workers_are_equal(rung, call, verdict);
        break;
    case CLASS_CHECKPOINTS:
        checkpoints_are_free(rung, call, verdict);
        break;
    case CLASS_STEPS:
        rows_are_steps(rung, call, verdict);
        break;
    case CLASS_FORMS:
        forms_agree(rung, call, verdict);
        break;
    case CLASS_CHUNKS:
        chunks_agree(rung, call, verdict);
        break;
    case CLASS_RESIDUAL:
        inverse_residual(rung, call, rng, verdict);
        break;
    default:
        check_fail(verdict, "no such property");
        break;
    }
}
