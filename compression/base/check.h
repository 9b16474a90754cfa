// CHECK and CHECK_OK, which later releases of Abseil have but that of Debian 12 lacks.
#pragma once

#include "absl/status/status.h"
#include "compression/base/last_words.h"

// A failed check is a bug of Atoll and aborts the process, also in release builds.
#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) {                                                      \
      ::atolld::DieOfCheck(__FILE__, __LINE__, "check failed: " #condition); \
    }                                                                        \
  } while (false)
#define CHECK_OK(expression)                                                \
  do {                                                                      \
    const absl::Status check_ok_status = (expression);                      \
    if (!check_ok_status.ok()) {                                            \
      ::atolld::DieOfCheck(__FILE__, __LINE__, check_ok_status.ToString()); \
    }                                                                       \
  } while (false)
