// Where a model is written: looked at before, so that nothing of anybody else's is overwritten, and
// put in order after.
//
// What counts are the files that a model's folder consists of, by their names; whatever else lies
// there is left alone. Blocking; any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace atolld {

// The names of a model's files that are in `folder`, sorted: config.json, weights and their index,
// adapters, model.toml, what belongs to a tokenizer. Empty also where there is no such folder.
std::vector<std::string> ModelFilesIn(const std::string& folder);

// May a model be written to `output`? INVALID_ARGUMENT: it is one of `inputs`, or holds a file of
// theirs (by a link), which would be destroyed while it is read, whatever `force` says.
// ALREADY_EXISTS: it holds a model's files, and not `force`.
absl::Status CheckOutputFolder(const std::string& output, const std::vector<std::string>& inputs,
                               bool force);

// Of a model that was just written over another: removes the other's weights that are no part of
// it, which readers would take for it.
void RemoveOtherWeights(const std::string& output);

}  // namespace atolld
