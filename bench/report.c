/* SPDX-License-Identifier: MIT */
/* The tables. Units stand in the headers; one line per result, printed as it comes. */
#include "bench.h"

#include <inttypes.h>
#include <string.h>

static const double GIGA = 1e9;

static void print_rates(FILE *out, const char *name, const struct seqmix_bench_memory *m)
{
    fprintf(out, "  %-5s %9.1f MiB   %8.1f  %8.1f  %8.1f  %8.1f\n", name, m->footprint / 1048576.0,
            m->memcpy_rate / GIGA, m->copy / GIGA, m->update / GIGA, m->read / GIGA);
}

void seqmix_bench_print_machine(FILE *out, const struct seqmix_bench_roofline *r)
{
    fprintf(out, "Machine, measured now with %d worker%s (%s loops)\n", r->workers, r->workers == 1 ? "" : "s", r->isa);
    fprintf(out, "  f32 multiply-add  %8.1f GFLOP/s", r->fma / GIGA);
    if (r->workers > 1) fprintf(out, "  (one worker %.1f)", r->fma_one / GIGA);
    fprintf(out, "\n  exp               %8.2f G/s polynomial, %.2f G/s libm expf\n", r->exp_poly / GIGA,
            r->expf_libm / GIGA);
    fprintf(out, "  GB/s, read + written:   memcpy      copy    update      read   (footprint a worker)\n");
    for (int i = 0; i < SEQMIX_BENCH_MEMORIES; i++)
        print_rates(out, seqmix_bench_memory_name(i), &r->memory[i]);
}

void seqmix_bench_print_header(FILE *out, int decode)
{
    fprintf(out, "\n%s\n",
            decode
                ? "Decode: one row a sequence; states (for projections: weights) come from DRAM, another one each call"
                : "Prefill: one sequence; the same buffers every call");
    fprintf(out, "%-23s %-26s %-39s %5s %-5s %10s %7s %9s %7s %7s %7s %-6s %11s\n", "op", "kernel", "shape",
            decode ? "seqs" : "rows", "dtype", decode ? "median us" : "median ms", "spread%", "GFLOP/s", "GB/s",
            "Gexp/s", "% roof", "bound", "rows/s");
}

static void shape_text(const struct seqmix_bench_result *r, char *text, size_t n)
{
    snprintf(text, n, "%s %s", r->entry.shape->name, r->dims);
}

void seqmix_bench_print_result(FILE *out, const struct seqmix_bench_result *r)
{
    char shape[SEQMIX_SHAPE_NAME + SEQMIX_BENCH_DIMS + 1];
    shape_text(r, shape, sizeof shape);
    fprintf(out, "%-23s %-26s %-39s %5" PRId64 " %-5s ", r->entry.op->name, r->kernel, shape, r->entry.rows,
            seqmix_bench_dtype_name(r->entry.dtype));
    if (r->samples == 0) {
        fprintf(out, "%s: %s\n", r->skipped[0] != '\0' ? "skipped" : "REFUSED",
                r->skipped[0] != '\0' ? r->skipped : r->verdict.text);
        return;
    }
    const double t = r->median;
    fprintf(out, "%10.3f ", t * (r->entry.decode ? 1e6 : 1e3));
    if (r->samples > 2)
        fprintf(out, "%7.1f ", 100.0 * (r->p90 - r->p10) / t);
    else
        fprintf(out, "%7s ", "-");
    fprintf(out, "%9.2f %7.2f ", r->flops / t / GIGA, (r->read_bytes + r->write_bytes) / t / GIGA);
    if (r->exps > 0.01 * r->flops)
        fprintf(out, "%7.3f ", r->exps / t / GIGA);
    else
        fprintf(out, "%7s ", "-");
    fprintf(out, "%7.1f %-6s %11.0f\n", 100.0 * r->bound_seconds / t, r->bound, (double)r->entry.rows / t);
}

void seqmix_bench_print_openblas(FILE *out, const struct seqmix_bench_openblas *blas)
{
    if (!blas->present) {
        fprintf(out, "\nOpenBLAS: %s\n", blas->note);
        return;
    }
    fprintf(out, "\nf32 products beside OpenBLAS: core type '%s', %d thread%s; speed: ours to theirs\n", blas->core,
            blas->threads, blas->threads == 1 ? "" : "s");
    if (blas->fallback) fprintf(out, "WARNING: %s\n", blas->note);
    if (blas->n == 0) {
        fprintf(out, "no f32 line of linear to set beside it\n");
        return;
    }
    fprintf(out, "%-39s %5s %-7s %12s %12s %12s %12s %8s\n", "shape", "rows", "form", "linear ms", "sgemm ms",
            "linear GF/s", "sgemm GF/s", "speed");
    for (int i = 0; i < blas->n; i++) {
        const struct seqmix_bench_blas_row *row = &blas->rows[i];
        char shape[SEQMIX_SHAPE_NAME + SEQMIX_BENCH_DIMS + 1];
        shape_text(row->ours, shape, sizeof shape);
        fprintf(out, "%-39s %5" PRId64 " %-7s ", shape, row->ours->entry.rows,
                row->ours->entry.decode ? "decode" : "prefill");
        if (row->median < 0)
            fprintf(out, "%12.3f no memory for sgemm\n", row->ours->median * 1e3);
        else
            fprintf(out, "%12.3f %12.3f %12.2f %12.2f %7.2fx\n", row->ours->median * 1e3, row->median * 1e3,
                    row->ours->flops / row->ours->median / GIGA, row->ours->flops / row->median / GIGA,
                    row->median / row->ours->median);
    }
}
