/* What a served page has beyond a report's: rules for forms, links between pages and charts, and a script that filters
 * long tables by what is typed. Without the script nothing is missing but that. */
#ifndef KIGO_WEB_STYLE_H
#define KIGO_WEB_STYLE_H

static const char KG_WEB_STYLE[] =
    "form{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:end;margin:.75rem 0}\n"
    "label{display:flex;flex-direction:column;color:var(--quiet);font-size:.8125rem}\n"
    "input,select,button{font:inherit;font-size:.875rem;color:var(--text);background:var(--ground);"
    "border:1px solid var(--quiet);border-radius:.25rem;padding:.25rem .5rem;max-width:100%}\n"
    ":focus-visible{outline:2px solid var(--link);outline-offset:1px}\n"
    "tr[hidden]{display:none!important}\n"
    ".pages a{margin-right:1rem}\n"
    ".step{color:var(--bad)}\n"
    "figure{width:min(100%,44rem)}\n"
    "@media print{:root{--link:#0a5cad}form,input,.pages{display:none}}\n";

static const char KG_WEB_SCRIPT[] =
    "'use strict';\n"
    "for (const table of document.querySelectorAll('table[id]')) {\n"
    "  const rows = [...table.tBodies[0].rows];\n"
    "  if (rows.length < 12) continue;\n"
    "  const input = document.createElement('input');\n"
    "  input.type = 'search';\n"
    "  input.placeholder = 'filter these rows';\n"
    "  input.setAttribute('aria-label', 'filter the rows of the table below');\n"
    "  input.addEventListener('input', () => {\n"
    "    const wanted = input.value.toLowerCase();\n"
    "    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);\n"
    "  });\n"
    "  table.before(input);\n"
    "}\n";

#endif
