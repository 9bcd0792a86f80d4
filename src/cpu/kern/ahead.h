/* SPDX-License-Identifier: MIT */
/*
 * Asking for the rows that come next, a few lines at a time, while the present ones are computed. Rows of a head lie so far
 * apart that the hardware does not see them coming, and all of them at once would choke the cache.
 */
#ifndef SEQMIX_CPU_KERN_AHEAD_H
#define SEQMIX_CPU_KERN_AHEAD_H

#include "rows.h"

enum { AHEAD_TENSORS = 2 };

struct ahead {
    int64_t next, end;           /* rows still to be asked for */
    int64_t credit, rows, steps; /* each step earns `rows` and a row costs `steps` */
    int n;
    struct {
        const seqmix_tensor *tensor;
        int64_t offset, count; /* elements of a row, from its beginning on axis 0 */
    } part[AHEAD_TENSORS];
};

/* The rows [begin, begin+n_rows), in so many steps. */
static inline void ahead_start(struct ahead *a, int64_t begin, int64_t n_rows, int64_t steps)
{
    a->next = begin;
    a->end = begin + n_rows;
    a->credit = 0;
    a->rows = n_rows;
    a->steps = steps;
    a->n = 0;
}

static inline void ahead_add(struct ahead *a, const seqmix_tensor *tensor, int64_t offset, int64_t count)
{
    a->part[a->n].tensor = tensor;
    a->part[a->n].offset = offset;
    a->part[a->n++].count = count;
}

static inline void ahead_go_on(struct ahead *a)
{
    for (a->credit += a->rows; a->credit >= a->steps && a->next < a->end; a->credit -= a->steps, a->next++)
        for (int i = 0; i < a->n; i++)
            row_prefetch(a->part[i].tensor, a->next * a->part[i].tensor->stride[0] + a->part[i].offset,
                         a->part[i].count);
}

#endif
