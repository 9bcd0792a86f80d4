/* SPDX-License-Identifier: MIT */
/* What the model tests share: temporary directories, safetensors files written on the spot, a tiny random Mamba. */
#ifndef SEQMIX_TESTS_MODEL_SUPPORT_H
#define SEQMIX_TESTS_MODEL_SUPPORT_H

#include <check.h>

#include "buffer.h"
#include "safetensors.h"
#include "session.h"

/* Paths below the golden folder and the build folder of these tests; the text lives until the next four calls. */
const char *golden(const char *name);
const char *in_dir(const char *dir, const char *name);

/* A fresh directory, removed with its files when the process ends. */
const char *temporary_dir(void);
void write_file(const char *dir, const char *name, const void *bytes, size_t n);
void write_text(const char *dir, const char *name, const char *text);
void copy_file(const char *from_dir, const char *to_dir, const char *name);
seqmix_bytes read_file(const char *path);

/* A safetensors file in the making. */
typedef struct st_builder {
    seqmix_bytes header, data;
    int64_t n;
} st_builder;

void st_add(st_builder *b, const char *name, const char *dtype, int32_t rank, const int64_t *shape, const void *data,
            size_t bytes);
/* The file's bytes; frees the builder. */
seqmix_bytes st_finish(st_builder *b);
/* 8 bytes of length, the header as given, n bytes of zeros. */
seqmix_bytes st_raw(const char *header, size_t n);

typedef struct tiny {
    int64_t vocab, hidden, layers, state, conv, dt_rank;
    bool bias, conv_bias, tied, original_names;
    const char *skip;    /* leave this tensor out */
    const char *reshape; /* this tensor gets one row more */
    const char *retype;  /* this tensor is stored as I32 */
    const char *poison;  /* this tensor's first value is NaN */
    const char *dtype;   /* of the matrices: F32, BF16, F16 */
} tiny;

extern const tiny tiny_default;
/* config.json and model.safetensors of a random Mamba; no tokenizer. */
void write_tiny(const char *dir, const tiny *t);

/* An opened model with a context and a session; any failure fails the test. */
typedef struct opened {
    seqmix_model *model;
    seqmix_ctx *ctx;
    seqmix_session *session;
} opened;

opened open_model(const char *dir, int64_t prefill_rows, int32_t workers);
opened open_model_all_logits(const char *dir, int64_t prefill_rows);
void close_model(opened *o);

/* n greedy tokens after a prompt. */
void greedy(seqmix_session *s, int64_t vocab, const int32_t *prompt, int64_t n_prompt, int32_t *out, int64_t n);

#define COUNT(table) (int)(sizeof(table) / sizeof(table)[0])

/* Whether a reader's outcome is the wanted one: NULL for success, else a part of the sentence. */
void judge(bool ok, const char *why, const char *wanted, const char *what);

/* Runs one suite with Check's own command of output; the exit status. */
int run_suite(Suite *suite);

#endif
