/* SPDX-License-Identifier: MIT */
/* The commands of seqmix-run that have a file of their own. Each returns the exit status and says what failed in `why`. */
#ifndef SEQMIX_MODEL_COMMANDS_H
#define SEQMIX_MODEL_COMMANDS_H

#include "options.h"
#include "session.h"

enum { SEQMIX_EXIT_FAILED = 1, SEQMIX_EXIT_USAGE = 2, SEQMIX_EXIT_INTERRUPTED = 130 };

/* The context that the options ask for. A model is closed before it. */
bool seqmix_open_context(const seqmix_options *o, seqmix_ctx **ctx, seqmix_why why);

/* seqmix-run MODEL: prompts through the model and on. */
int seqmix_command_run(const seqmix_options *o, seqmix_why why);
/* seqmix-run info MODEL: sizes, tensor types, memory, and what would run. */
int seqmix_command_info(const seqmix_options *o, seqmix_why why);
/* seqmix-run parity DIR: every checkpoint below DIR that has expectations beside it, against them. */
int seqmix_command_parity(const seqmix_options *o, seqmix_why why);
/* seqmix-run MODEL --bench: prefill and decode as tables. */
int seqmix_command_bench(const seqmix_options *o, seqmix_why why);

#endif
