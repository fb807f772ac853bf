/* usage: record_source TREE FOLDER
 *
 * What make install and make dist run: FOLDER/source.json and FOLDER/dirty.diff say what was built (source_record.h).
 */
#include "base/say.h"
#include "bundle/source_record.h"
#include <stdio.h>

int main(int argc, char **argv) {
    struct kg_error err;
    if (argc != 3) {
        kg_say(stderr, "usage: record_source TREE FOLDER\n");
        return KG_EXIT_USAGE;
    }
    const enum kg_status status = kg_source_record_write(argv[1], argv[2], &err);
    if (status != KG_OK) kg_say(stderr, "record_source: %s\n", err.message);
    return kg_status_exit_code(status);
}
