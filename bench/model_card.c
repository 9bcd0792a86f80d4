/* SPDX-License-Identifier: MIT */
/* Cards as data: `key value` lines, `#` starts a comment, every key once; model.h says what they mean. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 256, PATH = 4096 };

#define NUMBER(key)                                                                                                    \
    {                                                                                                                  \
#        key, offsetof(struct seqmix_model_card, key)                                                                  \
    }
static const struct {
    const char *key;
    size_t at;
} numbers[] = {NUMBER(capability), NUMBER(sms),         NUMBER(clock), NUMBER(copy), NUMBER(l2),
               NUMBER(tensor),     NUMBER(tensor_peak), NUMBER(fp32),  NUMBER(mufu), NUMBER(warps),
               NUMBER(registers),  NUMBER(shared),      NUMBER(blocks)};
enum { N_NUMBERS = sizeof numbers / sizeof numbers[0] };

/* One line. NULL, or what is wrong with it. */
static const char *parse_line(char *line, struct seqmix_model_card *card)
{
    line[strcspn(line, "#\n")] = '\0';
    char *key = strtok(line, " \t"), *value = strtok(NULL, " \t"), *end = NULL;
    if (key == NULL) return NULL;
    if (value == NULL || strtok(NULL, " \t") != NULL) return "a key needs one value";
    if (strcmp(key, "card") == 0) {
        snprintf(card->name, sizeof card->name, "%s", value);
        return NULL;
    }
    for (int i = 0; i < N_NUMBERS; i++) {
        if (strcmp(key, numbers[i].key) != 0) continue;
        const double number = strtod(value, &end);
        if (*end != '\0' || !(number > 0 && number < 1e18)) return "its value is no number above 0";
        memcpy((char *)card + numbers[i].at, &number, sizeof number);
        return NULL;
    }
    return "there is no such key";
}

int seqmix_model_card_load(const char *name, struct seqmix_model_card *card, char *why, size_t why_len)
{
    char path[PATH + 64], dir[PATH], line[LINE];
    snprintf(path, sizeof path, "%s", name);
    if (strchr(name, '/') == NULL) {
        if (seqmix_shapes_find_dir(dir, sizeof dir, why, why_len) != 0) return -1;
        snprintf(path, sizeof path, "%s/../cards/%.40s.txt", dir, name);
    }
    memset(card, 0, sizeof *card);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        snprintf(why, why_len, "no card '%s': cannot open %.200s", name, path);
        return -1;
    }
    const char *wrong = NULL;
    int n = 0;
    while (wrong == NULL && fgets(line, sizeof line, file) != NULL) {
        n++;
        wrong = parse_line(line, card);
    }
    fclose(file);
    for (int i = 0; i < N_NUMBERS && wrong == NULL; i++) {
        double number;
        memcpy(&number, (const char *)card + numbers[i].at, sizeof number);
        if (number > 0) continue;
        snprintf(why, why_len, "%.200s: %s is missing", path, numbers[i].key);
        return -1;
    }
    if (wrong != NULL) snprintf(why, why_len, "%.200s:%d: %s", path, n, wrong);
    return wrong != NULL ? -1 : 0;
}
