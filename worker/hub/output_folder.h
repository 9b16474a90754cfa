// OutputFolder: the folder to which a model is written. It is checked first, so that nothing of
// value is overwritten. All files are written to a temporary folder inside it, and moved to their
// places when all of them are durable.
//
// Law: at any time, even after a crash, the folder holds the complete previous model, no model, or
// the complete new model. A folder holds a model only if it has the model's description
// (config.json, adapter_config.json or model.toml), which is removed first and put in place last.
// If an error occurs before Finish, the folder is unchanged.
//
// Only files with the names of a model's files are touched; everything else in the folder is left
// unchanged. Its calls block. May be used from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

// The folder in which the library transformers stores a tokenizer's further chat templates.
inline constexpr char kMoreTemplates[] = "additional_chat_templates";

// Returns true if a file with this name in a model's folder belongs to the tokenizer.
bool BelongsToTokenizer(absl::string_view name);

// Returns the sorted names of a model's files in `folder`: config.json, weights and their index,
// adapters, model.toml, and a tokenizer's files including the folder of its templates. Returns an
// empty list if the folder does not exist.
std::vector<std::string> ModelFilesIn(const std::string& folder);

// Checks whether a model may be written to `output`. Fails with INVALID_ARGUMENT, even if `force`
// is true, if `output` is one of `inputs` or contains one of their files (also through a link),
// because an input would be destroyed while it is read. Fails with ALREADY_EXISTS if `output`
// contains files of a model and `force` is false.
absl::Status CheckOutputFolder(const std::string& output, const std::vector<std::string>& inputs,
                               bool force);

class OutputFolder {
 public:
  // Creates `output` if it is missing. `bytes` is the total size of the files to be written. Fails
  // with RESOURCE_EXHAUSTED if the disk has less free space (the message has both numbers), and
  // with the system's error if the folder cannot be created.
  static absl::StatusOr<OutputFolder> Make(const std::string& output, uint64_t bytes);

  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&&) = delete;
  // Without Finish, deletes the written files, and the folder if Make has created it.
  ~OutputFolder();

  // The temporary folder to which the caller must write the files.
  const std::string& place() const { return place_; }

  // Moves the files to their places, where they replace files of the same names, and removes
  // weights of the previous model that do not belong to the new model, because readers would load
  // them. Call this once.
  absl::Status Finish();

 private:
  OutputFolder(std::string output, bool made);

  const std::string output_;
  std::string place_;  // Empty after Finish, or if this object was moved from.
  const bool made_;
};

// Fails with RESOURCE_EXHAUSTED if the disk of `folder`, which need not exist yet, has less than
// `bytes` free.
absl::Status CheckRoom(const std::string& folder, uint64_t bytes);

}  // namespace atolld
