/* SPDX-License-Identifier: MIT */
/* What validate_load.c and validate_options.c share while a file becomes a case. */
#ifndef SEQMIX_CHECK_VALIDATE_LOAD_H
#define SEQMIX_CHECK_VALIDATE_LOAD_H

#include "safetensors.h"
#include "validate_case.h"

struct seqmix_val_loader {
    const seqmix_safetensors *st;
    struct seqmix_val_dump *dump;
    int lead;        /* axes before R that were folded into it */
    int64_t batches; /* their product */
    char *why;
    char ignored[200];    /* keys of the metadata */
    bool gate_kind_given; /* gate_kind has no default once there is a gate */
};

#define REFUSE(l, ...) seqmix_val_refuse((l)->why, __VA_ARGS__)

/* Appends to a comma-separated list. */
void seqmix_val_add_name(char *list, size_t size, const char *name);

/* The op by name, from --op, --set or the metadata. */
bool seqmix_val_choose_op(struct seqmix_val_loader *l, const char *op, const struct seqmix_val_setting *settings,
                          int n_settings);

/* One key of the metadata (`from_file`) or of --set. */
bool seqmix_val_set(struct seqmix_val_loader *l, const char *key, const char *value, bool from_file);

/* An optional I32 or I64 vector. NULL with *count -1 when absent. */
bool seqmix_val_load_ints(struct seqmix_val_loader *l, const char *name, int32_t **out, int64_t *count);

/* The batch's arrays, or what a leading batch axis says in their place. */
bool seqmix_val_load_batch(struct seqmix_val_loader *l);

#endif
