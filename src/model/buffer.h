/* SPDX-License-Identifier: MIT */
/* Growing arrays of bytes, token ids and text ranges. Zero-initialised is empty; a failed growth changes nothing. */
#ifndef SEQMIX_MODEL_BUFFER_H
#define SEQMIX_MODEL_BUFFER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct seqmix_bytes {
    unsigned char *data;
    size_t n, room;
} seqmix_bytes;

typedef struct seqmix_ids {
    int32_t *data;
    size_t n, room;
} seqmix_ids;

typedef struct seqmix_range {
    size_t begin, end;
} seqmix_range;

typedef struct seqmix_ranges {
    seqmix_range *data;
    size_t n, room;
} seqmix_ranges;

/* Room for `more` elements behind the n present ones. */
static inline bool seqmix_grow(void **data, size_t *room, size_t n, size_t more, size_t element)
{
    if (more <= *room - n) return true;
    size_t wanted = *room < 32 ? 64 : *room * 2;
    if (wanted < n + more) wanted = n + more;
    if (n + more < n || wanted > SIZE_MAX / 2 / element) return false;
    void *grown = realloc(*data, wanted * element);
    if (grown == NULL) return false;
    *data = grown;
    *room = wanted;
    return true;
}

static inline bool seqmix_bytes_add(seqmix_bytes *b, const void *bytes, size_t n)
{
    void *data = b->data;
    if (!seqmix_grow(&data, &b->room, b->n, n, 1)) return false;
    b->data = data;
    if (n > 0) memcpy(b->data + b->n, bytes, n);
    b->n += n;
    return true;
}

static inline bool seqmix_ids_add(seqmix_ids *a, int32_t id)
{
    void *data = a->data;
    if (!seqmix_grow(&data, &a->room, a->n, 1, sizeof id)) return false;
    a->data = data;
    a->data[a->n++] = id;
    return true;
}

static inline bool seqmix_ranges_add(seqmix_ranges *a, size_t begin, size_t end)
{
    void *data = a->data;
    if (!seqmix_grow(&data, &a->room, a->n, 1, sizeof *a->data)) return false;
    a->data = data;
    a->data[a->n++] = (seqmix_range){begin, end};
    return true;
}

#endif
