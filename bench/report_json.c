/* SPDX-License-Identifier: MIT */
/* One JSON object: machine, roofline, openblas, results. Seconds, bytes and rates per second, without prefixes. */
#define _POSIX_C_SOURCE 200809L

#include "bench.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

void seqmix_bench_put_string(FILE *out, const char *key, const char *text)
{
    fprintf(out, "\"%s\": \"", key);
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else if ((unsigned char)*at < 0x20)
            fprintf(out, "\\u%04x", (unsigned)(unsigned char)*at);
        else
            fputc(*at, out);
    }
    fputc('"', out);
}

/* JSON has no NaN and no infinity. */
void seqmix_bench_put_number(FILE *out, const char *key, double value)
{
    if (isfinite(value))
        fprintf(out, "\"%s\": %.10g", key, value);
    else
        fprintf(out, "\"%s\": null", key);
}

static void cpu_name(char *name, size_t n)
{
    snprintf(name, n, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
        snprintf(name, n, "%s", colon + 2);
        name[strcspn(name, "\n")] = '\0';
        break;
    }
    if (file != NULL) fclose(file);
}

static void put_machine(FILE *out, const struct seqmix_bench_roofline *r)
{
    char name[128];
    cpu_name(name, sizeof name);
    fprintf(out, "  \"machine\": {");
    seqmix_bench_put_string(out, "cpu", name);
    fprintf(out, ", \"cpus\": %ld, \"workers\": %d, ", sysconf(_SC_NPROCESSORS_ONLN), r->workers);
    seqmix_bench_put_number(out, "l2_bytes", r->l2_bytes);
    fprintf(out, ", ");
    seqmix_bench_put_number(out, "llc_bytes", r->llc_bytes);
    fprintf(out, ", \"version\": \"%d.%d.%d\"},\n", SEQMIX_VERSION_MAJOR, SEQMIX_VERSION_MINOR, SEQMIX_VERSION_PATCH);
}

static void put_roofline(FILE *out, const struct seqmix_bench_roofline *r)
{
    fprintf(out, "  \"roofline\": {");
    seqmix_bench_put_string(out, "isa", r->isa);
    const struct {
        const char *key;
        double value;
    } rates[] = {{"fma_flops", r->fma},
                 {"fma_flops_one_worker", r->fma_one},
                 {"fma_flops_after", r->fma_after},
                 {"exp_polynomial", r->exp_poly},
                 {"exp_libm", r->expf_libm}};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        fprintf(out, ", ");
        seqmix_bench_put_number(out, rates[i].key, rates[i].value);
    }
    for (int i = 0; i < SEQMIX_BENCH_MEMORIES; i++) {
        const struct seqmix_bench_memory *m = &r->memory[i];
        fprintf(out, ",\n    \"%s\": {", seqmix_bench_memory_name(i));
        seqmix_bench_put_number(out, "footprint_bytes", m->footprint);
        fprintf(out, ", ");
        seqmix_bench_put_number(out, "memcpy_bytes", m->memcpy_rate);
        fprintf(out, ", ");
        seqmix_bench_put_number(out, "copy_bytes", m->copy);
        fprintf(out, ", ");
        seqmix_bench_put_number(out, "update_bytes", m->update);
        fprintf(out, ", ");
        seqmix_bench_put_number(out, "read_bytes", m->read);
        fprintf(out, "}");
    }
    fprintf(out, "},\n");
}

static void put_openblas(FILE *out, const struct seqmix_bench_openblas *blas)
{
    fprintf(out, "  \"openblas\": {\"present\": %s", blas->present ? "true" : "false");
    if (blas->present) {
        fprintf(out, ", ");
        seqmix_bench_put_string(out, "core", blas->core);
        fprintf(out, ", ");
        seqmix_bench_put_string(out, "config", blas->config);
        fprintf(out, ", \"threads\": %d, \"fallback\": %s", blas->threads, blas->fallback ? "true" : "false");
    }
    fprintf(out, ", ");
    seqmix_bench_put_string(out, "note", blas->note);
    fprintf(out, ", \"products\": [");
    for (int i = 0; i < blas->n; i++) {
        const struct seqmix_bench_blas_row *row = &blas->rows[i];
        fprintf(out, "%s\n    {", i > 0 ? "," : "");
        seqmix_bench_put_string(out, "model", row->ours->entry.shape->name);
        fprintf(out, ", ");
        seqmix_bench_put_string(out, "shape", row->ours->dims);
        fprintf(out, ", \"rows\": %" PRId64 ", \"form\": \"%s\", ", row->ours->entry.rows,
                row->ours->entry.decode ? "decode" : "prefill");
        seqmix_bench_put_number(out, "linear_seconds", row->ours->median);
        fprintf(out, ", ");
        seqmix_bench_put_number(out, "sgemm_seconds", row->median < 0 ? (double)NAN : row->median);
        fprintf(out, "}");
    }
    fprintf(out, "]},\n");
}

static void put_times(FILE *out, const struct seqmix_bench_result *r)
{
    const double t = r->median;
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"median_seconds", t},
                   {"min_seconds", r->min},
                   {"p10_seconds", r->p10},
                   {"p90_seconds", r->p90},
                   {"spread_percent", 100.0 * (r->p90 - r->p10) / t},
                   {"rows_per_second", (double)r->entry.rows / t},
                   {"flops", r->flops},
                   {"flops_per_second", r->flops / t},
                   {"exps_per_second", r->exps / t},
                   {"bytes", r->read_bytes + r->write_bytes},
                   {"bytes_per_second", (r->read_bytes + r->write_bytes) / t},
                   {"bound_seconds", r->bound_seconds},
                   {"roofline_percent", 100.0 * r->bound_seconds / t}};
    fprintf(out, ", \"status\": \"timed\", \"samples\": %d, \"calls_a_sample\": %d, \"copies\": %d, ", r->samples,
            r->calls, r->copies);
    seqmix_bench_put_string(out, "bound", r->bound);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        fprintf(out, ", ");
        seqmix_bench_put_number(out, numbers[i].key, numbers[i].value);
    }
}

static void put_result(FILE *out, const struct seqmix_bench_result *r)
{
    fprintf(out, "    {");
    seqmix_bench_put_string(out, "op", r->entry.op->name);
    fprintf(out, ", ");
    seqmix_bench_put_string(out, "kernel", r->kernel);
    fprintf(out, ", \"level\": %d, \"form\": \"%s\", ", r->level, r->entry.decode ? "decode" : "prefill");
    seqmix_bench_put_string(out, "model", r->entry.shape->name);
    fprintf(out, ", ");
    seqmix_bench_put_string(out, "shape", r->dims);
    fprintf(out, ", \"rows\": %" PRId64 ", ", r->entry.rows);
    seqmix_bench_put_string(out, "dtype", seqmix_bench_dtype_name(r->entry.dtype));
    fprintf(out, ", ");
    seqmix_bench_put_number(out, "error", r->verdict.error);
    fprintf(out, ", ");
    seqmix_bench_put_number(out, "error_bound", r->verdict.bound);
    if (r->samples > 0) {
        put_times(out, r);
    } else {
        const int skipped = r->skipped[0] != '\0';
        fprintf(out, ", \"status\": \"%s\", ", skipped ? "skipped" : "refused");
        seqmix_bench_put_string(out, "why", skipped ? r->skipped : r->verdict.text);
    }
    fprintf(out, "}");
}

int seqmix_bench_write_json(FILE *out, const struct seqmix_bench_roofline *r, const struct seqmix_bench_openblas *blas,
                            const struct seqmix_bench_result *results, int n)
{
    fprintf(out, "{\n");
    put_machine(out, r);
    put_roofline(out, r);
    put_openblas(out, blas);
    fprintf(out, "  \"results\": [");
    for (int i = 0; i < n; i++) {
        fprintf(out, "%s\n", i > 0 ? "," : "");
        put_result(out, &results[i]);
    }
    fprintf(out, "\n  ]\n}\n");
    return ferror(out) ? -1 : 0;
}
