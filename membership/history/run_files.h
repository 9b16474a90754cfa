// The small files that every worker of a run reads in addition to its data: a tokenizer with its
// companion files, a TorchScript program, and validation data that may be public. The peer that
// makes version 0 lists them (RunSpec.files), and the genesis digest covers the list. Pure. May be
// called from any thread.
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

// The subfolder of a peer's folder in which the files are stored, with a folder for each role.
inline constexpr char kRunFilesFolder[] = "files";

// The largest file that peers give to each other. It is held in memory while it is sent. Tokenizers
// have a few MB, and a program of at most this size is no burden for the peers' lines.
inline constexpr uint64_t kLargestRunFile = uint64_t{64} << 20;
inline constexpr int kMostRunFiles = 16;

// Returns true if the file has at most kLargestRunFile bytes, so that peers give it to each other.
bool Travels(const v1::RunFile& file);

// Returns text such as "tokenizer.json (2.1 MB)".
std::string Describe(const v1::RunFile& file);

// Returns the file's name in the form that the list uses: every character other than a letter, a
// digit, ".", "_" or "-" becomes "_".
std::string RunFileName(absl::string_view name);

// Fails with INVALID_ARGUMENT if there are too many files, or if run.proto forbids a role, a name,
// a length or a digest.
absl::Status CheckRunFiles(const v1::RunSpec& spec);

// Returns the first file of a role, or nullptr if the list has none. The other files of the role
// are its companions.
const v1::RunFile* FindRunFile(const v1::RunSpec& spec, absl::string_view role);

}  // namespace atolld
