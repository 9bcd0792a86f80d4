/* SPDX-License-Identifier: MIT */
/* What seqmix-run tells about a run: on standard error for people, as JSON for programs. */
#ifndef SEQMIX_MODEL_REPORT_H
#define SEQMIX_MODEL_REPORT_H

#include "buffer.h"
#include "session.h"

typedef struct seqmix_phase {
    int64_t rows;
    double ms;
} seqmix_phase;

typedef struct seqmix_run {
    const char *model_dir;
    const seqmix_model *model;
    const seqmix_session *session;
    const seqmix_ids *prompt, *generated;
    const seqmix_bytes *text; /* well-formed UTF-8, a NUL behind it */
    bool has_text;            /* there is a tokenizer */
    int64_t prefill_rows, workers;
    seqmix_phase prefill, decode;
    const char *finish; /* "length", "stop", "interrupted" */
} seqmix_run;

/* The highest rung among the kernels that run. */
const char *seqmix_report_level(const seqmix_session *session);
void seqmix_report_model(const char *dir, const seqmix_model *model, FILE *to);
void seqmix_report_session(const seqmix_session *session, FILE *to);
void seqmix_report_phases(const seqmix_run *run, FILE *to);
bool seqmix_report_json(const seqmix_run *run, FILE *to);

#endif
