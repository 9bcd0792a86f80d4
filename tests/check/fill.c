/* SPDX-License-Identifier: MIT */
/* Values for a placed call. Every fill writes elements only: the gaps between them stay NaN. */
#include <math.h>

#include "harness.h"

/* Calls for every element of a tensor: set `value` from the running state. What lies in blocks is left as it is. */
#define FOR_ELEMENTS(t, index)                                                                                         \
    if (seqmix_present(t) && seqmix_tensor_count(t) > 0 && seqmix_dtype_block((t)->dtype) == 1)                        \
        for (bool more = true; more; more = check_next((t), (index), 0, (t)->rank))

void check_fill_gauss(struct call *call, struct draw *draw, const char *name, double mean, double deviation)
{
    seqmix_tensor *t = check_named(call, name);
    int64_t index[SEQMIX_MAX_RANK] = {0};
    FOR_ELEMENTS(t, index) check_put(t, check_offset(t, index), mean + deviation * check_gauss(&draw->rng));
}

void check_fill_uniform(struct call *call, struct draw *draw, const char *name, double low, double high)
{
    seqmix_tensor *t = check_named(call, name);
    int64_t index[SEQMIX_MAX_RANK] = {0};
    FOR_ELEMENTS(t, index) check_put(t, check_offset(t, index), low + (high - low) * check_uniform(&draw->rng));
}

void check_fill(struct call *call, const char *name, double value)
{
    seqmix_tensor *t = check_named(call, name);
    int64_t index[SEQMIX_MAX_RANK] = {0};
    FOR_ELEMENTS(t, index) check_put(t, check_offset(t, index), value);
}

void check_fill_one_hot(struct call *call, struct draw *draw, const char *name, double value)
{
    seqmix_tensor *t = check_named(call, name);
    int64_t index[SEQMIX_MAX_RANK] = {0};
    check_fill(call, name, 0);
    if (!seqmix_present(t) || seqmix_tensor_count(t) == 0) return;
    do {
        const int64_t hot = check_below(&draw->rng, t->shape[t->rank - 1]);
        check_put(t, check_offset(t, index) + hot * t->stride[t->rank - 1], value);
    } while (check_next(t, index, 0, t->rank - 1));
}

void check_fill_extreme(struct call *call, struct draw *draw, const char *name)
{
    static const double values[] = {0, 1e4, -1e4, 20, -20, 20.5, 19.5, 88, -88, 89.5, -104, 1e-4, -1e-4, 1, -1};
    seqmix_tensor *t = check_named(call, name);
    int64_t index[SEQMIX_MAX_RANK] = {0};
    FOR_ELEMENTS(t, index)
    check_put(t, check_offset(t, index), values[check_below(&draw->rng, (int64_t)(sizeof values / sizeof *values))]);
}

static void map_row(const seqmix_tensor *t, int64_t row, double factor, double summand)
{
    int64_t index[SEQMIX_MAX_RANK] = {row};
    if (!seqmix_present(t) || seqmix_tensor_count(t) == 0) return;
    do {
        const int64_t at = check_offset(t, index);
        check_put(t, at, factor != 0 ? factor * check_get(t, at) + summand : summand);
    } while (check_next(t, index, 1, t->rank));
}

void check_set_row(struct call *call, const char *name, int64_t row, double value)
{
    map_row(check_named(call, name), row, 0, value);
}

void check_scale_row(struct call *call, const char *name, int64_t row, double factor)
{
    map_row(check_named(call, name), row, factor, 0);
}

static void scale(seqmix_tensor *t, double factor, double limit)
{
    int64_t index[SEQMIX_MAX_RANK] = {0};
    FOR_ELEMENTS(t, index)
    {
        const int64_t at = check_offset(t, index);
        const double value = factor * check_get(t, at);
        check_put(t, at, fabs(value) > limit ? copysign(limit, value) : value);
    }
}

void check_fill_pool(struct call *call, struct draw *draw, double deviation)
{
    const int pool = check_pool(call);
    if (pool < 0) return;
    seqmix_tensor *t = check_field(call, pool);
    struct span spans[CHECK_MAX_SEQS];
    const int n = check_spans(call, spans);
    for (int i = 0; i < n; i++) {
        int64_t index[SEQMIX_MAX_RANK] = {spans[i].read};
        if (spans[i].read < 0 || seqmix_tensor_count(t) == 0) continue;
        do
            check_put(t, check_offset(t, index), deviation * check_gauss(&draw->rng));
        while (check_next(t, index, 1, t->rank));
    }
}

int64_t check_digit(struct draw *draw, int64_t *rest, int64_t base)
{
    if (draw->name != CLASS_KINDS) return check_below(&draw->rng, base);
    const int64_t digit = *rest % base;
    *rest /= base;
    return digit;
}

/* ---------------------------------------------------------------- classes that mean the same for every family */

static void fill_zero(struct call *call, bool all)
{
    for (int f = 0; f < call->op->family->n_fields; f++) {
        const struct field *field = &call->op->family->fields[f];
        if (check_field(call, f)->dtype == SEQMIX_I32) continue;
        if (field->role == ROLE_IN && (all || ((field->flags & FIELD_ROWS) != 0 && (field->flags & FIELD_SCALAR) == 0)))
            check_fill(call, field->name, 0);
    }
    struct draw none = {.rows = 0};
    if (all) check_fill_pool(call, &none, 0);
}

static void fill_hot(struct call *call, struct draw *draw)
{
    for (int f = 0; f < call->op->family->n_fields; f++) {
        const struct field *field = &call->op->family->fields[f];
        if (field->role == ROLE_IN && (field->flags & FIELD_ROWS) != 0 && (field->flags & FIELD_SCALAR) == 0 &&
            check_field(call, f)->dtype != SEQMIX_I32)
            check_fill_one_hot(call, draw, field->name, 1);
    }
}

/* NaN in column `head` (-1: all) of every row input from row `begin` to `end`. */
static void break_rows(struct call *call, int64_t begin, int64_t end, int64_t head, int64_t heads)
{
    for (int f = 0; f < call->op->family->n_fields; f++) {
        const struct field *field = &call->op->family->fields[f];
        seqmix_tensor *t = check_field(call, f);
        if (field->role != ROLE_IN || (field->flags & FIELD_ROWS) == 0 || !seqmix_present(t)) continue;
        if (t->dtype == SEQMIX_I32) continue;
        if (head >= 0 && (t->shape[1] != heads || seqmix_tensor_count(t) == 0)) continue;
        for (int64_t row = begin; row < end; row++) {
            int64_t index[SEQMIX_MAX_RANK] = {row, head};
            if (head < 0)
                map_row(t, row, 0, (double)NAN);
            else
                do
                    check_put(t, check_offset(t, index), (double)NAN);
                while (check_next(t, index, 2, t->rank));
        }
    }
}

/* A whole sequence (its rows and state), the rows of no sequence, and from some row on one head of another sequence. */
static void fill_neighbours(struct call *call, struct draw *draw)
{
    struct span spans[CHECK_MAX_SEQS];
    struct rng *rng = &draw->rng;
    const int64_t rows = check_rows(call);
    if (call->op->family->batch_offset == 0) {
        const int64_t row = check_below(rng, rows);
        break_rows(call, row, row + 1, -1, 0);
        return;
    }
    const int n = check_spans(call, spans);
    if (n == 0 || rows == 0) return;
    const int broken = (int)check_below(rng, n), partly = (int)check_below(rng, n);
    const int64_t heads = check_field(call, call->op->family->n_fields - 1)->shape[1];
    break_rows(call, spans[broken].begin, spans[broken].end, -1, 0);
    break_rows(call, spans[n - 1].end, rows, -1, 0);
    if (partly != broken && spans[partly].end > spans[partly].begin) {
        const int64_t length = spans[partly].end - spans[partly].begin;
        break_rows(call, spans[partly].begin + check_below(rng, length), spans[partly].end, check_below(rng, heads),
                   heads);
    }
    const int pool = check_pool(call);
    bool shared = false;
    for (int i = 0; i < n; i++)
        shared = shared || (i != broken && spans[i].read == spans[broken].read);
    if (pool >= 0 && spans[broken].read >= 0 && !shared)
        map_row(check_field(call, pool), spans[broken].read, 0, (double)NAN);
}

/* Limits keep what is stored in f16 finite before the call. */
static void scale_value(struct call *call, double factor, double limit)
{
    scale(check_named(call, call->op->family->value), factor, call->x == SEQMIX_F16 ? limit : (double)INFINITY);
    const int pool = check_pool(call);
    if (pool >= 0) scale(check_field(call, pool), factor, limit);
}

void check_fill_class(struct call *call, struct draw *draw)
{
    const double tiny = call->x == SEQMIX_F16 ? 1e-6 : 1e-39;
    switch (draw->name) {
    case CLASS_ZERO:
        fill_zero(call, draw->variant % 2 == 0);
        break;
    case CLASS_ONE_HOT:
        fill_hot(call, draw);
        break;
    case CLASS_DENORMAL:
        scale_value(call, draw->variant % 2 == 0 ? tiny : tiny / 64, 1);
        break;
    case CLASS_OVERFLOW:
        scale_value(call, 1e5, 6.5e4);
        break;
    case CLASS_NEIGHBOURS:
        fill_neighbours(call, draw);
        break;
    default:
        break;
    }
}
