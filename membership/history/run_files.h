// The small files that every worker of a run reads beside its data: a tokenizer with what lies
// beside it, a TorchScript program, the validation data that all may see. Whoever makes version 0
// lists them (RunSpec.files); the genesis digest covers the list. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

inline constexpr char kTokenizerRole[] = "tokenizer";
inline constexpr char kProgramRole[] = "program";
inline constexpr char kValidationRole[] = "validation";

// Where a peer keeps them, in its folder: a folder for each role.
inline constexpr char kRunFilesFolder[] = "files";

// A file that peers give to each other. It is held in memory while it travels; tokenizers have a
// few MB, and a model of this size is no burden for the peers' lines.
inline constexpr uint64_t kLargestRunFile = uint64_t{64} << 20;
inline constexpr int kMostRunFiles = 16;

// Whether peers give it: it has at most kLargestRunFile bytes.
bool Travels(const v1::RunFile& file);

// "tokenizer.json (2.1 MB)"
std::string Describe(const v1::RunFile& file);

// The file's name as a list may hold it: what is no letter, digit, ".", "_" or "-" becomes "_".
std::string RunFileName(absl::string_view name);

// INVALID_ARGUMENT: too many, or a role, a name, a length or a digest that run.proto forbids.
absl::Status CheckRunFiles(const v1::RunSpec& spec);

// The first file of a role, which is the one that the others belong to; nullptr: none is listed.
const v1::RunFile* FindRunFile(const v1::RunSpec& spec, absl::string_view role);

}  // namespace atolld
