# SPDX-License-Identifier: BSD-3-Clause
# libpmem2 makes persistent flushes durable. Sources test COMPAT_HAVE_PMEM2; without it a persistent
# flush is refused, never faked.
find_package(PkgConfig REQUIRED)
pkg_check_modules(PMEM2 REQUIRED IMPORTED_TARGET libpmem2)
target_link_libraries(compat_core PRIVATE PkgConfig::PMEM2)
target_compile_definitions(compat_core PRIVATE COMPAT_HAVE_PMEM2)
