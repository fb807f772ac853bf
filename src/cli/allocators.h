/* Memory of the libraries that kigo calls. */
#ifndef KIGO_CLI_ALLOCATORS_H
#define KIGO_CLI_ALLOCATORS_H

/* From here on jansson, SQLite and OpenSSL end the process where memory runs out, as kg_xmalloc does. A JSON value that
 * is quietly NULL, or a text that SQLite quietly binds as NULL, would be a wrong answer; there are hundreds of such
 * calls. OpenSSL 3 uses a lock that it could not allocate.
 * SQLite's own limits (kg_query_limits) still give KG_ERR_NO_MEMORY. Call it before any of them is used. */
void kg_cli_take_allocators(void);

#endif
