/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our librpma.h against the one of the distribution: constants, layouts and prototypes. Both are
 * included here, upstream's with its names changed; rpma_rename.h and its like are made from
 * abi/librpma.symbols.
 */
#include <string.h>

#include "tests/support/cmocka.h"

/* first the names of functions, */
#include "rpma_rename.h"
/* then the types and enumerators that the header defines. */
#define rpma_util_ibv_context_type upstream_rpma_util_ibv_context_type
#define rpma_conn_event upstream_rpma_conn_event
#define rpma_flush_type upstream_rpma_flush_type
#define rpma_log_level upstream_rpma_log_level
#define rpma_log_threshold upstream_rpma_log_threshold
#define rpma_conn_private_data upstream_rpma_conn_private_data
#define rpma_log_function upstream_rpma_log_function
#define RPMA_UTIL_IBV_CONTEXT_LOCAL UPSTREAM_RPMA_UTIL_IBV_CONTEXT_LOCAL
#define RPMA_UTIL_IBV_CONTEXT_REMOTE UPSTREAM_RPMA_UTIL_IBV_CONTEXT_REMOTE
#define RPMA_CONN_UNDEFINED UPSTREAM_RPMA_CONN_UNDEFINED
#define RPMA_CONN_ESTABLISHED UPSTREAM_RPMA_CONN_ESTABLISHED
#define RPMA_CONN_CLOSED UPSTREAM_RPMA_CONN_CLOSED
#define RPMA_CONN_LOST UPSTREAM_RPMA_CONN_LOST
#define RPMA_CONN_REJECTED UPSTREAM_RPMA_CONN_REJECTED
#define RPMA_CONN_UNREACHABLE UPSTREAM_RPMA_CONN_UNREACHABLE
#define RPMA_FLUSH_TYPE_PERSISTENT UPSTREAM_RPMA_FLUSH_TYPE_PERSISTENT
#define RPMA_FLUSH_TYPE_VISIBILITY UPSTREAM_RPMA_FLUSH_TYPE_VISIBILITY
#define RPMA_LOG_DISABLED UPSTREAM_RPMA_LOG_DISABLED
#define RPMA_LOG_LEVEL_FATAL UPSTREAM_RPMA_LOG_LEVEL_FATAL
#define RPMA_LOG_LEVEL_ERROR UPSTREAM_RPMA_LOG_LEVEL_ERROR
#define RPMA_LOG_LEVEL_WARNING UPSTREAM_RPMA_LOG_LEVEL_WARNING
#define RPMA_LOG_LEVEL_NOTICE UPSTREAM_RPMA_LOG_LEVEL_NOTICE
#define RPMA_LOG_LEVEL_INFO UPSTREAM_RPMA_LOG_LEVEL_INFO
#define RPMA_LOG_LEVEL_DEBUG UPSTREAM_RPMA_LOG_LEVEL_DEBUG
#define RPMA_LOG_THRESHOLD UPSTREAM_RPMA_LOG_THRESHOLD
#define RPMA_LOG_THRESHOLD_AUX UPSTREAM_RPMA_LOG_THRESHOLD_AUX
#define RPMA_LOG_THRESHOLD_MAX UPSTREAM_RPMA_LOG_THRESHOLD_MAX
#include <librpma.h>
#undef rpma_util_ibv_context_type
#undef rpma_conn_event
#undef rpma_flush_type
#undef rpma_log_level
#undef rpma_log_threshold
#undef rpma_conn_private_data
#undef rpma_log_function
#undef RPMA_UTIL_IBV_CONTEXT_LOCAL
#undef RPMA_UTIL_IBV_CONTEXT_REMOTE
#undef RPMA_CONN_UNDEFINED
#undef RPMA_CONN_ESTABLISHED
#undef RPMA_CONN_CLOSED
#undef RPMA_CONN_LOST
#undef RPMA_CONN_REJECTED
#undef RPMA_CONN_UNREACHABLE
#undef RPMA_FLUSH_TYPE_PERSISTENT
#undef RPMA_FLUSH_TYPE_VISIBILITY
#undef RPMA_LOG_DISABLED
#undef RPMA_LOG_LEVEL_FATAL
#undef RPMA_LOG_LEVEL_ERROR
#undef RPMA_LOG_LEVEL_WARNING
#undef RPMA_LOG_LEVEL_NOTICE
#undef RPMA_LOG_LEVEL_INFO
#undef RPMA_LOG_LEVEL_DEBUG
#undef RPMA_LOG_THRESHOLD
#undef RPMA_LOG_THRESHOLD_AUX
#undef RPMA_LOG_THRESHOLD_MAX
#include "rpma_unname.h"

/* Constants that are macros; rpma_facts.c compares them. */
#undef LIBRPMA_H
#undef RPMA_W_WAIT_FOR_COMPLETION
#undef RPMA_E_UNKNOWN
#undef RPMA_E_NOSUPP
#undef RPMA_E_PROVIDER
#undef RPMA_E_NOMEM
#undef RPMA_E_INVAL
#undef RPMA_E_NO_COMPLETION
#undef RPMA_E_NO_EVENT
#undef RPMA_E_AGAIN
#undef RPMA_E_SHARED_CHANNEL
#undef RPMA_E_NOT_SHARED_CHNL
#undef RPMA_DEFAULT_TIMEOUT_MS
#undef RPMA_MR_USAGE_READ_SRC
#undef RPMA_MR_USAGE_READ_DST
#undef RPMA_MR_USAGE_WRITE_SRC
#undef RPMA_MR_USAGE_WRITE_DST
#undef RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY
#undef RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT
#undef RPMA_MR_USAGE_SEND
#undef RPMA_MR_USAGE_RECV
#undef RPMA_F_COMPLETION_ON_ERROR
#undef RPMA_F_COMPLETION_ALWAYS
#undef RPMA_ATOMIC_WRITE_ALIGNMENT
#undef RPMA_LOG_USE_DEFAULT_FUNCTION
#include "include/librpma.h"
#include "tests/abi/rpma_facts.h"

#define SAME(left, right) __builtin_types_compatible_p(left, right)
#define THEIRS(name) upstream_##name
#define OURS(name) name

struct comparison {
    const char* name;
    int same;
};

/* All functions: plain comparison of the two declarations. */
#define FUNCTION(name) {#name, SAME(__typeof__(THEIRS(name)), __typeof__(name))},
static const struct comparison functions[] = {
#include "rpma_functions.h"
};
#undef FUNCTION

/* Functions with a type that the header defines: each declaration against the same shape, with the
 * header's own type in it. That those types are alike is rpma_facts.c's to say. */
#define SHAPES(X)                                                                                  \
    X(rpma_utils_get_ibv_context,                                                                  \
      int(const char*, enum T(rpma_util_ibv_context_type), struct ibv_context**))                  \
    X(rpma_utils_conn_event_2str, const char*(enum T(rpma_conn_event)))                            \
    X(rpma_conn_next_event, int(struct rpma_conn*, enum T(rpma_conn_event)*))                      \
    X(rpma_conn_req_connect,                                                                       \
      int(struct rpma_conn_req**, const struct T(rpma_conn_private_data)*, struct rpma_conn**))    \
    X(rpma_conn_req_get_private_data,                                                              \
      int(const struct rpma_conn_req*, struct T(rpma_conn_private_data)*))                         \
    X(rpma_conn_get_private_data, int(const struct rpma_conn*, struct T(rpma_conn_private_data)*)) \
    X(rpma_flush, int(struct rpma_conn*, struct rpma_mr_remote*, size_t, size_t,                   \
                      enum T(rpma_flush_type), int, const void*))                                  \
    X(rpma_log_set_threshold, int(enum T(rpma_log_threshold), enum T(rpma_log_level)))             \
    X(rpma_log_get_threshold, int(enum T(rpma_log_threshold), enum T(rpma_log_level)*))            \
    X(rpma_log_set_function, int(T(rpma_log_function)*))                                           \
    X(rpma_log_function,                                                                           \
      void(enum T(rpma_log_level), const char*, int, const char*, const char*, ...))

#define T THEIRS
#define SHAPE(name, ...) {#name, SAME(__typeof__(THEIRS(name)), __VA_ARGS__)},
static const struct comparison their_shapes[] = {SHAPES(SHAPE)};
#undef SHAPE
#undef T
#define T OURS
#define SHAPE(name, ...) {#name, SAME(__typeof__(name), __VA_ARGS__)},
static const struct comparison our_shapes[] = {SHAPES(SHAPE)};
#undef SHAPE
#undef T

enum { SHAPE_COUNT = sizeof our_shapes / sizeof our_shapes[0] };

static int has_shape(const char* name) {
    for (size_t i = 0; i < SHAPE_COUNT; ++i)
        if (strcmp(our_shapes[i].name, name) == 0) return 1;
    return 0;
}

static void constants_and_layouts_are_equal(void** state) {
    (void)state;
    size_t their_count = 0;
    size_t our_count = 0;
    const struct fact* const theirs = upstream_facts(&their_count);
    const struct fact* const ours = our_facts(&our_count);
    assert_int_equal(our_count, their_count);
    for (size_t i = 0; i < our_count; ++i) {
        if (ours[i].value != theirs[i].value)
            print_error("%s: ours %lld, upstream's %lld\n", ours[i].name, ours[i].value,
                        theirs[i].value);
        assert_string_equal(ours[i].name, theirs[i].name);
        assert_true(ours[i].value == theirs[i].value);
    }
}

static void all_84_functions_have_upstreams_type(void** state) {
    (void)state;
    const size_t count = sizeof functions / sizeof functions[0];
    assert_int_equal(count, 84);
    for (size_t i = 0; i < count; ++i) {
        if (functions[i].same || has_shape(functions[i].name)) continue;
        print_error("%s differs\n", functions[i].name);
        assert_true(functions[i].same);
    }
}

static void functions_with_types_of_the_header_have_upstreams_shape(void** state) {
    (void)state;
    for (size_t i = 0; i < SHAPE_COUNT; ++i) {
        if (!their_shapes[i].same || !our_shapes[i].same)
            print_error("%s differs\n", our_shapes[i].name);
        assert_true(their_shapes[i].same);
        assert_true(our_shapes[i].same);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_and_layouts_are_equal),
        cmocka_unit_test(all_84_functions_have_upstreams_type),
        cmocka_unit_test(functions_with_types_of_the_header_have_upstreams_shape),
    };
    return cmocka_run_group_tests_name("rpma_header", tests, NULL, NULL);
}
