/* SPDX-License-Identifier: MIT */
/* Planted faults: copies of rung 0 with one slot that misbehaves in one way. The harness must catch every one. */
#ifndef SEQMIX_TESTS_CHECK_FAULTS_H
#define SEQMIX_TESTS_CHECK_FAULTS_H

#include "harness.h"

struct fault {
    const char *name;
    const char *op;                                /* whose cases are run */
    void (*install)(struct seqmix_kernels *table); /* into a copy of rung 0 */
    enum check_class by;                           /* the class of cases, or property, that must catch it */
};

extern const struct fault check_faults[];
extern const int check_n_faults;

/* Rewritten kernels. */
seqmix_status check_delta_late_decay(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace);
seqmix_status check_delta_growing(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace);
seqmix_status check_ssd_plain_sums(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace);
seqmix_status check_ssd_product(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace);
seqmix_status check_ssd_wrong_groups(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace);
seqmix_status check_scan_naive_softplus(struct seqmix_context *ctx, const seqmix_scan_args *args, void *workspace);

/* Args as a call of the harness, to be edited and run on rung 0. The args are normalised: their batch is never NULL. */
void check_as_call(const char *op, const void *args, struct call *call);
seqmix_status check_run_ref(struct seqmix_context *ctx, struct call *call, void *workspace);

#endif
