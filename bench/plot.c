/* SPDX-License-Identifier: MIT */
/*
 * The plot, one SVG written by hand: a panel for each op with rows per second over rows, colour for the model and marker for
 * the dtype, and below them the roofline: what the machine can do at an arithmetic intensity, and where each call landed.
 */
#include "bench.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    WIDTH = 1240,
    MARGIN = 30,
    COLUMNS = 3,
    PANEL_HEIGHT = 258,
    LEGEND_COLUMN = 196,
    LEGEND_COLUMNS = (WIDTH - 2 * MARGIN) / LEGEND_COLUMN,
    LEGEND_LINE = 20,
    ROOF_HEIGHT = 520,
    ROOF_LEGEND = 260,
    MODELS = 16,
    RUNGS = 6
};

static const char INK[] = "#222222", FAINT[] = "#e4e4e4", GREY[] = "#8a8a8a";
static const char *const COLOURS[MODELS] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e6a700", "#56b4e9",
                                            "#7a3e9d", "#8c564b", "#4d4d4d", "#b2182b", "#66a61e", "#1b9e9e",
                                            "#a6761d", "#e7298a", "#3f51b5", "#999933"};
static const int32_t DTYPES[3] = {SEQMIX_F32, SEQMIX_BF16, SEQMIX_F16};
static const char *const DASHES[RUNGS] = {"none", "6 3", "2 3", "8 3 2 3", "1 4", "12 4"};

/* ---- SVG ---- */

struct box {
    double x, y, w, h;
};

/* A logarithmic axis from `low` to `high`, at pixels `from` to `to`. */
struct axis {
    double low, high, from, to;
};

static double place(const struct axis *a, double value)
{
    return a->from + (log10(value) - log10(a->low)) / (log10(a->high) - log10(a->low)) * (a->to - a->from);
}

static void put_line(FILE *out, double x1, double y1, double x2, double y2, const char *colour, double width,
                     const char *dash)
{
    fprintf(out,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%.2f\" "
            "stroke-dasharray=\"%s\"/>\n",
            x1, y1, x2, y2, colour, width, dash);
}

static void put_text(FILE *out, double x, double y, const char *anchor, double size, const char *style,
                     const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%.1f\" %s>", x, y, anchor, size, style);
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '<')
            fputs("&lt;", out);
        else if (*at == '&')
            fputs("&amp;", out);
        else
            fputc(*at, out);
    }
    fputs("</text>\n", out);
}

/* f32 a circle, bf16 a square, f16 a triangle; hollow for decode. */
static void put_marker(FILE *out, double x, double y, int32_t dtype, const char *colour, int hollow)
{
    char paint[96];
    snprintf(paint, sizeof paint, "fill=\"%s\" stroke=\"%s\" stroke-width=\"1.6\"", hollow ? "#ffffff" : colour,
             colour);
    if (dtype == SEQMIX_F32)
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.8\" %s/>\n", x, y, paint);
    else if (dtype == SEQMIX_BF16)
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"7\" height=\"7\" %s/>\n", x - 3.5, y - 3.5, paint);
    else
        fprintf(out, "<path d=\"M%.1f %.1fl4.4 7.6h-8.8z\" %s/>\n", x, y - 4.8, paint);
}

/* ---- axes ---- */

/* The nearest 1, 2 or 5 times a power of ten at or below (above) a value. */
static double nice(double value, int above)
{
    static const double steps[3] = {1, 2, 5};
    const double decade = pow(10, floor(log10(value) + 1e-9));
    double best = above ? 10 * decade : decade;
    for (int i = 0; i < 3; i++) {
        const double step = steps[i] * decade;
        if (above && step >= value * (1 - 1e-9) && step < best) best = step;
        if (!above && step <= value * (1 + 1e-9) && step > best) best = step;
    }
    return best;
}

static void tick_text(double value, char *text, size_t n)
{
    if (value >= 0.99e6)
        snprintf(text, n, "%gM", round(value * 1e-4) * 1e-2);
    else if (value >= 0.99e3)
        snprintf(text, n, "%gk", round(value * 1e-1) * 1e-2);
    else
        snprintf(text, n, "%g", value);
}

static void put_tick(FILE *out, const struct axis *a, const struct box *box, double value, int vertical, int labelled)
{
    char text[16];
    tick_text(value, text, sizeof text);
    const double at = place(a, value);
    if (vertical) {
        put_line(out, box->x, at, box->x + box->w, at, FAINT, labelled ? 1 : 0.5, "none");
        if (labelled) put_text(out, box->x - 7, at + 4, "end", 11, "", text);
    } else {
        put_line(out, at, box->y, at, box->y + box->h, FAINT, labelled ? 1 : 0.5, "none");
        if (labelled) put_text(out, at, box->y + box->h + 16, "middle", 11, "", text);
    }
}

/* Decimal ticks: over three decades only the powers of ten have labels. */
static void put_decimal_axis(FILE *out, const struct axis *a, const struct box *box, int vertical)
{
    static const double steps[3] = {1, 2, 5};
    const int wide = a->high / a->low > 2000;
    for (double decade = pow(10, floor(log10(a->low) + 1e-9)); decade <= a->high * 1.001; decade *= 10)
        for (int i = 0; i < 3; i++)
            if (steps[i] * decade >= a->low * 0.999 && steps[i] * decade <= a->high * 1.001)
                put_tick(out, a, box, steps[i] * decade, vertical, i == 0 || !wide);
}

/* Ticks at powers of two, thinned so that at most eight have labels. */
static void put_binary_axis(FILE *out, const struct axis *a, const struct box *box)
{
    double step = 2;
    while (log(a->high / a->low) / log(step) > 8)
        step *= 2;
    for (double value = 1; value <= a->high * 1.001; value *= step)
        if (value >= a->low * 0.999) put_tick(out, a, box, value, 0, 1);
}

static void put_frame(FILE *out, const struct box *box)
{
    fprintf(
        out,
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" stroke=\"%s\" stroke-width=\"1\"/>\n",
        box->x, box->y, box->w, box->h, GREY);
}

static void put_side_text(FILE *out, double x, double y, const char *text)
{
    char style[64];
    snprintf(style, sizeof style, "transform=\"rotate(-90 %.1f %.1f)\"", x, y);
    put_text(out, x, y, "middle", 12, style, text);
}

/* ---- what is drawn ---- */

struct plot {
    FILE *out;
    const struct seqmix_bench_roofline *roofline;
    const struct seqmix_bench_result *results;
    int n;
    const struct seqmix_shape *models[MODELS]; /* colour i is models[i]; further ones share the last */
    int n_models;
    int32_t rungs[RUNGS];
    char rung_names[RUNGS][24];
    int n_rungs;
};

static int model_index(const struct plot *p, const struct seqmix_shape *shape)
{
    for (int i = 0; i < p->n_models; i++)
        if (p->models[i] == shape) return i;
    return MODELS - 1;
}

static int rung_index(const struct plot *p, int32_t level)
{
    for (int i = 0; i < p->n_rungs; i++)
        if (p->rungs[i] == level) return i;
    return RUNGS - 1;
}

static void collect(struct plot *p)
{
    for (int i = 0; i < p->n; i++) {
        const struct seqmix_bench_result *r = &p->results[i];
        int known = r->samples == 0;
        for (int k = 0; k < p->n_models; k++)
            known |= p->models[k] == r->entry.shape;
        if (!known && p->n_models < MODELS) p->models[p->n_models++] = r->entry.shape;
        known = r->samples == 0;
        for (int k = 0; k < p->n_rungs; k++)
            known |= p->rungs[k] == r->level;
        if (known || p->n_rungs == RUNGS) continue;
        snprintf(p->rung_names[p->n_rungs], sizeof p->rung_names[0], "%.*s", (int)strcspn(r->kernel, "/"), r->kernel);
        p->rungs[p->n_rungs++] = r->level;
    }
}

static int same_series(const struct seqmix_bench_result *a, const struct seqmix_bench_result *b)
{
    return a->entry.op == b->entry.op && a->entry.shape == b->entry.shape && a->entry.linear == b->entry.linear &&
           a->entry.dtype == b->entry.dtype && a->entry.decode == b->entry.decode && a->level == b->level;
}

static int in_panel(const struct seqmix_bench_result *r, int op, int decode)
{
    return r->samples > 0 && r->entry.op == &seqmix_bench_ops[op] && r->entry.decode == decode;
}

static double rows_per_second(const struct seqmix_bench_result *r)
{
    return (double)r->entry.rows / r->median;
}

/* The line of the series that result `first` starts, and its markers; nothing if an earlier result started it. */
static void put_series(const struct plot *p, int first, const struct axis *x, const struct axis *y)
{
    const struct seqmix_bench_result *r = &p->results[first];
    for (int i = 0; i < first; i++)
        if (p->results[i].samples > 0 && same_series(&p->results[i], r)) return;
    const char *colour = COLOURS[model_index(p, r->entry.shape)];
    fprintf(p->out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" stroke-dasharray=\"%s\" points=\"",
            colour, DASHES[rung_index(p, r->level)]);
    for (int i = first; i < p->n; i++)
        if (p->results[i].samples > 0 && same_series(&p->results[i], r))
            fprintf(p->out, "%.1f,%.1f ", place(x, (double)p->results[i].entry.rows),
                    place(y, rows_per_second(&p->results[i])));
    fprintf(p->out, "\"/>\n");
    for (int i = first; i < p->n; i++)
        if (p->results[i].samples > 0 && same_series(&p->results[i], r))
            put_marker(p->out, place(x, (double)p->results[i].entry.rows), place(y, rows_per_second(&p->results[i])),
                       r->entry.dtype, colour, r->entry.decode);
}

static void put_panel(const struct plot *p, int op, int decode, const struct box *outer)
{
    const struct box box = {outer->x + 62, outer->y + 26, outer->w - 74, outer->h - 72};
    struct axis x = {1e300, 0, box.x + 14, box.x + box.w - 14}, y = {1e300, 0, box.y + box.h, box.y};
    for (int i = 0; i < p->n; i++) {
        const struct seqmix_bench_result *r = &p->results[i];
        if (!in_panel(r, op, decode)) continue;
        x.low = fmin(x.low, (double)r->entry.rows);
        x.high = fmax(x.high, (double)r->entry.rows);
        y.low = fmin(y.low, rows_per_second(r));
        y.high = fmax(y.high, rows_per_second(r));
    }
    if (x.high < 2 * x.low) x = (struct axis){x.low / 1.5, x.high * 1.5, x.from, x.to};
    /* at least a decade, so that noise does not look like a trend */
    const double widen = fmax(1.3, sqrt(10 * y.low / y.high));
    y.low = nice(y.low / widen, 0);
    y.high = nice(y.high * widen, 1);
    char title[64];
    snprintf(title, sizeof title, "%s%s", seqmix_bench_ops[op].name,
             decode && seqmix_bench_ops[op].prefill ? ", decode" : "");
    put_text(p->out, box.x, outer->y + 16, "start", 13, "font-weight=\"bold\"", title);
    put_decimal_axis(p->out, &y, &box, 1);
    put_binary_axis(p->out, &x, &box);
    put_frame(p->out, &box);
    put_text(p->out, box.x + box.w / 2, box.y + box.h + 34, "middle", 12, "",
             decode ? "sequences, one row each" : "rows");
    put_side_text(p->out, outer->x + 14, box.y + box.h / 2, "rows/s");
    for (int i = 0; i < p->n; i++)
        if (in_panel(&p->results[i], op, decode)) put_series(p, i, &x, &y);
}

static int count_panels(const struct plot *p, int op, int decode)
{
    for (int i = 0; i < p->n; i++)
        if (in_panel(&p->results[i], op, decode)) return 1;
    return 0;
}

/* ---- the legend of the panels ---- */

static void put_legend_item(const struct plot *p, int index, double top, const char *colour, const char *dash,
                            int32_t dtype, const char *text)
{
    const int columns = LEGEND_COLUMNS;
    const double x = MARGIN + index % columns * LEGEND_COLUMN, y = top + index / columns * LEGEND_LINE;
    if (dash != NULL) put_line(p->out, x, y, x + 26, y, colour, 2.4, dash);
    if (dtype != 0) put_marker(p->out, x + 13, y, dtype, colour, 0);
    put_text(p->out, x + 33, y + 4, "start", 12, "", text);
}

static int has_dtype(const struct plot *p, int32_t dtype)
{
    for (int i = 0; i < p->n; i++)
        if (p->results[i].samples > 0 && p->results[i].entry.dtype == dtype) return 1;
    return 0;
}

static int lines_for(int items)
{
    return (items + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS;
}

static double legend_height(const struct plot *p)
{
    int more = p->n_rungs > 1 ? p->n_rungs : 0;
    for (int i = 0; i < 3; i++)
        more += has_dtype(p, DTYPES[i]);
    return (lines_for(p->n_models) + lines_for(more)) * LEGEND_LINE;
}

/* Models first, then, on a line of their own, dtypes and (when there are several) rungs. */
static void put_legend(const struct plot *p, double top)
{
    int at = 0;
    for (int i = 0; i < p->n_models; i++)
        put_legend_item(p, at++, top, COLOURS[i], "none", 0, p->models[i]->name);
    at = lines_for(at) * LEGEND_COLUMNS;
    for (int i = 0; i < 3; i++)
        if (has_dtype(p, DTYPES[i]))
            put_legend_item(p, at++, top, INK, NULL, DTYPES[i], seqmix_bench_dtype_name(DTYPES[i]));
    for (int i = 0; i < p->n_rungs && p->n_rungs > 1; i++)
        put_legend_item(p, at++, top, INK, DASHES[i], 0, p->rung_names[i]);
}

/* ---- the roofline ---- */

static double intensity(const struct seqmix_bench_result *r)
{
    return r->flops / (r->read_bytes + r->write_bytes);
}

static double memory_rate(const struct seqmix_bench_memory *m)
{
    return fmax(fmax(m->memcpy_rate, m->copy), m->update);
}

/* One slanted roof, up to where it meets the flat one, with its name along it. */
static void put_roof(const struct plot *p, int memory, const struct axis *x, const struct axis *y)
{
    const double rate = memory_rate(&p->roofline->memory[memory]) * 1e-9, peak = p->roofline->fma * 1e-9;
    const double from = fmax(x->low, y->low / rate), to = fmin(x->high, peak / rate);
    if (!(rate > 0) || from >= to) return;
    const double x1 = place(x, from), y1 = place(y, from * rate), x2 = place(x, to), y2 = place(y, to * rate);
    put_line(p->out, x1, y1, x2, y2, INK, 1.6, "none");
    char text[64], style[96];
    static const char *const names[SEQMIX_BENCH_MEMORIES] = {"L2", "last-level cache", "DRAM"};
    snprintf(text, sizeof text, "%s %.1f GB/s", names[memory], rate);
    /* staggered along the roofs, which may lie close together */
    const double part = 0.12 + 0.24 * (SEQMIX_BENCH_DRAM - memory);
    const double tx = x1 + part * (x2 - x1), ty = y1 + part * (y2 - y1) - 5;
    snprintf(style, sizeof style, "fill=\"%s\" transform=\"rotate(%.2f %.1f %.1f)\"", INK,
             atan2(y2 - y1, x2 - x1) * 57.29578, tx, ty);
    put_text(p->out, tx, ty, "start", 11.5, style, text);
}

static void put_flat_roof(const struct plot *p, double gflops, const char *text, const char *dash, const struct axis *x,
                          const struct axis *y, double from)
{
    if (gflops <= y->low || gflops >= y->high) return;
    put_line(p->out, place(x, from), place(y, gflops), x->to, place(y, gflops), INK, 1.6, dash);
    put_text(p->out, x->to - 6, place(y, gflops) - 6, "end", 11.5, "", text);
}

static void put_roof_legend(const struct plot *p, double left, double top)
{
    double y = top + 6;
    for (int i = 0; i < seqmix_bench_n_ops; i++) {
        int forms[2] = {count_panels(p, i, 0), count_panels(p, i, 1)};
        for (int decode = 0; decode < 2; decode++) {
            if (!forms[decode]) continue;
            char text[64];
            snprintf(text, sizeof text, "%s%s", seqmix_bench_ops[i].name,
                     decode && seqmix_bench_ops[i].prefill ? ", decode" : "");
            put_marker(p->out, left + 8, y, SEQMIX_F32, COLOURS[i], decode);
            put_text(p->out, left + 22, y + 4, "start", 12, "", text);
            y += LEGEND_LINE;
        }
    }
    y += 8;
    for (int i = 0; i < 3; i++) {
        if (!has_dtype(p, DTYPES[i])) continue;
        put_marker(p->out, left + 8, y, DTYPES[i], INK, 0);
        put_text(p->out, left + 22, y + 4, "start", 12, "", seqmix_bench_dtype_name(DTYPES[i]));
        y += LEGEND_LINE;
    }
    put_text(p->out, left + 2, y + 8, "start", 11.5, "fill=\"#666666\"", "filled: prefill, hollow: decode");
}

static void put_roofline(const struct plot *p, const struct box *outer)
{
    const struct box box = {outer->x + 62, outer->y + 30, outer->w - 62 - ROOF_LEGEND, outer->h - 84};
    const double peak = p->roofline->fma * 1e-9, exp_roof = 7e-9 * fmax(p->roofline->exp_poly, p->roofline->expf_libm);
    struct axis x = {0.1, 100, box.x, box.x + box.w}, y = {peak, peak, box.y + box.h, box.y};
    for (int i = 0; i < p->n; i++) {
        const struct seqmix_bench_result *r = &p->results[i];
        if (r->samples == 0) continue;
        x.low = fmin(x.low, intensity(r));
        x.high = fmax(x.high, intensity(r));
        y.low = fmin(y.low, r->flops / r->median * 1e-9);
        y.high = fmax(y.high, r->flops / r->median * 1e-9);
    }
    x.low = nice(x.low / 1.2, 0);
    x.high = nice(x.high * 1.2, 1);
    y.low = nice(y.low / 1.5, 0);
    y.high = nice(y.high * 1.6, 1);
    char text[96];
    put_text(p->out, box.x, outer->y + 16, "start", 13, "font-weight=\"bold\"", "Roofline of this run");
    put_decimal_axis(p->out, &y, &box, 1);
    put_decimal_axis(p->out, &x, &box, 0);
    put_frame(p->out, &box);
    put_text(p->out, box.x + box.w / 2, box.y + box.h + 38, "middle", 12, "", "flop per byte that must move");
    put_side_text(p->out, outer->x + 14, box.y + box.h / 2, "GFLOP/s, counted by the recurrence");
    for (int i = 0; i < SEQMIX_BENCH_MEMORIES; i++)
        put_roof(p, i, &x, &y);
    snprintf(text, sizeof text, "f32 multiply-add %.1f GFLOP/s", peak);
    put_flat_roof(p, peak, text, "none", &x, &y,
                  fmax(x.low, peak / (memory_rate(&p->roofline->memory[SEQMIX_BENCH_L2]) * 1e-9)));
    if (count_panels(p, 2, 0)) {
        snprintf(text, sizeof text, "exp, for the scan: 7 flop each at %.1f G/s", exp_roof / 7);
        put_flat_roof(p, exp_roof, text, "5 4", &x, &y, x.low);
    }
    for (int i = 0; i < p->n; i++) {
        const struct seqmix_bench_result *r = &p->results[i];
        if (r->samples > 0)
            put_marker(p->out, place(&x, intensity(r)), place(&y, r->flops / r->median * 1e-9), r->entry.dtype,
                       COLOURS[r->entry.op - seqmix_bench_ops], r->entry.decode);
    }
    put_roof_legend(p, box.x + box.w + 22, box.y + 4);
}

int seqmix_bench_write_plot(FILE *out, const struct seqmix_bench_roofline *r, const struct seqmix_bench_result *results,
                            int n)
{
    struct plot p = {.out = out, .roofline = r, .results = results, .n = n};
    int n_panels = 0;
    collect(&p);
    for (int decode = 0; decode < 2; decode++)
        for (int i = 0; i < seqmix_bench_n_ops; i++)
            n_panels += count_panels(&p, i, decode);
    const double panel_width = (double)(WIDTH - 2 * MARGIN) / COLUMNS, panels_top = 70 + legend_height(&p);
    const double roof_top = panels_top + (n_panels + COLUMNS - 1) / COLUMNS * PANEL_HEIGHT + 10;
    const double height = roof_top + ROOF_HEIGHT + MARGIN;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" "
            "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" fill=\"%s\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            WIDTH, height, WIDTH, height, INK);
    char text[160];
    put_text(out, MARGIN, 36, "start", 19, "font-weight=\"bold\"", "seqmix-bench");
    snprintf(text, sizeof text, "%d worker%s; peaks measured in the same run with %s loops", r->workers,
             r->workers == 1 ? "" : "s", r->isa);
    put_text(out, MARGIN + 172, 36, "start", 13, "fill=\"#666666\"", text);
    put_legend(&p, 62);
    int at = 0;
    for (int decode = 0; decode < 2; decode++)
        for (int i = 0; i < seqmix_bench_n_ops; i++) {
            if (!count_panels(&p, i, decode)) continue;
            const struct box outer = {MARGIN + at % COLUMNS * panel_width, panels_top + at / COLUMNS * PANEL_HEIGHT,
                                      panel_width, PANEL_HEIGHT};
            put_panel(&p, i, decode, &outer);
            at++;
        }
    const struct box roof = {MARGIN, roof_top, WIDTH - 2 * MARGIN, ROOF_HEIGHT};
    put_roofline(&p, &roof);
    fprintf(out, "</svg>\n");
    return ferror(out) ? -1 : 0;
}
