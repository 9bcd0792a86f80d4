/* SPDX-License-Identifier: MIT */
/* Sessions (see session.h). */
#include "session.h"

#include <math.h>

#define MAX_CONTEXT (INT64_C(1) << 24)

typedef struct sequence {
    int64_t position;
    int32_t slot; /* which of its two holds it so far: 0 or 1 */
} sequence;

struct seqmix_session {
    seqmix_model *model;
    seqmix_caller caller;
    int64_t max_rows, context;
    int32_t n_seqs;
    bool on_device, all_logits, invariant, poisoned;
    size_t state_bytes, cache_bytes;
    seqmix_memory memory;
    char *state, *buffers;
    float *cache;
    float *pass_logits;  /* of the pass that runs */
    float *shown_logits; /* those in host memory, for the sink; NULL: they are there */
    float *logits;       /* [n_seqs, vocab], of the last rows that count; host memory */
    float *next_logits;  /* of a call that may still fail */
    sequence *seqs;
    int32_t *plan;        /* the arrays of a pass, one malloc */
    int32_t *device_plan; /* a device's copy of them; NULL: the ops read those */
};

/* The arrays of a pass inside `plan`. */
typedef struct pass_plan {
    int32_t *tokens, *positions, *logit_rows;                       /* [max_rows] */
    int32_t *row_begin, *read_slot, *write_slot, *start, *cache_of; /* [n_seqs + 1] */
    seqmix_cut *cuts;                                               /* [max_rows / SEQMIX_STEP_MAX + n_seqs] */
} pass_plan;

static pass_plan plan_of(const seqmix_session *s)
{
    int64_t n = s->n_seqs + 1;
    pass_plan p = {.tokens = s->plan, .positions = s->plan + s->max_rows, .logit_rows = s->plan + 2 * s->max_rows};
    p.row_begin = s->plan + 3 * s->max_rows;
    p.read_slot = p.row_begin + n;
    p.write_slot = p.read_slot + n;
    p.start = p.write_slot + n;
    p.cache_of = p.start + n;
    p.cuts = (seqmix_cut *)(void *)(p.cache_of + n);
    return p;
}

static size_t plan_bytes(const seqmix_session *s)
{
    size_t rows = (size_t)s->max_rows, n = (size_t)s->n_seqs;
    return (3 * rows + 5 * (n + 1)) * sizeof *s->plan + (rows / SEQMIX_STEP_MAX + n) * sizeof(seqmix_cut);
}

/* The arrays that lie in the plan at `base`. */
static seqmix_pass_arrays arrays_at(const seqmix_session *s, const int32_t *base)
{
    pass_plan at = plan_of(s);
    return (seqmix_pass_arrays){.tokens = base + (at.tokens - s->plan),
                                .positions = base + (at.positions - s->plan),
                                .row_begin = base + (at.row_begin - s->plan),
                                .read_slot = base + (at.read_slot - s->plan),
                                .write_slot = base + (at.write_slot - s->plan),
                                .start = base + (at.start - s->plan),
                                .cache_of = base + (at.cache_of - s->plan),
                                .logit_rows = base + (at.logit_rows - s->plan),
                                .cuts = (const void *)(base + ((int32_t *)(void *)at.cuts - s->plan))};
}

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

static seqmix_pass new_pass(seqmix_session *s, int64_t rows, int32_t n_seqs, int32_t longest)
{
    return (seqmix_pass){.caller = &s->caller,
                         .buffers = {s->buffers, 0, 0},
                         .invariant = s->invariant,
                         .rows = rows,
                         .n_seqs = n_seqs,
                         .longest = longest,
                         .host = arrays_at(s, s->plan),
                         .ops = arrays_at(s, s->device_plan != NULL ? s->device_plan : s->plan),
                         .logits = s->pass_logits,
                         .state = s->state,
                         .state_bytes = s->state_bytes,
                         .n_slots = 2 * (int64_t)s->n_seqs,
                         .cache = s->cache,
                         .n_caches = s->n_seqs,
                         .context = s->context};
}

/* In an invariant pass with more rows of a sequence than a step op takes: the calls of one that they make. */
static void plan_cuts(const seqmix_session *s, seqmix_pass *pass)
{
    pass_plan at = plan_of(s);
    if (!s->invariant || pass->longest <= SEQMIX_STEP_MAX) return;
    for (int32_t k = 0; k < pass->n_seqs; k++) {
        int32_t read = at.read_slot[k], end = at.row_begin[k + 1], n;
        for (int32_t from = at.row_begin[k]; from < end; from += n) {
            n = end - from < SEQMIX_STEP_MAX ? end - from : SEQMIX_STEP_MAX;
            at.cuts[pass->n_cuts++] = (seqmix_cut){{0, n}, from, read, at.write_slot[k]};
            read = at.write_slot[k];
        }
    }
}

/* ---- creation ---- */

/* What the longest pass, of one sequence as of all, and the pass of single rows need; also notes which kernels would run. */
static bool measure(seqmix_session *s, size_t *buffer_bytes, seqmix_why why)
{
    s->caller.measuring = true;
    *buffer_bytes = 0;
    const int64_t sizes[2] = {s->max_rows, s->n_seqs};
    pass_plan at = plan_of(s);
    for (int i = 0; i < 2; i++) {
        int64_t longest = i == 0 ? sizes[0] : 1;
        seqmix_pass pass = new_pass(s, sizes[i], s->n_seqs, (int32_t)longest);
        for (int32_t k = 0; k <= s->n_seqs; k++)
            at.row_begin[k] = (int32_t)(k == 0 ? 0 : i == 0 ? sizes[0] : k);
        /* Rows that do not follow each other need the most. */
        pass.n_logits = s->all_logits ? sizes[i] : s->n_seqs;
        for (int32_t k = 0; k < pass.n_logits; k++)
            at.logit_rows[k] = s->all_logits || s->n_seqs == 1 ? k : 2 * k;
        plan_cuts(s, &pass);
        seqmix_status status = seqmix_model_forward(s->model, &pass);
        if (status != SEQMIX_OK) return op_failed(s, status, why);
        if (pass.buffers.peak > *buffer_bytes) *buffer_bytes = pass.buffers.peak;
    }
    s->caller.measuring = false;
    return true;
}

static bool allocate(seqmix_session *s, size_t buffer_bytes, size_t logits_bytes, seqmix_why why)
{
    void *state = NULL, *cache = NULL, *buffers = NULL, *workspace = NULL, *logits = NULL, *plan = NULL;
    seqmix_ctx *ctx = s->caller.ctx;
    size_t row = (size_t)s->model->config.vocab * sizeof(float), n = (size_t)s->n_seqs;
    seqmix_status status = SEQMIX_OK;
    if (s->memory.state > 0) status = seqmix_mem_alloc(ctx, s->memory.state, &state);
    if (status == SEQMIX_OK && s->memory.cache > 0) status = seqmix_mem_alloc(ctx, s->memory.cache, &cache);
    if (status == SEQMIX_OK) status = seqmix_mem_alloc(ctx, buffer_bytes, &buffers);
    if (status == SEQMIX_OK) status = seqmix_mem_alloc(ctx, logits_bytes, &logits);
    if (status == SEQMIX_OK && s->caller.workspace_bytes > 0)
        status = seqmix_mem_alloc(ctx, s->caller.workspace_bytes, &workspace);
    if (status == SEQMIX_OK && s->on_device) status = seqmix_mem_alloc(ctx, plan_bytes(s), &plan);
    s->state = state;
    s->cache = cache;
    s->buffers = buffers;
    s->pass_logits = logits;
    s->caller.workspace = workspace;
    s->device_plan = plan;
    s->logits = malloc(n * row);
    s->next_logits = malloc(n * row);
    const bool shown = s->on_device && s->all_logits;
    if (shown) s->shown_logits = malloc(logits_bytes);
    if (status == SEQMIX_OK && s->logits != NULL && s->next_logits != NULL && (!shown || s->shown_logits != NULL))
        return true;
    return seqmix_fail(why, "no memory for %zu bytes of state, %zu of cache and %zu of buffers", s->memory.state,
                       s->memory.cache, s->memory.buffers);
}

static bool check_desc(const seqmix_session_desc *desc, seqmix_why why)
{
    if (desc->prefill_rows < 1 || desc->prefill_rows > 65536)
        return seqmix_fail(why, "prefill rows %lld are not in [1, 65536]", (long long)desc->prefill_rows);
    if (desc->n_seqs < 0 || desc->n_seqs > 1024)
        return seqmix_fail(why, "%d sequences are not in [1, 1024]", desc->n_seqs);
    return (desc->context >= 0 && desc->context <= MAX_CONTEXT) ||
           seqmix_fail(why, "a context of %lld rows is not in [1, %lld]", (long long)desc->context,
                       (long long)MAX_CONTEXT);
}

/* A model without attention keeps no rows. */
static int64_t choose_context(const seqmix_session_desc *desc)
{
    const seqmix_config *c = &desc->model->config;
    if (desc->model->n_caches == 0) return 0;
    if (desc->context > 0) return desc->context;
    return c->context > 0 && c->context < 4096 ? c->context : 4096;
}

/* A product that stays far beyond any memory instead of turning round. */
static size_t product(size_t a, size_t b)
{
    const size_t beyond = SIZE_MAX / 16;
    return a > 0 && b > beyond / a ? beyond : a * b;
}

static bool set_up(seqmix_session *s, const seqmix_session_desc *desc, seqmix_why why)
{
    const seqmix_model *model = desc->model;
    size_t buffer_bytes = 0, row = (size_t)model->config.vocab * sizeof(float), n = (size_t)s->n_seqs;
    s->seqs = calloc(n, sizeof *s->seqs);
    s->plan = calloc(1, plan_bytes(s));
    if (s->seqs == NULL || s->plan == NULL) return seqmix_fail(why, "no memory");
    if (!measure(s, &buffer_bytes, why)) return false;
    size_t logits_bytes = row * (s->all_logits ? (size_t)s->max_rows : n);
    size_t one_cache = (size_t)seqmix_cache_floats(&model->config, s->context) * sizeof(float);
    s->memory = (seqmix_memory){.weights = model->weight_bytes,
                                .parameters = model->parameter_bytes,
                                .state = 2 * n * s->state_bytes,
                                .cache = product(product(one_cache, (size_t)model->n_caches), n),
                                .buffers = buffer_bytes + logits_bytes + 2 * n * row + s->caller.workspace_bytes +
                                           plan_bytes(s)};
    const int64_t available = desc->available != NULL ? *desc->available : seqmix_memory_available();
    return (s->on_device || seqmix_memory_fits(&s->memory, available, why)) &&
           seqmix_model_prepare(desc->model, desc->ctx, s->on_device, why) &&
           allocate(s, buffer_bytes, logits_bytes, why) && seqmix_session_reset(s, why);
}

seqmix_session *seqmix_session_create(const seqmix_session_desc *desc, seqmix_why why)
{
    if (!check_desc(desc, why)) return NULL;
    seqmix_session *s = calloc(1, sizeof *s);
    if (s == NULL) {
        (void)seqmix_fail(why, "no memory");
        return NULL;
    }
    s->model = desc->model;
    s->caller.ctx = desc->ctx;
    s->n_seqs = desc->n_seqs > 0 ? desc->n_seqs : 1;
    s->max_rows = desc->prefill_rows > s->n_seqs ? desc->prefill_rows : s->n_seqs;
    s->context = choose_context(desc);
    s->on_device = desc->on_device;
    s->all_logits = desc->all_logits;
    s->invariant = desc->invariant;
    s->state_bytes = align_up(desc->model->state_bytes);
    if (set_up(s, desc, why)) return s;
    seqmix_session_free(s);
    return NULL;
}

void seqmix_session_free(seqmix_session *s)
{
    if (s == NULL) return;
    seqmix_mem_free(s->caller.ctx, s->state);
    seqmix_mem_free(s->caller.ctx, s->cache);
    seqmix_mem_free(s->caller.ctx, s->buffers);
    seqmix_mem_free(s->caller.ctx, s->pass_logits);
    seqmix_mem_free(s->caller.ctx, s->caller.workspace);
    seqmix_mem_free(s->caller.ctx, s->device_plan);
    free(s->shown_logits);
    free(s->logits);
    free(s->next_logits);
    free(s->seqs);
    free(s->plan);
    free(s);
}

bool seqmix_session_reset(seqmix_session *s, seqmix_why why)
{
    if (s->memory.state > 0) {
        void *zeros = calloc(1, s->memory.state);
        if (zeros == NULL) return seqmix_fail(why, "no memory for %zu bytes of zeros", s->memory.state);
        seqmix_status status = seqmix_mem_copy(s->caller.ctx, s->state, zeros, s->memory.state);
        free(zeros);
        if (status != SEQMIX_OK) return op_failed(s, status, why);
    }
    memset(s->seqs, 0, (size_t)s->n_seqs * sizeof *s->seqs);
    s->poisoned = false;
    return true;
}

/* ---- evaluation ---- */

/* Rows of each piece that are done. */
typedef struct request {
    const seqmix_piece *pieces;
    int32_t n_pieces;
    int64_t done, rows; /* of all pieces */
    int64_t *done_of;
} request;

static bool all_finite(const float *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

/* Fills the arrays of the next pass from the pieces in turn, as long as there is room; `ends` gets the pieces that end in it. */
static seqmix_pass plan_pass(seqmix_session *s, request *call, int32_t *ends)
{
    pass_plan at = plan_of(s);
    int32_t n_seqs = 0, rows = 0, longest = 0, n_ends = 0;
    for (int32_t i = 0; i < call->n_pieces && rows < s->max_rows; i++) {
        const seqmix_piece *piece = &call->pieces[i];
        const sequence *seq = &s->seqs[piece->seq];
        int64_t from = call->done_of[i], n = piece->n - from, room = s->max_rows - rows;
        if (n == 0) continue;
        if (n > room) n = room;
        at.row_begin[n_seqs] = rows;
        at.write_slot[n_seqs] = 2 * piece->seq + 1 - seq->slot;
        at.read_slot[n_seqs] = from == 0 ? 2 * piece->seq + seq->slot : at.write_slot[n_seqs];
        at.start[n_seqs] = (int32_t)(seq->position + from);
        at.cache_of[n_seqs++] = piece->seq;
        for (int64_t k = 0; k < n; k++) {
            at.positions[rows] = (int32_t)(seq->position + from + k);
            at.tokens[rows++] = piece->tokens[from + k];
        }
        call->done_of[i] = from + n;
        call->done += n;
        if (n > longest) longest = (int32_t)n;
        if (call->done_of[i] == piece->n) {
            at.logit_rows[n_ends] = rows - 1;
            ends[n_ends++] = i;
        }
    }
    at.row_begin[n_seqs] = rows;
    seqmix_pass pass = new_pass(s, rows, n_seqs, longest);
    pass.n_logits = n_ends;
    plan_cuts(s, &pass);
    return pass;
}

static seqmix_status run_pass(seqmix_session *s, seqmix_pass *pass)
{
    seqmix_ctx *ctx = s->caller.ctx;
    seqmix_status status = SEQMIX_OK;
    if (s->device_plan != NULL) status = seqmix_mem_copy(ctx, s->device_plan, s->plan, plan_bytes(s));
    if (status == SEQMIX_OK) status = seqmix_model_forward(s->model, pass);
    if (status == SEQMIX_OK && s->shown_logits != NULL)
        status = seqmix_mem_copy(ctx, s->shown_logits, s->pass_logits,
                                 (size_t)(pass->rows * s->model->config.vocab) * sizeof(float));
    return status == SEQMIX_OK ? seqmix_sync(ctx) : status;
}

/* The last rows' logits of the pieces that end in this pass. */
static seqmix_status keep_logits(seqmix_session *s, const request *call, const seqmix_pass *pass, const int32_t *ends,
                                 int32_t n_ends, const int32_t *end_rows)
{
    int64_t vocab = s->model->config.vocab;
    seqmix_status status = SEQMIX_OK;
    for (int32_t i = 0; status == SEQMIX_OK && i < n_ends; i++)
        status =
            seqmix_mem_copy(s->caller.ctx, s->next_logits + call->pieces[ends[i]].seq * vocab,
                            pass->logits + (s->all_logits ? end_rows[i] : i) * vocab, (size_t)vocab * sizeof(float));
    return status;
}

static bool run_passes(seqmix_session *s, request *call, int32_t *ends, const seqmix_watch *watch, seqmix_why why)
{
    pass_plan at = plan_of(s);
    int32_t *end_rows = ends + call->n_pieces;
    while (call->done < call->rows) {
        seqmix_pass pass = plan_pass(s, call, ends);
        int32_t n_ends = (int32_t)pass.n_logits;
        memcpy(end_rows, at.logit_rows, (size_t)n_ends * sizeof *end_rows);
        if (s->all_logits) {
            pass.n_logits = pass.rows;
            for (int32_t k = 0; k < pass.rows; k++)
                at.logit_rows[k] = k;
        }
        seqmix_status status = run_pass(s, &pass);
        if (status == SEQMIX_OK) status = keep_logits(s, call, &pass, ends, n_ends, end_rows);
        if (status != SEQMIX_OK) return op_failed(s, status, why);
        if (watch != NULL && watch->sink != NULL && s->all_logits)
            watch->sink(watch->user, s->shown_logits != NULL ? s->shown_logits : s->pass_logits, pass.rows,
                        s->model->config.vocab);
        if (watch != NULL && watch->progress != NULL && !watch->progress(watch->user, call->done, call->rows))
            return seqmix_fail(why, "cancelled after %lld of %lld rows", (long long)call->done, (long long)call->rows);
    }
    return true;
}

static bool check_piece(const seqmix_session *s, const seqmix_piece *piece, seqmix_why why)
{
    int64_t vocab = s->model->config.vocab;
    if (piece->n < 1) return seqmix_fail(why, "no tokens to run");
    if (piece->seq < 0 || piece->seq >= s->n_seqs)
        return seqmix_fail(why, "sequence %d is not in [0, %d)", piece->seq, s->n_seqs);
    int64_t position = s->seqs[piece->seq].position, room = s->model->n_caches > 0 ? s->context : INT32_MAX;
    if (piece->n > room - position)
        return seqmix_fail(why, "%lld rows after %lld do not fit into a context of %lld", (long long)piece->n,
                           (long long)position, (long long)room);
    for (int64_t i = 0; i < piece->n; i++)
        if (piece->tokens[i] < 0 || piece->tokens[i] >= vocab)
            return seqmix_fail(why, "token %lld is %d, not in [0, %lld)", (long long)i, piece->tokens[i],
                               (long long)vocab);
    return true;
}

static bool check_call(const seqmix_session *s, const request *call, seqmix_why why)
{
    if (s->poisoned) return seqmix_fail(why, "the session is poisoned by an earlier failure; reset it first");
    if (call->n_pieces < 1) return seqmix_fail(why, "no tokens to run");
    for (int32_t i = 0; i < call->n_pieces; i++) {
        if (!check_piece(s, &call->pieces[i], why)) return false;
        for (int32_t k = 0; k < i; k++)
            if (call->pieces[k].seq == call->pieces[i].seq)
                return seqmix_fail(why, "sequence %d is named twice", call->pieces[i].seq);
    }
    return true;
}

/* Everything ran; what it made counts from now on. */
static bool commit(seqmix_session *s, const request *call, seqmix_why why)
{
    int64_t vocab = s->model->config.vocab;
    for (int32_t i = 0; i < call->n_pieces; i++) {
        const seqmix_piece *piece = &call->pieces[i];
        if (!all_finite(s->next_logits + piece->seq * vocab, vocab))
            return seqmix_fail(why, "the logits at position %lld are not finite",
                               (long long)(s->seqs[piece->seq].position + piece->n - 1));
    }
    for (int32_t i = 0; i < call->n_pieces; i++) {
        const seqmix_piece *piece = &call->pieces[i];
        sequence *seq = &s->seqs[piece->seq];
        memcpy(s->logits + piece->seq * vocab, s->next_logits + piece->seq * vocab, (size_t)vocab * sizeof(float));
        seq->slot = 1 - seq->slot;
        seq->position += piece->n;
    }
    return true;
}

bool seqmix_session_eval_batch(seqmix_session *s, const seqmix_piece *pieces, int32_t n_pieces,
                               const seqmix_watch *watch, seqmix_why why)
{
    request call = {.pieces = pieces, .n_pieces = n_pieces};
    if (!check_call(s, &call, why)) return false;
    for (int32_t i = 0; i < n_pieces; i++)
        call.rows += pieces[i].n;
    call.done_of = calloc((size_t)n_pieces, sizeof *call.done_of);
    int32_t *ends = calloc(2 * (size_t)n_pieces, sizeof *ends);
    bool ok = call.done_of != NULL && ends != NULL;
    ok = ok ? run_passes(s, &call, ends, watch, why) && commit(s, &call, why) : seqmix_fail(why, "no memory");
    free(call.done_of);
    free(ends);
    return ok;
}

bool seqmix_session_eval(seqmix_session *s, const int32_t *tokens, int64_t n, const seqmix_watch *watch, seqmix_why why)
{
    const seqmix_piece piece = {0, tokens, n};
    return seqmix_session_eval_batch(s, &piece, 1, watch, why);
}

/* ---- what it holds ---- */

const float *seqmix_session_logits_of(const seqmix_session *s, int32_t seq)
{
    return s->seqs[seq].position > 0 ? s->logits + seq * s->model->config.vocab : NULL;
}

const float *seqmix_session_logits(const seqmix_session *s)
{
    return seqmix_session_logits_of(s, 0);
}

int64_t seqmix_session_position(const seqmix_session *s)
{
    return s->seqs[0].position;
}

int64_t seqmix_session_context(const seqmix_session *s)
{
    return s->context;
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

void seqmix_session_profile(seqmix_session *s, seqmix_profile *profile)
{
    s->caller.profile = profile;
}

const void *seqmix_session_state(const seqmix_session *s, size_t *bytes)
{
    *bytes = s->model->state_bytes;
    return s->state + (size_t)s->seqs[0].slot * s->state_bytes;
}
