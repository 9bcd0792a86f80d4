/* SPDX-License-Identifier: MIT */
/*
 * Runs a case: the library's checks on it, then the double-precision recurrence (or its twisted twin). The pool and the output
 * are in double; for the checks, which know no such dtype, they pass as f32.
 */
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "check.h"
#include "cpu.h"
#include "validate_case.h"

static void point_at(struct seqmix_val_case *c, double *out, double *state, seqmix_dtype dtype)
{
    seqmix_tensor *output = seqmix_val_output(c), *pool = seqmix_val_state(c);
    const seqmix_batch *batch = &c->batch;
    output->data = out;
    output->dtype = dtype;
    if (pool != NULL && c->pool != NULL) {
        pool->data = state;
        pool->dtype = dtype;
    }
    if (c->family->batch_offset != 0) memcpy((char *)&c->args + c->family->batch_offset, &batch, sizeof batch);
}

static struct seqmix_context *new_context(const struct seqmix_val_case *c, char why[SEQMIX_VAL_TEXT])
{
    const int64_t writers = (int64_t)c->batch.n_seqs + c->batch.n_checkpoints;
    seqmix_ctx_desc desc = {.struct_size = sizeof desc};
    seqmix_ctx *ctx = NULL;
    if (writers > (1 << 24)) {
        (void)seqmix_val_refuse(why, "%lld sequences and checkpoints, at most 2^24 are judged", (long long)writers);
        return NULL;
    }
    desc.level_cap = SEQMIX_LEVEL_CPU_REF;
    desc.max_seqs = writers > 4096 ? (int32_t)writers : 0;
    if (seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx, why, SEQMIX_VAL_TEXT) != SEQMIX_OK)
        return NULL;
    struct seqmix_context *context = (struct seqmix_context *)(void *)ctx;
    context->op = c->op->name;
    return context;
}

static seqmix_status check_args(struct seqmix_context *ctx, const struct seqmix_val_case *c)
{
    switch (c->op->id) {
#define SEQMIX_OP(ID, op, family, step)                                                                                \
    case SEQMIX_OP_##ID:                                                                                               \
        return seqmix_check_##family(ctx, &c->args.family, (step) ? SEQMIX_CHECK_STEP : 0);
#define SEQMIX_OP_GLUE(ID, op, family, step)
#include "ops.def"
    default:
        return SEQMIX_ERR_INTERNAL;
    }
}

static void *take_workspace(size_t bytes)
{
    const size_t align = SEQMIX_WORKSPACE_ALIGN;
    return aligned_alloc(align, (bytes / align + 1) * align);
}

#define RUN(op, family)                                                                                                \
    do {                                                                                                               \
        status = seqmix_kernels__ref64.op##_plan(ctx, &c->args.family, &plan);                                         \
        workspace = status == SEQMIX_OK ? take_workspace(plan.workspace) : NULL;                                       \
        if (status == SEQMIX_OK)                                                                                       \
            status = workspace != NULL ? seqmix_kernels__ref64.op(ctx, &c->args.family, workspace)                     \
                                       : SEQMIX_ERR_OUT_OF_MEMORY;                                                     \
    } while (0)

static seqmix_status run_oracle(struct seqmix_context *ctx, const struct seqmix_val_case *c)
{
    struct seqmix_plan plan = {0};
    seqmix_status status = SEQMIX_ERR_INTERNAL;
    void *workspace = NULL;
    switch (c->op->id) {
#define SEQMIX_OP(ID, op, family, step)                                                                                \
    case SEQMIX_OP_##ID:                                                                                               \
        RUN(op, family);                                                                                               \
        break;
#define SEQMIX_OP_GLUE(ID, op, family, step)
#include "ops.def"
    default:
        break;
    }
    free(workspace);
    return status;
}

bool seqmix_val_check(struct seqmix_val_case *c, char why[SEQMIX_VAL_TEXT])
{
    double *out = seqmix_val_take(&c->memory, seqmix_tensor_count(seqmix_val_output(c)), sizeof *out);
    if (out == NULL) return seqmix_val_refuse(why, "no memory for the output");
    struct seqmix_context *ctx = new_context(c, why);
    if (ctx == NULL) return false;
    point_at(c, out, c->pool, SEQMIX_F32);
    const bool ok = check_args(ctx, c) == SEQMIX_OK;
    if (!ok) (void)seqmix_val_refuse(why, "%s", seqmix_last_error(&ctx->pub));
    seqmix_ctx_destroy(&ctx->pub);
    return ok;
}

/* Whether some sequence reads a slot that another one, or a checkpoint of another one, writes: no legal call does. */
static bool reads_what_others_write(struct seqmix_val_case *c, const seqmix_tensor *pool)
{
    int32_t *writer = seqmix_val_take(&c->memory, pool->shape[0], sizeof *writer); /* 1 + the sequence */
    if (writer == NULL) return false;
    for (int32_t i = 0; i < c->batch.n_seqs; i++) {
        const int64_t slot = seqmix_batch_seq(&c->batch, c->rows, pool, i).write_slot;
        if (slot >= 0) writer[slot] = i + 1;
    }
    for (int32_t i = 0; i < c->batch.n_checkpoints; i++)
        if (c->batch.ckpt_slot[i] >= 0) writer[c->batch.ckpt_slot[i]] = c->batch.ckpt_seq[i] + 1;
    for (int32_t i = 0; i < c->batch.n_seqs; i++) {
        const int64_t slot = seqmix_batch_seq(&c->batch, c->rows, pool, i).read_slot;
        if (slot >= 0 && writer[slot] != 0 && writer[slot] != i + 1) return true;
    }
    return false;
}

/* Doubles the pool: sequences read from the second half, which nobody writes. */
static bool part_reads_from_writes(struct seqmix_val_case *c, struct seqmix_val_result *result)
{
    seqmix_tensor *pool = seqmix_val_state(c);
    const int64_t slots = pool->shape[0], count = seqmix_tensor_count(pool);
    int32_t *read = seqmix_val_take(&c->memory, c->batch.n_seqs, sizeof *read);
    int32_t *write = seqmix_val_take(&c->memory, c->batch.n_seqs, sizeof *write);
    double *both = seqmix_val_take(&c->memory, 2 * count, sizeof *both);
    if (read == NULL || write == NULL || both == NULL || slots > INT32_MAX / 2) return false;
    for (int32_t i = 0; i < c->batch.n_seqs; i++) {
        const struct seqmix_seq seq = seqmix_batch_seq(&c->batch, c->rows, pool, i);
        read[i] = (int32_t)(seq.read_slot >= 0 ? seq.read_slot + slots : -1);
        write[i] = (int32_t)seq.write_slot;
    }
    memcpy(both, c->pool, (size_t)count * sizeof *both);
    memcpy(both + count, c->pool, (size_t)count * sizeof *both);
    c->batch.read_slot = read;
    c->batch.write_slot = write;
    result->state = both;
    pool->data = both;
    pool->shape[0] = 2 * slots;
    return true;
}

static bool run(struct seqmix_val_case *c, struct seqmix_val_result *result, char why[SEQMIX_VAL_TEXT])
{
    seqmix_tensor *pool = seqmix_val_state(c);
    const int64_t states = c->pool != NULL ? seqmix_tensor_count(pool) : 0;
    *result = (struct seqmix_val_result){0};
    result->out = seqmix_val_take(&c->memory, seqmix_tensor_count(seqmix_val_output(c)), sizeof *result->out);
    if (c->pool != NULL) result->state = seqmix_val_take(&c->memory, states, sizeof *result->state);
    if (c->memory.exhausted) return seqmix_val_refuse(why, "no memory for the recurrence's results");
    if (states > 0) memcpy(result->state, c->pool, (size_t)states * sizeof *result->state);
    point_at(c, result->out, result->state, SEQMIX_F64_INTERNAL);
    if (c->twist != 0) {
        seqmix_val_twisted(c, result->out, result->state);
        return true;
    }
    const seqmix_batch batch = c->batch;
    const int64_t slots = c->pool != NULL ? pool->shape[0] : 0;
    if (c->pool != NULL && reads_what_others_write(c, pool) && !part_reads_from_writes(c, result))
        return seqmix_val_refuse(why, "no memory for a second pool");
    struct seqmix_context *ctx = new_context(c, why);
    if (ctx == NULL) return false;
    const seqmix_status status = run_oracle(ctx, c);
    seqmix_ctx_destroy(&ctx->pub);
    c->batch = batch;
    if (c->pool != NULL) pool->shape[0] = slots;
    return status == SEQMIX_OK ? true
                               : seqmix_val_refuse(why, "the recurrence could not be run: status %d", (int)status);
}

/* Leaves out the last row of every sequence: rows move up, the batch's ranges shrink. */
static bool drop_last_rows(struct seqmix_val_case *c)
{
    const seqmix_tensor absent = {0};
    int32_t *begin = seqmix_val_take(&c->memory, (int64_t)c->batch.n_seqs + 1, sizeof *begin);
    int64_t *kept = seqmix_val_take(&c->memory, c->rows, sizeof *kept);
    int64_t n = 0;
    if (begin == NULL || kept == NULL) return false;
    for (int32_t i = 0; i < c->batch.n_seqs; i++) {
        const struct seqmix_seq seq = seqmix_batch_seq(&c->batch, c->rows, &absent, i);
        for (int64_t r = seq.begin; r < seq.end - 1; r++)
            kept[n++] = r;
        begin[i + 1] = (int32_t)n;
    }
    for (const struct seqmix_val_field *field = c->family->fields; field->name != NULL; field++) {
        seqmix_tensor *t = seqmix_val_tensor(c, field);
        if (!seqmix_present(t) || field->role == SEQMIX_VAL_PARAM || field->role == SEQMIX_VAL_STATE) continue;
        t->shape[0] = n;
        if (field->role == SEQMIX_VAL_OUTPUT) continue;
        float *data = t->data;
        for (int64_t i = 0; i < n; i++)
            memmove(data + i * t->stride[0], data + kept[i] * t->stride[0], (size_t)t->stride[0] * sizeof *data);
    }
    c->rows = n;
    c->batch.row_begin = begin;
    c->batch.n_checkpoints = 0;
    return true;
}

/* Puts the states from before the last rows where the full run put those from after them. */
static bool take_early_states(struct seqmix_val_case *c, struct seqmix_val_result *result, char why[SEQMIX_VAL_TEXT])
{
    struct seqmix_val_case early;
    struct seqmix_val_result before;
    if (!seqmix_val_copy(c, c->rows, &early)) return seqmix_val_refuse(why, "no memory for a second run");
    bool ok = drop_last_rows(&early) && run(&early, &before, why);
    const seqmix_tensor *pool = seqmix_val_state(c);
    for (int32_t i = 0; ok && i < c->batch.n_seqs; i++) {
        const struct seqmix_seq seq = seqmix_batch_seq(&c->batch, c->rows, pool, i);
        if (seq.write_slot < 0 || seq.begin == seq.end) continue;
        const int64_t at = seq.write_slot * pool->stride[0];
        memcpy(result->state + at, before.state + at, (size_t)pool->stride[0] * sizeof *result->state);
    }
    seqmix_val_free(&early.memory);
    return ok;
}

bool seqmix_val_evaluate(struct seqmix_val_case *c, struct seqmix_val_result *result, char why[SEQMIX_VAL_TEXT])
{
    if (!run(c, result, why)) return false;
    return c->final_early && result->state != NULL ? take_early_states(c, result, why) : true;
}
