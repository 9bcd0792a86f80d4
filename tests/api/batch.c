/* SPDX-License-Identifier: MIT */
/*
 * The batch: counts, row ranges, slots, checkpoints, two writers of a slot. Each rule is provoked through every op with state
 * and through seqmix_batch_check; random batches are judged by an oracle that compares all pairs.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

static struct call call;
static seqmix_ctx *ctx;

static void setup(void)
{
    ctx = make_context(NULL);
}

static void teardown(void)
{
    seqmix_ctx_destroy(ctx);
}

static seqmix_status check_batch(const seqmix_batch *batch, int64_t rows, int64_t slots, char *why, size_t why_len)
{
    return seqmix_batch_check(seqmix_get_api(SEQMIX_ABI_VERSION), batch, rows, slots, why, why_len);
}

enum {
    QUERY = 1, /* counts: the query sees it too */
    OP = 2,    /* not a rule of seqmix_batch_check */
    ROWS = 4,  /* sequence forms only */
    STEP = 8   /* steps only */
};

struct rule {
    void (*bend)(struct call *c);
    unsigned flags;
    seqmix_status status;
    const char *text;
};

/* A 4-byte pointer off by one: never read. */
static const int32_t *misalign(const int32_t *array)
{
    return (const int32_t *)(const void *)((const char *)array + 1);
}

#define BEND(name, ...)                                                                                                \
    static void name(struct call *c)                                                                                   \
    {                                                                                                                  \
        __VA_ARGS__;                                                                                                   \
    }

// clang-format off
BEND(seqs_negative, c->batch.n_seqs = -1)
BEND(rows_negative, c->batch.max_rows = -1)
BEND(checkpoints_negative, c->batch.n_checkpoints = -1)
BEND(step_too_long, c->batch.max_rows = 17)
BEND(checkpoints_without_pool, call_named(c, "state")->rank = 0)
BEND(first_row, c->row_begin[0] = 1)
BEND(descending, c->row_begin[1] = 4, c->row_begin[2] = 3)
BEND(past_the_rows, c->row_begin[2] = 7, c->batch.max_rows = 8)
BEND(too_long, c->row_begin[1] = 1)
BEND(begin_misaligned, c->batch.row_begin = misalign(c->row_begin))
BEND(slot_misaligned, c->batch.write_slot = misalign(c->write_slot))
BEND(two_without_begin, c->batch.row_begin = NULL)
BEND(max_rows_too_low, c->batch.row_begin = NULL, c->batch.n_seqs = 1)
BEND(read_too_high, c->read_slot[1] = 4)
BEND(read_too_low, c->read_slot[0] = -2)
BEND(write_too_high, c->write_slot[1] = 4)
BEND(write_too_low, c->write_slot[1] = -2)
BEND(ckpt_too_high, c->ckpt_slot[0] = 4)
BEND(ckpt_too_low, c->ckpt_slot[0] = -2)
BEND(pool_too_small, call_resize(c, 'S', 1), c->batch.read_slot = c->batch.write_slot = NULL, c->batch.n_checkpoints = 0)
BEND(no_ckpt_seq, c->batch.ckpt_seq = NULL)
BEND(no_ckpt_row, c->batch.ckpt_row = NULL)
BEND(no_ckpt_slot, c->batch.ckpt_slot = NULL)
BEND(ckpt_seq_negative, c->ckpt_seq[0] = -1)
BEND(ckpt_seq_too_high, c->ckpt_seq[0] = 2)
BEND(ckpt_row_0, c->ckpt_row[0] = 0)
BEND(ckpt_row_too_high, c->ckpt_row[0] = 5)
BEND(ckpts_of_seqs_unsorted, c->batch.n_checkpoints = 2, c->ckpt_slot[1] = -1, c->ckpt_row[1] = 1)
BEND(ckpts_of_rows_unsorted, c->batch.n_checkpoints = 2, c->ckpt_slot[1] = -1, c->ckpt_seq[1] = 1, c->ckpt_row[1] = 1)
BEND(two_writers, c->write_slot[1] = 2)
BEND(ckpt_and_writer, c->ckpt_slot[0] = 2)
BEND(ckpt_and_own_writer, c->write_slot[1] = 3)
BEND(two_ckpts, c->batch.n_checkpoints = 2, c->ckpt_slot[1] = 3, c->ckpt_seq[1] = 1, c->ckpt_row[1] = 3)
BEND(writes_foreign, c->write_slot[0] = 1)
BEND(ckpt_in_foreign, c->ckpt_slot[0] = 0)
BEND(reads_written, c->read_slot[1] = 2)

BEND(ckpt_past_one_row, c->batch.row_begin = NULL, c->batch.read_slot = c->batch.write_slot = NULL, c->batch.n_seqs = 0,
     c->batch.max_rows = 0, call_resize(c, 'S', 7), c->ckpt_seq[0] = 0, c->ckpt_row[0] = 2)
BEND(ckpt_past_all_rows, ckpt_past_one_row(c), c->ckpt_row[0] = 7)

static const struct rule rules[] = {
    {seqs_negative, QUERY, SEQMIX_ERR_INVALID_ARG, "batch.n_seqs=-1 is negative"},
    {rows_negative, QUERY, SEQMIX_ERR_INVALID_ARG, "batch.max_rows=-1 is negative"},
    {checkpoints_negative, QUERY, SEQMIX_ERR_INVALID_ARG, "batch.n_checkpoints=-1 is negative"},
    {step_too_long, QUERY | OP | STEP, SEQMIX_ERR_INVALID_ARG, "batch.max_rows=17 (0 = R) exceeds the 16 rows of a step"},
    {checkpoints_without_pool, QUERY, SEQMIX_ERR_INVALID_ARG, "batch.n_checkpoints=1, but there is no state pool"},
    {first_row, 0, SEQMIX_ERR_INVALID_ARG, "batch.row_begin[0]=1, must be 0"},
    {descending, 0, SEQMIX_ERR_INVALID_ARG, "batch.row_begin[2]=3 is below row_begin[1]=4"},
    {past_the_rows, 0, SEQMIX_ERR_INVALID_ARG, "batch.row_begin[2]=7 exceeds R=6"},
    {too_long, 0, SEQMIX_ERR_INVALID_ARG, "sequence 1 has 5 rows, batch.max_rows=4"},
    {begin_misaligned, 0, SEQMIX_ERR_INVALID_ARG, "batch.row_begin is not aligned"},
    {slot_misaligned, 0, SEQMIX_ERR_INVALID_ARG, "batch.write_slot is not aligned"},
    {two_without_begin, ROWS, SEQMIX_ERR_INVALID_ARG, "batch.n_seqs=2 without row_begin, must be 0 or 1"},
    {two_without_begin, OP | STEP, SEQMIX_ERR_INVALID_ARG, "batch.n_seqs=2 without row_begin, must be 0 or R=6 in a step"},
    {max_rows_too_low, ROWS, SEQMIX_ERR_INVALID_ARG, "batch.max_rows=4 is below the R=6 rows of the one sequence"},
    {read_too_high, 0, SEQMIX_ERR_INVALID_ARG, "batch.read_slot[1]=4 is not in [-1, 4)"},
    {read_too_low, 0, SEQMIX_ERR_INVALID_ARG, "batch.read_slot[0]=-2 is not in [-1, 4)"},
    {write_too_high, 0, SEQMIX_ERR_INVALID_ARG, "batch.write_slot[1]=4 is not in [-1, 4)"},
    {write_too_low, 0, SEQMIX_ERR_INVALID_ARG, "batch.write_slot[1]=-2 is not in [-1, 4)"},
    {ckpt_too_high, 0, SEQMIX_ERR_INVALID_ARG, "batch.ckpt_slot[0]=4 is not in [-1, 4)"},
    {ckpt_too_low, 0, SEQMIX_ERR_INVALID_ARG, "batch.ckpt_slot[0]=-2 is not in [-1, 4)"},
    {pool_too_small, 0, SEQMIX_ERR_INVALID_ARG, "sequence 1 has slot 1 (no batch.read_slot), the pool has 1 slots"},
    {no_ckpt_seq, 0, SEQMIX_ERR_INVALID_ARG, "batch.ckpt_seq is NULL with n_checkpoints=1"},
    {no_ckpt_row, 0, SEQMIX_ERR_INVALID_ARG, "batch.ckpt_row is NULL with n_checkpoints=1"},
    {no_ckpt_slot, 0, SEQMIX_ERR_INVALID_ARG, "batch.ckpt_slot is NULL with n_checkpoints=1"},
    {ckpt_seq_negative, 0, SEQMIX_ERR_INVALID_ARG, "batch.ckpt_seq[0]=-1 is not in [0, 2)"},
    {ckpt_seq_too_high, 0, SEQMIX_ERR_INVALID_ARG, "batch.ckpt_seq[0]=2 is not in [0, 2)"},
    {ckpt_row_0, 0, SEQMIX_ERR_INVALID_ARG, "batch.ckpt_row[0]=0 is not in 1..4, the rows of sequence 1"},
    {ckpt_row_too_high, 0, SEQMIX_ERR_INVALID_ARG, "batch.ckpt_row[0]=5 is not in 1..4, the rows of sequence 1"},
    {ckpt_past_one_row, OP | STEP, SEQMIX_ERR_INVALID_ARG, "batch.ckpt_row[0]=2 is not in 1..1, the rows of sequence 0"},
    {ckpt_past_all_rows, ROWS, SEQMIX_ERR_INVALID_ARG, "batch.ckpt_row[0]=7 is not in 1..6, the rows of sequence 0"},
    {ckpts_of_seqs_unsorted, 0, SEQMIX_ERR_INVALID_ARG,
     "checkpoint 1 (sequence 0, row 1) comes before checkpoint 0 (sequence 1, row 2)"},
    {ckpts_of_rows_unsorted, 0, SEQMIX_ERR_INVALID_ARG, "checkpoint 1 (sequence 1, row 1) comes before"},
    {two_writers, 0, SEQMIX_ERR_ALIAS, "slot 2 is written twice, by sequence 0 and by sequence 1"},
    {ckpt_and_writer, 0, SEQMIX_ERR_ALIAS, "slot 2 is written twice, by sequence 0 and by sequence 1"},
    {ckpt_and_own_writer, 0, SEQMIX_ERR_ALIAS, "slot 3 is written twice, by sequence 1 and by sequence 1"},
    {two_ckpts, 0, SEQMIX_ERR_ALIAS, "slot 3 is written twice, by sequence 1 and by sequence 1"},
    {writes_foreign, 0, SEQMIX_ERR_ALIAS, "slot 1 is written by sequence 0 and read by sequence 1"},
    {ckpt_in_foreign, 0, SEQMIX_ERR_ALIAS, "slot 0 is written by sequence 1 and read by sequence 0"},
    {reads_written, 0, SEQMIX_ERR_ALIAS, "slot 2 is written by sequence 0 and read by sequence 1"},
};
// clang-format on

START_TEST(refused)
{
    const struct rule *r = &rules[_i];
    char why[256];
    for (int i = 0; i < N_STATE_OPS; i++) {
        if ((ops[i].step && (r->flags & ROWS) != 0) || (!ops[i].step && (r->flags & STEP) != 0)) continue;
        call_init(&call, &ops[i]);
        r->bend(&call);
        expect_refusal(ctx, &call, (r->flags & QUERY) != 0, r->status, r->text);
    }
    if ((r->flags & OP) != 0) return;
    call_init(&call, &ops[0]);
    r->bend(&call);
    const int64_t slots = call.args.conv.state.rank != 0 ? call.args.conv.state.shape[0] : -1;
    ck_assert_int_eq(check_batch(&call.batch, 6, slots, why, sizeof why), r->status);
    ck_assert_msg(strstr(why, r->text) != NULL, "\"%s\" does not say \"%s\"", why, r->text);
    ck_assert_int_eq(check_batch(&call.batch, 6, slots, NULL, 0), r->status);
}
END_TEST

// clang-format off
BEND(as_it_is, (void)c)
BEND(no_batch_array, c->batch.row_begin = c->batch.read_slot = c->batch.write_slot = NULL, c->batch.n_checkpoints = 0,
     c->batch.n_seqs = c->batch.max_rows = 0, call_resize(c, 'S', 7))
BEND(shared_read, c->read_slot[1] = 0)
BEND(in_place, c->write_slot[0] = 0, c->write_slot[1] = 1)
BEND(write_is_read, c->batch.write_slot = NULL)
BEND(slot_of_index, c->batch.read_slot = c->batch.write_slot = NULL)
BEND(padded_entry, c->read_slot[1] = -1)
BEND(ckpt_in_own_read_slot, c->ckpt_slot[0] = 1)
BEND(ckpt_nowhere, c->ckpt_slot[0] = -1)
BEND(ckpt_at_the_end, c->ckpt_row[0] = 4)
BEND(empty_sequence, c->row_begin[1] = 0, c->row_begin[2] = 4)
BEND(all_empty, c->row_begin[1] = c->row_begin[2] = 0, c->batch.n_checkpoints = 0)
BEND(rows_of_nobody, c->row_begin[2] = 5)
BEND(no_pool, call_named(c, "state")->rank = 0, c->batch.n_checkpoints = 0, c->read_slot[0] = 99, c->write_slot[0] = -7)
BEND(empty_pool, call_resize(c, 'S', 0), c->batch.n_checkpoints = 0, c->read_slot[0] = c->read_slot[1] = -1,
     c->write_slot[0] = c->write_slot[1] = -1, call_named(c, "state")->data = NULL)
BEND(two_ckpts_of_a_row, c->batch.n_checkpoints = 2, c->ckpt_slot[1] = 0, c->ckpt_seq[1] = 1, c->ckpt_row[1] = 2,
     c->read_slot[0] = -1)
BEND(no_bound, c->batch.max_rows = 0)
BEND(ckpt_without_begin, no_batch_array(c), c->batch.n_checkpoints = 1, c->ckpt_seq[0] = 0, c->ckpt_row[0] = 1,
     c->ckpt_slot[0] = 6)
BEND(ckpt_in_each_sequence, c->batch.n_checkpoints = 2, c->ckpt_seq[0] = 0, c->ckpt_slot[0] = -1, c->ckpt_seq[1] = 1,
     c->ckpt_row[1] = 1, c->ckpt_slot[1] = 3)
BEND(bound_of_steps, c->batch.max_rows = 16)
BEND(empty_pool_with_checkpoint, empty_pool(c), c->batch.n_checkpoints = 1, c->ckpt_slot[0] = -1)
// clang-format on

static void (*const legal[])(struct call *) = {
    as_it_is,
    no_batch_array,
    shared_read,
    in_place,
    write_is_read,
    slot_of_index,
    padded_entry,
    ckpt_in_own_read_slot,
    ckpt_nowhere,
    ckpt_at_the_end,
    empty_sequence,
    all_empty,
    rows_of_nobody,
    no_pool,
    empty_pool,
    no_bound,
    two_ckpts_of_a_row,
    bound_of_steps,
    empty_pool_with_checkpoint,
    ckpt_without_begin,
    ckpt_in_each_sequence,
};

START_TEST(accepted)
{
    char why[256];
    for (int i = 0; i < N_STATE_OPS; i++) {
        call_init(&call, &ops[i]);
        legal[_i](&call);
        expect_success(ctx, &call);
    }
    call_init(&call, &ops[0]);
    legal[_i](&call);
    const int64_t slots = call.args.conv.state.rank != 0 ? call.args.conv.state.shape[0] : -1;
    ck_assert_int_eq(check_batch(&call.batch, 6, slots, why, sizeof why), SEQMIX_OK);
}
END_TEST

/* Without a batch: one sequence in slot 0, or for a step R sequences, slot i. */
START_TEST(no_batch)
{
    call_init(&call, &ops[_i]);
    call_resize(&call, 'S', ops[_i].step ? 6 : 1);
    const seqmix_batch *none = NULL;
    memcpy((char *)&call.args + offsetof(seqmix_conv_args, batch) + (ops[_i].family == SSD ? 16 : 0) +
               (ops[_i].family == DELTANET ? 32 : 0),
           &none, sizeof none);
    expect_success(ctx, &call);
    call_resize(&call, 'S', ops[_i].step ? 5 : 0);
    expect_refusal(ctx, &call, false, SEQMIX_ERR_INVALID_ARG,
                   ops[_i].step ? "sequence 5 has slot 5" : "sequence 0 has slot 0");
}
END_TEST

/* Rows after the last row_begin, slots nobody writes, and the padding of the arena keep their bytes. */
START_TEST(untouched)
{
    static struct call before;
    call_init(&call, &ops[_i]);
    rows_of_nobody(&call);
    before = call;
    expect_success(ctx, &call);
    const seqmix_tensor *out = call_named(&call, ops[_i].family == DELTANET ? "o" : "y"),
                        *pool = call_named(&call, "state");
    const size_t row = (size_t)out->stride[0] * 4, slot = (size_t)pool->stride[0] * 4;
    size_t at = (size_t)((unsigned char *)out->data - call.arena);
    ck_assert_mem_eq(call.arena + at + 5 * row, before.arena + at + 5 * row, row);
    ck_assert_mem_ne(call.arena + at + 4 * row, before.arena + at + 4 * row, row);
    memcpy(before.arena + at, call.arena + at, 5 * row);
    at = (size_t)((unsigned char *)pool->data - call.arena);
    ck_assert_mem_ne(call.arena + at + 2 * slot, before.arena + at + 2 * slot, slot);
    ck_assert_mem_ne(call.arena + at + 3 * slot, before.arena + at + 3 * slot, slot);
    memcpy(before.arena + at + 2 * slot, call.arena + at + 2 * slot, 2 * slot);
    ck_assert_mem_eq(call.arena, before.arena, ARENA);
}
END_TEST

START_TEST(too_many_writers)
{
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc, .max_seqs = 2};
    seqmix_ctx *small = make_context(&desc);
    call_init(&call, &ops[_i]);
    expect_success(small, &call); /* two writers: a sequence and a checkpoint */
    call_init(&call, &ops[_i]);
    call.write_slot[0] = 0;
    call.write_slot[1] = 1;
    ck_assert_int_eq(call_run(small, &call), SEQMIX_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(seqmix_last_error(small), "3 slots are written, the context's max_seqs=2"));
    seqmix_ctx_destroy(small);
}
END_TEST

static uint32_t draw_state;

static int32_t draw(int32_t n)
{
    draw_state = draw_state * 1664525u + 1013904223u;
    return (int32_t)((draw_state >> 8) % (uint32_t)n);
}

enum { SEQS = 40, CKPTS = 24 };

/* ALIAS or OK by comparing all pairs. */
static seqmix_status oracle(const seqmix_batch *b)
{
    int32_t slot[SEQS + CKPTS], seq[SEQS + CKPTS];
    const int n = b->n_seqs + b->n_checkpoints;
    for (int i = 0; i < n; i++) {
        slot[i] = i < b->n_seqs ? b->write_slot[i] : b->ckpt_slot[i - b->n_seqs];
        seq[i] = i < b->n_seqs ? i : b->ckpt_seq[i - b->n_seqs];
        for (int j = 0; j < i; j++)
            if (slot[i] >= 0 && slot[i] == slot[j]) return SEQMIX_ERR_ALIAS;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < b->n_seqs; j++)
            if (slot[i] >= 0 && slot[i] == b->read_slot[j] && seq[i] != j) return SEQMIX_ERR_ALIAS;
    return SEQMIX_OK;
}

/* One context judges all of them: a table not emptied after a call, refused or not, would show. */
START_TEST(random_batches)
{
    static int32_t row_begin[SEQS + 1], read[SEQS], write[SEQS], ckpt_seq[CKPTS], ckpt_row[CKPTS], ckpt_slot[CKPTS];
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc, .max_seqs = SEQS + CKPTS};
    seqmix_ctx *own = make_context(&desc);
    int n_refused = 0;
    draw_state = 5u + (uint32_t)_i;
    for (int round = 0; round < 3000; round++) {
        const int32_t seqs = 1 + draw(SEQS), slots = 1 + draw(3) * 500 + draw(1000), base = draw(slots);
        seqmix_batch batch = {sizeof batch, seqs, 0, 0, row_begin, read, write, ckpt_seq, ckpt_row, ckpt_slot};
        for (int i = 0; i < seqs; i++) {
            row_begin[i + 1] = row_begin[i] + 1;
            read[i] = draw(3) != 0 ? (base + 2 * i) % slots : draw(8) == 0 ? draw(slots) : -1;
            write[i] = draw(3) != 0 ? read[i] : draw(2) != 0 ? (base + 2 * i + 1) % slots : -1;
            if (draw(4) == 0 && batch.n_checkpoints < CKPTS) {
                ckpt_seq[batch.n_checkpoints] = i;
                ckpt_row[batch.n_checkpoints] = 1;
                ckpt_slot[batch.n_checkpoints++] = draw(slots);
            }
        }
        call_init(&call, &ops[1]);
        const seqmix_status expected = oracle(&batch);
        ck_assert_int_eq(check_batch(&batch, seqs, slots, NULL, 0), expected);

        seqmix_conv_args *conv = &call.args.conv;
        float *memory = calloc((size_t)(slots + seqs), sizeof *memory);
        call_resize(&call, 'R', seqs);
        call_resize(&call, 'D', 1);
        call_resize(&call, 'K', 2);
        call_resize(&call, 'k', 1);
        call_resize(&call, 'S', slots);
        conv->state.data = memory;
        conv->y.data = memory + slots;
        conv->x.data = conv->y.data; /* in place */
        batch.max_rows = 1;
        conv->batch = &batch;
        const seqmix_status status = call_run(own, &call);
        ck_assert_msg(status == expected, "round %d: %d (%s), not %d", round, (int)status, seqmix_last_error(own),
                      (int)expected);
        free(memory);
        n_refused += status != SEQMIX_OK;
    }
    ck_assert_int_gt(n_refused, 300);
    ck_assert_int_lt(n_refused, 2700);
    seqmix_ctx_destroy(own);
}
END_TEST

/* More writers than seqmix_batch_check holds at a time: a clash between the first and the last is still found. */
START_TEST(large_batch)
{
    enum { N = 5000 };
    static int32_t row_begin[N + 1], read[N], write[N];
    seqmix_batch batch = {sizeof batch, N, 0, 0, row_begin, read, write, NULL, NULL, NULL};
    char why[200];
    for (int i = 0; i < N; i++)
        read[i] = -1, write[i] = (int32_t)((i * 7919L) % 8192);
    ck_assert_int_eq(check_batch(&batch, 0, 8192, why, sizeof why), SEQMIX_OK);
    write[N - 1] = write[0];
    ck_assert_int_eq(check_batch(&batch, 0, 8192, why, sizeof why), SEQMIX_ERR_ALIAS);
    ck_assert_str_eq(why, "slot 0 is written twice, by sequence 0 and by sequence 4999");
    write[N - 1] = -1;
    read[3] = write[N - 2];
    ck_assert_int_eq(check_batch(&batch, 0, 8192, why, sizeof why), SEQMIX_ERR_ALIAS);
    ck_assert_ptr_nonnull(strstr(why, "is written by sequence 4998 and read by sequence 3"));
    read[3] = -1;
    for (int i = 0; i < N; i++)
        write[i] = read[i] = i;
    ck_assert_int_eq(check_batch(&batch, 0, N, why, sizeof why), SEQMIX_OK);
}
END_TEST

START_TEST(batch_check_alone)
{
    seqmix_batch batch = {.struct_size = sizeof batch};
    char why[200];
    ck_assert_int_eq(check_batch(&batch, 0, 1, why, sizeof why), SEQMIX_OK);
    ck_assert_int_eq(check_batch(&batch, INT32_MAX, 1, why, sizeof why), SEQMIX_OK);
    ck_assert_int_eq(check_batch(&batch, (int64_t)INT32_MAX + 1, 1, why, sizeof why), SEQMIX_ERR_INVALID_ARG);
    ck_assert_str_eq(why, "rows=2147483648 is not in 0..2147483647");
    ck_assert_int_eq(check_batch(&batch, -1, 1, why, sizeof why), SEQMIX_ERR_INVALID_ARG);
    ck_assert_int_eq(check_batch(&batch, 5, 0, why, sizeof why), SEQMIX_ERR_INVALID_ARG);
    ck_assert_int_eq(check_batch(&batch, 5, -1, why, sizeof why), SEQMIX_OK);
    batch.n_seqs = 5; /* a step: one row each */
    ck_assert_int_eq(check_batch(&batch, 5, 5, why, sizeof why), SEQMIX_OK);
    ck_assert_int_eq(check_batch(&batch, 5, 4, why, sizeof why), SEQMIX_ERR_INVALID_ARG);
    ck_assert_str_eq(why, "sequence 4 has slot 4 (no batch.read_slot), the pool has 4 slots");
    batch.struct_size = 0;
    ck_assert_int_eq(check_batch(&batch, 5, 5, why, sizeof why), SEQMIX_ERR_INVALID_ARG);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("batch");
    TCase *tcase = tcase_create("rows, slots, checkpoints");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, refused, 0, (int)(sizeof rules / sizeof rules[0]));
    tcase_add_loop_test(tcase, accepted, 0, (int)(sizeof legal / sizeof legal[0]));
    tcase_add_loop_test(tcase, no_batch, 0, N_STATE_OPS);
    tcase_add_loop_test(tcase, untouched, 0, N_STATE_OPS);
    tcase_add_loop_test(tcase, too_many_writers, 0, N_STATE_OPS);
    tcase_add_loop_test(tcase, random_batches, 0, 4);
    tcase_add_test(tcase, large_batch);
    tcase_add_test(tcase, batch_check_alone);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
