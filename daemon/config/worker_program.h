// Which program trains a model of some kind, where it lies, and what of [worker] it must know.
//
// Pure but for a look at which files can be executed; any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace atolld {

inline constexpr double kMostSlower = 1000;  // [worker] slower

// The worker for a model of this kind: a path. Ours lie in `folder`, beside the daemon; that of
// "huggingface" comes with pip, and is looked for there and then in PATH. Empty: there is none, as
// of "external" always. Whether ours are really there is not looked at.
std::string FindWorkerProgram(const std::string& kind, const std::string& folder);

// What to do where there is none.
std::string NoWorkerText(absl::string_view kind);

// Whether the worker for a model of this kind can play a slower machine ([worker] slower). Those of
// a user and of Hugging Face's models take as long as they take.
bool CanBeSlower(absl::string_view kind);

}  // namespace atolld
