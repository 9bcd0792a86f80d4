/* SPDX-License-Identifier: MIT */
/*
 * How a model calls ops: every call goes through seqmix_call, which runs it on the session's workspace, or, when measuring,
 * asks how much workspace it would need and which kernel would run it. A model's forward pass is thus written once.
 */
#ifndef SEQMIX_MODEL_CALLER_H
#define SEQMIX_MODEL_CALLER_H

#include <stdbool.h>

#include "view.h"

#define SEQMIX_MAX_CALLED 16

typedef struct seqmix_called {
    int32_t op; /* SEQMIX_OP_* */
    const char *name;
    const char *kernel; /* static string of the library */
    int32_t level;
} seqmix_called;

typedef struct seqmix_caller {
    seqmix_ctx *ctx;
    void *workspace;
    size_t workspace_bytes; /* when measuring: the largest asked for */
    bool measuring;
    int32_t n_called; /* ops met while measuring, each once */
    seqmix_called called[SEQMIX_MAX_CALLED];
} seqmix_caller;

/* `args` is the struct that belongs to the op. */
seqmix_status seqmix_call(seqmix_caller *caller, int32_t op, const void *args);

#endif
