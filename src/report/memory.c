/* Device memory by tag: the largest peak of each, where it was, and the most that was left of it. */
#include "base/size.h"
#include "report/plot.h"
#include "report/sections.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct tag {
    const char *name;
    double peak_bytes, left_bytes;
    const struct kg_case_records *at; /* the case of the peak */
    size_t n_cases;
};

static struct tag *tag_of(struct tag *tags, size_t *n_tags, const char *name) {
    for (size_t i = 0; i < *n_tags; i++)
        if (strcmp(tags[i].name, name) == 0) return &tags[i];
    tags[*n_tags] = (struct tag){ .name = name };
    return &tags[(*n_tags)++];
}

static int by_peak_falling(const void *a, const void *b) {
    const struct tag *x = a, *y = b;
    return x->peak_bytes < y->peak_bytes ? 1 : x->peak_bytes > y->peak_bytes ? -1 : strcmp(x->name, y->name);
}

static struct tag *collect(const struct kg_records *records, size_t *n_tags) {
    size_t n_all = 0, i;
    json_t *item;
    for (size_t k = 0; k < records->n_cases; k++)
        n_all += json_array_size(json_object_get(records->cases[k].result, "memory"));
    struct tag *tags = kg_xcalloc(n_all, sizeof *tags);
    *n_tags = 0;
    for (size_t k = 0; k < records->n_cases; k++) {
        json_array_foreach(json_object_get(records->cases[k].result, "memory"), i, item) {
            struct tag *tag = tag_of(tags, n_tags, kg_report_text(item, "tag"));
            const double peak_bytes = kg_json_number(item, "peak_bytes", 0);
            tag->n_cases++;
            tag->left_bytes = fmax(tag->left_bytes, kg_json_number(item, "left_bytes", 0));
            if (tag->at && peak_bytes <= tag->peak_bytes) continue;
            tag->peak_bytes = peak_bytes;
            tag->at = &records->cases[k];
        }
    }
    qsort(tags, *n_tags, sizeof *tags, by_peak_falling);
    return tags;
}

static void put_plot(const struct tag *tags, size_t n_tags, struct kg_page *page) {
    enum { MOST = 12 };
    const size_t n = n_tags < MOST ? n_tags : MOST;
    struct kg_buffer script = KG_BUFFER_INIT;
    kg_buffer_puts(&script, "$m << EOD\n");
    for (size_t i = 0; i < n; i++) kg_buffer_printf(&script, "%zu %.9g\n", i, tags[i].peak_bytes / (1 << 20));
    kg_buffer_puts(&script, "EOD\nset xtics rotate by -25 (");
    for (size_t i = 0; i < n; i++) {
        kg_buffer_puts(&script, i > 0 ? ", " : "");
        kg_plot_quote(&script, tags[i].name);
        kg_buffer_printf(&script, " %zu", i);
    }
    kg_buffer_printf(&script,
                     ")\nset yrange [0:*]\nset xrange [-0.6:%zu.6]\nset ylabel 'MiB'\nset boxwidth 0.6\nunset key\n"
                     "set style fill solid 0.8 noborder\nplot $m using 1:2 with boxes lc rgb '%s'\n",
                     n - 1, KG_PLOT_COLOUR[0]);
    kg_page_plot(page, kg_buffer_text(&script), "The largest peak of each tag over the cases of the run, in MiB.");
    kg_buffer_free(&script);
}

void kg_section_memory(const struct kg_report *report, struct kg_page *page) {
    static const struct kg_column COLUMNS[] = { { "tag", KG_COLUMN_TEXT },
                                                { "largest peak", KG_COLUMN_NUMBER },
                                                { "left over", KG_COLUMN_NUMBER },
                                                { "cases", KG_COLUMN_NUMBER },
                                                { "peak in", KG_COLUMN_NAME } };
    size_t n_tags;
    struct tag *tags = collect(report->run->records, &n_tags);
    if (n_tags > 0) {
        kg_page_section(page, "Memory by tag");
        kg_page_text(
            page,
            "Exact figures of the back end's allocator (on a GPU: VRAM). Left over: the most that was in use when "
            "a case ended.");
        put_plot(tags, n_tags, page);
        kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS));
        for (size_t i = 0; i < n_tags; i++) {
            kg_page_cell(page, tags[i].name);
            kg_page_cell(page, kg_quantity_bytes(tags[i].peak_bytes).text);
            kg_page_cell(page, tags[i].left_bytes > 0 ? kg_quantity_bytes(tags[i].left_bytes).text : "none");
            kg_page_cellf(page, "%zu", tags[i].n_cases);
            kg_page_cell(page, tags[i].at->key);
        }
        kg_page_table_end(page);
    }
    free(tags);
}
