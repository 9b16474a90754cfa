// The status macros that Debian 12's Abseil lacks, under the names that later releases use.
//
// A copy of the few lines that the daemon has too: worker/ includes nothing of daemon/.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace atolld {

// The same error with what was being done put before it.
inline absl::Status WithContext(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

}  // namespace atolld

#ifndef RETURN_IF_ERROR
#define RETURN_IF_ERROR(expression)                                  \
  do {                                                               \
    const absl::Status return_if_error_status = (expression);        \
    if (!return_if_error_status.ok()) return return_if_error_status; \
  } while (false)
#endif

#ifndef ASSIGN_OR_RETURN
#define ATOLL_WORKER_CONCAT_INNER(a, b) a##b
#define ATOLL_WORKER_CONCAT(a, b) ATOLL_WORKER_CONCAT_INNER(a, b)
#define ASSIGN_OR_RETURN(declaration, expression) \
  ATOLL_WORKER_ASSIGN(ATOLL_WORKER_CONCAT(status_or_, __LINE__), declaration, expression)
#define ATOLL_WORKER_ASSIGN(temporary, declaration, expression) \
  auto temporary = (expression);                                \
  if (!temporary.ok()) return temporary.status();               \
  declaration = std::move(temporary).value()
#endif
