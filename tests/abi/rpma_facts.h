/* SPDX-License-Identifier: BSD-3-Clause */
/* What a header says in numbers: rpma_facts.c is compiled once with each header. */
#ifndef RPMA_FACTS_H
#define RPMA_FACTS_H

#include <stddef.h>

struct fact {
    const char* name;
    long long value;
};

const struct fact* upstream_facts(size_t* count);
const struct fact* our_facts(size_t* count);

#endif
