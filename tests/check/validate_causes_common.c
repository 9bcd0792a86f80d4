/* SPDX-License-Identifier: MIT */
/* What may have gone wrong with states, slots, rows and sequences: the same for every op that has them. */
#include <math.h>
#include <string.h>

#include "batch.h"
#include "validate_case.h"

#define WITH_STATE (1u << SEQMIX_VAL_conv | 1u << SEQMIX_VAL_scan | 1u << SEQMIX_VAL_ssd | 1u << SEQMIX_VAL_deltanet)

enum { MOST_SLOTS = 32 }; /* searches over slots cost their square */

void seqmix_val_map(seqmix_tensor *t, float (*function)(float))
{
    float *data = t->data;
    const int64_t count = seqmix_tensor_count(t);
    for (int64_t i = 0; i < count; i++)
        data[i] = function(data[i]);
}

/* Also on a cut case: what it does to the final state is seen once it is tried on all rows. */
static bool has_final_state(const struct seqmix_val_case *c)
{
    return c->dump->state_out.present;
}

static bool has_square_state(struct seqmix_val_case *c)
{
    const seqmix_tensor *pool = seqmix_val_state(c);
    return c->pool != NULL && pool->shape[pool->rank - 1] == pool->shape[pool->rank - 2] &&
           pool->shape[pool->rank - 1] > 1;
}

static bool initial_transposed(struct seqmix_val_case *c)
{
    if (!has_square_state(c) || !c->pool_given) return false;
    const seqmix_tensor *pool = seqmix_val_state(c);
    const int64_t n = pool->shape[pool->rank - 1];
    return seqmix_val_swap(c->pool, seqmix_tensor_count(pool) / (n * n), n, n);
}

static bool final_transposed(struct seqmix_val_case *c)
{
    c->final_transposed = true;
    return has_square_state(c) && has_final_state(c);
}

static bool both_transposed(struct seqmix_val_case *c)
{
    return final_transposed(c) && initial_transposed(c);
}

/* Writes out what NULL slot arrays mean. */
static bool spell_out_slots(struct seqmix_val_case *c, int32_t **read, int32_t **write)
{
    const int64_t n = c->batch.n_seqs;
    *read = seqmix_val_take(&c->memory, n, sizeof **read);
    *write = seqmix_val_take(&c->memory, n, sizeof **write);
    if (*read == NULL || *write == NULL) return false;
    for (int32_t i = 0; i < n; i++) {
        const struct seqmix_seq seq = seqmix_batch_seq(&c->batch, c->rows, seqmix_val_state(c), i);
        (*read)[i] = (int32_t)seq.read_slot;
        (*write)[i] = (int32_t)seq.write_slot;
    }
    c->batch.read_slot = *read;
    c->batch.write_slot = *write;
    return true;
}

static bool initial_ignored(struct seqmix_val_case *c)
{
    int32_t *read, *write;
    if (!c->pool_given || !spell_out_slots(c, &read, &write)) return false;
    bool any = false;
    for (int32_t i = 0; i < c->batch.n_seqs; i++) {
        any = any || read[i] >= 0;
        read[i] = -1;
    }
    return any;
}

static bool final_early(struct seqmix_val_case *c)
{
    c->final_early = true;
    return has_final_state(c) && c->rows > 0;
}

static bool has_neighbours(struct seqmix_val_case *c)
{
    const seqmix_tensor absent = {0};
    for (int32_t i = 0; i < c->batch.n_seqs; i++) {
        const struct seqmix_seq seq = seqmix_batch_seq(&c->batch, c->rows, &absent, i);
        if (seq.end - seq.begin > 1) return c->dump->out.present;
    }
    return false;
}

static bool rows_late(struct seqmix_val_case *c)
{
    c->row_shift = 1;
    return has_neighbours(c);
}

static bool rows_early(struct seqmix_val_case *c)
{
    c->row_shift = -1;
    return has_neighbours(c);
}

/* All rows as one sequence that starts where the first one does; what becomes of the states is anybody's guess. */
static bool sequences_joined(struct seqmix_val_case *c)
{
    int64_t filled = 0;
    int32_t *begin = seqmix_val_take(&c->memory, 2, sizeof *begin);
    if (begin == NULL || c->batch.n_seqs < 2 || !c->dump->out.present) return false;
    for (int32_t i = 0; i < c->batch.n_seqs; i++)
        filled += c->batch.row_begin == NULL || c->batch.row_begin[i + 1] > c->batch.row_begin[i];
    begin[1] = c->batch.row_begin != NULL ? c->batch.row_begin[c->batch.n_seqs] : (int32_t)c->rows;
    c->batch.row_begin = begin;
    c->batch.n_seqs = 1;
    c->batch.max_rows = (int32_t)c->rows;
    c->batch.n_checkpoints = 0;
    c->ignore_state = true;
    return filled > 1;
}

/* ---------------------------------------------------------------- slots */

/* Sum of squared differences between the dump and a result over one sequence's rows. */
static double sequence_error(const struct seqmix_val_case *c, const double *out, const struct seqmix_seq *seq,
                             int64_t row_size)
{
    double sum = 0;
    for (int64_t i = seq->begin * row_size; i < seq->end * row_size; i++) {
        const double off = c->dump->out.data[i] - out[i];
        sum += off * off;
    }
    return sum;
}

/* Lets every sequence start from the slot (or zeros) that fits its rows best. */
static bool initial_order(struct seqmix_val_case *c)
{
    int32_t *read, *write;
    if (!c->pool_given || !c->dump->out.present || c->batch.n_seqs < 2 || !spell_out_slots(c, &read, &write))
        return false;
    const seqmix_tensor *pool = seqmix_val_state(c), *output = seqmix_val_output(c);
    const int64_t slots = pool->shape[0],
                  row_size = output->shape[0] > 0 ? seqmix_tensor_count(output) / output->shape[0] : 0;
    if (slots < 2 || slots > MOST_SLOTS) return false;
    int32_t *best = seqmix_val_take(&c->memory, c->batch.n_seqs, sizeof *best);
    double *least = seqmix_val_take(&c->memory, c->batch.n_seqs, sizeof *least);
    if (best == NULL || least == NULL) return false;
    for (int32_t slot = 0; slot < slots; slot++) {
        struct seqmix_val_case trial;
        struct seqmix_val_result result;
        char why[SEQMIX_VAL_TEXT];
        if (!seqmix_val_copy(c, c->rows, &trial)) return false;
        int32_t *trial_read, *trial_write;
        bool ok = spell_out_slots(&trial, &trial_read, &trial_write);
        for (int32_t i = 0; ok && i < c->batch.n_seqs; i++)
            trial_read[i] = slot;
        ok = ok && seqmix_val_evaluate(&trial, &result, why);
        for (int32_t i = 0; ok && i < c->batch.n_seqs; i++) {
            const struct seqmix_seq seq = seqmix_batch_seq(&c->batch, c->rows, pool, i);
            const double error = sequence_error(c, result.out, &seq, row_size);
            if (slot > 0 && !(error < least[i])) continue;
            least[i] = error;
            best[i] = slot;
        }
        seqmix_val_free(&trial.memory);
        if (!ok) return false;
    }
    bool moved = false;
    for (int32_t i = 0; i < c->batch.n_seqs; i++) {
        const struct seqmix_seq seq = seqmix_batch_seq(&c->batch, c->rows, pool, i);
        if (seq.begin == seq.end || read[i] < 0) continue;
        moved = moved || best[i] != read[i];
        read[i] = best[i];
    }
    return moved;
}

static double distance(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

/* Finds for every slot of the dump the final state, or the slot's own initial one, that it holds. */
static bool final_order(struct seqmix_val_case *c)
{
    if (!has_final_state(c) || c->cut || c->batch.n_seqs < 2) return false;
    const seqmix_tensor *pool = seqmix_val_state(c);
    const int64_t slots = pool->shape[0], size = slots > 0 ? seqmix_tensor_count(pool) / slots : 0;
    struct seqmix_val_result result;
    char why[SEQMIX_VAL_TEXT];
    if (slots < 2 || slots > MOST_SLOTS || !seqmix_val_evaluate(c, &result, why)) return false;
    int32_t *from = seqmix_val_take(&c->memory, slots, sizeof *from);
    if (from == NULL) return false;
    bool moved = false;
    for (int32_t i = 0; i < slots; i++) {
        const double *got = c->dump->state_out.data + i * size;
        double least = c->pool_given ? distance(got, c->dump->base.pool + i * size, size) : (double)INFINITY;
        from[i] = (int32_t)slots + i;
        for (int32_t j = 0; j < slots; j++) {
            const double off = distance(got, result.state + j * size, size);
            if (!(off < least) && !(off == least && j == i)) continue;
            least = off;
            from[i] = j;
        }
        if (from[i] >= slots &&
            memcmp(c->dump->base.pool + i * size, result.state + i * size, (size_t)size * sizeof(double)) == 0)
            from[i] = i;
        moved = moved || from[i] != i;
    }
    c->final_slot = from;
    return moved;
}

#define CAUSE(name, touches, apply, sentence)                                                                          \
    {                                                                                                                  \
        name, WITH_STATE, touches, apply, sentence                                                                     \
    }

const struct seqmix_val_cause seqmix_val_causes_common[] = {
    CAUSE("state-transposed", SEQMIX_VAL_TOUCH_INITIAL | SEQMIX_VAL_TOUCH_FINAL, both_transposed,
          "state transposed: the last two axes of state and of state_out are in the other order than expected"),
    CAUSE("initial-state-transposed", SEQMIX_VAL_TOUCH_INITIAL, initial_transposed,
          "initial state transposed: the last two axes of state are in the other order than expected, those of "
          "state_out are not"),
    CAUSE("final-state-transposed", SEQMIX_VAL_TOUCH_FINAL, final_transposed,
          "final state transposed: the last two axes of state_out are in the other order than expected, those of state "
          "are not"),
    CAUSE("initial-state-ignored", SEQMIX_VAL_TOUCH_INITIAL, initial_ignored,
          "initial state ignored: every sequence starts from zeros"),
    CAUSE("final-state-early", SEQMIX_VAL_TOUCH_FINAL, final_early,
          "final state from before the last row: state_out lacks the last row of each sequence"),
    CAUSE("rows-late", SEQMIX_VAL_TOUCH_ROWS, rows_late, "rows shifted by one: row r of the output is that of row r-1"),
    CAUSE("rows-early", SEQMIX_VAL_TOUCH_ROWS, rows_early,
          "rows shifted by one: row r of the output is that of row r+1"),
    CAUSE("sequences-joined", SEQMIX_VAL_TOUCH_SEQUENCES | SEQMIX_VAL_TOUCH_INITIAL, sequences_joined,
          "sequences not separated: row_begin is ignored, the state runs on from one sequence into the next"),
    CAUSE("initial-slots", SEQMIX_VAL_TOUCH_INITIAL, initial_order,
          "slots in the wrong order: sequences start from other slots than read_slot says"),
    CAUSE("final-slots", SEQMIX_VAL_TOUCH_FINAL, final_order,
          "slots in the wrong order: final states lie in other slots than write_slot says"),
    {NULL, 0, 0, NULL, NULL},
};
