/* SPDX-License-Identifier: MIT */
/* What seqmix-run tells about a run: on standard error for people, as JSON for programs. */
#ifndef SEQMIX_MODEL_REPORT_H
#define SEQMIX_MODEL_REPORT_H

#include "buffer.h"
#include "chat.h"
#include "sample.h"
#include "session.h"

typedef struct seqmix_phase {
    int64_t rows;
    double ms;
} seqmix_phase;

/* What is made of one prompt. */
typedef struct seqmix_answer {
    const seqmix_ids *prompt;
    seqmix_ids generated;
    seqmix_sampler sampler;
    seqmix_utf8_stream stream; /* of the text, or */
    seqmix_chat_view view;     /* in a chat */
    seqmix_bytes text;         /* well-formed UTF-8, at the end a NUL behind it */
    size_t printed;            /* of it */
    int32_t token;             /* chosen last */
    const char *finish;        /* "length", "stop", "context", "interrupted"; NULL: it goes on */
} seqmix_answer;

typedef struct seqmix_run {
    const char *model_dir;
    const seqmix_model *model;
    const seqmix_session *session;
    const seqmix_answer *answers;
    int32_t n_answers;
    bool batch;    /* several, as a list */
    bool has_text; /* there is a tokenizer */
    int32_t backend;
    int64_t prefill_rows, workers;
    seqmix_phase prefill, decode;
    const seqmix_profile *profile; /* or NULL */
} seqmix_run;

/* The highest rung among the kernels that run. */
const char *seqmix_report_level(const seqmix_session *session, int32_t backend);
void seqmix_report_model(const char *dir, const seqmix_model *model, FILE *to);
void seqmix_report_session(const seqmix_session *session, FILE *to);
void seqmix_report_phases(const seqmix_run *run, FILE *to);
/* Shares of the time, by op and by kind of layer. */
void seqmix_report_profile(const seqmix_run *run, FILE *to);
bool seqmix_report_json(const seqmix_run *run, FILE *to);

#endif
