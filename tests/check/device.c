/* SPDX-License-Identifier: MIT */
/*
 * A call on a context whose tensors live on a device: the harness's memory stays on the host, and a copy of each region that the
 * call's tensors cover goes to the device and comes back. Regions hold no byte more than tensors and what lies between them, so
 * that a device that checks bounds can tell an access beside them.
 */
#include "batch.h"
#include "harness.h"

enum { MAX_REGIONS = CHECK_MAX_FIELDS + 8 };

struct region {
    const void *block; /* of the harness's memory, or an array of the call's own */
    unsigned char *begin, *end, *device;
    bool ints; /* an array of them */
};

struct mirror {
    seqmix_ctx *ctx;
    struct region region[MAX_REGIONS];
    int n;
};

const struct check_recorder *check_recorder;
struct check_ways check_ways;

static int64_t bytes_of(const seqmix_tensor *t)
{
    int64_t last = 0;
    if (seqmix_tensor_count(t) == 0) return 0;
    for (int axis = 0; axis < t->rank; axis++)
        last += (t->shape[axis] - 1) * t->stride[axis];
    return seqmix_dtype_bytes(t->dtype, last + 1);
}

/* The bytes belong to the region of `block`, which grows. */
static void cover(struct mirror *mirror, const void *block, void *at, int64_t bytes, bool ints)
{
    unsigned char *begin = at, *end = begin + bytes;
    for (int i = 0; i < mirror->n; i++) {
        struct region *r = &mirror->region[i];
        if (r->block != block) continue;
        if (begin < r->begin) r->begin = begin;
        if (end > r->end) r->end = end;
        return;
    }
    mirror->region[mirror->n++] = (struct region){block, begin, end, NULL, ints};
}

static void *on_device(const struct mirror *mirror, const void *at)
{
    const unsigned char *p = at;
    for (int i = 0; i < mirror->n; i++)
        if (p >= mirror->region[i].begin && p < mirror->region[i].end)
            return mirror->region[i].device + (p - mirror->region[i].begin);
    return NULL;
}

static bool fill_regions(const struct mirror *mirror)
{
    bool ok = true;
    for (int i = 0; ok && i < mirror->n; i++) {
        const struct region *r = &mirror->region[i];
        ok = seqmix_mem_copy(mirror->ctx, r->device, r->begin, (size_t)(r->end - r->begin)) == SEQMIX_OK;
    }
    return ok;
}

static bool open_regions(struct mirror *mirror)
{
    bool ok = true;
    for (int i = 0; i < mirror->n; i++) {
        struct region *r = &mirror->region[i];
        void *device = NULL;
        ok = ok && seqmix_mem_alloc(mirror->ctx, (size_t)(r->end - r->begin), &device) == SEQMIX_OK;
        r->device = device;
    }
    return ok && fill_regions(mirror);
}

static bool close_regions(struct mirror *mirror, bool ran)
{
    for (int i = 0; i < mirror->n; i++) {
        const struct region *r = &mirror->region[i];
        const bool lies = r->ints && check_ways.broken; /* not what the call has */
        if (!lies)
            ran = ran && seqmix_mem_copy(mirror->ctx, r->begin, r->device, (size_t)(r->end - r->begin)) == SEQMIX_OK;
        seqmix_mem_free(mirror->ctx, r->device);
    }
    return ran;
}

static void cover_ints(struct mirror *mirror, const int32_t *ints, int64_t n)
{
    if (ints != NULL && n > 0) cover(mirror, ints, (void *)(uintptr_t)ints, n * (int64_t)sizeof *ints, true);
}

static void cover_call(struct mirror *mirror, const struct call *call)
{
    const struct family *family = call->op->family;
    for (int f = 0; f < family->n_fields; f++) {
        const seqmix_tensor *t = check_field_const(call, f);
        const int64_t bytes = seqmix_present(t) ? bytes_of(t) : 0;
        const bool ints = t->dtype == SEQMIX_I32 && family->fields[f].role == ROLE_IN;
        if (bytes > 0) cover(mirror, check_block(t->data), t->data, bytes, ints);
    }
    if (family->ints_offset != 0) cover_ints(mirror, call->ints, check_rows(call));
    if (family->paging != NULL) cover_ints(mirror, call->ints, CHECK_MAX_INTS);
    if (family->batch_offset == 0) return;
    seqmix_batch batch;
    const seqmix_batch *given = (call->given & GIVE_BATCH) != 0 ? &call->batch : NULL;
    seqmix_batch_normalise(given, check_rows(call), call->op->step, &batch);
    cover_ints(mirror, batch.row_begin, (int64_t)batch.n_seqs + 1);
    cover_ints(mirror, batch.read_slot, batch.n_seqs);
    cover_ints(mirror, batch.write_slot, batch.n_seqs);
    cover_ints(mirror, batch.ckpt_seq, batch.n_checkpoints);
    cover_ints(mirror, batch.ckpt_row, batch.n_checkpoints);
    cover_ints(mirror, batch.ckpt_slot, batch.n_checkpoints);
}

/* The args with every pointer to data replaced by the device's; `batch` is where theirs goes. */
static union check_args relocate(const struct mirror *mirror, const struct call *call, seqmix_batch *batch)
{
    const struct family *family = call->op->family;
    struct call moved = *call;
    check_rebind(&moved);
    for (int f = 0; f < family->n_fields; f++) {
        seqmix_tensor *t = check_field(&moved, f);
        if (seqmix_present(t) && t->data != NULL) t->data = on_device(mirror, t->data);
    }
    union check_args args = moved.args;
    if (family->ints_offset != 0) {
        const int32_t *ints = on_device(mirror, call->ints);
        memcpy((char *)&args + family->ints_offset, &ints, sizeof ints);
    }
    if (family->paging != NULL) {
        args.attention_rows.start = on_device(mirror, call->args.attention_rows.start);
        args.attention_rows.page_table = on_device(mirror, call->args.attention_rows.page_table);
    }
    if (family->batch_offset == 0) return args;
    *batch = call->batch;
    batch->row_begin = on_device(mirror, call->batch.row_begin);
    batch->read_slot = on_device(mirror, call->batch.read_slot);
    batch->write_slot = on_device(mirror, call->batch.write_slot);
    batch->ckpt_seq = on_device(mirror, call->batch.ckpt_seq);
    batch->ckpt_row = on_device(mirror, call->batch.ckpt_row);
    batch->ckpt_slot = on_device(mirror, call->batch.ckpt_slot);
    const seqmix_batch *given = (call->given & GIVE_BATCH) != 0 ? batch : NULL;
    memcpy((char *)&args + family->batch_offset, &given, sizeof given);
    return args;
}

/* ---------------------------------------------------------------- contents that lie */

static const int32_t wild[] = {INT32_MIN, -1000000, -2, -1, 0, 1, 2, 17, 1000, 1000000, INT32_MAX};
enum { N_WILD = sizeof wild / sizeof wild[0] };

/* Every number of a region of ints its own or any other. */
static bool scramble(const struct mirror *mirror, struct rng *rng)
{
    bool ok = true;
    for (int i = 0; ok && i < mirror->n; i++) {
        const struct region *r = &mirror->region[i];
        if (!r->ints) continue;
        const int64_t n = (r->end - r->begin) / (int64_t)sizeof(int32_t);
        int32_t *any = check_alloc((size_t)(r->end - r->begin));
        memcpy(any, r->begin, (size_t)(r->end - r->begin));
        for (int64_t k = 0; k < n; k++)
            if (check_chance(rng, 0.7)) any[k] = wild[check_below(rng, N_WILD)] + (int32_t)check_below(rng, 2);
        ok = seqmix_mem_copy(mirror->ctx, r->device, any, (size_t)(r->end - r->begin)) == SEQMIX_OK;
        check_free(any);
    }
    return ok;
}

static int32_t no_slot(struct rng *rng, int64_t slots)
{
    const int32_t n = (int32_t)slots;
    return (int32_t)CHECK_PICK(rng, -1, -2, -1000000, INT32_MIN, n, n + 1, INT32_MAX);
}

/* Row bounds before the first row, behind the last, and descending where a sequence is empty. */
static void break_rows(struct rng *rng, int32_t *begin, int32_t n, int64_t rows)
{
    if (n > 1 && begin[n] == begin[n - 1])
        begin[n] = (int32_t)CHECK_PICK(rng, begin[n - 1] - 1, -5, INT32_MIN);
    else if (begin[n] == rows)
        begin[n] = (int32_t)CHECK_PICK(rng, rows, rows + 1, 1000000000, INT32_MAX);
    if (begin[0] == 0) begin[0] = (int32_t)CHECK_PICK(rng, 0, -1, -100, INT32_MIN);
}

/* Checkpoints that go nowhere, into no slot, at no row or of no sequence; their order stays. */
static void break_checkpoints(struct rng *rng, struct call *call, int64_t slots)
{
    const int32_t n = call->batch.n_checkpoints;
    for (int32_t i = 0; i < n; i++) {
        if (call->ckpt_slot[i] >= 0) continue;
        call->ckpt_slot[i] = no_slot(rng, slots);
        if (i + 1 == n || call->ckpt_seq[i + 1] != call->ckpt_seq[i])
            call->ckpt_row[i] = (int32_t)CHECK_PICK(rng, call->ckpt_row[i], 100000, INT32_MAX);
        else if (i == 0 || call->ckpt_seq[i - 1] != call->ckpt_seq[i])
            call->ckpt_row[i] = (int32_t)CHECK_PICK(rng, call->ckpt_row[i], 0, -7);
        if (i + 1 == n) call->ckpt_seq[i] = (int32_t)CHECK_PICK(rng, call->ckpt_seq[i], call->batch.n_seqs, INT32_MAX);
    }
}

static bool write_ints(const struct mirror *mirror, const int32_t *at, const int32_t *values, int64_t n)
{
    void *device = on_device(mirror, at);
    return device == NULL || seqmix_mem_copy(mirror->ctx, device, values, (size_t)n * sizeof *at) == SEQMIX_OK;
}

/* The call's arrays on the device become others that mean the same. */
static bool break_arrays(const struct mirror *mirror, struct call *call, struct rng *rng)
{
    if ((call->given & GIVE_BATCH) == 0) return true;
    struct call *lie = check_alloc(sizeof *lie);
    const int pool = check_pool(call);
    const int64_t slots = pool >= 0 ? check_field(call, pool)->shape[0] : 0;
    const int32_t n = call->batch.n_seqs;
    *lie = *call;
    if ((call->given & GIVE_ROW_BEGIN) != 0) break_rows(rng, lie->row_begin, n, check_rows(call));
    for (int32_t i = 0; i < n; i++) {
        if (lie->read[i] == -1) lie->read[i] = no_slot(rng, slots);
        if (lie->write[i] == -1) lie->write[i] = no_slot(rng, slots);
    }
    break_checkpoints(rng, lie, slots);
    bool ok = write_ints(mirror, call->batch.row_begin, lie->row_begin, (int64_t)n + 1) &&
              write_ints(mirror, call->batch.read_slot, lie->read, n) &&
              write_ints(mirror, call->batch.write_slot, lie->write, n);
    const int32_t checkpoints = call->batch.n_checkpoints;
    ok = ok && write_ints(mirror, call->batch.ckpt_seq, lie->ckpt_seq, checkpoints) &&
         write_ints(mirror, call->batch.ckpt_row, lie->ckpt_row, checkpoints) &&
         write_ints(mirror, call->batch.ckpt_slot, lie->ckpt_slot, checkpoints);
    check_free(lie);
    return ok;
}

/* ---------------------------------------------------------------- running */

/* A call with its pointers to the device, and what was recorded of it. */
struct launch {
    const struct mirror *mirror;
    const struct call *call;
    union check_args args;
    void *workspace, *stream, *recorded;
    size_t bytes;
};

static bool enqueue(const struct launch *launch)
{
    return launch->call->op->call(launch->mirror->ctx, &launch->args, launch->workspace, launch->bytes) == SEQMIX_OK;
}

static bool record(struct launch *launch, struct verdict *verdict)
{
    seqmix_ctx *ctx = launch->mirror->ctx;
    launch->stream = check_recorder->begin();
    if (seqmix_ctx_set_stream(ctx, launch->stream) != SEQMIX_OK) return false;
    const bool enqueued = enqueue(launch);
    if (!enqueued) check_fail(verdict, "while recorded: %s", seqmix_last_error(ctx));
    launch->recorded = check_recorder->end(launch->stream);
    if (launch->recorded == NULL) check_fail(verdict, "the call did more than enqueue: it cannot be recorded");
    return seqmix_ctx_set_stream(ctx, NULL) == SEQMIX_OK && enqueued && launch->recorded != NULL;
}

static bool run_once(const struct launch *launch)
{
    if (check_ways.replay && !check_recorder->run(launch->stream, launch->recorded)) return false;
    return (check_ways.replay || enqueue(launch)) && seqmix_sync(launch->mirror->ctx) == SEQMIX_OK;
}

/* Everything -1 or NaN while the call is recorded, and run once like that. */
static bool run_recorded(struct launch *launch, struct verdict *verdict)
{
    const struct mirror *mirror = launch->mirror;
    bool ok = true;
    for (int i = 0; ok && i < mirror->n; i++) {
        const size_t bytes = (size_t)(mirror->region[i].end - mirror->region[i].begin);
        void *nothing = check_alloc(bytes);
        memset(nothing, 0xff, bytes);
        ok = seqmix_mem_copy(mirror->ctx, mirror->region[i].device, nothing, bytes) == SEQMIX_OK;
        check_free(nothing);
    }
    return ok && record(launch, verdict) && run_once(launch) && fill_regions(mirror);
}

static bool run_ways(struct launch *launch, struct call *call, struct verdict *verdict)
{
    struct rng rng = check_rng((uint64_t)check_rows(call), call->op->name);
    if (check_ways.replay && !run_recorded(launch, verdict)) return false;
    if (check_ways.broken && !(scramble(launch->mirror, &rng) && run_once(launch) && fill_regions(launch->mirror) &&
                               break_arrays(launch->mirror, call, &rng)))
        return false;
    return run_once(launch);
}

bool check_run_on_device(seqmix_ctx *ctx, struct call *call, size_t bytes, struct verdict *verdict)
{
    struct mirror mirror = {.ctx = ctx};
    struct launch launch = {.mirror = &mirror, .call = call, .bytes = bytes};
    seqmix_batch batch;
    cover_call(&mirror, call);
    bool ran = open_regions(&mirror);
    if (ran && bytes > 0) ran = seqmix_mem_alloc(ctx, bytes, &launch.workspace) == SEQMIX_OK;
    if (ran) {
        launch.args = relocate(&mirror, call, &batch);
        ran = run_ways(&launch, call, verdict);
        if (launch.stream != NULL) check_recorder->close(launch.stream, launch.recorded);
    }
    ran = close_regions(&mirror, ran);
    seqmix_mem_free(ctx, launch.workspace);
    if (!ran) check_fail(verdict, "%s", seqmix_last_error(ctx));
    return ran;
}
