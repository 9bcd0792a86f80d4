/* SPDX-License-Identifier: MIT */
/*
 * One sequence being run through a model. The state has two slots: a call reads the one that holds the sequence so far and
 * writes the other, and only a call that went well to its end swaps them. So an error, or a cancelled prefill, leaves the
 * session as it was. After an error that says nothing about what was written (BACKEND, INTERNAL) the session is poisoned
 * and refuses to go on until it is reset.
 */
#ifndef SEQMIX_MODEL_SESSION_H
#define SEQMIX_MODEL_SESSION_H

#include "memory.h"
#include "model.h"

typedef struct seqmix_session seqmix_session;

typedef struct seqmix_session_desc {
    seqmix_model *model;
    seqmix_ctx *ctx;
    int64_t prefill_rows;     /* the most rows of one forward pass */
    bool all_logits;          /* of every row, for `sink`; else only the last row's */
    const int64_t *available; /* bytes to fit into; NULL = ask the machine */
} seqmix_session_desc;

/* Neither may be called back into the session. Both may be NULL. */
typedef struct seqmix_watch {
    void *user;
    /* After every forward pass: rows done of all. False cancels the call. */
    bool (*progress)(void *user, int64_t done, int64_t rows);
    /* With all_logits: the logits of the pass's rows, [rows, vocab]. */
    void (*sink)(void *user, const float *logits, int64_t rows, int64_t vocab);
} seqmix_watch;

/* Checks that everything fits before allocating it. NULL and a sentence on failure. */
seqmix_session *seqmix_session_create(const seqmix_session_desc *desc, seqmix_why why);
void seqmix_session_free(seqmix_session *s);

/* Runs n tokens, in passes of at most prefill_rows; returns when the state is complete. */
bool seqmix_session_eval(seqmix_session *s, const int32_t *tokens, int64_t n, const seqmix_watch *watch,
                         seqmix_why why);
/* Back to an empty sequence; stores zeros as the state. */
bool seqmix_session_reset(seqmix_session *s, seqmix_why why);

/* Of the last row evaluated; [vocab]. NULL before the first. */
const float *seqmix_session_logits(const seqmix_session *s);
int64_t seqmix_session_position(const seqmix_session *s);
bool seqmix_session_poisoned(const seqmix_session *s);
const seqmix_memory *seqmix_session_memory(const seqmix_session *s);
/* The ops of a forward pass of prefill_rows and of one row, and the kernels that run them. */
const seqmix_called *seqmix_session_called(const seqmix_session *s, int32_t *n);
/* The state that holds the sequence so far, for comparisons. */
const void *seqmix_session_state(const seqmix_session *s, size_t *bytes);

#endif
