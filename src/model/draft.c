/* SPDX-License-Identifier: MIT */
/* The head of a GGUF file (see draft.h; gguf.c has the format). */
#include "draft.h"

#include "half.h"

void seqmix_draft_free(seqmix_draft *d)
{
    for (int64_t i = 0; i < d->n_tensors; i++) {
        free((void *)d->tensors[i]->parts);
        free(d->tensors[i]->rows);
        free(d->tensors[i]->columns);
        free(d->tensors[i]);
    }
    free((void *)d->tensors);
    free(d->values.data);
    *d = (seqmix_draft){0};
}

/* ---- values ---- */

static void add(seqmix_draft *d, const void *bytes, size_t n)
{
    if (!d->failed) d->failed = !seqmix_bytes_add(&d->values, bytes, n);
}

static void add_number(seqmix_draft *d, uint64_t value, size_t n)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
    add(d, bytes, n);
}

static void begin(seqmix_draft *d, const char *key, uint32_t type)
{
    seqmix_draft_next_text(d, key, strlen(key));
    add_number(d, type, 4);
    d->n_values++;
}

void seqmix_draft_number(seqmix_draft *d, const char *key, uint32_t type, uint64_t bits)
{
    begin(d, key, type);
    add_number(d, bits, type == SEQMIX_GGUF_BOOL ? 1 : 4);
}

void seqmix_draft_u32(seqmix_draft *d, const char *key, int64_t value)
{
    seqmix_draft_number(d, key, SEQMIX_GGUF_U32, (uint64_t)value);
}

void seqmix_draft_f32(seqmix_draft *d, const char *key, float value)
{
    seqmix_draft_number(d, key, SEQMIX_GGUF_F32, seqmix_bits_of_float(value));
}

void seqmix_draft_bool(seqmix_draft *d, const char *key, bool value)
{
    seqmix_draft_number(d, key, SEQMIX_GGUF_BOOL, value ? 1 : 0);
}

void seqmix_draft_text(seqmix_draft *d, const char *key, const void *text, size_t n)
{
    begin(d, key, SEQMIX_GGUF_STRING);
    seqmix_draft_next_text(d, text, n);
}

void seqmix_draft_word(seqmix_draft *d, const char *key, const char *word)
{
    seqmix_draft_text(d, key, word, strlen(word));
}

static void begin_array(seqmix_draft *d, const char *key, uint32_t element, uint64_t n)
{
    begin(d, key, SEQMIX_GGUF_ARRAY);
    add_number(d, element, 4);
    add_number(d, n, 8);
}

void seqmix_draft_i32s(seqmix_draft *d, const char *key, const int64_t *values, int64_t n)
{
    begin_array(d, key, SEQMIX_GGUF_I32, (uint64_t)n);
    for (int64_t i = 0; i < n; i++)
        add_number(d, (uint64_t)values[i], 4);
}

void seqmix_draft_value(seqmix_draft *d, const seqmix_gguf_value *v)
{
    if (v->type == SEQMIX_GGUF_ARRAY)
        begin_array(d, v->key, v->element, v->n);
    else
        begin(d, v->key, v->type);
    add(d, v->data, v->bytes);
}

void seqmix_draft_texts(seqmix_draft *d, const char *key, uint64_t n)
{
    begin_array(d, key, SEQMIX_GGUF_STRING, n);
}

void seqmix_draft_next_text(seqmix_draft *d, const void *text, size_t n)
{
    add_number(d, n, 8);
    add(d, text, n);
}

/* ---- tensors ---- */

seqmix_draft_tensor *seqmix_draft_tensor_add(seqmix_draft *d, int64_t n_parts)
{
    void *list = (void *)d->tensors;
    seqmix_draft_tensor *t = calloc(1, sizeof *t);
    const void **parts = calloc((size_t)n_parts, sizeof *parts);
    if (t == NULL || parts == NULL || !seqmix_grow(&list, &d->room, (size_t)d->n_tensors, 1, sizeof t)) {
        free(t);
        free((void *)parts);
        d->failed = true;
        return NULL;
    }
    t->parts = parts;
    t->n_parts = n_parts;
    d->tensors = list;
    d->tensors[d->n_tensors++] = t;
    return t;
}

int64_t seqmix_draft_row(const seqmix_draft_tensor *t)
{
    return t->shape[t->rank - 1];
}

int64_t seqmix_draft_rows(const seqmix_draft_tensor *t)
{
    int64_t rows = 1;
    for (int32_t axis = 0; axis < t->rank - 1; axis++)
        rows *= t->shape[axis];
    return rows;
}

size_t seqmix_draft_bytes(const seqmix_draft_tensor *t)
{
    int64_t elements = 1;
    size_t bytes = 0;
    (void)seqmix_gguf_type_block(t->type, &elements, &bytes);
    return (size_t)(seqmix_draft_rows(t) * seqmix_draft_row(t) / elements) * bytes;
}

bool seqmix_draft_head(seqmix_draft *d, seqmix_bytes *head)
{
    seqmix_draft out = {0}; /* whose values are the head */
    size_t offset = 0;
    add(&out, "GGUF", 4);
    add_number(&out, 3, 4);
    add_number(&out, (uint64_t)d->n_tensors, 8);
    add_number(&out, (uint64_t)d->n_values, 8);
    add(&out, d->values.data, d->values.n);
    for (int64_t i = 0; i < d->n_tensors; i++) {
        seqmix_draft_tensor *t = d->tensors[i];
        t->offset = offset;
        offset += (seqmix_draft_bytes(t) + d->alignment - 1) / d->alignment * d->alignment;
        seqmix_draft_next_text(&out, t->name, strlen(t->name));
        add_number(&out, (uint64_t)t->rank, 4);
        for (int32_t axis = t->rank - 1; axis >= 0; axis--)
            add_number(&out, (uint64_t)t->shape[axis], 8);
        add_number(&out, (uint64_t)t->type, 4);
        add_number(&out, t->offset, 8);
    }
    while (!out.failed && out.values.n % d->alignment != 0)
        add_number(&out, 0, 1);
    *head = out.values;
    return !out.failed && !d->failed;
}
