/* SPDX-License-Identifier: MIT */
/*
 * The accuracy metric (docs/NUMERICS.md): (a) RMS error over a tensor relative to the oracle's RMS, (b) the same over each
 * (row, head) vector relative to the larger of that vector's RMS and the tensor's, (c) finite exactly where the oracle is.
 * Outputs are compared over the rows of sequences, pools over the slots that the call writes.
 */
#include <float.h>
#include <math.h>

#include "cpu.h"
#include "harness.h"

const char *check_bound_name(enum check_bound kind)
{
    static const char *const names[BOUND_KINDS] = {"ordinary", "hard", "hard, beta>1", "hard, 8192"};
    return names[kind];
}

double check_bound(seqmix_dtype x, enum check_bound kind)
{
    static const double bounds[3][BOUND_KINDS] = {
        {2e-6, 5e-5, 1e-4, 1e-3}, {4e-3, 1e-2, 5e-2, 5e-2}, {1e-3, 1e-2, 5e-2, 5e-2}};
    return bounds[x - SEQMIX_F32][kind];
}

/* Where non-finite values may be although the oracle's are finite: from the start of the grid cell of the first row that is
 * not finite in the oracle, in the same sequence and head. */
struct spread {
    int64_t grain, heads;
    int n_seqs;
    struct span spans[CHECK_MAX_SEQS];
    int64_t *first; /* [seq][head]: first row that may be non-finite, counted in the sequence */
};

static bool row_is_finite(const seqmix_tensor *t, int64_t row, int64_t head)
{
    int64_t index[SEQMIX_MAX_RANK] = {row, head};
    do
        if (!isfinite(check_get(t, check_offset(t, index)))) return false;
    while (check_next(t, index, 2, t->rank));
    return true;
}

static void find_spread(const struct call *want, int64_t grain, struct spread *spread)
{
    const seqmix_tensor *out = check_field_const(want, want->op->family->n_fields - 1);
    *spread = (struct spread){.grain = grain > 0 ? grain : 1};
    if (want->op->family->batch_offset == 0) return;
    spread->n_seqs = check_spans(want, spread->spans);
    spread->heads = out->shape[1];
    spread->first = check_alloc((size_t)(spread->n_seqs * spread->heads + 1) * sizeof *spread->first);
    for (int64_t i = 0; i < spread->n_seqs * spread->heads; i++)
        spread->first[i] = INT64_MAX;
    if (seqmix_tensor_count(out) == 0) return;
    for (int i = 0; i < spread->n_seqs; i++)
        for (int64_t head = 0; head < spread->heads; head++) {
            int64_t row = spread->spans[i].begin;
            while (row < spread->spans[i].end && row_is_finite(out, row, head))
                row++;
            if (row == spread->spans[i].end) continue;
            spread->first[i * spread->heads + head] = (row - spread->spans[i].begin) / spread->grain * spread->grain;
        }
}

/* Whether the state after `consumed` rows, or row `consumed - 1`, of a sequence may be non-finite in `head`. */
static bool may_spread(const struct spread *spread, int seq, int64_t head, int64_t consumed)
{
    return spread->first != NULL && consumed > spread->first[seq * spread->heads + head];
}

static bool may_break_row(const struct spread *spread, int64_t row, int64_t head)
{
    for (int i = 0; i < spread->n_seqs; i++)
        if (row >= spread->spans[i].begin && row < spread->spans[i].end)
            return may_spread(spread, i, head, row - spread->spans[i].begin + 1);
    return false;
}

static bool may_break_slot(const struct call *call, const struct spread *spread, int64_t slot, int64_t head)
{
    for (int i = 0; i < spread->n_seqs; i++)
        if (spread->spans[i].write == slot)
            return may_spread(spread, i, head, spread->spans[i].end - spread->spans[i].begin);
    for (int i = 0; i < call->batch.n_checkpoints; i++)
        if (call->ckpt_slot[i] == slot) return may_spread(spread, call->ckpt_seq[i], head, call->ckpt_row[i]);
    return false;
}

/* ---------------------------------------------------------------- one tensor */

/* Sums over one vector. */
struct sums {
    double error2, want2, half_ulp2;
    int64_t count;
};

struct judge {
    const struct call *got;
    const struct field *field;
    const seqmix_tensor *g, *w;
    double bound;
    bool narrow;                /* a pool narrower than X: half an ulp is an element's own allowance */
    const unsigned char *slots; /* of a pool: 1 written, 2 moved by an empty sequence */
    const struct spread *spread;
    struct sums total;
    struct verdict *verdict;
};

static int storage_width(seqmix_dtype dtype)
{
    return dtype == SEQMIX_F32 ? 2 : dtype == SEQMIX_F16 ? 1 : 0;
}

static double storage_max(seqmix_dtype dtype)
{
    return dtype == SEQMIX_F16 ? 65504.0 : (double)FLT_MAX;
}

static void fail_element(const struct judge *j, const int64_t *index, const char *what, double g, double w)
{
    char place[96] = "";
    size_t used = 0;
    for (int axis = 0; axis < j->w->rank; axis++)
        used += (size_t)snprintf(place + used, sizeof place - used, "%s%d", axis > 0 ? "," : "", (int)index[axis]);
    check_fail(j->verdict, "%s[%s] = %.9g, want %.9g: %s", j->field->name, place, g, w, what);
}

static void judge_element(struct judge *j, const int64_t *index, struct sums *sums)
{
    const int64_t at = check_offset(j->g, index);
    const double g = check_get(j->g, at), w = check_get(j->w, check_offset(j->w, index));
    const double stored = check_round(j->g->dtype, w);
    if (check_is_poison(j->g, at)) {
        fail_element(j, index, "never written", g, w);
        return;
    }
    const bool moved = j->field->role == ROLE_POOL && j->slots[index[0]] == 2;
    if (((j->field->flags & FIELD_EXACT) != 0 || moved) && !(g == stored || (isnan(g) && isnan(stored))))
        fail_element(j, index, "must be exact", g, w);
    if (!isfinite(g) || !isfinite(stored)) {
        const bool edge = fabs(fabs(w) / storage_max(j->g->dtype) - 1) < 0.05; /* overflows or not: rounding decides */
        if (isfinite(g) == isfinite(stored) || edge) return;
        const bool spreads =
            !isfinite(g) && (j->field->role == ROLE_POOL ? may_break_slot(j->got, j->spread, index[0], index[1])
                                                         : may_break_row(j->spread, index[0], index[1]));
        if (!spreads) fail_element(j, index, isfinite(g) ? "must not be finite" : "must be finite", g, w);
        return;
    }
    double error = (j->field->flags & FIELD_EXACT) != 0 ? fabs(g - stored) : fabs(g - w);
    const double half_ulp = check_half_ulp(j->g->dtype, w);
    if (j->narrow) error = error > half_ulp ? error - half_ulp : 0;
    sums->error2 += error * error;
    sums->want2 += w * w;
    sums->half_ulp2 += half_ulp * half_ulp;
    sums->count++;
}

static double rms(double sum2, int64_t count)
{
    return count > 0 ? sqrt(sum2 / (double)count) : 0;
}

/* What a tensor of tiny values may lose: rounding to multiples of the least subnormal, a few times over in f32. */
static double floor_error(int32_t dtype)
{
    return check_half_ulp(dtype, 0) * (dtype == SEQMIX_F32 ? 64 : 1);
}

static double relative(double error, double scale)
{
    return error == 0 ? 0 : scale > 0 ? error / scale : (double)INFINITY;
}

/* Sums of every vector; those past `rows` on axis 0, or in slots not written, stay empty. */
static void sum_vectors(struct judge *j, int64_t rows, struct sums *out)
{
    const int outer = j->w->rank - j->field->vector_axes;
    int64_t at = 0;
    if (seqmix_tensor_count(j->w) == 0) return;
    int64_t index[SEQMIX_MAX_RANK] = {0};
    do {
        if (index[0] >= rows || (j->field->role == ROLE_POOL && j->slots[index[0]] == 0)) {
            out[at++] = (struct sums){0, 0, 0, 0};
            continue;
        }
        struct sums sums = {0, 0, 0, 0};
        do
            judge_element(j, index, &sums);
        while (check_next(j->w, index, outer, j->w->rank));
        j->total.error2 += sums.error2;
        j->total.want2 += sums.want2;
        j->total.half_ulp2 += sums.half_ulp2;
        j->total.count += sums.count;
        out[at++] = sums;
    } while (check_next(j->w, index, 0, outer));
}

/* The worst vector under (b); fails over four times the bound. */
static void judge_vectors(struct judge *j, const struct sums *vectors, double tensor_rms)
{
    const int outer = j->w->rank - j->field->vector_axes;
    int64_t index[SEQMIX_MAX_RANK] = {0}, at = 0;
    struct verdict *v = j->verdict;
    do {
        const struct sums *s = &vectors[at++];
        const double want = rms(s->want2, s->count), scale = want > tensor_rms ? want : tensor_rms;
        const double error = rms(s->error2, s->count), lost = floor_error(j->g->dtype);
        const double b = relative(error > lost ? error - lost : 0, scale);
        if (b > v->b) {
            v->b = b;
            v->row = index[0];
            v->head = outer > 1 ? index[1] : 0;
        }
        if (b > 4 * j->bound)
            check_fail(v, "%s: error %.3g of vector (%d, %d) exceeds 4 x %.3g", j->field->name, b, (int)index[0],
                       outer > 1 ? (int)index[1] : 0, j->bound);
    } while (check_next(j->w, index, 0, outer));
}

/* Rows and slots of one field that count; returns the number of indices of axis 0 to look at. */
static int64_t judged_rows(const struct call *call, int f, unsigned char *written)
{
    const struct field *field = &call->op->family->fields[f];
    const int64_t all = check_field_const(call, f)->shape[0];
    struct span spans[CHECK_MAX_SEQS];
    const int n = check_spans(call, spans);
    if (field->role == ROLE_POOL) {
        check_written_slots(call, written);
        for (int i = 0; i < n; i++)
            if (spans[i].begin == spans[i].end && spans[i].write >= 0) written[spans[i].write] = 2;
        return all;
    }
    return (field->flags & FIELD_ROWS) != 0 && n > 0 ? spans[n - 1].end : all;
}

/* ---------------------------------------------------------------- one field */

static void compare_field(const struct call *got, const struct call *before, const struct call *want, int f,
                          const struct spread *spread, struct verdict *verdict, struct sums *total);

static struct sums field_sums(const struct call *got, const struct call *want, int f)
{
    const struct spread none = {.grain = 1};
    struct verdict ignored = {.ok = false};
    struct sums sums;
    compare_field(got, NULL, want, f, &none, &ignored, &sums);
    return sums;
}

/* RMS of what the oracle's output f changes by when every input is off by half an ulp of f32: the most of some draws, since of
 * few inputs one draw may hardly move anything. Draws until it is `enough`. */
static double sway(const struct call *before, const struct call *want, int f, double enough)
{
    enum { DRAWS = 32 };
    double most = 0;
    for (int draw = 1; draw <= DRAWS && most < enough; draw++) {
        struct call disturbed, other;
        struct verdict ignored = {.ok = false};
        check_disturb(before, (uint64_t)draw, &disturbed);
        if (check_run_oracle(&seqmix_kernels__ref64, &disturbed, true, &other, &ignored)) {
            const struct sums sums = field_sums(&other, want, f);
            most = fmax(most, rms(sums.error2, sums.count));
        }
        check_release(&other);
        check_release(&disturbed);
    }
    return most;
}

/* `before`: the call not yet run, or NULL. A tensor over its bound is excused if the oracle's answer to disturbed inputs is at
 * least as far off: in f32 nothing better is to be had. */
static void compare_field(const struct call *got, const struct call *before, const struct call *want, int f,
                          const struct spread *spread, struct verdict *verdict, struct sums *total)
{
    const struct field *field = &got->op->family->fields[f];
    const seqmix_tensor *g = check_field_const(got, f), *w = check_field_const(want, f);
    unsigned char written[CHECK_MAX_SLOTS] = {0};
    struct judge j = {.got = got,
                      .field = field,
                      .g = g,
                      .w = w,
                      .bound = check_bound(got->x, got->bound),
                      .narrow = field->role == ROLE_POOL && storage_width(g->dtype) < storage_width(got->x),
                      .slots = written,
                      .spread = spread,
                      .verdict = verdict};
    const int64_t rows = judged_rows(got, f, written), count = seqmix_tensor_count(w);
    *total = j.total;
    if (count == 0) return;
    int64_t n_vectors = 1;
    for (int axis = 0; axis < w->rank - field->vector_axes; axis++)
        n_vectors *= w->shape[axis];
    struct sums *vectors = check_alloc((size_t)n_vectors * sizeof *vectors);
    sum_vectors(&j, rows, vectors);
    const double tensor_rms = rms(j.total.want2, j.total.count), lost = floor_error(j.g->dtype);
    const double error = rms(j.total.error2, j.total.count);
    const double a = relative(error > lost ? error - lost : 0, tensor_rms);
    if (a >= verdict->a) {
        verdict->a = a;
        snprintf(verdict->field, sizeof verdict->field, "%s", field->name);
    }
    if (a > j.bound && before != NULL && error <= sway(before, want, f, error)) {
        verdict->excused = true;
        j.bound = a;
    }
    if (a > j.bound) check_fail(verdict, "%s: error %.3g exceeds %.3g", field->name, a, j.bound);
    judge_vectors(&j, vectors, tensor_rms);
    *total = j.total;
    check_free(vectors);
}

void check_compare(const struct call *got, const struct call *before, const struct call *want, int64_t grain,
                   struct verdict *verdict)
{
    struct spread spread;
    find_spread(want, grain, &spread);
    verdict->judged = true;
    verdict->bound = check_bound(got->x, got->bound);
    for (int f = 0; f < got->op->family->n_fields; f++) {
        struct sums total;
        if (got->op->family->fields[f].role != ROLE_IN && seqmix_present(check_field_const(got, f)))
            compare_field(got, before, want, f, &spread, verdict, &total);
    }
    check_free(spread.first);
}

/* ---------------------------------------------------------------- against a peer */

void check_against_peer(const struct call *got, const struct call *before, const struct call *peer,
                        const struct call *want, double times, const char *peer_name, struct verdict *verdict)
{
    for (int f = 0; f < got->op->family->n_fields; f++) {
        if (got->op->family->fields[f].role == ROLE_IN || !seqmix_present(check_field_const(got, f))) continue;
        const struct sums mine = field_sums(got, want, f), theirs = field_sums(peer, want, f);
        const double error = rms(mine.error2, mine.count), peers = rms(theirs.error2, theirs.count);
        const double ulp = rms(mine.half_ulp2, mine.count) + floor_error(check_field_const(got, f)->dtype);
        if (error <= times * peers + ulp) continue;
        const double own = sway(before, want, f, (error - ulp) / times - peers);
        if (error > times * (peers + own) + ulp)
            check_fail(verdict,
                       "%s: RMS error %.3g of %.0f elements exceeds %g x (%s's %.3g + the inputs' %.3g) + %.3g",
                       got->op->family->fields[f].name, error, (double)mine.count, times, peer_name, peers, own, ulp);
    }
}
