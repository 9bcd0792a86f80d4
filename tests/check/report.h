/* SPDX-License-Identifier: MIT */
/* The tables and the JSON of a walk. */
#ifndef SEQMIX_TESTS_CHECK_REPORT_H
#define SEQMIX_TESTS_CHECK_REPORT_H

#include "harness.h"

enum { CHECK_MAX_RUNGS = 12 };

struct ladder_rung {
    const struct seqmix_kernels *table, *below;
    const char *name;
};

/* The built rungs from the lowest up, and the second reference. */
struct ladder {
    int n;
    struct ladder_rung rungs[CHECK_MAX_RUNGS];
};

/* The backend's rungs called options->rung (NULL or "all": every one). 0, or -1 with a sentence on stderr. */
int check_ladder(const struct check_options *options, struct ladder *ladder);
void check_id(char *out, size_t size, const struct check_op *op, seqmix_dtype x, enum check_class name,
              int64_t variant);

struct report;
struct report *check_report_new(const struct check_options *options);
void check_report_case(struct report *report, const char *rung, const struct check_op *op, seqmix_dtype x,
                       const struct class_use *use, const char *id, const struct verdict *verdict);
void check_report_inherited(struct report *report, const char *rung, const struct check_op *op);
void check_report_trouble(struct report *report, const char *what, const char *why); /* counts as a failed check */
int check_report_end(struct report *report);                                         /* prints all; the exit status */

#endif
