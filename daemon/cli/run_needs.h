// What a run needs of a machine that is to join it, and whether the machine has it: asked with a
// token, which stays unspent.
//
// The coordinator describes the run. What its peers give to each other (run_files.h) nobody has to
// bring; for all else a line names the option that gives it. Blocking.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/cli/preflight.h"
#include "daemon/env/env.h"
#include "daemon/transport/coordinator_client.h"

namespace atolld {

// What this machine has, as the options of `atolld join` name it; empty: not named.
struct Brought {
  std::string data;       // a file or folder; of several sources all, with commas between them
  std::string tokenizer;  // a file
  std::string base;       // a file of `atoll import`
  std::string program;    // a TorchScript file, or the program of an external model
};

// Where its coordinators are, as CoordinatorAccess has it.
std::string AddressesIn(const v1::JoinToken& token);

// Asks the token's coordinator for `patience`. The token's credentials lie in `folder` meanwhile,
// which is removed. Errors as DescribeRun.
absl::StatusOr<v1::RunDescription> AskAboutRun(Files& files, const v1::JoinToken& token,
                                               const std::string& folder, absl::Duration patience);

// How fast the line to the token's coordinator is; for `patience` another machine may measure
// first. `folder` as above. Errors as MeasureLine.
absl::StatusOr<LineSpeed> MeasureLineWith(Files& files, const v1::JoinToken& token,
                                          const std::string& folder, absl::Duration patience);

// The run itself, then one line for each thing that it needs. Fatal: to join would be in vain.
std::vector<Finding> CheckNeeds(Files& files, const v1::RunDescription& run,
                                const Brought& brought);

// The paths of `data`; one, unless the run mixes several sources.
std::vector<std::string> SourcesIn(const v1::RunSpec& spec, const std::string& data);

}  // namespace atolld
