/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process notices when it loads a library and calls nothing:
 *   rpma_load_test library...
 */
#include <dirent.h>
#include <dlfcn.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char** environ;

enum { SIGNALS = 32, TEXT = 4096 };

struct process {
    int threads;
    int descriptors;
    int variables;
    mode_t mask;
    char directory[TEXT];
    char locale[TEXT];
    struct sigaction actions[SIGNALS];
};

static int entries_of(const char* path) {
    int count = 0;
    DIR* const directory = opendir(path);
    if (directory == NULL) return -1;
    while (readdir(directory) != NULL) ++count;
    closedir(directory);
    return count;
}

static void look(struct process* process) {
    memset(process, 0, sizeof *process);
    process->threads = entries_of("/proc/self/task");
    process->descriptors = entries_of("/proc/self/fd");
    while (environ[process->variables] != NULL) ++process->variables;
    process->mask = umask(0);
    umask(process->mask);
    if (getcwd(process->directory, sizeof process->directory) == NULL) exit(1);
    snprintf(process->locale, sizeof process->locale, "%s", setlocale(LC_ALL, NULL));
    for (int number = 1; number < SIGNALS; ++number)
        sigaction(number, NULL, &process->actions[number]);
}

static int same_handlers(const struct process* left, const struct process* right) {
    for (int number = 1; number < SIGNALS; ++number)
        if (left->actions[number].sa_handler != right->actions[number].sa_handler) return 0;
    return 1;
}

static int differences(const struct process* before, const struct process* after) {
    const struct {
        const char* what;
        int same;
    } checks[] = {
        {"threads", before->threads == after->threads},
        {"descriptors", before->descriptors == after->descriptors},
        {"environment", before->variables == after->variables},
        {"umask", before->mask == after->mask},
        {"directory", strcmp(before->directory, after->directory) == 0},
        {"locale", strcmp(before->locale, after->locale) == 0},
        {"signal handlers", same_handlers(before, after)},
    };
    int count = 0;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; ++i) {
        if (checks[i].same) continue;
        printf("loading changes the %s\n", checks[i].what);
        ++count;
    }
    return count;
}

int main(int argc, char** argv) {
    static struct process before;
    static struct process after;
    if (argc < 2) return 2;
    setlocale(LC_ALL, "C");
    for (int i = 1; i < argc; ++i) {
        look(&before);
        if (before.threads != 3) { /* ".", ".." and this one */
            printf("%d threads before anything is loaded\n", before.threads - 2);
            return 1;
        }
        void* const library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            printf("%s\n", dlerror());
            return 1;
        }
        look(&after);
        if (differences(&before, &after) != 0) return 1;
        dlclose(library);
        look(&after);
        if (differences(&before, &after) != 0) return 1;
    }
    return 0;
}
