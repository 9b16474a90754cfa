// Finds the worker program that trains a model of a kind, and says what it supports.
//
// It only looks at which files can be executed. May be called from any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace atolld {

inline constexpr double kMostSlower = 1000;  // the largest value of [worker] slower
inline constexpr char kMetal[] = "mps";      // the [worker] device that is Apple's GPU

// Returns the path of the worker for a model of this kind. Atoll's own workers are in `folder`,
// beside the daemon; their existence is not checked. The worker of "huggingface" is installed by
// pip, and is looked for in `folder` and then in PATH. Returns an empty path if no worker is found,
// and always for "external".
std::string FindWorkerProgram(const std::string& kind, const std::string& folder);

// Returns the advice for a machine on which FindWorkerProgram finds no worker for this kind.
std::string NoWorkerText(absl::string_view kind);

// Returns true if the worker for a model of this kind can simulate a slower machine ([worker]
// slower). A user's own worker and the worker for Hugging Face's models cannot.
bool CanBeSlower(absl::string_view kind);

// Returns true if the worker for a model of this kind can divide the model among several devices
// ([worker] sharding).
bool CanBeSharded(absl::string_view kind);

// Returns true if the worker for a model of this kind can train on Apple's GPU ([worker] device
// "mps"): if it is written in Python, or is a user's own.
bool CanTakeMetal(absl::string_view kind);

}  // namespace atolld
