/* SPDX-License-Identifier: MIT */
/*
 * What an engine does to a plain call, and what it costs per row: sequences of uneven lengths in one call, states read from one
 * slot and written to another, a checkpoint every 256 rows, inputs as column slices of one packed buffer. A variant starts as a
 * copy of the plain call's args; before it is timed, its outputs and states must have the bits of plain calls, one a sequence.
 */
#include <stdlib.h>
#include <string.h>

#include "targets.h"

enum kind { RAGGED, SLOTS, CHECKPOINTS, PACKED, KINDS };

enum { SEQS = 5, CKPT_ROWS = 256, MOST_CKPTS = 8, N_PACKED = 3 };
enum { LONG_CALLS = 3 }; /* budgets: a second has few calls of 2048 rows, and 5 % are to be told apart */

static const int32_t ragged[SEQS + 1] = {0, 1003, 1004, 1521, 1585, 2048};

/* Where the fields lie that a variant touches; all have rows or slots as their first axis. */
struct places {
    size_t packed[N_PACKED], state, out, batch;
    size_t rows[9]; /* every row tensor */
    int n_rows;
};

#define AT(family, member) offsetof(seqmix_##family##_args, member)

static const struct places delta_places = {
    {AT(deltanet, q), AT(deltanet, k), AT(deltanet, v)},
    AT(deltanet, state),
    AT(deltanet, o),
    AT(deltanet, batch),
    {AT(deltanet, q), AT(deltanet, k), AT(deltanet, v), AT(deltanet, gate), AT(deltanet, beta), AT(deltanet, o)},
    6};
static const struct places ssd_places = {{AT(ssd, x), AT(ssd, B), AT(ssd, C)},
                                         AT(ssd, state),
                                         AT(ssd, y),
                                         AT(ssd, batch),
                                         {AT(ssd, x), AT(ssd, dt), AT(ssd, B), AT(ssd, C), AT(ssd, y)},
                                         5};

/* What the variants of one plain call share: the call, its first state, and where a plain call's results go. */
struct shared {
    struct seqmix_target_case plain;
    const struct places *at;
    char *initial, *state, *wanted;
    size_t state_bytes, out_bytes;
};

struct variant {
    struct shared *shared;
    union seqmix_bench_args args;
    seqmix_batch batch;
    int32_t read_slot[SEQS], write_slot[SEQS], ckpt_seq[MOST_CKPTS], ckpt_row[MOST_CKPTS], ckpt_slot[MOST_CKPTS];
    char *packed, *pool;
    void *workspace;
    size_t workspace_bytes;
};

static seqmix_tensor *tensor(const union seqmix_bench_args *args, size_t offset)
{
    return (seqmix_tensor *)(void *)((char *)(uintptr_t)args + offset);
}

static size_t view_bytes(const seqmix_tensor *t)
{
    return (size_t)seqmix_bench_count(t) * seqmix_bench_dtype_size(t->dtype);
}

static int run_args(struct variant *v, const union seqmix_bench_args *args)
{
    return v->shared->plain.c.entry.op->run(v->shared->plain.ctx, args, v->workspace, v->workspace_bytes) == SEQMIX_OK
               ? 0
               : -1;
}

static int run_variant(void *user)
{
    struct variant *v = user;
    return run_args(v, &v->args);
}

/* ---- making one ---- */

/* Zeroed memory, aligned as the plain call's is; NULL when it is short. */
static char *take(struct variant *v, size_t bytes)
{
    void *memory = NULL;
    if (seqmix_mem_alloc(v->shared->plain.ctx, bytes, &memory) != SEQMIX_OK) return NULL;
    return memset(memory, 0, bytes);
}

/* A pool of n slots, every one holding the plain call's first state; `gap` elements lie between slots. */
static void use_pool(struct variant *v, int64_t n, int64_t gap)
{
    seqmix_tensor *state = tensor(&v->args, v->shared->at->state);
    const size_t size = seqmix_bench_dtype_size(state->dtype);
    state->shape[0] = n;
    state->stride[0] += gap;
    v->pool = take(v, (size_t)(n * state->stride[0]) * size);
    for (int64_t i = 0; i < n && v->pool != NULL; i++)
        memcpy(v->pool + (size_t)(i * state->stride[0]) * size, v->shared->initial, v->shared->state_bytes);
    state->data = v->pool;
}

static void use_packed(struct variant *v)
{
    int64_t width = 0, column = 0;
    for (int i = 0; i < N_PACKED; i++)
        width += tensor(&v->args, v->shared->at->packed[i])->stride[0];
    const seqmix_tensor *first = tensor(&v->args, v->shared->at->packed[0]);
    const size_t size = seqmix_bench_dtype_size(first->dtype);
    const int64_t rows = first->shape[0];
    v->packed = take(v, (size_t)(rows * width) * size);
    for (int i = 0; i < N_PACKED && v->packed != NULL; i++) {
        seqmix_tensor *t = tensor(&v->args, v->shared->at->packed[i]);
        const size_t row = (size_t)t->stride[0] * size;
        for (int64_t r = 0; r < rows; r++)
            memcpy(v->packed + (size_t)(r * width + column) * size, (const char *)t->data + (size_t)r * row, row);
        column += t->stride[0];
        t->data = v->packed + (size_t)(column - t->stride[0]) * size;
        t->stride[0] = width;
    }
}

static void make(struct variant *v, enum kind kind)
{
    const int64_t rows = v->shared->plain.c.entry.rows;
    v->batch = (seqmix_batch){.struct_size = sizeof v->batch};
    if (kind == RAGGED) {
        use_pool(v, SEQS, 0);
        v->batch.n_seqs = SEQS;
        v->batch.row_begin = ragged;
    } else if (kind == SLOTS) {
        use_pool(v, 7, 64);
        v->read_slot[0] = 5;
        v->write_slot[0] = 2;
        v->batch.read_slot = v->read_slot;
        v->batch.write_slot = v->write_slot;
    } else if (kind == CHECKPOINTS) {
        use_pool(v, 1 + MOST_CKPTS, 0);
        v->batch.n_checkpoints = (int32_t)(rows / CKPT_ROWS);
        for (int32_t i = 0; i < v->batch.n_checkpoints; i++) {
            v->ckpt_row[i] = CKPT_ROWS * (i + 1);
            v->ckpt_slot[i] = 1 + i;
        }
        v->batch.ckpt_seq = v->ckpt_seq;
        v->batch.ckpt_row = v->ckpt_row;
        v->batch.ckpt_slot = v->ckpt_slot;
    } else {
        use_pool(v, 1, 0);
        use_packed(v);
    }
    const seqmix_batch *batch = &v->batch;
    memcpy((char *)&v->args + v->shared->at->batch, &batch, sizeof batch);
}

/* ---- the bits of plain calls ---- */

static const char *slot_of(struct variant *v, int64_t slot)
{
    const seqmix_tensor *state = tensor(&v->args, v->shared->at->state);
    return (const char *)state->data + (size_t)(slot * state->stride[0]) * seqmix_bench_dtype_size(state->dtype);
}

/* Rows [begin, end) alone, from the first state into `state` and `wanted`. */
static int run_plain(struct variant *v, int32_t begin, int32_t end)
{
    union seqmix_bench_args args = v->shared->plain.c.args[0];
    for (int i = 0; i < v->shared->at->n_rows; i++) {
        seqmix_tensor *t = tensor(&args, v->shared->at->rows[i]);
        if (v->shared->at->rows[i] == v->shared->at->out) t->data = v->shared->wanted;
        t->data = (char *)t->data + (size_t)(begin * t->stride[0]) * seqmix_bench_dtype_size(t->dtype);
        t->shape[0] = end - begin;
    }
    memcpy(v->shared->state, v->shared->initial, v->shared->state_bytes);
    tensor(&args, v->shared->at->state)->data = v->shared->state;
    return run_args(v, &args);
}

/* NULL, or what differs. */
static const char *check_variant(struct variant *v)
{
    const int32_t whole[2] = {0, (int32_t)v->shared->plain.c.entry.rows};
    const int32_t *begin = v->batch.row_begin != NULL ? v->batch.row_begin : whole;
    const int n_seqs = v->batch.row_begin != NULL ? v->batch.n_seqs : 1;
    char *out = tensor(&v->args, v->shared->at->out)->data;
    memset(out, 0xff, v->shared->out_bytes);
    memset(v->shared->wanted, 0xff, v->shared->out_bytes);
    if (run_variant(v) != 0) return seqmix_last_error(v->shared->plain.ctx);
    for (int i = 0; i < n_seqs; i++) {
        const int64_t slot = v->batch.write_slot != NULL ? v->batch.write_slot[i] : i;
        if (run_plain(v, begin[i], begin[i + 1]) != 0) return seqmix_last_error(v->shared->plain.ctx);
        if (memcmp(slot_of(v, slot), v->shared->state, v->shared->state_bytes) != 0)
            return "a state has other bits than the plain call's";
    }
    for (int i = 0; i < v->batch.n_checkpoints; i++) {
        if (run_plain(v, 0, v->ckpt_row[i]) != 0) return seqmix_last_error(v->shared->plain.ctx);
        if (memcmp(slot_of(v, v->ckpt_slot[i]), v->shared->state, v->shared->state_bytes) != 0)
            return "a checkpoint has other bits than the plain call's state";
    }
    return memcmp(out, v->shared->wanted, v->shared->out_bytes) != 0 ? "outputs have other bits than the plain call's"
                                                                     : NULL;
}

/* ---- the lines ---- */

static int open_shared(struct shared *shared)
{
    const struct seqmix_bench_case *c = &shared->plain.c;
    shared->at = c->entry.op->id == SEQMIX_OP_SSD_CHUNK_FORWARD ? &ssd_places : &delta_places;
    const seqmix_tensor *state = tensor(&c->args[0], shared->at->state);
    shared->state_bytes = view_bytes(state);
    shared->out_bytes = view_bytes(tensor(&c->args[0], shared->at->out));
    shared->initial = malloc(shared->state_bytes);
    shared->state = malloc(shared->state_bytes);
    shared->wanted = malloc(shared->out_bytes);
    if (shared->initial == NULL || shared->state == NULL || shared->wanted == NULL) return -1;
    memcpy(shared->initial, state->data, shared->state_bytes);
    return 0;
}

static int open_variant(struct variant *v, struct shared *shared, enum kind kind)
{
    const struct seqmix_bench_case *c = &shared->plain.c;
    v->shared = shared;
    v->args = c->args[0];
    make(v, kind);
    if (v->pool == NULL || (v->packed == NULL && kind == PACKED)) return -1;
    if (c->entry.op->workspace(c->ctx, &v->args, &v->workspace_bytes) != SEQMIX_OK) return -1;
    return seqmix_mem_alloc(c->ctx, v->workspace_bytes, &v->workspace) == SEQMIX_OK ? 0 : -1;
}

static void close_all(struct shared *shared, struct variant variants[KINDS])
{
    for (int i = 0; i < KINDS; i++) {
        seqmix_mem_free(shared->plain.ctx, variants[i].packed);
        seqmix_mem_free(shared->plain.ctx, variants[i].pool);
        seqmix_mem_free(shared->plain.ctx, variants[i].workspace);
    }
    free(shared->initial);
    free(shared->state);
    free(shared->wanted);
    seqmix_target_close(&shared->plain);
}

static void race_variants(struct seqmix_suite *suite, struct shared *shared, struct variant *variants,
                          struct seqmix_target *t)
{
    struct seqmix_racer racers[1 + KINDS] = {{.run = seqmix_target_run, .user = &shared->plain}};
    for (int i = 0; i < KINDS; i++)
        racers[1 + i] = (struct seqmix_racer){.run = run_variant, .user = &variants[i]};
    if (seqmix_race(racers, 1 + KINDS, &suite->fma, LONG_CALLS * suite->o->budget, 0) != 0) {
        seqmix_target_note(t, "a call failed");
        suite->n_refused++;
        return;
    }
    for (int i = 0; i < KINDS; i++) {
        char words[64];
        seqmix_race_words(&racers[1 + i], words, sizeof words);
        seqmix_target_note(&t[i], "%s; %.2f ms", words, 1e3 * racers[1 + i].seconds);
        snprintf(t[i].baseline, sizeof t[i].baseline, "the plain call, %.2f ms", 1e3 * racers[0].seconds);
        t[i].value = racers[1 + i].seconds / racers[0].seconds;
        t[i].measured = 1;
    }
}

void seqmix_measure_variants(struct seqmix_suite *suite, const struct seqmix_target_line *line, struct seqmix_target *t)
{
    struct shared shared = {.at = NULL};
    struct variant variants[KINDS] = {{.shared = NULL}};
    const char *wrong = NULL;
    const int opened = seqmix_target_open(suite, line, 1, 0, 0, &shared.plain, t) == 0;
    for (int i = 1; i < KINDS; i++) {
        memcpy(t[i].rung, t->rung, sizeof t->rung);
        memcpy(t[i].kernel, t->kernel, sizeof t->kernel);
        memcpy(t[i].shape, t->shape, sizeof t->shape);
        memcpy(t[i].note, t->note, sizeof t->note);
    }
    if (!opened) return;
    int failed = open_shared(&shared) != 0;
    for (int i = 0; i < KINDS && !failed; i++)
        failed = open_variant(&variants[i], &shared, (enum kind)i) != 0;
    for (int i = 0; i < KINDS && !failed; i++)
        if ((wrong = check_variant(&variants[i])) != NULL) {
            seqmix_target_note(&t[i], "refused: %s", wrong);
            suite->n_refused++;
            break;
        }
    if (failed)
        seqmix_target_note(t, "no memory, or no workspace, for the variants");
    else if (wrong == NULL)
        race_variants(suite, &shared, variants, t);
    close_all(&shared, variants);
}
