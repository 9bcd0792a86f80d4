/* SPDX-License-Identifier: MIT */
/*
 * The JSON of seqmix-bench --suite targets: an array with every line, every line with its keys, and a verdict that follows from
 * its figures. The figures themselves are not judged: a run of seconds beside other tests measures nothing.
 * usage: bench_targets SEQMIX-BENCH [OPTIONS]
 */
#define _POSIX_C_SOURCE 200809L
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20 };

static const char *const names[] = {
    "delta rule prefill, 2048 rows",
    "delta rule prefill, 512 rows",
    "delta rule prefill, 64 rows",
    "delta rule prefill, bf16 on AMX",
    "SSD prefill, 2048 rows",
    "SSD prefill, bf16 on AMX",
    "selective scan, 2048 rows",
    "short conv + silu, 2048 rows",
    "decode step, delta rule",
    "decode step, SSD",
    "decode step, selective scan",
    "unit_lower_inverse, 256 of 64x64",
    "two workers, delta rule",
    "two workers, SSD",
    "two workers, delta rule, 4 heads",
    "two workers, SSD, 4 heads",
    "AVX2 rung, delta rule prefill",
    "AVX2 rung, SSD prefill",
    "ragged rows, delta rule",
    "slots, delta rule",
    "checkpoints, delta rule",
    "packed inputs, delta rule",
    "ragged rows, SSD",
    "slots, SSD",
    "checkpoints, SSD",
    "packed inputs, SSD",
    "calling overhead, one row",
    "fork and join, empty tasks",
    "fork and join, two busy workers",
};

static int failures;

static void expect(int holds, const char *line, const char *what)
{
    if (holds) return;
    printf("%s: %s\n", line, what);
    failures++;
}

/* The standard output of the program, which must succeed. */
static char *run(int argc, char **argv)
{
    static char command[4096], text[MOST];
    size_t used = 0;
    for (int i = 1; i < argc; i++)
        used += (size_t)snprintf(command + used, sizeof command - used, "'%s' ", argv[i]);
    FILE *pipe = popen(command, "r");
    if (pipe == NULL) return NULL;
    text[fread(text, 1, sizeof text - 1, pipe)] = '\0';
    const int status = pclose(pipe);
    if (status != 0) printf("wait status %d of %s\n", status, command);
    return status == 0 ? text : NULL;
}

static const cJSON *get(const cJSON *line, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(line, key);
}

static void check_line(const cJSON *line, const char *name)
{
    static const char *const texts[] = {"name", "unit", "sense", "rung", "shape", "kernel", "baseline", "note"};
    static const char *const numbers[] = {"value", "target", "stretch"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        expect(cJSON_IsString(get(line, texts[i])), name, texts[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        expect(cJSON_IsNumber(get(line, numbers[i])) || cJSON_IsNull(get(line, numbers[i])), name, numbers[i]);
    if (failures > 0) return;

    const cJSON *value = get(line, "value"), *target = get(line, "target"), *met = get(line, "met");
    const int judged = cJSON_IsNumber(value) && cJSON_IsNumber(target);
    expect(strcmp(get(line, "name")->valuestring, name) == 0, name, "is not where it should be");
    expect(judged ? cJSON_IsBool(met) : cJSON_IsNull(met), name, "met is not a verdict, or one without figures");
    if (judged) {
        const int at_most = strcmp(get(line, "sense")->valuestring, "at most") == 0;
        const int holds =
            at_most ? value->valuedouble <= target->valuedouble : value->valuedouble >= target->valuedouble;
        expect(cJSON_IsTrue(met) == holds, name, "met contradicts the figures");
    }
    expect(cJSON_IsNumber(value) || get(line, "note")->valuestring[0] != '\0', name, "no value and no reason");
    expect(!cJSON_IsNumber(value) || strncmp(get(line, "rung")->valuestring, "cpu-", 4) == 0, name, "no rung");
}

int main(int argc, char **argv)
{
    const int n = (int)(sizeof names / sizeof names[0]);
    const char *text = argc > 1 ? run(argc, argv) : NULL;
    cJSON *array = text != NULL ? cJSON_ParseWithOpts(text, NULL, 1) : NULL;
    expect(cJSON_IsArray(array), "output", "is no JSON array alone");
    expect(cJSON_GetArraySize(array) == n, "output", "has another number of lines");
    int measured = 0;
    for (int i = 0; i < n && failures == 0; i++) {
        check_line(cJSON_GetArrayItem(array, i), names[i]);
        measured += cJSON_IsNumber(get(cJSON_GetArrayItem(array, i), "value"));
    }
    cJSON_Delete(array);
    printf("%d lines, %d measured, %d wrong\n", n, measured, failures);
    return failures == 0 && measured > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
