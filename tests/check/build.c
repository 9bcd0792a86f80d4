/* SPDX-License-Identifier: MIT */
/* From declared shapes to a call in memory: the batch, strides and gaps of every kind, and values. */
#include <math.h>

#include "batch.h"
#include "harness.h"

void check_declare(struct call *call, const char *name, seqmix_dtype dtype, int rank, const int64_t *shape)
{
    seqmix_tensor *t = check_named(call, name);
    *t = (seqmix_tensor){.dtype = dtype, .rank = rank};
    for (int axis = 0; axis < rank; axis++)
        t->shape[axis] = shape[axis];
}

seqmix_dtype check_param_dtype(struct draw *draw, int bit, seqmix_dtype x)
{
    const bool narrow = draw->name == CLASS_PARAMS ? (draw->variant >> bit & 1) != 0 : check_chance(&draw->rng, 0.5);
    return narrow ? x : SEQMIX_F32;
}

bool check_absent(struct draw *draw, int bit)
{
    return (draw->absent >> bit & 1u) != 0;
}

/* ---------------------------------------------------------------- strides */

static int64_t gap(struct draw *draw)
{
    return (draw->layout & LAYOUT_PAD) != 0 ? 1 + check_below(&draw->rng, 5) : 0;
}

/* A gate per channel is of the same field as one per head, but lies as rows do. */
static bool is_scalar(const struct field *field, const seqmix_tensor *t)
{
    return (field->flags & FIELD_SCALAR) != 0 && t->rank < 3;
}

/* Strides of one tensor that lies alone; returns the elements it spans. Those of blocks are whole blocks. */
static int64_t set_strides(seqmix_tensor *t, const struct field *field, struct draw *draw)
{
    int order[SEQMIX_MAX_RANK]; /* axes, innermost first */
    for (int i = 0; i < t->rank; i++)
        order[i] = t->rank - 1 - i;
    if ((field->flags & FIELD_ANY_ORDER) != 0) {
        static const int orders[6][3] = {{3, 2, 1}, {2, 3, 1}, {3, 1, 2}, {1, 3, 2}, {2, 1, 3}, {1, 2, 3}};
        if (t->rank == 4)
            for (int i = 0; i < 3; i++)
                order[i] = orders[draw->pool_order % 6][i];
        else if (t->rank == 3 && draw->pool_order % 2 != 0)
            order[0] = 1, order[1] = 2;
    }
    if ((field->flags & FIELD_KEPT) != 0 && t->rank == 4 && draw->pool_order % 2 != 0)
        order[1] = 1, order[2] = 2; /* pages by head */
    if (is_scalar(field, t) && (draw->layout & LAYOUT_PERMUTE) != 0)
        for (int i = 0; i < t->rank; i++)
            order[i] = i;

    const bool free_last = is_scalar(field, t) || (field->flags & (FIELD_ANY_ORDER | FIELD_PARAM)) != 0;
    const int64_t block = seqmix_dtype_block(t->dtype);
    int64_t span = 1;
    for (int i = 0; i < t->rank; i++) {
        const int64_t size = t->shape[order[i]] > 0 ? t->shape[order[i]] : 1;
        t->stride[order[i]] = span + (i > 0 || (free_last && check_chance(&draw->rng, 0.3)) ? gap(draw) * block : 0);
        span += (size - 1) * t->stride[order[i]];
    }
    if ((field->flags & FIELD_BROADCAST) != 0 && (draw->layout & LAYOUT_BROADCAST) != 0 &&
        check_chance(&draw->rng, 0.5))
        t->stride[free_last ? t->rank - 1 : 0] = 0;
    return span;
}

static void poison(const seqmix_tensor *t)
{
    int64_t index[SEQMIX_MAX_RANK] = {0};
    const size_t size = seqmix_dtype_size(t->dtype);
    const uint16_t halves[2] = {CHECK_POISON, CHECK_POISON};
    if (seqmix_tensor_count(t) == 0) return;
    do
        memcpy((char *)t->data + check_offset(t, index) * (int64_t)size, halves, size);
    while (check_next(t, index, 0, t->rank));
}

static bool packs(const struct call *call, const struct draw *draw, int f)
{
    const struct field *field = &call->op->family->fields[f];
    const seqmix_tensor *t = check_field_const(call, f);
    if ((draw->layout & LAYOUT_PACK) == 0 || !seqmix_present(t) || call->alias[f] >= 0) return false;
    if ((field->flags & FIELD_ROWS) == 0 || is_scalar(field, t) || t->dtype != call->x) return false;
    return field->role == ROLE_IN || (field->role == ROLE_OUT && (draw->layout & LAYOUT_PACK_OUT) != 0);
}

static void attach(struct call *call, int f, int slab, int64_t elements)
{
    seqmix_tensor *t = check_field(call, f);
    call->slab_of[f] = slab;
    t->data = call->slab[slab].bytes + CHECK_GUARD + seqmix_dtype_bytes(t->dtype, elements);
}

/* Column slices of one [R, columns] buffer, a gap before each when padded. */
static void place_packed(struct call *call, struct draw *draw)
{
    int64_t at[CHECK_MAX_FIELDS], columns = 0;
    for (int f = 0; f < call->op->family->n_fields; f++) {
        if (!packs(call, draw, f)) continue;
        seqmix_tensor *t = check_field(call, f);
        at[f] = columns += gap(draw);
        int64_t inner = 1;
        for (int axis = t->rank - 1; axis > 0; axis--) {
            t->stride[axis] = inner;
            inner *= t->shape[axis];
        }
        columns += inner;
    }
    if (columns == 0) return;
    const int slab = call->n_slabs;
    check_new_slab(call, 2 * CHECK_GUARD + (size_t)(columns * (check_rows(call) + 1)) * seqmix_dtype_size(call->x));
    for (int f = 0; f < call->op->family->n_fields; f++) {
        if (!packs(call, draw, f)) continue;
        check_field(call, f)->stride[0] = columns;
        attach(call, f, slab, at[f]);
    }
}

static void place_fields(struct call *call, struct draw *draw)
{
    const struct family *family = call->op->family;
    place_packed(call, draw);
    for (int f = 0; f < family->n_fields; f++) {
        seqmix_tensor *t = check_field(call, f);
        if (!seqmix_present(t) || packs(call, draw, f) || call->alias[f] >= 0) continue;
        const int64_t offset = gap(draw) * seqmix_dtype_block(t->dtype);
        const int64_t span = set_strides(t, &family->fields[f], draw);
        const int slab = call->n_slabs;
        check_new_slab(call, 2 * CHECK_GUARD + (size_t)seqmix_dtype_bytes(t->dtype, offset + span));
        attach(call, f, slab, offset);
    }
    for (int f = 0; f < family->n_fields; f++) {
        if (call->alias[f] < 0) continue;
        *check_field(call, f) = *check_field(call, call->alias[f]);
        call->slab_of[f] = call->slab_of[call->alias[f]];
    }
    for (int f = 0; f < family->n_fields; f++) {
        seqmix_tensor *t = check_field(call, f);
        if (family->fields[f].role != ROLE_IN && call->alias[f] < 0 && seqmix_present(t)) poison(t);
        if (seqmix_present(t) && seqmix_tensor_count(t) == 0) t->data = NULL; /* legal, and no one may look at it */
    }
}

/* ---------------------------------------------------------------- batches */

static void cut_rows(struct call *call, struct draw *draw, int64_t rows)
{
    struct rng *rng = &draw->rng;
    const bool tail = draw->batch_kind == 6 || (draw->batch_kind == 8 && check_chance(rng, 0.5));
    const int64_t end = rows - (tail ? check_below(rng, rows < 5 ? rows + 1 : 5) : 0);
    const int64_t typical = 1 + end / (1 + check_below(rng, 5));
    int n = 0;
    int64_t at = 0, longest = 0;
    while (at < end && n < CHECK_MAX_SEQS - 2) {
        int64_t length = check_chance(rng, 0.2) ? 0 : 1 + check_below(rng, 2 * typical);
        if (call->op->step && length > SEQMIX_STEP_ROWS) length = 1 + check_below(rng, SEQMIX_STEP_ROWS);
        if (length > end - at) length = end - at;
        if (length > longest) longest = length;
        at += length;
        call->row_begin[++n] = (int32_t)at;
    }
    if (n == 0 || check_chance(rng, 0.3)) {
        call->row_begin[n + 1] = (int32_t)at;
        n++;
    }
    call->batch.n_seqs = n;
    call->batch.max_rows = (int32_t)(call->op->step || check_chance(rng, 0.5) ? longest : 0);
    if (call->op->step && longest == 0) call->batch.max_rows = 1;
    call->given |= GIVE_ROW_BEGIN;
}

/* Checkpoints into fresh slots, the sequence's own read slot, or nowhere. */
static int32_t draw_checkpoints(struct call *call, struct draw *draw, const struct span *spans, int n, int32_t next,
                                int32_t shared)
{
    struct rng *rng = &draw->rng;
    for (int i = 0; i < n; i++) {
        const int64_t length = spans[i].end - spans[i].begin;
        bool own = call->read[i] >= 0 && call->read[i] != call->write[i] && call->read[i] != shared;
        for (int64_t row = 1; row <= length && call->batch.n_checkpoints < CHECK_MAX_CKPTS; row++) {
            if (!check_chance(rng, call->op->step ? 0.6 : 3.0 / (double)length)) continue;
            const int at = call->batch.n_checkpoints++;
            call->ckpt_seq[at] = i;
            call->ckpt_row[at] = (int32_t)row;
            const bool take_own = own && check_chance(rng, 0.4), none = check_chance(rng, 0.1);
            call->ckpt_slot[at] = take_own ? call->read[i] : none ? -1 : next++;
            own = own && !take_own;
        }
    }
    return next;
}

/* Fills the batch of kind draw->batch_kind; returns the number of slots the pool needs. */
static int32_t make_batch(struct call *call, struct draw *draw)
{
    struct rng *rng = &draw->rng;
    const int64_t rows = check_rows(call);
    const int kind = draw->batch_kind;
    struct span spans[CHECK_MAX_SEQS];
    if (kind == 0) return 2 + (call->op->step ? (int32_t)rows : 1);
    call->given = GIVE_BATCH;
    if (kind == 1) return 2 + (call->op->step ? (int32_t)rows : 1);
    if (kind >= 3) cut_rows(call, draw, rows);
    const int n = check_spans(call, spans);
    call->batch.n_seqs = n;
    if (!draw->pool) return 0;

    const bool nothing = kind == 5 || kind == 8;
    int32_t next = 0, shared = -1;
    for (int i = 0; i < n; i++) {
        const bool no_read = nothing && check_chance(rng, 0.4), no_write = nothing && check_chance(rng, 0.3);
        call->write[i] = no_write ? -1 : next++;
        if (kind == 3 || (!no_read && !no_write && check_chance(rng, 0.3))) {
            call->read[i] = call->write[i];
        } else if (no_read) {
            call->read[i] = -1;
        } else if (check_chance(rng, 0.5)) {
            if (shared < 0) shared = next++;
            call->read[i] = shared;
        } else {
            call->read[i] = next++;
        }
    }
    call->given |= GIVE_READ | (kind == 3 ? 0u : (unsigned)GIVE_WRITE);
    if (kind >= 7) next = draw_checkpoints(call, draw, spans, n, next, shared);

    int32_t order[CHECK_MAX_SLOTS];
    const int32_t n_slots = next + 2;
    for (int32_t i = 0; i < n_slots; i++) {
        const int32_t j = (int32_t)check_below(rng, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < n; i++) {
        if (call->read[i] >= 0) call->read[i] = order[call->read[i]];
        if (call->write[i] >= 0) call->write[i] = order[call->write[i]];
    }
    for (int i = 0; i < call->batch.n_checkpoints; i++)
        if (call->ckpt_slot[i] >= 0) call->ckpt_slot[i] = order[call->ckpt_slot[i]];
    return n_slots;
}

void check_place(struct call *call, struct draw *draw)
{
    const int pool = check_pool(call);
    int32_t slots = 0;
    draw->pool = pool >= 0;
    if (call->op->family->batch_offset != 0) slots = make_batch(call, draw);
    if (call->op->family->paging != NULL) call->op->family->paging->settle(call, draw);
    if (pool >= 0) check_field(call, pool)->shape[0] = slots;
    place_fields(call, draw);
    check_rebind(call);
}
