/* SPDX-License-Identifier: MIT */
/* Calls as values: fields by name, sequences, clones and views, and the proof that nothing foreign was written. */
#include "harness.h"

seqmix_tensor *check_field(struct call *call, int field)
{
    return (seqmix_tensor *)(void *)((char *)&call->args + call->op->family->fields[field].offset);
}

const seqmix_tensor *check_field_const(const struct call *call, int field)
{
    return (const seqmix_tensor *)(const void *)((const char *)&call->args + call->op->family->fields[field].offset);
}

int check_field_index(const struct family *family, const char *name)
{
    for (int i = 0; i < family->n_fields; i++)
        if (strcmp(family->fields[i].name, name) == 0) return i;
    return -1;
}

seqmix_tensor *check_named(struct call *call, const char *name)
{
    return check_field(call, check_field_index(call->op->family, name));
}

int64_t check_rows(const struct call *call)
{
    for (int i = 0; i < call->op->family->n_fields; i++)
        if ((call->op->family->fields[i].flags & FIELD_ROWS) != 0) return check_field_const(call, i)->shape[0];
    return 0;
}

int check_pool(const struct call *call)
{
    for (int i = 0; i < call->op->family->n_fields; i++)
        if (call->op->family->fields[i].role == ROLE_POOL && seqmix_present(check_field_const(call, i))) return i;
    return -1;
}

int check_spans(const struct call *call, struct span *out)
{
    const int64_t rows = check_rows(call);
    const bool pool = check_pool(call) >= 0, row_begin = (call->given & GIVE_ROW_BEGIN) != 0;
    if (call->op->family->batch_offset == 0) {
        out[0] = (struct span){0, rows, -1, -1};
        return 1;
    }
    int n = (call->given & GIVE_BATCH) != 0 ? call->batch.n_seqs : 0;
    if (n == 0) n = call->op->step && !row_begin ? (int)rows : 1;
    for (int i = 0; i < n; i++) {
        struct span *span = &out[i];
        *span = (struct span){0, rows, -1, -1};
        if (row_begin)
            *span = (struct span){call->row_begin[i], call->row_begin[i + 1], -1, -1};
        else if (call->op->step)
            *span = (struct span){i, i + 1, -1, -1};
        if (!pool) continue;
        span->read = (call->given & GIVE_READ) != 0 ? call->read[i] : i;
        span->write = (call->given & GIVE_WRITE) != 0 ? call->write[i] : span->read;
    }
    return n;
}

void check_rebind(struct call *call)
{
    const struct family *family = call->op->family;
    if (family->ints_offset != 0) {
        const int32_t *ints = call->ints;
        memcpy((char *)&call->args + family->ints_offset, &ints, sizeof ints);
    }
    if (family->batch_offset == 0) return;
    call->batch.struct_size = sizeof call->batch;
    call->batch.row_begin = (call->given & GIVE_ROW_BEGIN) != 0 ? call->row_begin : NULL;
    call->batch.read_slot = (call->given & GIVE_READ) != 0 ? call->read : NULL;
    call->batch.write_slot = (call->given & GIVE_WRITE) != 0 ? call->write : NULL;
    const bool checkpoints = call->batch.n_checkpoints > 0;
    call->batch.ckpt_seq = checkpoints ? call->ckpt_seq : NULL;
    call->batch.ckpt_row = checkpoints ? call->ckpt_row : NULL;
    call->batch.ckpt_slot = checkpoints ? call->ckpt_slot : NULL;
    const seqmix_batch *batch = (call->given & GIVE_BATCH) != 0 ? &call->batch : NULL;
    memcpy((char *)&call->args + family->batch_offset, &batch, sizeof batch);
    if (family->paging != NULL) family->paging->rebind(call);
}

/* ---------------------------------------------------------------- memory */

struct slab *check_new_slab(struct call *call, size_t bytes)
{
    struct slab *slab = &call->slab[call->n_slabs++];
    *slab = (struct slab){check_alloc(bytes), NULL, NULL, bytes};
    for (size_t i = 0; i < bytes; i++)
        slab->bytes[i] = 0xff; /* a NaN in every dtype */
    return slab;
}

void check_clone(const struct call *from, struct call *to)
{
    *to = *from;
    for (int i = 0; i < from->n_slabs; i++) {
        to->slab[i] = (struct slab){check_alloc(from->slab[i].size), NULL, NULL, from->slab[i].size};
        memcpy(to->slab[i].bytes, from->slab[i].bytes, from->slab[i].size);
    }
    for (int i = 0; i < from->op->family->n_fields; i++) {
        const int s = from->slab_of[i];
        const unsigned char *data = check_field_const(from, i)->data;
        if (s >= 0 && data != NULL) check_field(to, i)->data = to->slab[s].bytes + (data - from->slab[s].bytes);
    }
    check_rebind(to);
}

void check_view(struct call *whole, int64_t begin, int64_t end, struct call *view)
{
    *view = *whole;
    view->n_slabs = 0;
    for (int i = 0; i < whole->op->family->n_fields; i++) {
        seqmix_tensor *t = check_field(view, i);
        if ((whole->op->family->fields[i].flags & FIELD_ROWS) == 0 || !seqmix_present(t)) continue;
        if (t->data != NULL) t->data = (char *)t->data + begin * t->stride[0] * (int64_t)seqmix_dtype_size(t->dtype);
        t->shape[0] = end - begin;
    }
    const struct family *family = whole->op->family;
    const int32_t rows = (int32_t)(end - begin);
    if (family->ints_offset != 0) memmove(view->ints, whole->ints + begin, (size_t)rows * sizeof *view->ints);
    if (family->rows_offset != 0) memcpy((char *)&view->args + family->rows_offset, &rows, sizeof rows);
    if (family->paging != NULL) family->paging->cut(whole, begin, end, view);
    if (family->batch_offset != 0) {
        view->given = GIVE_BATCH | GIVE_ROW_BEGIN;
        view->batch = (seqmix_batch){.n_seqs = 1, .max_rows = rows > 0 ? rows : 1};
        view->row_begin[0] = 0;
        view->row_begin[1] = rows;
    }
    check_rebind(view);
}

void check_slots(struct call *view, int32_t read, int32_t write)
{
    view->given |= GIVE_READ | GIVE_WRITE;
    view->read[0] = read;
    view->write[0] = write;
    check_rebind(view);
}

void check_release(struct call *call)
{
    for (int i = 0; i < call->n_slabs; i++) {
        check_free(call->slab[i].bytes);
        check_free(call->slab[i].shot);
        check_free(call->slab[i].mask);
    }
    call->n_slabs = 0;
}

bool check_memory_same(const struct call *a, const struct call *b)
{
    for (int i = 0; i < a->n_slabs; i++)
        if (memcmp(a->slab[i].bytes, b->slab[i].bytes, a->slab[i].size) != 0) return false;
    return true;
}

/* ---------------------------------------------------------------- what may change */

/* Marks the elements with index `i` on axis 0. */
static void mark_row(struct call *call, int field, int64_t i)
{
    const seqmix_tensor *t = check_field(call, field);
    struct slab *slab = &call->slab[call->slab_of[field]];
    const size_t size = seqmix_dtype_size(t->dtype);
    int64_t index[SEQMIX_MAX_RANK] = {i};
    if (seqmix_tensor_count(t) == 0) return;
    unsigned char *base = slab->mask + ((unsigned char *)t->data - slab->bytes);
    do
        memset(base + check_offset(t, index) * (int64_t)size, 1, size);
    while (check_next(t, index, 1, t->rank));
}

/* Every slot that the call writes, as flags over the pool's slots. */
void check_written_slots(const struct call *call, unsigned char *written)
{
    struct span spans[CHECK_MAX_SEQS];
    const int n = check_spans(call, spans);
    for (int i = 0; i < n; i++)
        if (spans[i].write >= 0) written[spans[i].write] = 1;
    for (int i = 0; i < call->batch.n_checkpoints; i++)
        if (call->ckpt_slot[i] >= 0) written[call->ckpt_slot[i]] = 1;
}

void check_snapshot(struct call *call)
{
    struct span spans[CHECK_MAX_SEQS];
    const int n = check_spans(call, spans);
    for (int i = 0; i < call->n_slabs; i++) {
        struct slab *slab = &call->slab[i];
        if (slab->shot == NULL) slab->shot = check_alloc(slab->size);
        if (slab->mask == NULL) slab->mask = check_alloc(slab->size);
        memcpy(slab->shot, slab->bytes, slab->size);
        memset(slab->mask, 0, slab->size);
    }
    for (int f = 0; f < call->op->family->n_fields; f++) {
        const struct field *field = &call->op->family->fields[f];
        const seqmix_tensor *t = check_field(call, f);
        if (field->role == ROLE_IN || !seqmix_present(t)) continue;
        if (field->role == ROLE_OUT) {
            const int64_t end = (field->flags & FIELD_ROWS) == 0 ? t->shape[0] : n > 0 ? spans[n - 1].end : 0;
            for (int64_t i = 0; i < end; i++)
                mark_row(call, f, i);
            continue;
        }
        unsigned char written[CHECK_MAX_SLOTS] = {0};
        check_written_slots(call, written);
        for (int64_t i = 0; i < t->shape[0]; i++)
            if (written[i] != 0) mark_row(call, f, i);
    }
}

bool check_untouched(const struct call *call, char *why, size_t why_len)
{
    const struct family *family = call->op->family;
    for (int s = 0; s < call->n_slabs; s++) {
        const struct slab *slab = &call->slab[s];
        size_t i = 0;
        while (i < slab->size && (slab->mask[i] != 0 || slab->bytes[i] == slab->shot[i]))
            i++;
        if (i == slab->size) continue;
        const char *name = "?";
        for (int f = family->n_fields - 1; f >= 0; f--)
            if (call->slab_of[f] == s) name = family->fields[f].name;
        const unsigned char *data = check_field_const(call, check_field_index(family, name))->data;
        if (data == NULL) data = slab->bytes;
        snprintf(why, why_len, "a byte that is not the call's to write changed, at %+td bytes from %s.data",
                 slab->bytes + i - data, name);
        return false;
    }
    return true;
}
