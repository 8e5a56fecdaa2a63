// SPDX-License-Identifier: BSD-3-Clause
// The one core header that a facade includes.
#pragma once

#include "core/base/assert.hpp"           // IWYU pragma: export
#include "core/base/config.hpp"           // IWYU pragma: export
#include "core/base/deferred_log.hpp"     // IWYU pragma: export
#include "core/base/log.hpp"              // IWYU pragma: export
#include "core/base/nonblocking.hpp"      // IWYU pragma: export
#include "core/base/origin.hpp"           // IWYU pragma: export
#include "core/base/result.hpp"           // IWYU pragma: export
#include "core/base/socket_address.hpp"   // IWYU pragma: export
#include "core/base/statistics.hpp"       // IWYU pragma: export
#include "core/device/device.hpp"         // IWYU pragma: export
#include "core/device/registry.hpp"       // IWYU pragma: export
#include "core/engine/counter.hpp"        // IWYU pragma: export
#include "core/engine/cq_waiter.hpp"      // IWYU pragma: export
#include "core/engine/extended_ops.hpp"   // IWYU pragma: export
#include "core/engine/request_trace.hpp"  // IWYU pragma: export
#include "core/engine/traced.hpp"         // IWYU pragma: export
#include "core/engine/tracked_cq.hpp"     // IWYU pragma: export
#include "core/engine/tracked_qp.hpp"     // IWYU pragma: export
#include "core/model/types.hpp"           // IWYU pragma: export
#include "core/rdm/address_book.hpp"      // IWYU pragma: export
#include "core/rdm/endpoint.hpp"          // IWYU pragma: export
#include "core/rdm/message.hpp"           // IWYU pragma: export
