// SPDX-License-Identifier: BSD-3-Clause
// Programs of all sorts that find our libraries in their address space, in one. What they print
// must be the same with and without them.
//
//   host state | threads | exec | close | cycles LIBRARY... | atexit
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 8, kCycles = 50, kRounds = 2000 };

typedef int getinfo(uint32_t, const char*, const char*, uint64_t, const void*, void**);
typedef void freeinfo(void*);
typedef int get_context(const char*, int, void**);

/// One call of each library that is there; 0 when it succeeds.
static int call(void* scope) {
    int rc = 0;
    getinfo* const fi_getinfo = (getinfo*)(uintptr_t)dlsym(scope, "fi_getinfo");
    freeinfo* const fi_freeinfo = (freeinfo*)(uintptr_t)dlsym(scope, "fi_freeinfo");
    get_context* const get = (get_context*)(uintptr_t)dlsym(scope, "rpma_utils_get_ibv_context");
    void* made = NULL;
    if (fi_getinfo != NULL) rc |= fi_getinfo(1 << 16 | 17, NULL, NULL, 0, NULL, &made);
    if (made != NULL) fi_freeinfo(made);
    if (get != NULL) rc |= get("127.0.0.1", 0, &made);
    return rc;
}

static int entries(const char* folder) {
    int count = 0;
    DIR* const open = opendir(folder);
    while (open != NULL && readdir(open) != NULL) ++count;
    if (open != NULL) closedir(open);
    return count;
}

static void print_state(int first_errno) {
    char line[256];
    FILE* const status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if ((strncmp(line, "Sig", 3) == 0 && line[3] != 'Q') || strncmp(line, "Threads", 7) == 0)
            fputs(line, stdout);
    if (status != NULL) fclose(status);
    printf("%d descriptors, errno %d\n", entries("/proc/self/fd"), first_errno);
}

static volatile sig_atomic_t signals;
static void count_signal(int number) {
    (void)number;
    ++signals;
}

static void* be_busy(void* unused) {
    for (int round = 0; round < kRounds; ++round) {
        char* const memory = malloc(64);
        errno = round;
        snprintf(memory, 64, "%d", round);
        if (errno != round || atoi(memory) != round) exit(1);
        free(memory);
    }
    return unused;
}

/// A server: its threads work, call us, and get signals.
static int threads(void) {
    pthread_t workers[kThreads];
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = count_signal;
    sigaction(SIGUSR1, &action, NULL);
    const int before = call(RTLD_DEFAULT);
    for (int at = 0; at < kThreads; ++at)
        if (pthread_create(&workers[at], NULL, be_busy, NULL) != 0) return 1;
    for (int at = 0; at < kThreads; ++at) kill(getpid(), SIGUSR1);
    for (int at = 0; at < kThreads; ++at) pthread_join(workers[at], NULL);
    printf("calls: %d, signals seen: %s\n", before, signals > 0 ? "yes" : "no");
    return 7;
}

static int exec_self(const char* self) {
    fflush(stdout);
    const int rc = call(RTLD_DEFAULT);
    const pid_t child = fork();
    if (child == 0) {
        execl(self, self, "state", (char*)NULL);
        _exit(99);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("calls: %d, child: %d\n", rc, WEXITSTATUS(status));
    return 11;
}

static int close_all(void) {
    int rc = call(RTLD_DEFAULT);
    for (int fd = 3; fd < 1024; ++fd) close(fd);
    const int own = open("/dev/null", O_WRONLY);
    (void)call(RTLD_DEFAULT);  // whether it succeeds is another matter
    const char text[] = "mine";
    rc |= write(own, text, sizeof text) != sizeof text;
    printf("the descriptor is %d and the program's own: %d\n", own, rc);
    return 9;
}

static int cycle(char** libraries) {
    int rc = 0;
    for (int round = 0; round < kCycles; ++round) {
        for (char** library = libraries; *library != NULL; ++library) {
            void* const opened = dlopen(*library, RTLD_NOW | RTLD_LOCAL);
            if (opened == NULL) return 1;
            rc |= call(opened);
            dlclose(opened);
        }
    }
    printf("calls: %d, threads: %d\n", rc, entries("/proc/self/task") - 2);
    return 3;
}

static void at_exit(void) {
    printf("at exit: %d\n", call(RTLD_DEFAULT));
}

int main(int argc, char** argv) {
    const int first_errno = errno;
    const char* const how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "state") == 0) {
        print_state(first_errno);
        return 0;
    }
    if (strcmp(how, "threads") == 0) return threads();
    if (strcmp(how, "exec") == 0) return exec_self(argv[0]);
    if (strcmp(how, "close") == 0) return close_all();
    if (strcmp(how, "cycles") == 0) return cycle(argv + 2);
    if (strcmp(how, "atexit") == 0) {
        atexit(at_exit);
        return 5;
    }
    return 2;
}
