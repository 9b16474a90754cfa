// What a model that is no architecture of ours asks of a config: a TorchScript file is described by
// its bytes, a worker of the user's own by itself. Pure functions but for the files that they are
// told to read; any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"
#include "daemon/config/config.h"
#include "daemon/config/config_rules.h"

namespace atolld {

// Of kind "torchscript" or "external".
bool IsForeign(absl::string_view model_kind);

// False: a model of this kind has no such key in [model], so it is neither taken nor written.
bool TakesModelKey(absl::string_view kind, absl::string_view key);

// INVALID_ARGUMENT "PLACE: what is wrong": a key of another kind, or one that the kind needs and
// the process lacks. Paths in `config` are still as written; relative ones start at `folder`.
absl::Status CheckModelKind(const Config& config, ConfigUse use, const ConfigPlaces& places,
                            const std::string& folder);

// 32 bytes: the SHA-256 of a whole file. INVALID_ARGUMENT: it cannot be read.
absl::StatusOr<std::string> DigestOfFile(const std::string& path);

// What stands for such a model in run.proto.
void SetForeignSpec(const ConfigModel& model, v1::ModelSpec* spec);

// DataSpec.kind for a model of such a kind.
std::string ForeignDataKind(absl::string_view model_kind);

}  // namespace atolld
