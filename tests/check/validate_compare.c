/* SPDX-License-Identifier: MIT */
/*
 * The metric of docs/NUMERICS.md: (a) RMS error over the tensor relative to the recurrence's RMS, (b) the same over each (row,
 * head) vector, relative to the larger of that vector's RMS and the tensor's, at most 4 bounds, (c) finite exactly where the
 * recurrence is. Bound: that of ordinary data, by dtype.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "batch.h"
#include "validate_case.h"

double seqmix_val_bound(seqmix_dtype dtype)
{
    return dtype == SEQMIX_BF16 ? 4e-3 : dtype == SEQMIX_F16 ? 1e-3 : 2e-6;
}

/* Two tensors as rows x heads x length; row r of `got` belongs to row map[r] of `expected`, -1 = to none. */
struct pair {
    const double *got, *expected;
    const int64_t *map;
};

static void init_error(struct seqmix_val_error *e, const char *name, seqmix_dtype dtype, const int64_t size[3],
                       double bound)
{
    *e = (struct seqmix_val_error){.name = name, .dtype = dtype, .rows = size[0], .heads = size[1], .length = size[2]};
    e->bound = bound;
    e->worst_row = e->max_row = e->bad_row = -1;
}

/* Sums over one vector of the squares of the error and of what was expected, where both are finite. */
static int64_t add_vector(struct seqmix_val_error *e, const double *got, const double *expected, int64_t row,
                          int64_t head, double *error, double *square)
{
    int64_t differ = 0;
    for (int64_t i = 0; i < e->length; i++) {
        const bool got_finite = isfinite(got[i]), expected_finite = isfinite(expected[i]);
        e->nonfinite_got += !got_finite;
        e->nonfinite_expected += !expected_finite;
        differ += got_finite != expected_finite;
        if (!got_finite || !expected_finite) continue;
        const double off = fabs(got[i] - expected[i]);
        *error += off * off;
        *square += expected[i] * expected[i];
        if (e->max_row >= 0 && off <= e->max_abs) continue;
        e->max_abs = off;
        e->max_got = got[i];
        e->max_expected = expected[i];
        e->max_row = row;
        e->max_head = head;
        e->max_at = i;
    }
    return differ;
}

static double relative(double error, double to)
{
    return error == 0 ? 0 : to > 0 ? error / to : (double)INFINITY;
}

static void compare(struct seqmix_val_error *e, const struct pair *p)
{
    double error = 0, square = 0;
    int64_t elements = 0;
    for (int64_t r = 0; r < e->rows; r++)
        for (int64_t h = 0; h < e->heads && p->map[r] >= 0; h++) {
            e->nonfinite_differ +=
                add_vector(e, p->got + (r * e->heads + h) * e->length,
                           p->expected + (p->map[r] * e->heads + h) * e->length, r, h, &error, &square);
            elements += e->length;
        }
    const double n = elements > 0 ? (double)elements : 1, tensor_rms = sqrt(square / n);
    e->compared = elements;
    e->rms = relative(sqrt(error / n), tensor_rms);
    for (int64_t r = 0; r < e->rows; r++)
        for (int64_t h = 0; h < e->heads && p->map[r] >= 0; h++) {
            struct seqmix_val_error ignored = *e;
            double vector_error = 0, vector_square = 0;
            const int64_t differ =
                add_vector(&ignored, p->got + (r * e->heads + h) * e->length,
                           p->expected + (p->map[r] * e->heads + h) * e->length, r, h, &vector_error, &vector_square);
            const double length = e->length > 0 ? (double)e->length : 1;
            const double off = relative(sqrt(vector_error / length), fmax(sqrt(vector_square / length), tensor_rms));
            if (e->worst_row < 0 || off > e->worst) {
                e->worst = off;
                e->worst_row = r;
                e->worst_head = h;
            }
            if (differ == 0 && off <= 4 * e->bound) continue;
            if (e->bad_vectors++ > 0) continue;
            e->bad_row = r;
            e->bad_head = h;
        }
    e->pass = e->rms <= e->bound && e->bad_vectors == 0 && e->nonfinite_differ == 0;
}

static void output_sizes(const struct seqmix_val_case *c, const seqmix_tensor *t, int64_t size[3])
{
    size[0] = c->rows;
    size[1] = t->rank == 3 ? t->shape[1] : 1;
    size[2] = t->shape[t->rank - 1];
    if (c->op->family != SEQMIX_VAL_inverse) return;
    size[1] = t->shape[t->rank - 2];
    size[0] = 1;
    for (int axis = 0; axis < t->rank - 2; axis++)
        size[0] *= t->shape[axis];
}

/* Rows of no sequence are not compared, nor rows whose shifted partner lies in another sequence. */
static int64_t *map_rows(struct seqmix_val_case *c, int64_t rows)
{
    int64_t *map = seqmix_val_take(&c->memory, rows, sizeof *map);
    if (map == NULL) return NULL;
    for (int64_t r = 0; r < rows; r++)
        map[r] = r;
    if (c->family->batch_offset == 0 && c->row_shift == 0) return map;
    const int32_t *owner = seqmix_val_row_owner(c);
    if (owner == NULL) return NULL;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t partner = r - c->row_shift;
        const bool inside = partner >= 0 && partner < rows;
        map[r] = owner[r] >= 0 && inside && owner[partner] == owner[r] ? partner : -1;
    }
    return map;
}

static bool *written_slots(struct seqmix_val_case *c, const seqmix_tensor *pool)
{
    bool *written = seqmix_val_take(&c->memory, pool->shape[0], sizeof *written);
    if (written == NULL) return NULL;
    for (int32_t i = 0; i < c->batch.n_seqs; i++) {
        const int64_t slot = seqmix_batch_seq(&c->batch, c->rows, pool, i).write_slot;
        if (slot >= 0) written[slot] = true;
    }
    for (int32_t i = 0; i < c->batch.n_checkpoints; i++)
        if (c->batch.ckpt_slot[i] >= 0) written[c->batch.ckpt_slot[i]] = true;
    return written;
}

/* All slots; only those that the call writes when the dump does not tell what the others held. */
static int64_t *map_slots(struct seqmix_val_case *c, const seqmix_tensor *pool, const bool *written)
{
    const int64_t slots = pool->shape[0];
    int64_t *map = seqmix_val_take(&c->memory, slots, sizeof *map);
    for (int64_t i = 0; map != NULL && i < slots; i++)
        map[i] = c->pool_given || written[i] ? i : -1;
    return map;
}

/*
 * Slots that the call does not write hold what they held, whatever the hypothesis does to the states it reads and writes:
 * they are compared as they lie in the file, if they are the same there.
 */
static bool settle_unwritten(const struct seqmix_val_dump *dump, struct seqmix_val_case *c, struct pair *p,
                             int64_t slots, int64_t size, const bool *written)
{
    double *got = seqmix_val_take(&c->memory, slots * size, sizeof *got);
    double *expected = seqmix_val_take(&c->memory, slots * size, sizeof *expected);
    if (got == NULL || expected == NULL) return false;
    for (int64_t i = 0; i < slots; i++) {
        const size_t bytes = (size_t)size * sizeof *got;
        const double *raw = dump->state_out.data + i * size, *before = dump->base.pool + i * size;
        const bool kept = !written[i] && memcmp(raw, before, bytes) == 0;
        memcpy(got + i * size, kept ? raw : p->got + i * size, bytes);
        memcpy(expected + i * size, written[i] ? p->expected + i * size : before, bytes);
    }
    p->got = got;
    p->expected = expected;
    return true;
}

/* The final states (`expected`) and the initial ones, put into the order of c->final_slot. */
static const double *rearranged(struct seqmix_val_case *c, const double *expected, int64_t slots, int64_t size)
{
    double *copy = seqmix_val_take(&c->memory, slots * size, sizeof *copy);
    for (int64_t i = 0; copy != NULL && i < slots; i++) {
        const int64_t from = c->final_slot[i];
        memcpy(copy + i * size, from < slots ? expected + from * size : c->dump->base.pool + (from - slots) * size,
               (size_t)size * sizeof *copy);
    }
    return copy;
}

static void reverse_rows(double *data, int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n / 2; i++) {
            const double keep = data[r * n + i];
            data[r * n + i] = data[r * n + n - 1 - i];
            data[r * n + n - 1 - i] = keep;
        }
}

static const double *reversed_copy(struct seqmix_val_case *c, const double *data, int64_t rows, int64_t n)
{
    double *copy = seqmix_val_take(&c->memory, rows * n, sizeof *copy);
    if (copy == NULL || rows * n == 0) return copy;
    memcpy(copy, data, (size_t)(rows * n) * sizeof *copy);
    reverse_rows(copy, rows, n);
    return copy;
}

static const double *swapped_copy(struct seqmix_val_case *c, const double *data, int64_t count, int64_t a, int64_t b)
{
    double *copy = seqmix_val_take(&c->memory, count, sizeof *copy);
    if (copy == NULL || count == 0) return copy;
    memcpy(copy, data, (size_t)count * sizeof *copy);
    return seqmix_val_swap(copy, count / (a * b), a, b) ? copy : NULL;
}

static seqmix_dtype coarser(seqmix_dtype a, seqmix_dtype b)
{
    return seqmix_val_bound(a) >= seqmix_val_bound(b) ? a : b;
}

static bool judge_output(const struct seqmix_val_dump *dump, struct seqmix_val_case *c, const double *expected,
                         double bound, struct seqmix_val_error *e)
{
    const seqmix_tensor *t = seqmix_val_output(c);
    int64_t size[3];
    output_sizes(c, t, size);
    const seqmix_dtype dtype = coarser(dump->x, dump->out.dtype);
    init_error(e, seqmix_val_field_of(c->family, SEQMIX_VAL_OUTPUT)->name, dump->out.dtype, size,
               bound > 0 ? bound : seqmix_val_bound(dtype));
    struct pair p = {dump->out.data, expected, map_rows(c, size[0])};
    if (c->result_transposed) p.got = swapped_copy(c, dump->out.data, size[0] * size[1] * size[2], size[1], size[2]);
    if (p.map == NULL || p.got == NULL) return false;
    compare(e, &p);
    return true;
}

static bool judge_state(const struct seqmix_val_dump *dump, struct seqmix_val_case *c, const double *expected,
                        double bound, struct seqmix_val_error *e)
{
    const seqmix_tensor *pool = seqmix_val_state(c);
    const int64_t a = pool->shape[pool->rank - 2], b = pool->shape[pool->rank - 1];
    const bool matrix_per_head = pool->rank == 4;
    const int64_t size[3] = {pool->shape[0], pool->shape[1], matrix_per_head ? a * b : b};
    const seqmix_dtype dtype = coarser(dump->x, dump->state_out.dtype);
    init_error(e, "state_out", dump->state_out.dtype, size, bound > 0 ? bound : seqmix_val_bound(dtype));
    const bool *written = written_slots(c, pool);
    if (written == NULL) return false;
    struct pair p = {dump->state_out.data, expected, map_slots(c, pool, written)};
    if (c->final_transposed) p.got = swapped_copy(c, dump->state_out.data, size[0] * size[1] * size[2], a, b);
    if (p.got != NULL && c->final_reversed) p.got = reversed_copy(c, p.got, size[0] * size[1], size[2]);
    if (c->final_slot != NULL) p.expected = rearranged(c, expected, size[0], size[1] * size[2]);
    if (p.map == NULL || p.got == NULL || p.expected == NULL) return false;
    if (c->pool_given && c != &dump->base && c->final_slot == NULL &&
        !settle_unwritten(dump, c, &p, size[0], size[1] * size[2], written))
        return false;
    compare(e, &p);
    return true;
}

bool seqmix_val_judge(const struct seqmix_val_dump *dump, struct seqmix_val_case *c,
                      const struct seqmix_val_result *result, double bound, struct seqmix_val_verdict *verdict)
{
    *verdict = (struct seqmix_val_verdict){.pass = true, .state_excused = c->ignore_state};
    bool ok = true;
    if (dump->out.present) ok = judge_output(dump, c, result->out, bound, &verdict->error[0]);
    if (ok && dump->state_out.present && !c->cut && !c->ignore_state)
        ok = judge_state(dump, c, result->state, bound, &verdict->error[1]);
    for (int i = 0; i < 2; i++) {
        const struct seqmix_val_error *e = &verdict->error[i];
        if (e->name == NULL) continue;
        const double ratio = fmax(e->rms / e->bound, e->worst / (4 * e->bound));
        if (e->nonfinite_differ > 0 || !(ratio <= DBL_MAX)) verdict->ratio = (double)INFINITY;
        if (ratio > verdict->ratio) verdict->ratio = ratio;
        if (!e->pass) verdict->pass = false;
    }
    return ok;
}
