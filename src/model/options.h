/* SPDX-License-Identifier: MIT */
/* The command line of seqmix-run. */
#ifndef SEQMIX_MODEL_OPTIONS_H
#define SEQMIX_MODEL_OPTIONS_H

#include "buffer.h"
#include "json.h"

typedef enum seqmix_command {
    SEQMIX_COMMAND_RUN,
    SEQMIX_COMMAND_TOKENIZE,
    SEQMIX_COMMAND_INFO,
    SEQMIX_COMMAND_PARITY
} seqmix_command;

typedef struct seqmix_options {
    seqmix_command command;
    const char *model_dir; /* or a GGUF file */
    bool help, bench, profile, invariant, chat, think, hide_thinking;
    const char *system;            /* with chat; or NULL */
    const char *quantize, *output; /* a tensor type, and the file to write */
    const char *batch_file;        /* one prompt a line; or NULL */
    const char *prompt;            /* text, or NULL; with tokenize the text to cut */
    const char *prompt_file;       /* "-" = standard input; or NULL */
    seqmix_ids tokens;             /* --tokens */
    bool tokens_given;
    int64_t n, prefill_rows, context, bench_rows, workers, top_k, seed; /* context 0: as much as the run needs */
    float temperature, top_p;
    const char *backend_name, *level_name; /* as given; or NULL */
    int32_t backend;                       /* SEQMIX_BACKEND_* */
    int32_t level_cap;                     /* SEQMIX_LEVEL_* of the backend, 0 = best */
    bool json, verbose, stream, ignore_eos;
} seqmix_options;

extern const char seqmix_usage[];

bool seqmix_options_parse(int argc, char **argv, seqmix_options *options, seqmix_why why);
/* "?" for none. */
const char *seqmix_level_name(int32_t backend, int32_t level);
/* Whether the backend is a device, with memory of its own. */
bool seqmix_is_device(const seqmix_options *options);
void seqmix_options_free(seqmix_options *options);

#endif
