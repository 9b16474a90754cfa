// The rules between the keys of a config: which combinations are refused, and why.
//
// Each function returns the first rule that a config breaks. On the disk they only check whether
// files exist; relative paths of the config start at `folder`. May be called from any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/config/config_sections.h"
#include "optimizer/aggregation_rule.h"

namespace atolld {

struct ConfigFault {
  // The keys concerned, each with its section. The message gives the place of the first one that
  // was written, because that one can be changed.
  std::vector<std::pair<std::string, std::string>> keys;
  std::string what;  // empty if nothing is wrong
};

// Checks the keys of [data] that say how tokens are made.
ConfigFault FaultOfData(const DataConfig& data);

// Returns the rule of [exchange] aggregation; fails if it cannot withstand that many lying peers.
absl::StatusOr<AggregationRule> AggregationOf(const Config& config);

// Checks [exchange] and [membership], and what an aggregation rule needs from the run.
ConfigFault FaultOfExchange(const Config& config);

// Checks that a port on other addresses than loopback has TLS and a token, because its readers
// learn which peers take part, and how. A certificate also needs its key.
ConfigFault FaultOfHttp(const Config::Http& http);

// The name of the file with a model's settings in the folder of a model of kind "huggingface".
inline constexpr char kHubConfig[] = "config.json";

// Checks a model of kind "huggingface": its folder, and the keys that it allows. `trains` is true
// if this machine starts a worker, which needs the folder.
ConfigFault FaultOfHub(const Config& config, bool trains, const std::string& folder);

// Checks [mode] and the other keys of a run that a mode excludes.
ConfigFault FaultOfMode(const Config& config);

// Returns the patterns of the tensors of a model's experts, as ExpertsSpec has them; nothing if the
// model is known to have none, or if its names are not known.
std::vector<std::string> DefaultExpertTensors(const ConfigModel& model);

// Returns true if peers own experts, or train slices of adapters: [experts] owners or [model]
// lora_slice is above 0.
bool DividesModel(const RunConfig& config);

// Returns [experts] as the run's record has it: with the patterns also where the config leaves them
// to the model's family, and with those of slices. DividesModel must be true.
v1::ExpertsSpec MakeExpertsSpec(const RunConfig& config);

// Checks [experts] and the other keys of a run that owners of experts exclude.
ConfigFault FaultOfExperts(const Config& config);

// Checks [model] lora_slice with the keys of a run that slices of adapters exclude, and [worker]
// lora_rank with the run's keys. If `use` is kPeer or kAny, the latter is not checked where the
// config does not hold these.
ConfigFault FaultOfSlices(const Config& config, ConfigUse use);

// Returns a line about [experts] owners if there are fewer peers than that; otherwise empty.
std::string WarningOfOwners(const Config& config);

// Returns a line about [exchange] chunk_elements if the padding between experts that have owners
// makes an entry more than a tenth longer than the model, and names a value with which it does not.
// Otherwise, and if the model's size is not known yet, returns an empty string.
std::string WarningOfPadding(const Config& config);

// Checks what makes a run a federation of parties with data of their own: [data] private and
// validation, [inner] epochs, [federation]. If `use` is kPeer, rules about the run's keys are not
// checked, because a peer's config does not hold these keys.
ConfigFault FaultOfFederation(const Config& config, ConfigUse use, const std::string& folder);

// Checks [parties]: virtual parties need data of their own and a worker that supports them.
ConfigFault FaultOfHosted(const Config& config, ConfigUse use);

// Checks [inner] control_variates (SCAFFOLD). Each peer derives the common variate from an entry,
// so the entry must be the mean of the parties' work at one known learning rate.
ConfigFault FaultOfControl(const Config& config);

// Checks [worker] slower, which only works with Atoll's own workers.
ConfigFault FaultOfSlower(const Config& config);

// Checks [worker] memory, which only works where it is known what training needs.
ConfigFault FaultOfMemory(const Config& config);

// Checks what differential privacy imposes on the other settings of a run. It refuses every setting
// that would let through an update that is not clipped, or give it more weight than its noise
// covers. docs/privacy.md says why.
ConfigFault FaultOfPrivacy(const Config& config);

// Checks what masked updates ([privacy] masked) cannot be combined with. With masks a single update
// is never visible, so every rule that judges, cuts, recomputes or shortens single updates is
// excluded. An update's weight must also be known before its owner masks it.
ConfigFault FaultOfMasks(const Config& config);

}  // namespace atolld
