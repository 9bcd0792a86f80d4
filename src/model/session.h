/* SPDX-License-Identifier: MIT */
/*
 * Sequences being run through a model. Each has two slots of recurrent state: a call reads the one that holds the sequence so
 * far and writes the other, and only a call that went well to its end swaps them; rows of the attention cache past a
 * sequence's position are not looked at. So an error, or a cancelled prefill, leaves the session as it was. After an error
 * that says nothing about what was written (BACKEND, INTERNAL) the session is poisoned and refuses to go on until it is reset.
 *
 * A call runs in passes of at most prefill_rows rows, of one sequence or of several. In an invariant session every row is
 * computed in one order, so that neither the cut into passes nor the company changes a bit.
 */
#ifndef SEQMIX_MODEL_SESSION_H
#define SEQMIX_MODEL_SESSION_H

#include "memory.h"
#include "model.h"

typedef struct seqmix_session seqmix_session;

typedef struct seqmix_session_desc {
    seqmix_model *model;
    seqmix_ctx *ctx;
    int64_t prefill_rows; /* the most rows of one forward pass; at least n_seqs are possible */
    int64_t context; /* rows of a sequence in the attention cache; 0 = 4096, or fewer if the model is made for fewer */
    int32_t n_seqs;  /* 0 = 1 */
    bool on_device;  /* ctx is a device's: weights, states and buffers go there; what fits is the device's to say */
    bool all_logits; /* of every row, for `sink`; else only the last rows' */
    bool invariant;  /* one order of arithmetic for every row count */
    const int64_t *available; /* bytes to fit into; NULL = ask the machine */
} seqmix_session_desc;

/* Neither may call back into the session. Both may be NULL. */
typedef struct seqmix_watch {
    void *user;
    /* After every forward pass: rows done of all. False cancels the call. */
    bool (*progress)(void *user, int64_t done, int64_t rows);
    /* With all_logits: the logits of the pass's rows, [rows, vocab]. */
    void (*sink)(void *user, const float *logits, int64_t rows, int64_t vocab);
} seqmix_watch;

/* Tokens to go on with, of one sequence. */
typedef struct seqmix_piece {
    int32_t seq;
    const int32_t *tokens;
    int64_t n;
} seqmix_piece;

/* Checks that everything fits before allocating it. NULL and a sentence on failure. */
seqmix_session *seqmix_session_create(const seqmix_session_desc *desc, seqmix_why why);
void seqmix_session_free(seqmix_session *s);

/* Runs n tokens on the first sequence; returns when the state is complete. */
bool seqmix_session_eval(seqmix_session *s, const int32_t *tokens, int64_t n, const seqmix_watch *watch,
                         seqmix_why why);
/* The same for several sequences, each at most once, in common passes: all of them, or none. */
bool seqmix_session_eval_batch(seqmix_session *s, const seqmix_piece *pieces, int32_t n_pieces,
                               const seqmix_watch *watch, seqmix_why why);
/* Back to empty sequences; stores zeros as their states. */
bool seqmix_session_reset(seqmix_session *s, seqmix_why why);

/* Of the last row evaluated of a sequence; [vocab]. NULL before the first. */
const float *seqmix_session_logits(const seqmix_session *s);
const float *seqmix_session_logits_of(const seqmix_session *s, int32_t seq);
int64_t seqmix_session_position(const seqmix_session *s);
int64_t seqmix_session_context(const seqmix_session *s); /* 0: no bound */
bool seqmix_session_poisoned(const seqmix_session *s);
const seqmix_memory *seqmix_session_memory(const seqmix_session *s);
/* The ops of a forward pass of prefill_rows and of one row, and the kernels that run them. */
const seqmix_called *seqmix_session_called(const seqmix_session *s, int32_t *n);
/* From now on, the time of every op; NULL ends it. */
void seqmix_session_profile(seqmix_session *s, seqmix_profile *profile);
/* The state that holds the first sequence so far, for comparisons; of a device in its memory. */
const void *seqmix_session_state(const seqmix_session *s, size_t *bytes);

#endif
