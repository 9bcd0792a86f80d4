/* SPDX-License-Identifier: MIT */
/* Memory of a case, its tensors by role, and copies of a case with or without its later rows. */
#include "validate_case.h"

#include <stdlib.h>
#include <string.h>

#include "batch.h"

struct seqmix_val_block {
    struct seqmix_val_block *next;
    max_align_t data[];
};

void *seqmix_val_take(struct seqmix_val_memory *memory, int64_t count, size_t size)
{
    const size_t room = SIZE_MAX / 2 - sizeof(struct seqmix_val_block);
    if (count < 0 || (uint64_t)count > room / size) {
        memory->exhausted = true;
        return NULL;
    }
    const size_t bytes = (size_t)count * size;
    struct seqmix_val_block *block = calloc(1, sizeof *block + (bytes > 0 ? bytes : 1));
    if (block == NULL) {
        memory->exhausted = true;
        return NULL;
    }
    block->next = memory->blocks;
    memory->blocks = block;
    return block->data;
}

void seqmix_val_free(struct seqmix_val_memory *memory)
{
    while (memory->blocks != NULL) {
        struct seqmix_val_block *next = memory->blocks->next;
        free(memory->blocks);
        memory->blocks = next;
    }
}

seqmix_tensor *seqmix_val_tensor(struct seqmix_val_case *c, const struct seqmix_val_field *field)
{
    return (seqmix_tensor *)(void *)((char *)&c->args + field->offset);
}

seqmix_tensor *seqmix_val_output(struct seqmix_val_case *c)
{
    return seqmix_val_tensor(c, seqmix_val_field_of(c->family, SEQMIX_VAL_OUTPUT));
}

seqmix_tensor *seqmix_val_state(struct seqmix_val_case *c)
{
    const struct seqmix_val_field *field = seqmix_val_field_of(c->family, SEQMIX_VAL_STATE);
    return field != NULL ? seqmix_val_tensor(c, field) : NULL;
}

bool seqmix_val_new_tensor(struct seqmix_val_memory *memory, seqmix_tensor *t, int rank, const int64_t *shape)
{
    *t = (seqmix_tensor){.dtype = SEQMIX_F32, .rank = rank};
    int64_t count = 1;
    for (int axis = rank - 1; axis >= 0; axis--) {
        t->shape[axis] = shape[axis];
        t->stride[axis] = count;
        count *= shape[axis];
    }
    t->data = seqmix_val_take(memory, count, sizeof(float));
    return t->data != NULL;
}

bool seqmix_val_swap(double *matrices, int64_t count, int64_t a, int64_t b)
{
    double *old = malloc(a > 0 && b > 0 ? (size_t)a * (size_t)b * sizeof *old : 1);
    if (old == NULL) return false;
    for (int64_t m = 0; m < count && a * b > 0; m++) {
        double *matrix = matrices + m * a * b;
        memcpy(old, matrix, (size_t)(a * b) * sizeof *old);
        for (int64_t i = 0; i < a; i++)
            for (int64_t j = 0; j < b; j++)
                matrix[j * a + i] = old[i * b + j];
    }
    free(old);
    return true;
}

static void *copy_block(struct seqmix_val_memory *memory, const void *from, int64_t count, size_t size)
{
    void *to = seqmix_val_take(memory, count, size);
    if (to != NULL && count > 0) memcpy(to, from, (size_t)count * size);
    return to;
}

/* A tensor whose first axis is cut to `rows`; -1 = all of it. */
static bool copy_tensor(struct seqmix_val_memory *memory, seqmix_tensor *t, int64_t rows)
{
    if (rows >= 0 && rows < t->shape[0]) t->shape[0] = rows;
    t->data = copy_block(memory, t->data, seqmix_tensor_count(t), sizeof(float));
    return t->data != NULL;
}

static bool copy_tensors(struct seqmix_val_case *to, int64_t rows)
{
    for (const struct seqmix_val_field *field = to->family->fields; field->name != NULL; field++) {
        seqmix_tensor *t = seqmix_val_tensor(to, field);
        const bool by_row = field->role == SEQMIX_VAL_ROWS || field->role == SEQMIX_VAL_SCALARS;
        if (!seqmix_present(t) || field->role == SEQMIX_VAL_STATE) continue;
        if (field->role == SEQMIX_VAL_OUTPUT) {
            if (rows < t->shape[0]) t->shape[0] = rows;
        } else if (!copy_tensor(&to->memory, t, by_row ? rows : -1)) {
            return false;
        }
    }
    return true;
}

static bool copy_ints(struct seqmix_val_memory *memory, const int32_t **ints, int64_t count)
{
    if (*ints != NULL) *ints = copy_block(memory, *ints, count, sizeof **ints);
    return !memory->exhausted;
}

static bool copy_batch(struct seqmix_val_case *to)
{
    seqmix_batch *b = &to->batch;
    const int64_t n = b->n_seqs;
    return copy_ints(&to->memory, &b->row_begin, n + 1) && copy_ints(&to->memory, &b->read_slot, n) &&
           copy_ints(&to->memory, &b->write_slot, n) && copy_ints(&to->memory, &b->ckpt_seq, b->n_checkpoints) &&
           copy_ints(&to->memory, &b->ckpt_row, b->n_checkpoints) &&
           copy_ints(&to->memory, &b->ckpt_slot, b->n_checkpoints);
}

/* Ends every sequence at `rows` and drops the checkpoints: a cut case's states are not compared. */
static bool cut_batch(struct seqmix_val_case *c, int64_t rows)
{
    seqmix_batch *b = &c->batch;
    b->n_checkpoints = 0;
    b->ckpt_seq = b->ckpt_row = b->ckpt_slot = NULL;
    int32_t *begin =
        seqmix_val_take(&c->memory, b->row_begin != NULL || b->n_seqs > 1 ? (int64_t)b->n_seqs + 1 : 0, sizeof *begin);
    if (begin == NULL) return false;
    if (b->row_begin == NULL && b->n_seqs <= 1) return true;
    for (int32_t i = 0; i <= b->n_seqs; i++) {
        const int32_t at = b->row_begin != NULL ? b->row_begin[i] : i;
        begin[i] = at < rows ? at : (int32_t)rows;
    }
    b->row_begin = begin;
    return true;
}

bool seqmix_val_copy(const struct seqmix_val_case *from, int64_t rows, struct seqmix_val_case *to)
{
    *to = *from;
    to->memory = (struct seqmix_val_memory){0};
    if (from->family == &seqmix_val_families[SEQMIX_VAL_inverse] || rows > from->rows) rows = from->rows;
    bool ok = copy_tensors(to, rows) && copy_batch(to);
    if (ok && from->pool != NULL) {
        to->pool = copy_block(&to->memory, from->pool, seqmix_tensor_count(seqmix_val_state(to)), sizeof *to->pool);
        ok = to->pool != NULL;
    }
    seqmix_tensor *spares[] = {&to->spare_gate, &to->spare_A, &to->spare_dt_bias};
    for (int i = 0; i < 3 && ok; i++)
        if (seqmix_present(spares[i])) ok = copy_tensor(&to->memory, spares[i], i == 0 ? rows : -1);
    if (ok && from->final_slot != NULL) {
        to->final_slot = copy_block(&to->memory, from->final_slot, seqmix_val_state(to)->shape[0], sizeof(int32_t));
        ok = to->final_slot != NULL;
    }
    if (ok && rows < from->rows) {
        to->cut = true;
        to->rows = rows;
        ok = cut_batch(to, rows);
    }
    if (ok && to->op->family == SEQMIX_VAL_embed) {
        to->args.embed.tokens = copy_block(&to->memory, from->args.embed.tokens, rows, sizeof(int32_t));
        to->args.embed.n_tokens = (int32_t)rows;
        ok = to->args.embed.tokens != NULL;
    }
    if (!ok) seqmix_val_free(&to->memory);
    return ok;
}

int32_t *seqmix_val_row_owner(struct seqmix_val_case *c)
{
    int32_t *owner = seqmix_val_take(&c->memory, c->rows, sizeof *owner);
    if (owner == NULL) return NULL;
    const seqmix_tensor absent = {0};
    for (int64_t r = 0; r < c->rows; r++)
        owner[r] = c->family->batch_offset != 0 ? -1 : 0;
    if (c->family->batch_offset == 0) return owner;
    for (int32_t i = 0; i < c->batch.n_seqs; i++) {
        const struct seqmix_seq seq = seqmix_batch_seq(&c->batch, c->rows, &absent, i);
        for (int64_t r = seq.begin; r < seq.end; r++)
            owner[r] = i;
    }
    return owner;
}
