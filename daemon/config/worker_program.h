// Which program trains a model of some kind, and where it lies.
//
// Pure but for a look at which files can be executed; any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace atolld {

// The worker for a model of this kind: a path. Ours lie in `folder`, beside the daemon; that of
// "huggingface" comes with pip, and is looked for there and then in PATH. Empty: there is none, as
// of "external" always. Whether ours are really there is not looked at.
std::string FindWorkerProgram(const std::string& kind, const std::string& folder);

// What to do where there is none.
std::string NoWorkerText(absl::string_view kind);

}  // namespace atolld
