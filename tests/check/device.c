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
};

struct mirror {
    seqmix_ctx *ctx;
    struct region region[MAX_REGIONS];
    int n;
};

static int64_t bytes_of(const seqmix_tensor *t)
{
    int64_t last = 0;
    if (seqmix_tensor_count(t) == 0) return 0;
    for (int axis = 0; axis < t->rank; axis++)
        last += (t->shape[axis] - 1) * t->stride[axis];
    return seqmix_dtype_bytes(t->dtype, last + 1);
}

/* The bytes belong to the region of `block`, which grows. */
static void cover(struct mirror *mirror, const void *block, void *at, int64_t bytes)
{
    unsigned char *begin = at, *end = begin + bytes;
    for (int i = 0; i < mirror->n; i++) {
        struct region *r = &mirror->region[i];
        if (r->block != block) continue;
        if (begin < r->begin) r->begin = begin;
        if (end > r->end) r->end = end;
        return;
    }
    mirror->region[mirror->n++] = (struct region){block, begin, end, NULL};
}

static void *on_device(const struct mirror *mirror, const void *at)
{
    const unsigned char *p = at;
    for (int i = 0; i < mirror->n; i++)
        if (p >= mirror->region[i].begin && p < mirror->region[i].end)
            return mirror->region[i].device + (p - mirror->region[i].begin);
    return NULL;
}

static bool open_regions(struct mirror *mirror)
{
    bool ok = true;
    for (int i = 0; i < mirror->n; i++) {
        struct region *r = &mirror->region[i];
        const size_t bytes = (size_t)(r->end - r->begin);
        void *device = NULL;
        ok = ok && seqmix_mem_alloc(mirror->ctx, bytes, &device) == SEQMIX_OK;
        r->device = device;
        ok = ok && seqmix_mem_copy(mirror->ctx, device, r->begin, bytes) == SEQMIX_OK;
    }
    return ok;
}

static bool close_regions(struct mirror *mirror, bool ran)
{
    for (int i = 0; i < mirror->n; i++) {
        const struct region *r = &mirror->region[i];
        ran = ran && seqmix_mem_copy(mirror->ctx, r->begin, r->device, (size_t)(r->end - r->begin)) == SEQMIX_OK;
        seqmix_mem_free(mirror->ctx, r->device);
    }
    return ran;
}

static void cover_ints(struct mirror *mirror, const int32_t *ints, int64_t n)
{
    if (ints != NULL && n > 0) cover(mirror, ints, (void *)(uintptr_t)ints, n * (int64_t)sizeof *ints);
}

static void cover_call(struct mirror *mirror, const struct call *call)
{
    const struct family *family = call->op->family;
    for (int f = 0; f < family->n_fields; f++) {
        const seqmix_tensor *t = check_field_const(call, f);
        const int64_t bytes = seqmix_present(t) ? bytes_of(t) : 0;
        if (bytes > 0) cover(mirror, check_block(t->data), t->data, bytes);
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

bool check_run_on_device(seqmix_ctx *ctx, struct call *call, size_t bytes, struct verdict *verdict)
{
    struct mirror mirror = {.ctx = ctx};
    seqmix_batch batch;
    void *workspace = NULL;
    cover_call(&mirror, call);
    bool ran = open_regions(&mirror);
    if (ran && bytes > 0) ran = seqmix_mem_alloc(ctx, bytes, &workspace) == SEQMIX_OK;
    if (ran) {
        const union check_args args = relocate(&mirror, call, &batch);
        ran = call->op->call(ctx, &args, workspace, bytes) == SEQMIX_OK && seqmix_sync(ctx) == SEQMIX_OK;
    }
    ran = close_regions(&mirror, ran);
    seqmix_mem_free(ctx, workspace);
    if (!ran) check_fail(verdict, "%s", seqmix_last_error(ctx));
    return ran;
}
