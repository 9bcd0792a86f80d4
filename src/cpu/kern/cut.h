/* SPDX-License-Identifier: MIT */
/*
 * How the delta rule and SSD are cut into tasks: some columns of some heads of one group of one sequence. The heads of a group
 * share its rows (a key head's q and k, a group's B and C), which every task prepares for itself: so tasks are as large as the
 * workers allow. Heads and columns do not depend on each other, so no bit depends on the cut.
 */
#ifndef SEQMIX_CPU_KERN_CUT_H
#define SEQMIX_CPU_KERN_CUT_H

#include "parallel.h"

struct cut {
    int64_t groups, share, width; /* groups of a sequence, heads of a group, columns of a head */
    int64_t heads, head_tasks;    /* of a task, of a group */
    int64_t columns, column_tasks;
};

/* A task: heads counted within their group. */
struct cut_task {
    int64_t seq, group, first_head, n_heads, first, end; /* columns [first, end) */
};

/* Heads are cut apart before columns, which come in whole `unit`s; returns the number of tasks. */
static inline int64_t cut_up(struct cut *cut, const struct seqmix_context *ctx, int64_t n_seqs, int64_t most_heads,
                             int64_t unit)
{
    cut->heads = cut->share < most_heads ? cut->share : most_heads;
    cut->columns = cut->width;
    for (;;) {
        cut->head_tasks = (cut->share + cut->heads - 1) / cut->heads;
        cut->column_tasks = (cut->width + cut->columns - 1) / cut->columns;
        const int64_t tasks = n_seqs * cut->groups * cut->head_tasks * cut->column_tasks;
        if (seqmix_tasks_enough(ctx, tasks, n_seqs == 1)) return tasks;
        if (cut->heads > 1)
            cut->heads = (cut->heads + 1) / 2;
        else if (cut->columns > unit)
            cut->columns = ((cut->columns + 1) / 2 + unit - 1) / unit * unit;
        else
            return tasks;
    }
}

static inline struct cut_task cut_find(const struct cut *cut, int64_t task)
{
    struct cut_task t;
    t.first = task % cut->column_tasks * cut->columns;
    task /= cut->column_tasks;
    t.first_head = task % cut->head_tasks * cut->heads;
    task /= cut->head_tasks;
    t.group = task % cut->groups;
    t.seq = task / cut->groups;
    t.n_heads = cut->share - t.first_head < cut->heads ? cut->share - t.first_head : cut->heads;
    t.end = t.first + cut->columns < cut->width ? t.first + cut->columns : cut->width;
    return t;
}

#endif
