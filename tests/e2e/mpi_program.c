// SPDX-License-Identifier: BSD-3-Clause
// An MPI program as any: messages of all sizes, out of order, unexpected, probed and cancelled,
// collectives, and one-sided operations. Each byte is checked. Rank 0 says which libfabric it has.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kLongest = 4 << 20, kMessages = 20, kWords = 50000, kAdditions = 50 };

static int rank;
static int size;

static void check(int good, const char* what, int line) {
    if (good) return;
    fprintf(stderr, "rank %d, line %d: %s\n", rank, line, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define CHECK(condition) check((condition), #condition, __LINE__)

static unsigned char byte_of(int sender, size_t length, size_t at) {
    return (unsigned char)(at * 7 + (size_t)sender * 13 + length);
}

static void exchange(size_t length, int next, int previous) {
    unsigned char* const out = malloc(length + 1);
    unsigned char* const in = calloc(length + 1, 1);
    int received = -1;
    MPI_Status status;
    CHECK(out != NULL && in != NULL);
    for (size_t at = 0; at < length; ++at) out[at] = byte_of(rank, length, at);
    MPI_Sendrecv(out, (int)length, MPI_BYTE, next, 5, in, (int)length, MPI_BYTE, previous, 5,
                 MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &received);
    CHECK(received == (int)length && status.MPI_SOURCE == previous);
    for (size_t at = 0; at < length; ++at) CHECK(in[at] == byte_of(previous, length, at));
    free(out);
    free(in);
}

/// More than the receiver has asked for yet, taken in another order.
static void surprise(int next, int previous) {
    int out[kMessages];
    int in[kMessages];
    int count = 0;
    MPI_Request requests[kMessages];
    MPI_Status status;
    for (int i = 0; i < kMessages; ++i) {
        out[i] = rank * 100 + i;
        MPI_Isend(&out[i], 1, MPI_INT, next, 100 + i, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Probe(previous, 105, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 1);
    for (int i = kMessages - 1; i >= 0; --i)
        MPI_Recv(&in[i], 1, MPI_INT, i % 3 != 0 ? previous : MPI_ANY_SOURCE, 100 + i,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < kMessages; ++i) {
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        CHECK(in[i] == previous * 100 + i);
    }
}

static void cancel(int previous) {
    int unused = 0;
    int cancelled = 0;
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(&unused, 1, MPI_INT, previous, 999, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled);
}

static void reach_over(int next, int previous) {
    long* memory = NULL;
    long* const local = malloc(kWords * sizeof(long));
    long one = 1;
    long before = 0;
    MPI_Win window;
    CHECK(local != NULL);
    MPI_Win_allocate(kWords * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                     &window);
    for (long i = 0; i < kWords; ++i) local[i] = rank * 1000000L + i;
    MPI_Win_fence(0, window);
    MPI_Put(local, kWords, MPI_LONG, next, 0, kWords, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (long i = 0; i < kWords; ++i) CHECK(memory[i] == previous * 1000000L + i);
    memset(local, 0, kWords * sizeof(long));
    MPI_Get(local, kWords, MPI_LONG, next, 0, kWords, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (long i = 0; i < kWords; ++i) CHECK(local[i] == rank * 1000000L + i);
    memory[0] = 0;
    MPI_Win_fence(0, window);
    for (int i = 0; i < kAdditions; ++i)
        MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, window);
    MPI_Win_fence(0, window);
    MPI_Get(&before, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
    MPI_Win_fence(0, window);
    CHECK(before == (long)kAdditions * size);
    MPI_Win_free(&window);
    free(local);
}

static void print_libraries(void) {
    char line[512];
    FILE* const maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "libfabric") != NULL && strstr(line, "r-xp") != NULL)
            printf("uses %s", strchr(line, '/'));
    fclose(maps);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int next = (rank + 1) % size;
    const int previous = (rank + size - 1) % size;
    long sum = 0;
    long mine = rank + 1;
    exchange(0, next, previous);
    for (size_t length = 1; length <= kLongest; length *= 4) exchange(length, next, previous);
    surprise(next, previous);
    cancel(previous);
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == (long)size * (size + 1) / 2);
    reach_over(next, previous);
    if (rank == 0) print_libraries();
    MPI_Finalize();
    return 0;
}
