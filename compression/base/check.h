// CHECK and CHECK_OK, which Debian 12's Abseil lacks, as later releases have them.
#pragma once

#include <cstdlib>
#include <iostream>

#include "absl/status/status.h"

// Our own bugs end the process, in release builds too.
#define CHECK(condition)                                                                      \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      std::cerr << __FILE__ << ":" << __LINE__ << ": check failed: " #condition << std::endl; \
      std::abort();                                                                           \
    }                                                                                         \
  } while (false)
#define CHECK_OK(expression)                                                            \
  do {                                                                                  \
    const absl::Status check_ok_status = (expression);                                  \
    if (!check_ok_status.ok()) {                                                        \
      std::cerr << __FILE__ << ":" << __LINE__ << ": " << check_ok_status << std::endl; \
      std::abort();                                                                     \
    }                                                                                   \
  } while (false)
