/* The bundled extension that workers load (pi-ext.mjs), found beside the program. */
#ifndef SHP_CONTROLLER_EXTENSION_FILE_H
#define SHP_CONTROLLER_EXTENSION_FILE_H

#include <stddef.h>

#define EXTENSION_FILE_NAME "pi-ext.mjs"
#define EXTENSION_FILE_BYTES_MAX (4 * 1024 * 1024)

struct extension_file {
    char *content; /* NULL: this installation has none */
    size_t len;
    char digest[65]; /* SHA-256, hex */
    char *path;      /* where it was found, or the directories that were searched */
};

/* program_dir: directory of this binary. Looks in ../pi-ext (build tree), ../libexec/shepherdr
 * (installed) and program_dir itself (package). Never fails: content tells. */
void extension_file_load(struct extension_file *file, const char *program_dir);
void extension_file_fini(struct extension_file *file);

#endif
