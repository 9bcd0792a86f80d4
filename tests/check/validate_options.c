/* SPDX-License-Identifier: MIT */
/* What a dump says beside its tensors: the op and its options, in the metadata or by --set, and the arrays of the batch. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "validate_load.h"

bool seqmix_val_refuse(char why[SEQMIX_VAL_TEXT], const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vsnprintf(why, SEQMIX_VAL_TEXT, format, list);
    va_end(list);
    return false;
}

void seqmix_val_note(struct seqmix_val_dump *dump, const char *format, ...)
{
    if (dump->n_notes == SEQMIX_VAL_NOTES) return;
    va_list list;
    va_start(list, format);
    (void)vsnprintf(dump->notes[dump->n_notes++], SEQMIX_VAL_TEXT, format, list);
    va_end(list);
}

static bool same_word(const char *a, size_t a_length, const char *b)
{
    for (size_t i = 0; i < a_length; i++) {
        const char upper = b[i] >= 'a' && b[i] <= 'z' ? (char)(b[i] - 'a' + 'A') : b[i];
        if (b[i] == '\0' || a[i] != upper) return false;
    }
    return b[a_length] == '\0';
}

/* The index of `value` among space-separated words, or among them with anything up to an underscore before: SILU,
 * ACT_SILU and SEQMIX_ACT_SILU are the same. -1 = not there. */
static int word_index(const char *words, const char *value)
{
    const size_t length = strlen(value);
    int index = 0;
    for (const char *word = words; *word != '\0'; index++) {
        const size_t n = strcspn(word, " ");
        if (same_word(word, n, value)) return index;
        if (length > n && value[length - n - 1] == '_' && same_word(word, n, value + length - n)) return index;
        word += n;
        if (*word == ' ') word++;
    }
    return -1;
}

static bool parse_whole(const char *value, int32_t *out)
{
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 || number < INT32_MIN || number > INT32_MAX) return false;
    *out = (int32_t)number;
    return true;
}

static bool parse_switch(const char *value, int32_t *out)
{
    if (same_word("TRUE", 4, value) || same_word("YES", 3, value)) return *out = 1, true;
    if (same_word("FALSE", 5, value) || same_word("NO", 2, value)) return *out = 0, true;
    return parse_whole(value, out);
}

static bool parse_float(const char *value, float *out)
{
    char *end = NULL;
    const double number = strtod(value, &end);
    if (end == value || *end != '\0') return false;
    *out = (float)number;
    return true;
}

static bool set_option(struct seqmix_val_case *c, const char *key, const char *value, bool *known,
                       char why[SEQMIX_VAL_TEXT])
{
    *known = false;
    for (const struct seqmix_val_option *option = c->family->options; option->name != NULL; option++) {
        if (strcmp(option->name, key) != 0) continue;
        char *at = (char *)&c->args + option->offset;
        *known = true;
        if (option->kind == SEQMIX_VAL_FLOAT) {
            float number = 0;
            if (!parse_float(value, &number)) return seqmix_val_refuse(why, "%s=%.60s is not a number", key, value);
            memcpy(at, &number, sizeof number);
            return true;
        }
        int32_t number = option->words != NULL ? word_index(option->words, value) : -1;
        if (number < 0 && !(option->words != NULL ? parse_whole(value, &number) : parse_switch(value, &number)))
            return seqmix_val_refuse(why, "%s=%.60s is not %s%s", key, value, option->words != NULL ? "one of " : "",
                                     option->words != NULL ? option->words : "a whole number");
        memcpy(at, &number, sizeof number);
        return true;
    }
    return true;
}

void seqmix_val_add_name(char *list, size_t size, const char *name)
{
    const size_t at = strlen(list);
    (void)snprintf(list + at, size - at, "%s%.40s", at > 0 ? ", " : "", name);
}

bool seqmix_val_set(struct seqmix_val_loader *l, const char *key, const char *value, bool from_file)
{
    struct seqmix_val_case *c = &l->dump->base;
    bool known = false;
    if (strcmp(key, "op") == 0 || strcmp(key, "max_rows") == 0 || (from_file && strcmp(key, "format") == 0))
        return true;
    if (from_file && strcmp(key, "source") == 0) return seqmix_val_note(l->dump, "source: %.250s", value), true;
    if (strcmp(key, "state_order") == 0 && c->family->state_order != NULL) {
        const char *order = c->family->state_order;
        const bool plain = value[0] == order[0] && value[1] == order[1] && value[2] == '\0';
        const bool swapped = !plain && value[0] == order[1] && value[1] == order[0] && value[2] == '\0';
        l->dump->declared_swap = swapped;
        return plain || swapped ? true
                                : REFUSE(l, "state_order=%.20s is neither %c%c nor %c%c", value, order[0], order[1],
                                         order[1], order[0]);
    }
    if (!set_option(c, key, value, &known, l->why)) return false;
    if (strcmp(key, "gate_kind") == 0) l->gate_kind_given = true;
    if (!known && !from_file) return REFUSE(l, "--set %.60s: %s has no such option", key, c->op->name);
    if (!known) seqmix_val_add_name(l->ignored, sizeof l->ignored, key);
    return true;
}

bool seqmix_val_choose_op(struct seqmix_val_loader *l, const char *op, const struct seqmix_val_setting *settings,
                          int n_settings)
{
    for (int i = 0; i < n_settings; i++)
        if (op == NULL && strcmp(settings[i].key, "op") == 0) op = settings[i].value;
    if (op == NULL) op = seqmix_st_metadata(l->st, "op");
    if (op == NULL) return REFUSE(l, "no op: the file's metadata names none, give --op");
    struct seqmix_val_case *c = &l->dump->base;
    c->op = seqmix_val_find_op(op);
    if (c->op == NULL) return REFUSE(l, "there is no op called %.60s", op);
    c->family = &seqmix_val_families[c->op->family];
    const uint32_t size = (uint32_t)c->family->args_size;
    memcpy(&c->args, &size, sizeof size); /* struct_size is every args struct's first member */
    return true;
}

/* ---------------------------------------------------------------- integer arrays */

bool seqmix_val_load_ints(struct seqmix_val_loader *l, const char *name, int32_t **out, int64_t *count)
{
    const seqmix_st_tensor *st = seqmix_st_find(l->st, name);
    *out = NULL;
    *count = -1;
    if (st == NULL) return true;
    if (st->dtype != SEQMIX_ST_I32 && st->dtype != SEQMIX_ST_I64)
        return REFUSE(l, "%s has dtype %s, must be I32 or I64", name, seqmix_st_dtype_name(st->dtype));
    if (st->rank != 1) return REFUSE(l, "%s has rank %d, must be 1", name, (int)st->rank);
    *count = st->shape[0];
    if (*count > INT32_MAX) return REFUSE(l, "%s has %" PRId64 " entries, at most 2^31-1 are possible", name, *count);
    *out = seqmix_val_take(&l->dump->base.memory, *count, sizeof **out);
    if (*out == NULL) return REFUSE(l, "no memory for %s", name);
    for (int64_t i = 0; i < *count; i++) {
        const int64_t value =
            st->dtype == SEQMIX_ST_I64 ? ((const int64_t *)st->data)[i] : ((const int32_t *)st->data)[i];
        if (value < INT32_MIN || value > INT32_MAX)
            return REFUSE(l, "%s[%" PRId64 "]=%" PRId64 " does not fit 32 bits", name, i, value);
        (*out)[i] = (int32_t)value;
    }
    return true;
}

static bool load_row_begin(struct seqmix_val_loader *l)
{
    struct seqmix_val_case *c = &l->dump->base;
    seqmix_batch *b = &c->batch;
    int64_t count;
    int32_t *begin;
    if (!seqmix_val_load_ints(l, "row_begin", &begin, &count)) return false;
    if (begin != NULL) {
        if (count < 2) return REFUSE(l, "row_begin has %" PRId64 " entries, must have n_seqs+1", count);
        if (l->lead > 0 && l->batches > 1)
            return REFUSE(l, "row_begin is given and the row tensors have a batch axis of %" PRId64, l->batches);
    } else if (l->lead > 0 && l->batches > 1) {
        count = l->batches + 1;
        begin = seqmix_val_take(&c->memory, count, sizeof *begin);
        if (begin == NULL) return REFUSE(l, "no memory for row_begin");
        for (int64_t i = 0; i < count; i++)
            begin[i] = (int32_t)(i * (c->rows / l->batches));
    }
    b->row_begin = begin;
    b->n_seqs = begin != NULL ? (int32_t)(count - 1) : c->op->step ? (int32_t)c->rows : 1;
    b->max_rows = begin != NULL || !c->op->step ? 0 : 1;
    for (int32_t i = 0; begin != NULL && i < b->n_seqs; i++) {
        const int64_t rows = (int64_t)begin[i + 1] - begin[i];
        if (rows > b->max_rows && rows <= INT32_MAX) b->max_rows = (int32_t)rows;
    }
    if (b->max_rows == 0) b->max_rows = begin != NULL ? 1 : (int32_t)c->rows;
    return true;
}

bool seqmix_val_load_batch(struct seqmix_val_loader *l)
{
    struct seqmix_val_case *c = &l->dump->base;
    seqmix_batch *b = &c->batch;
    if (!load_row_begin(l)) return false;
    int64_t count[5];
    int32_t *array[5];
    const char *const names[] = {"read_slot", "write_slot", "ckpt_seq", "ckpt_row", "ckpt_slot"};
    for (int i = 0; i < 5; i++) {
        if (!seqmix_val_load_ints(l, names[i], &array[i], &count[i])) return false;
        if (i < 2 && array[i] != NULL && count[i] != b->n_seqs)
            return REFUSE(l, "%s has %" PRId64 " entries, n_seqs=%" PRId32, names[i], count[i], b->n_seqs);
        if (i > 2 && count[i] != count[2])
            return REFUSE(l, "%s has %" PRId64 " entries, ckpt_seq has %" PRId64 " (-1: absent)", names[i], count[i],
                          count[2]);
    }
    b->read_slot = array[0];
    b->write_slot = array[1];
    b->ckpt_seq = array[2];
    b->ckpt_row = array[3];
    b->ckpt_slot = array[4];
    b->n_checkpoints = count[2] > 0 ? (int32_t)count[2] : 0;
    return true;
}
