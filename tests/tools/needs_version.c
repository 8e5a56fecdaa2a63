// SPDX-License-Identifier: BSD-3-Clause
// LIBRARY: a libfabric.so.1 of the future. Else: a program that was linked to it.
int fi_of_the_future(void);

#ifdef LIBRARY
int fi_of_the_future(void) {
    return 0;
}
#else
int main(void) {
    return fi_of_the_future();
}
#endif
