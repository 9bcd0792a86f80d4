/* SPDX-License-Identifier: MIT */
/* Tables and JSON of --model. Both say that they are a model. */
#include "model.h"

#include <inttypes.h>

void seqmix_model_print_header(FILE *out, const struct seqmix_model_card *card, int launches)
{
    fprintf(out,
            "A model of %s, not a measurement: counts of the kernels, run in the emulator, over the card's rates.\n"
            "bound: least time of the launches, by their busiest resource. floor: of the op, however it is computed.\n"
            "bytes, sect, bank: bytes moved, 32-byte sectors and bank wavefronts over the least there could be.\n\n",
            card->name);
    fprintf(out, "%-24s %-20s %6s %4s %-4s %-4s %9s %-4s %9s %-4s %6s %9s %5s %5s %5s  %s\n", "op", "sizes", "rows",
            "seqs", "type", "mode", "bound us", "by", "floor us", "by", "ratio", "asked us", "bytes", "sect", "bank",
            launches ? "kernels" : "kernel");
}

static double over(double a, double b)
{
    return b > 0 ? a / b : 1;
}

static void print_launch(FILE *out, const struct seqmix_model_launch *l, const struct seqmix_model_times *t)
{
    fprintf(out, "    %-44s %8.0f blocks of %4d, %6.0f B shared, %3d registers", l->kernel, l->blocks, l->threads,
            l->shared, l->registers);
    if (t->warps > 0) fprintf(out, ", %2.0f warps an SM", t->warps);
    fprintf(out, ", tail %.2f;", t->tail);
    for (int i = 0; i < SEQMIX_MODEL_PARTS; i++)
        fprintf(out, " %s %.1f", seqmix_model_parts[i], 1e6 * t->part[i]);
    fprintf(out, " us; sect %.2f bank %.2f\n", over(l->sectors, l->ideal_sectors),
            over(l->wavefronts, l->ideal_wavefronts));
}

void seqmix_model_print_line(FILE *out, const struct seqmix_model_line *line, int launches)
{
    const struct seqmix_bench_entry *e = &line->entry;
    const int64_t seqs = e->decode ? e->rows : e->seqs;
    fprintf(out, "%-24s %-20.20s %6" PRId64 " %4" PRId64 " %-4s %-4s ", e->op->name, line->dims,
            e->decode ? 1 : e->rows / e->seqs, seqs, seqmix_bench_dtype_name(e->dtype), line->fast ? "fast" : "");
    if (line->skipped[0] != '\0') {
        fprintf(out, "failed: %s\n", line->skipped);
        return;
    }
    double sectors = 0, ideal_sectors = 0, wavefronts = 0, ideal_wavefronts = 0;
    for (int i = 0; i < line->n_launches; i++) {
        sectors += line->launches[i].sectors;
        ideal_sectors += line->launches[i].ideal_sectors;
        wavefronts += line->launches[i].wavefronts;
        ideal_wavefronts += line->launches[i].ideal_wavefronts;
    }
    char wanted[24] = "";
    if (line->asked > 0)
        snprintf(wanted, sizeof wanted, "%.1f%s", 1e6 * line->asked, line->bound > line->asked ? "!" : " ");
    fprintf(out, "%9.2f %-4s %9.2f %-4s %6.2f %9s %5.2f %5.2f %5.2f  %s", 1e6 * line->bound,
            seqmix_model_parts[line->by], 1e6 * line->floor, seqmix_model_parts[line->floor_by],
            over(line->bound, line->floor), wanted, over(line->bytes, line->floor_bytes), over(sectors, ideal_sectors),
            over(wavefronts, ideal_wavefronts), line->kernel);
    if (line->n_launches != 1) fprintf(out, " (%d launches)", line->n_launches);
    fputc('\n', out);
    for (int i = 0; i < line->n_launches && launches; i++)
        print_launch(out, &line->launches[i], &line->times[i]);
}

/* ---------------------------------------------------------------- JSON */

static void put(FILE *out, const char *key, double value)
{
    fprintf(out, ", ");
    seqmix_bench_put_number(out, key, value);
}

static void write_launch(FILE *out, const struct seqmix_model_launch *l, const struct seqmix_model_times *t)
{
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"blocks", l->blocks},
                   {"blocks_counted", l->blocks_run},
                   {"threads", l->threads},
                   {"registers", l->registers},
                   {"shared_bytes", l->shared},
                   {"warps_per_sm", t->warps},
                   {"tail", t->tail},
                   {"fetched_bytes", l->fetched},
                   {"stored_bytes", l->stored},
                   {"l2_bytes", l->between},
                   {"sectors", l->sectors},
                   {"ideal_sectors", l->ideal_sectors},
                   {"wavefronts", l->wavefronts},
                   {"ideal_wavefronts", l->ideal_wavefronts},
                   {"shuffles", l->shuffles},
                   {"barriers", l->barriers},
                   {"mma_k16", l->mma_16},
                   {"mma_k8", l->mma_8},
                   {"exps", l->exps},
                   {"roots", l->roots},
                   {"fmas", l->fmas}};
    fprintf(out, "{");
    seqmix_bench_put_string(out, "kernel", l->kernel);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        put(out, numbers[i].key, numbers[i].value);
    fprintf(out, ", \"seconds\": {");
    for (int i = 0; i < SEQMIX_MODEL_PARTS; i++) {
        if (i > 0) fprintf(out, ", ");
        seqmix_bench_put_number(out, seqmix_model_parts[i], t->part[i]);
    }
    fprintf(out, "}}");
}

static void write_line(FILE *out, const struct seqmix_model_line *line)
{
    const struct seqmix_bench_entry *e = &line->entry;
    fprintf(out, "  {");
    seqmix_bench_put_string(out, "op", e->op->name);
    fprintf(out, ", ");
    seqmix_bench_put_string(out, "shape", e->shape->name);
    fprintf(out, ", ");
    seqmix_bench_put_string(out, "sizes", line->dims);
    fprintf(out, ", ");
    seqmix_bench_put_string(out, "dtype", seqmix_bench_dtype_name(e->dtype));
    fprintf(out, ", \"rows\": %" PRId64 ", \"seqs\": %" PRId64 ", \"fast\": %s, ", e->rows,
            e->decode ? e->rows : e->seqs, line->fast ? "true" : "false");
    seqmix_bench_put_string(out, "kernel", line->kernel);
    fprintf(out, ", ");
    if (line->skipped[0] != '\0') {
        seqmix_bench_put_string(out, "failed", line->skipped);
        fprintf(out, "}");
        return;
    }
    seqmix_bench_put_string(out, "bound_by", seqmix_model_parts[line->by]);
    fprintf(out, ", ");
    seqmix_bench_put_string(out, "floor_by", seqmix_model_parts[line->floor_by]);
    put(out, "modelled_bound_s", line->bound);
    put(out, "floor_s", line->floor);
    put(out, "ratio", over(line->bound, line->floor));
    put(out, "moved_bytes", line->bytes);
    put(out, "floor_bytes", line->floor_bytes);
    if (line->asked > 0) put(out, "asked_s", line->asked);
    fprintf(out, ",\n   \"launches\": [");
    for (int i = 0; i < line->n_launches; i++) {
        if (i > 0) fprintf(out, ",\n    ");
        write_launch(out, &line->launches[i], &line->times[i]);
    }
    fprintf(out, "]}");
}

void seqmix_model_write_json(FILE *out, const struct seqmix_model_card *card, const struct seqmix_model_line *lines,
                             int n)
{
    fprintf(out, "{\"what\": \"a model from counts, not a measurement\", ");
    seqmix_bench_put_string(out, "card", card->name);
    fprintf(out, ", \"lines\": [\n");
    for (int i = 0; i < n; i++) {
        write_line(out, &lines[i]);
        fprintf(out, i + 1 < n ? ",\n" : "\n");
    }
    fprintf(out, "]}\n");
}
