/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What dlopen() and dlvsym() find: fi_symbols library symbols-file.
 * dlsym() must give the newest version, which is where unversioned look-ups end.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 128 };

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    FILE* const symbols = fopen(argv[2], "r");
    if (symbols == NULL) return 2;
    char line[LINE];
    char last_name[LINE] = "";
    void* last = NULL;
    int count = 0;
    int faults = 0;
    /* sorted: the last node of a name is its newest */
    while (fgets(line, sizeof line, symbols) != NULL) {
        char name[LINE];
        char node[LINE];
        if (sscanf(line, "%127[^@]@%127s", name, node) != 2) return 2;
        if (last != NULL && strcmp(name, last_name) != 0 && dlsym(library, last_name) != last) {
            fprintf(stderr, "%s: the default is not the newest\n", last_name);
            ++faults;
        }
        last = dlvsym(library, name, node);
        strcpy(last_name, name);
        if (last == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            ++faults;
        }
        ++count;
    }
    fclose(symbols);
    if (dlclose(library) != 0) ++faults;
    return faults != 0 || count == 0;
}
