/* SPDX-License-Identifier: MIT */
/*
 * How a model calls ops: every call goes through seqmix_call, which runs it on the session's workspace, or, when measuring,
 * asks how much workspace it would need and which kernel would run it. A model's forward pass is thus written once. With a
 * profile, the time of each op is added up, by op and by kind of layer.
 */
#ifndef SEQMIX_MODEL_CALLER_H
#define SEQMIX_MODEL_CALLER_H

#include <stdbool.h>

#include "config.h"
#include "view.h"

#define SEQMIX_MAX_CALLED 24

typedef struct seqmix_called {
    int32_t op; /* SEQMIX_OP_* */
    const char *name;
    const char *kernel; /* static string of the library */
    int32_t level;
} seqmix_called;

/* Milliseconds and calls, by op (as in `called`) and by kind; SEQMIX_KIND_NONE is embedding and head. */
typedef struct seqmix_profile {
    double op_ms[SEQMIX_MAX_CALLED], kind_ms[SEQMIX_N_KINDS];
    int64_t op_calls[SEQMIX_MAX_CALLED];
} seqmix_profile;

typedef struct seqmix_caller {
    seqmix_ctx *ctx;
    void *workspace;
    size_t workspace_bytes; /* when measuring: the largest asked for */
    bool measuring;
    seqmix_profile *profile; /* NULL: none */
    seqmix_kind kind;        /* of the layer that runs, for the profile */
    int32_t n_called;        /* ops met while measuring, each once */
    seqmix_called called[SEQMIX_MAX_CALLED];
} seqmix_caller;

/* `args` is the struct that belongs to the op. */
seqmix_status seqmix_call(seqmix_caller *caller, int32_t op, const void *args);

#endif
