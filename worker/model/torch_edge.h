// The edge at which libtorch's exceptions become a Status.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace atolld {

// libtorch has its own exception for a GPU's memory alone; a CPU's is known by its words.
inline bool IsOutOfMemory(absl::string_view what) {
  return absl::StrContains(what, "out of memory") || absl::StrContains(what, "allocate memory") ||
         absl::StrContains(what, "not enough memory");
}

inline absl::Status OutOfMemory(absl::string_view context) {
  return absl::ResourceExhaustedError(
      absl::StrCat(context,
                   ": out of memory; [worker] device names another device, and a run with [inner] "
                   "accumulation or checkpointing needs less"));
}

// Runs `call`; what it throws comes back with `context`, which names the tensors at hand and their
// shapes.
template <typename Call>
absl::Status CatchTorch(absl::string_view context, Call&& call) {
  try {
    call();
    return absl::OkStatus();
  } catch (const c10::Error& error) {
    const absl::string_view what = error.what_without_backtrace();
    if (IsOutOfMemory(what)) return OutOfMemory(context);
    return absl::InternalError(absl::StrCat(context, ": ", what));
  } catch (const std::bad_alloc&) {
    return OutOfMemory(context);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(context, ": ", error.what()));
  }
}

}  // namespace atolld
