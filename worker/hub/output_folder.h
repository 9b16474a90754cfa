// OutputFolder: where a model is written. The folder is looked at before, so that nothing of
// anybody else's is overwritten; all files are written beside, in a folder within it, and are put
// in their places when the last of them is durable.
//
// Law: whenever it is looked at, also after a crash, the folder is that of the model before, of
// none, or of the new one: it is a model's by its description (config.json, adapter_config.json or
// model.toml), which goes first and comes last. After an error before Finish it is as it was.
//
// What counts are the files that a model's folder consists of, by their names; whatever else lies
// there is left alone. Blocking; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace atolld {

// The names of a model's files that are in `folder`, sorted: config.json, weights and their index,
// adapters, model.toml, what belongs to a tokenizer. Empty also where there is no such folder.
std::vector<std::string> ModelFilesIn(const std::string& folder);

// May a model be written to `output`? INVALID_ARGUMENT: it is one of `inputs`, or holds a file of
// theirs (by a link), which would be destroyed while it is read, whatever `force` says.
// ALREADY_EXISTS: it holds a model's files, and not `force`.
absl::Status CheckOutputFolder(const std::string& output, const std::vector<std::string>& inputs,
                               bool force);

class OutputFolder {
 public:
  // Makes `output` where it is missing, for files of `bytes` together. RESOURCE_EXHAUSTED: its disk
  // has less room; names both numbers. Else as the system says.
  static absl::StatusOr<OutputFolder> Make(const std::string& output, uint64_t bytes);

  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&&) = delete;
  ~OutputFolder();  // takes away what was not finished, and a folder that Make has made

  // The folder to write to.
  const std::string& place() const { return place_; }

  // Puts the files in their places, over those of their names, and removes weights of a model
  // before that are no part of the new one, which readers would take for it. Once.
  absl::Status Finish();

 private:
  OutputFolder(std::string output, bool made);

  const std::string output_;
  std::string place_;  // empty: finished, or moved from
  const bool made_;
};

// RESOURCE_EXHAUSTED: the disk of `folder`, which need not be there yet, has less than `bytes`
// free.
absl::Status CheckRoom(const std::string& folder, uint64_t bytes);

}  // namespace atolld
