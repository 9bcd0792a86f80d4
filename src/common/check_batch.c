/* SPDX-License-Identifier: MIT */
/*
 * Rules of seqmix_batch: counts, row ranges, slots, checkpoints, and that no slot has two writers or a foreign reader.
 *
 * Writers (the write slots of the sequences, then those of the checkpoints) go into an open-addressing table of slot ->
 * sequence, `limit` at a time; later writers and all readers are looked up in it. A context's table holds max_seqs writers, so
 * that one round does; seqmix_batch_check has a small table on the stack and needs more rounds for large batches. A round
 * empties the table again by clearing, for each of its writers, the run of entries from the writer's home on.
 */
#include "check_internal.h"

struct slot_table {
    struct seqmix_slot_owner *entries;
    int64_t capacity; /* a power of two */
    int64_t limit;    /* writers it may hold, below capacity */
};

/* Where the sentence goes. */
struct sink {
    char *why;
    size_t why_len;
};

/* The batch, and what the checks need beside it. */
struct subject {
    const seqmix_batch *batch; /* normalised */
    int64_t rows, slots;       /* slots < 0: no pool */
    struct sink sink;
};

#define FAIL(s, status, ...) seqmix_fail_text((s)->sink.why, (s)->sink.why_len, (status), __VA_ARGS__)
#define INVALID(s, ...)      FAIL(s, SEQMIX_ERR_INVALID_ARG, __VA_ARGS__)

static seqmix_status check_counts(const struct subject *s, bool step)
{
    const seqmix_batch *b = s->batch;
    if (s->rows < 0 || s->rows > INT32_MAX) return INVALID(s, "rows=%" PRId64 " is not in 0..%d", s->rows, INT32_MAX);
    if (b->n_seqs < 0) return INVALID(s, "batch.n_seqs=%" PRId32 " is negative", b->n_seqs);
    if (b->max_rows < 0) return INVALID(s, "batch.max_rows=%" PRId32 " is negative", b->max_rows);
    if (b->n_checkpoints < 0) return INVALID(s, "batch.n_checkpoints=%" PRId32 " is negative", b->n_checkpoints);
    if (step && b->max_rows > SEQMIX_STEP_ROWS)
        return INVALID(s, "batch.max_rows=%" PRId32 " (0 = R) exceeds the %d rows of a step", b->max_rows,
                       SEQMIX_STEP_ROWS);
    if (b->n_checkpoints > 0 && s->slots < 0)
        return INVALID(s, "batch.n_checkpoints=%" PRId32 ", but there is no state pool", b->n_checkpoints);
    return SEQMIX_OK;
}

/* What the host knows of the arrays without reading them. */
static seqmix_status check_presence(const struct subject *s, bool step)
{
    const seqmix_batch *b = s->batch;
    const struct {
        const char *name;
        const int32_t *array;
    } arrays[] = {{"row_begin", b->row_begin}, {"read_slot", b->read_slot}, {"write_slot", b->write_slot},
                  {"ckpt_seq", b->ckpt_seq},   {"ckpt_row", b->ckpt_row},   {"ckpt_slot", b->ckpt_slot}};
    for (int i = 0; i < 6; i++) {
        if (i >= 3 && b->n_checkpoints == 0) break;
        if (i >= 3 && arrays[i].array == NULL)
            return INVALID(s, "batch.%s is NULL with n_checkpoints=%" PRId32, arrays[i].name, b->n_checkpoints);
        if ((uintptr_t)arrays[i].array % sizeof(int32_t) != 0)
            return INVALID(s, "batch.%s is not aligned to its elements of 4 bytes", arrays[i].name);
    }
    if (b->row_begin != NULL) return SEQMIX_OK;
    if (step && b->n_seqs != s->rows)
        return INVALID(s, "batch.n_seqs=%" PRId32 " without row_begin, must be 0 or R=%" PRId64 " in a step", b->n_seqs,
                       s->rows);
    if (!step && b->n_seqs != 1)
        return INVALID(s, "batch.n_seqs=%" PRId32 " without row_begin, must be 0 or 1", b->n_seqs);
    if (s->rows > 0 && b->max_rows < (step ? 1 : s->rows))
        return INVALID(s, "batch.max_rows=%" PRId32 " is below the R=%" PRId64 " rows of the one sequence", b->max_rows,
                       s->rows);
    return SEQMIX_OK;
}

static seqmix_status check_row_begin(const struct subject *s)
{
    const seqmix_batch *b = s->batch;
    const int32_t *begin = b->row_begin;
    if (begin == NULL) return SEQMIX_OK;
    if (begin[0] != 0) return INVALID(s, "batch.row_begin[0]=%" PRId32 ", must be 0", begin[0]);
    for (int32_t i = 0; i < b->n_seqs; i++) {
        if (begin[i + 1] < begin[i])
            return INVALID(s, "batch.row_begin[%" PRId32 "]=%" PRId32 " is below row_begin[%" PRId32 "]=%" PRId32,
                           i + 1, begin[i + 1], i, begin[i]);
        if (begin[i + 1] > s->rows)
            return INVALID(s, "batch.row_begin[%" PRId32 "]=%" PRId32 " exceeds R=%" PRId64, i + 1, begin[i + 1],
                           s->rows);
        if (begin[i + 1] - begin[i] > b->max_rows)
            return INVALID(s, "sequence %" PRId32 " has %" PRId32 " rows, batch.max_rows=%" PRId32, i,
                           begin[i + 1] - begin[i], b->max_rows);
    }
    return SEQMIX_OK;
}

static int64_t read_slot(const seqmix_batch *b, int32_t i)
{
    return b->read_slot != NULL ? b->read_slot[i] : i;
}

static int64_t write_slot(const seqmix_batch *b, int32_t i)
{
    return b->write_slot != NULL ? b->write_slot[i] : read_slot(b, i);
}

static bool is_slot(const struct subject *s, int64_t slot)
{
    return slot >= -1 && slot < s->slots;
}

static seqmix_status check_slots(const struct subject *s)
{
    const seqmix_batch *b = s->batch;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        const int64_t from = read_slot(b, i), to = write_slot(b, i);
        if (b->read_slot == NULL && !is_slot(s, from))
            return INVALID(
                s, "sequence %" PRId32 " has slot %" PRId32 " (no batch.read_slot), the pool has %" PRId64 " slots", i,
                i, s->slots);
        if (!is_slot(s, from))
            return INVALID(s, "batch.read_slot[%" PRId32 "]=%" PRId64 " is not in [-1, %" PRId64 ")", i, from,
                           s->slots);
        if (!is_slot(s, to))
            return INVALID(s, "batch.write_slot[%" PRId32 "]=%" PRId64 " is not in [-1, %" PRId64 ")", i, to, s->slots);
    }
    return SEQMIX_OK;
}

static seqmix_status check_checkpoints(const struct subject *s)
{
    const seqmix_batch *b = s->batch;
    for (int32_t i = 0; i < b->n_checkpoints; i++) {
        const int32_t seq = b->ckpt_seq[i], row = b->ckpt_row[i];
        if (seq < 0 || seq >= b->n_seqs)
            return INVALID(s, "batch.ckpt_seq[%" PRId32 "]=%" PRId32 " is not in [0, %" PRId32 ")", i, seq, b->n_seqs);
        const int64_t length = b->row_begin != NULL   ? b->row_begin[seq + 1] - b->row_begin[seq]
                               : b->n_seqs == s->rows ? 1
                                                      : s->rows;
        if (row < 1 || row > length)
            return INVALID(
                s, "batch.ckpt_row[%" PRId32 "]=%" PRId32 " is not in 1..%" PRId64 ", the rows of sequence %" PRId32, i,
                row, length, seq);
        if (!is_slot(s, b->ckpt_slot[i]))
            return INVALID(s, "batch.ckpt_slot[%" PRId32 "]=%" PRId32 " is not in [-1, %" PRId64 ")", i,
                           b->ckpt_slot[i], s->slots);
        if (i > 0 && (b->ckpt_seq[i - 1] > seq || (b->ckpt_seq[i - 1] == seq && b->ckpt_row[i - 1] > row)))
            return INVALID(s,
                           "checkpoint %" PRId32 " (sequence %" PRId32 ", row %" PRId32
                           ") comes before checkpoint %" PRId32 " (sequence %" PRId32 ", row %" PRId32 ")",
                           i, seq, row, i - 1, b->ckpt_seq[i - 1], b->ckpt_row[i - 1]);
    }
    return SEQMIX_OK;
}

/* Writer k of the batch: the sequences, then the checkpoints. */
static struct seqmix_slot_owner writer(const seqmix_batch *b, int64_t k)
{
    struct seqmix_slot_owner w;
    if (k < b->n_seqs) {
        w.slot = write_slot(b, (int32_t)k);
        w.seq = (int32_t)k;
    } else {
        w.slot = b->ckpt_slot[k - b->n_seqs];
        w.seq = b->ckpt_seq[k - b->n_seqs];
    }
    return w;
}

static struct seqmix_slot_owner *home(const struct slot_table *table, int64_t slot)
{
    const uint64_t hash = (uint64_t)slot * 0x9e3779b97f4a7c15u >> 32;
    return &table->entries[hash & (uint64_t)(table->capacity - 1)];
}

static struct seqmix_slot_owner *after(const struct slot_table *table, struct seqmix_slot_owner *entry)
{
    return entry + 1 == table->entries + table->capacity ? table->entries : entry + 1;
}

/* The entry of `slot`, or the free one where it belongs. */
static struct seqmix_slot_owner *find(const struct slot_table *table, int64_t slot)
{
    struct seqmix_slot_owner *entry = home(table, slot);
    while (entry->slot >= 0 && entry->slot != slot)
        entry = after(table, entry);
    return entry;
}

static seqmix_status fail_two_writers(const struct subject *s, int64_t slot, int32_t first, int32_t second)
{
    return FAIL(s, SEQMIX_ERR_ALIAS,
                "slot %" PRId64 " is written twice, by sequence %" PRId32 " and by sequence %" PRId32, slot, first,
                second);
}

/* Writers [begin, end) against each other, later writers and all readers. */
static seqmix_status check_round(const struct subject *s, const struct slot_table *table, int64_t begin, int64_t end)
{
    const seqmix_batch *b = s->batch;
    const int64_t n_writers = (int64_t)b->n_seqs + b->n_checkpoints;
    for (int64_t k = begin; k < n_writers; k++) {
        const struct seqmix_slot_owner w = writer(b, k);
        if (w.slot < 0) continue;
        struct seqmix_slot_owner *entry = find(table, w.slot);
        if (entry->slot >= 0) return fail_two_writers(s, w.slot, entry->seq, w.seq);
        if (k < end) *entry = w;
    }
    for (int32_t i = 0; i < b->n_seqs; i++) {
        const int64_t from = read_slot(b, i);
        if (from < 0) continue;
        const struct seqmix_slot_owner *entry = find(table, from);
        if (entry->slot >= 0 && entry->seq != i)
            return FAIL(s, SEQMIX_ERR_ALIAS,
                        "slot %" PRId64 " is written by sequence %" PRId32 " and read by sequence %" PRId32, from,
                        entry->seq, i);
    }
    return SEQMIX_OK;
}

static void empty_table(const struct subject *s, const struct slot_table *table, int64_t begin, int64_t end)
{
    for (int64_t k = begin; k < end; k++) {
        const int64_t slot = writer(s->batch, k).slot;
        if (slot < 0) continue;
        for (struct seqmix_slot_owner *entry = home(table, slot); entry->slot >= 0; entry = after(table, entry))
            entry->slot = -1;
    }
}

static seqmix_status check_owners(const struct subject *s, const struct slot_table *table)
{
    const int64_t n_writers = (int64_t)s->batch->n_seqs + s->batch->n_checkpoints;
    for (int64_t begin = 0, end; begin < n_writers; begin = end) {
        int64_t held = 0;
        for (end = begin; end < n_writers && held < table->limit; end++)
            held += writer(s->batch, end).slot >= 0;
        const seqmix_status status = check_round(s, table, begin, end);
        empty_table(s, table, begin, end);
        if (status != SEQMIX_OK) return status;
    }
    return SEQMIX_OK;
}

/* Everything that needs the contents of the arrays but no table. */
static seqmix_status check_contents(const struct subject *s)
{
    SEQMIX_TRY(check_row_begin(s));
    if (s->slots < 0) return SEQMIX_OK;
    SEQMIX_TRY(check_slots(s));
    return check_checkpoints(s);
}

static int64_t count_writers(const seqmix_batch *b)
{
    int64_t n = 0;
    for (int64_t k = 0; k < (int64_t)b->n_seqs + b->n_checkpoints; k++)
        n += writer(b, k).slot >= 0;
    return n;
}

static seqmix_status check_all(const struct subject *s, const struct seqmix_context *ctx, unsigned how)
{
    const bool step = (how & SEQMIX_CHECK_STEP) != 0;
    SEQMIX_TRY(check_counts(s, step));
    if ((how & SEQMIX_CHECK_QUERY) != 0) return SEQMIX_OK;
    SEQMIX_TRY(check_presence(s, step));
    if (ctx->backend != SEQMIX_BACKEND_CPU)
        return SEQMIX_OK; /* device arrays: their contents are the kernels' to clamp */
    SEQMIX_TRY(check_contents(s));
    if (s->slots < 0) return SEQMIX_OK;
    const int64_t writers = count_writers(s->batch);
    if (writers > ctx->max_seqs)
        return FAIL(s, SEQMIX_ERR_UNSUPPORTED, "%" PRId64 " slots are written, the context's max_seqs=%" PRId32,
                    writers, ctx->max_seqs);
    const struct slot_table table = {ctx->slots, ctx->slots_capacity, ctx->max_seqs};
    return check_owners(s, &table);
}

seqmix_status seqmix_check_batch(struct seqmix_context *ctx, const seqmix_batch *batch, int64_t rows, int64_t slots,
                                 unsigned how)
{
    char why[200];
    const struct subject s = {batch, rows, slots, {why, sizeof why}};
    const seqmix_status status = check_all(&s, ctx, how);
    return status == SEQMIX_OK ? SEQMIX_OK : seqmix_fail(ctx, status, "%s", why);
}

seqmix_status seqmix_batch_check_host(const seqmix_batch *batch, int64_t rows, int64_t slots, char *why, size_t why_len)
{
    enum { CAPACITY = 1024 };
    struct seqmix_slot_owner entries[CAPACITY];
    const struct slot_table table = {entries, CAPACITY, CAPACITY / 2};
    /* without row_begin, as many sequences as rows are those of a step, one row each */
    const bool step = batch != NULL && batch->row_begin == NULL && batch->n_seqs > 1 && batch->n_seqs == rows;
    seqmix_batch normalised;
    seqmix_batch_normalise(batch, rows, step, &normalised);
    const struct subject s = {&normalised, rows, slots, {why, why_len}};

    SEQMIX_TRY(check_counts(&s, step));
    SEQMIX_TRY(check_presence(&s, step));
    SEQMIX_TRY(check_contents(&s));
    if (slots < 0) return SEQMIX_OK;
    for (int i = 0; i < CAPACITY; i++)
        entries[i].slot = -1;
    return check_owners(&s, &table);
}
