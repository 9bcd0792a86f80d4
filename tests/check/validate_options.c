/* SPDX-License-Identifier: MIT */
/* Options of an op from strings: the dump's metadata, then --set. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "validate_case.h"

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

bool seqmix_val_set_option(struct seqmix_val_case *c, const char *key, const char *value, bool *known,
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
