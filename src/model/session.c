/* SPDX-License-Identifier: MIT */
/* Sessions (see session.h). */
#include "session.h"

#include <math.h>

struct seqmix_session {
    seqmix_model *model;
    seqmix_caller caller;
    int64_t prefill_rows, position;
    bool all_logits, poisoned;
    int32_t slot; /* which of the two holds the sequence so far */
    size_t state_bytes;
    seqmix_memory memory;
    char *state, *buffers;
    float *pass_logits; /* of the pass that runs */
    float *logits;      /* of the last row that counts; host memory */
    float *next_logits; /* of a call that may still fail */
};

static size_t align_up(size_t bytes)
{
    return (bytes + SEQMIX_ARENA_ALIGN - 1) / SEQMIX_ARENA_ALIGN * SEQMIX_ARENA_ALIGN;
}

static bool op_failed(seqmix_session *s, seqmix_status status, seqmix_why why)
{
    s->poisoned = status == SEQMIX_ERR_BACKEND || status == SEQMIX_ERR_INTERNAL;
    return seqmix_fail(why, "%s (%s)", seqmix_last_error(s->caller.ctx),
                       seqmix_status_name(s->caller.ctx->api, status));
}

static seqmix_pass new_pass(const seqmix_session *s, seqmix_caller *caller, const int32_t *tokens, int64_t rows)
{
    return (seqmix_pass){.caller = caller,
                         .buffers = {s->buffers, 0},
                         .tokens = tokens,
                         .rows = rows,
                         .logits_from = s->all_logits ? 0 : rows - 1,
                         .logits = s->pass_logits,
                         .state = s->state,
                         .state_bytes = s->state_bytes,
                         .read_slot = s->slot,
                         .write_slot = 1 - s->slot};
}

/* What the longest pass and the pass of one row need; also notes which kernels would run. */
static bool measure(seqmix_session *s, size_t *buffer_bytes, seqmix_why why)
{
    s->caller.measuring = true;
    *buffer_bytes = 0;
    const int64_t sizes[2] = {s->prefill_rows, 1};
    for (int i = 0; i < 2; i++) {
        seqmix_pass pass = new_pass(s, &s->caller, NULL, sizes[i]);
        seqmix_status status = s->model->family->forward(s->model, &pass);
        if (status != SEQMIX_OK) return op_failed(s, status, why);
        if (pass.buffers.used > *buffer_bytes) *buffer_bytes = pass.buffers.used;
    }
    s->caller.measuring = false;
    return true;
}

static bool allocate(seqmix_session *s, size_t buffer_bytes, size_t logits_bytes, seqmix_why why)
{
    void *state = NULL, *buffers = NULL, *workspace = NULL, *logits = NULL;
    seqmix_ctx *ctx = s->caller.ctx;
    seqmix_status status = seqmix_mem_alloc(ctx, s->memory.state, &state);
    if (status == SEQMIX_OK) status = seqmix_mem_alloc(ctx, buffer_bytes, &buffers);
    if (status == SEQMIX_OK) status = seqmix_mem_alloc(ctx, logits_bytes, &logits);
    if (status == SEQMIX_OK && s->caller.workspace_bytes > 0)
        status = seqmix_mem_alloc(ctx, s->caller.workspace_bytes, &workspace);
    s->state = state;
    s->buffers = buffers;
    s->pass_logits = logits;
    s->caller.workspace = workspace;
    s->logits = malloc((size_t)s->model->config.vocab * sizeof *s->logits);
    s->next_logits = malloc((size_t)s->model->config.vocab * sizeof *s->logits);
    if (status == SEQMIX_OK && s->logits != NULL && s->next_logits != NULL) return true;
    return seqmix_fail(why, "no memory for %zu bytes of state and %zu of buffers", s->memory.state, s->memory.buffers);
}

seqmix_session *seqmix_session_create(const seqmix_session_desc *desc, seqmix_why why)
{
    seqmix_model *model = desc->model;
    if (desc->prefill_rows < 1 || desc->prefill_rows > 65536) {
        (void)seqmix_fail(why, "prefill rows %lld are not in [1, 65536]", (long long)desc->prefill_rows);
        return NULL;
    }
    seqmix_session *s = calloc(1, sizeof *s);
    if (s == NULL) {
        (void)seqmix_fail(why, "no memory");
        return NULL;
    }
    s->model = model;
    s->caller.ctx = desc->ctx;
    s->prefill_rows = desc->prefill_rows;
    s->all_logits = desc->all_logits;
    s->state_bytes = align_up(model->family->state_bytes(&model->config));
    size_t buffer_bytes = 0, row = (size_t)model->config.vocab * sizeof(float);
    bool ok = measure(s, &buffer_bytes, why);
    if (ok) {
        size_t logits_bytes = row * (s->all_logits ? (size_t)s->prefill_rows : 1);
        s->memory = (seqmix_memory){.weights = seqmix_weights_bytes(&model->weights),
                                    .parameters = model->parameter_bytes,
                                    .state = 2 * s->state_bytes,
                                    .buffers = buffer_bytes + logits_bytes + 2 * row + s->caller.workspace_bytes};
        ok = seqmix_memory_fits(&s->memory, desc->available != NULL ? *desc->available : seqmix_memory_available(),
                                why) &&
             seqmix_model_prepare(model, why) && allocate(s, buffer_bytes, logits_bytes, why) &&
             seqmix_session_reset(s, why);
    }
    if (!ok) {
        seqmix_session_free(s);
        return NULL;
    }
    return s;
}

void seqmix_session_free(seqmix_session *s)
{
    if (s == NULL) return;
    seqmix_mem_free(s->caller.ctx, s->state);
    seqmix_mem_free(s->caller.ctx, s->buffers);
    seqmix_mem_free(s->caller.ctx, s->pass_logits);
    seqmix_mem_free(s->caller.ctx, s->caller.workspace);
    free(s->logits);
    free(s->next_logits);
    free(s);
}

bool seqmix_session_reset(seqmix_session *s, seqmix_why why)
{
    void *zeros = calloc(1, s->memory.state);
    if (zeros == NULL) return seqmix_fail(why, "no memory for %zu bytes of zeros", s->memory.state);
    seqmix_status status = seqmix_mem_copy(s->caller.ctx, s->state, zeros, s->memory.state);
    free(zeros);
    if (status != SEQMIX_OK) return op_failed(s, status, why);
    s->slot = 0;
    s->position = 0;
    s->poisoned = false;
    return true;
}

static bool all_finite(const float *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

/* The first pass reads the slot that counts and writes the other; the later ones stay on the other. */
static bool run_passes(seqmix_session *s, const int32_t *tokens, int64_t n, const seqmix_watch *watch, seqmix_why why)
{
    for (int64_t done = 0; done < n;) {
        int64_t rows = n - done < s->prefill_rows ? n - done : s->prefill_rows;
        seqmix_pass pass = new_pass(s, &s->caller, tokens + done, rows);
        if (done > 0) pass.read_slot = pass.write_slot;
        done += rows;
        if (!s->all_logits && done < n) pass.logits_from = rows;
        seqmix_status status = s->model->family->forward(s->model, &pass);
        if (status == SEQMIX_OK) status = seqmix_sync(s->caller.ctx);
        if (status != SEQMIX_OK) return op_failed(s, status, why);
        if (watch != NULL && watch->sink != NULL && s->all_logits)
            watch->sink(watch->user, s->pass_logits, rows, s->model->config.vocab);
        if (watch != NULL && watch->progress != NULL && !watch->progress(watch->user, done, n))
            return seqmix_fail(why, "cancelled after %lld of %lld rows", (long long)done, (long long)n);
    }
    return true;
}

bool seqmix_session_eval(seqmix_session *s, const int32_t *tokens, int64_t n, const seqmix_watch *watch, seqmix_why why)
{
    int64_t vocab = s->model->config.vocab;
    if (s->poisoned) return seqmix_fail(why, "the session is poisoned by an earlier failure; reset it first");
    if (n < 1) return seqmix_fail(why, "no tokens to run");
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            return seqmix_fail(why, "token %lld is %d, not in [0, %lld)", (long long)i, tokens[i], (long long)vocab);
    if (!run_passes(s, tokens, n, watch, why)) return false;

    int64_t last_rows = (n - 1) % s->prefill_rows + 1;
    const float *last = s->pass_logits + (s->all_logits ? (last_rows - 1) * vocab : 0);
    seqmix_status status = seqmix_mem_copy(s->caller.ctx, s->next_logits, last, (size_t)vocab * sizeof *last);
    if (status != SEQMIX_OK) return op_failed(s, status, why);
    if (!all_finite(s->next_logits, vocab))
        return seqmix_fail(why, "the logits at position %lld are not finite", (long long)(s->position + n - 1));
    float *spare = s->logits;
    s->logits = s->next_logits;
    s->next_logits = spare;
    s->slot = 1 - s->slot;
    s->position += n;
    return true;
}

const float *seqmix_session_logits(const seqmix_session *s)
{
    return s->position > 0 ? s->logits : NULL;
}

int64_t seqmix_session_position(const seqmix_session *s)
{
    return s->position;
}

bool seqmix_session_poisoned(const seqmix_session *s)
{
    return s->poisoned;
}

const seqmix_memory *seqmix_session_memory(const seqmix_session *s)
{
    return &s->memory;
}

const seqmix_called *seqmix_session_called(const seqmix_session *s, int32_t *n)
{
    *n = s->caller.n_called;
    return s->caller.called;
}

const void *seqmix_session_state(const seqmix_session *s, size_t *bytes)
{
    *bytes = s->model->family->state_bytes(&s->model->config);
    return s->state + (size_t)s->slot * s->state_bytes;
}
