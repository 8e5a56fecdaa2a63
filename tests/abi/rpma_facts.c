/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef FACTS_OF_UPSTREAM
#include <librpma.h>
#define FACTS upstream_facts
#else
#include "include/librpma.h"
#define FACTS our_facts
#endif

#include "tests/abi/rpma_facts.h"

#define CONSTANT(name) \
    { #name, (long long)(name) }
#define SIZE(type) \
    { "sizeof " #type, (long long)sizeof(type) }
#define OFFSET(type, member) \
    { "offset of " #member " in " #type, (long long)offsetof(type, member) }
#define SIGNED(type) \
    { #type " is signed", (type)-1 < (type)0 }
#define ENUM(type) SIZE(type), SIGNED(type)
#define ALIGNMENT(type) \
    { "alignment of " #type, (long long)_Alignof(type) }

#pragma GCC diagnostic ignored "-Wtype-limits" /* that of an unsigned enum is the question */

/* tests/abi/rpma_names.py says when one is missing. */
static const struct fact facts[] = {
    CONSTANT(RPMA_W_WAIT_FOR_COMPLETION),
    CONSTANT(RPMA_E_UNKNOWN),
    CONSTANT(RPMA_E_NOSUPP),
    CONSTANT(RPMA_E_PROVIDER),
    CONSTANT(RPMA_E_NOMEM),
    CONSTANT(RPMA_E_INVAL),
    CONSTANT(RPMA_E_NO_COMPLETION),
    CONSTANT(RPMA_E_NO_EVENT),
    CONSTANT(RPMA_E_AGAIN),
    CONSTANT(RPMA_E_SHARED_CHANNEL),
    CONSTANT(RPMA_E_NOT_SHARED_CHNL),
    CONSTANT(RPMA_DEFAULT_TIMEOUT_MS),
    CONSTANT(RPMA_MR_USAGE_READ_SRC),
    CONSTANT(RPMA_MR_USAGE_READ_DST),
    CONSTANT(RPMA_MR_USAGE_WRITE_SRC),
    CONSTANT(RPMA_MR_USAGE_WRITE_DST),
    CONSTANT(RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY),
    CONSTANT(RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT),
    CONSTANT(RPMA_MR_USAGE_SEND),
    CONSTANT(RPMA_MR_USAGE_RECV),
    CONSTANT(RPMA_F_COMPLETION_ON_ERROR),
    CONSTANT(RPMA_F_COMPLETION_ALWAYS),
    CONSTANT(RPMA_ATOMIC_WRITE_ALIGNMENT),
    {"RPMA_LOG_USE_DEFAULT_FUNCTION", RPMA_LOG_USE_DEFAULT_FUNCTION == (void*)0 ? 0 : 1},
    CONSTANT(RPMA_UTIL_IBV_CONTEXT_LOCAL),
    CONSTANT(RPMA_UTIL_IBV_CONTEXT_REMOTE),
    CONSTANT(RPMA_CONN_UNDEFINED),
    CONSTANT(RPMA_CONN_ESTABLISHED),
    CONSTANT(RPMA_CONN_CLOSED),
    CONSTANT(RPMA_CONN_LOST),
    CONSTANT(RPMA_CONN_REJECTED),
    CONSTANT(RPMA_CONN_UNREACHABLE),
    CONSTANT(RPMA_FLUSH_TYPE_PERSISTENT),
    CONSTANT(RPMA_FLUSH_TYPE_VISIBILITY),
    CONSTANT(RPMA_LOG_DISABLED),
    CONSTANT(RPMA_LOG_LEVEL_FATAL),
    CONSTANT(RPMA_LOG_LEVEL_ERROR),
    CONSTANT(RPMA_LOG_LEVEL_WARNING),
    CONSTANT(RPMA_LOG_LEVEL_NOTICE),
    CONSTANT(RPMA_LOG_LEVEL_INFO),
    CONSTANT(RPMA_LOG_LEVEL_DEBUG),
    CONSTANT(RPMA_LOG_THRESHOLD),
    CONSTANT(RPMA_LOG_THRESHOLD_AUX),
    CONSTANT(RPMA_LOG_THRESHOLD_MAX),
    ENUM(enum rpma_util_ibv_context_type),
    ENUM(enum rpma_conn_event),
    ENUM(enum rpma_flush_type),
    ENUM(enum rpma_log_level),
    ENUM(enum rpma_log_threshold),
    SIZE(struct rpma_conn_private_data),
    ALIGNMENT(struct rpma_conn_private_data),
    OFFSET(struct rpma_conn_private_data, ptr),
    OFFSET(struct rpma_conn_private_data, len),
    SIZE(((struct rpma_conn_private_data*)0)->ptr),
    SIZE(((struct rpma_conn_private_data*)0)->len),
    SIGNED(__typeof__(((struct rpma_conn_private_data*)0)->len)),
    SIZE(bool),
    SIZE(struct ibv_wc),
};

const struct fact* FACTS(size_t* count) {
    *count = sizeof facts / sizeof facts[0];
    return facts;
}
