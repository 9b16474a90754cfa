#include "daemon/config/config.h"

#include <toml++/toml.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/check.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "daemon/config/config_defaults.h"
#include "daemon/config/config_places.h"
#include "daemon/config/config_rules.h"
#include "daemon/config/data_config.h"
#include "daemon/config/data_on_disk.h"
#include "daemon/config/expert_sizes.h"
#include "daemon/config/mode_resolution.h"
#include "daemon/config/peer_path.h"
#include "daemon/config/run_record.h"
#include "daemon/config/store_rules.h"
#include "daemon/config/toml_value.h"
#include "daemon/config/worker_program.h"
#include "daemon/env/network.h"
#include "membership/history/run_files.h"
#include "membership/planning/message_sizes.h"

namespace atolld {
namespace {

constexpr size_t kLongestStem = 40;  // keeps made ids within a run id's 64 characters
constexpr uint64_t kLargestVocabulary = uint64_t{1} << 24;  // as config_table.cc says
constexpr size_t kMostOfLine = 64;                          // of a wrong one that a message shows
// No config comes near this; a file that does is of another kind, given by mistake.
constexpr size_t kLargestFile = 1 << 20;

using KeyName = std::pair<std::string, std::string>;

// Returns the place of the first of these keys that was written at all, because that one can be
// changed.
const std::string& PlaceOf(const ConfigPlaces& places, const std::vector<KeyName>& keys) {
  for (const KeyName& key : keys) {
    if (places.Has(key.first, key.second)) return places.Of(key.first, key.second);
  }
  return places.Of(keys.front().first, keys.front().second);
}

absl::Status Broken(const ConfigPlaces& places, const std::vector<KeyName>& keys,
                    absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(PlaceOf(places, keys), ": ", what));
}

absl::Status Checked(const ConfigPlaces& places, const ConfigFault& fault) {
  return fault.what.empty() ? absl::OkStatus() : Broken(places, fault.keys, fault.what);
}

// Returns true if data are read: a stub's worker reads none, a worker of the user's own may not,
// and an aggregator has no worker.
bool ReadsData(const Config& c, ConfigUse use) {
  if (use == ConfigUse::kPeer && c.peer.role == kAggregatorRoleName) return false;
  if (!c.data.path.empty() || !c.data.sources.empty()) return true;
  return c.model.kind != kStubKind && c.model.kind != kExternalKind;
}

absl::Status CheckNeeded(const Config& c, const std::vector<ConfigField>& fields, ConfigUse use,
                         const ConfigPlaces& places) {
  for (const ConfigField& field : fields) {
    if (field.section == "data" && !ReadsData(c, use)) continue;
    for (const ConfigUse needing : field.needed_by) {
      const Text* text = std::get_if<Text>(&field.value);
      if (needing != use || text == nullptr || !text->at->empty()) continue;
      if (text->at == &c.data.path && !c.data.sources.empty()) continue;
      return Broken(places, {{field.section, field.key}},
                    absl::StrCat(field.Name(), " is missing: ", field.meaning));
    }
  }
  return absl::OkStatus();
}

// Checks the keys that only a stub has, and those that a stub lacks.
absl::Status CheckStub(const Config& c, const ConfigPlaces& places) {
  const bool stub = c.model.kind == kStubKind;
  if (stub && c.model.parameters == 0) {
    return Broken(places, {{"model", "parameters"}, {"model", "kind"}},
                  "[model] parameters is missing: a model of kind 'stub' needs it");
  }
  if (!stub && c.model.parameters != 0) {
    return Broken(places, {{"model", "parameters"}},
                  absl::StrCat("[model] parameters is for kind 'stub' alone; a model of kind '",
                               c.model.kind, "' has as many as its shape says"));
  }
  if (!stub && c.inner.step_time != absl::ZeroDuration()) {
    return Broken(places, {{"inner", "step_time"}},
                  absl::StrCat("[inner] step_time is for a model of kind 'stub' alone; kind '",
                               c.model.kind, "' takes the time that it needs"));
  }
  return absl::OkStatus();
}

// Returns true if this use starts a worker, or gives its model to one.
bool RunsWorker(const Config& c, ConfigUse use) {
  return use == ConfigUse::kLocal ||
         (use == ConfigUse::kPeer && c.peer.role != kAggregatorRoleName);
}

// Returns true if a peer has a copy of the file that its run needs in this role; it then needs no
// file of its own.
bool KeepsRunFile(const Config& c, ConfigUse use, const std::string& folder, const char* role) {
  std::error_code error;
  return use == ConfigUse::kPeer &&
         std::filesystem::is_directory(
             std::filesystem::path(folder) / c.peer.dir / kRunFilesFolder / role, error);
}

absl::Status CheckModelKind(const Config& c, ConfigUse use, const ConfigPlaces& places,
                            const std::string& folder) {
  const std::string& kind = c.model.kind;
  for (const char* key :
       {"layers", "heads", "width", "context", "dropout", "parameters", "file", "path"}) {
    if (!places.Has("model", key) || TakesModelKey(kind, key)) continue;
    return Broken(places, {{"model", key}},
                  absl::StrCat("[model] ", key, " is not for a model of kind '", kind, "', ",
                               WhyNoModelKey(kind, key)));
  }
  if (kind == kExternalKind && c.worker.program.empty() && RunsWorker(c, use)) {
    return Broken(places, {{"worker", "program"}},
                  "[worker] program is missing: with [model] kind 'external' it is what trains");
  }
  RETURN_IF_ERROR(Checked(places, FaultOfHub(c, RunsWorker(c, use), folder)));
  if (kind != kTorchScriptKind) return absl::OkStatus();
  // A peer that names none gets the run's from the others.
  if (c.model.file.empty() && (use == ConfigUse::kLocal || use == ConfigUse::kCoordinator)) {
    return Broken(places, {{"model", "file"}},
                  "[model] file is missing: a model of kind 'torchscript' is that file");
  }
  std::error_code error;
  if (!c.model.file.empty() && !KeepsRunFile(c, use, folder, kProgramRole) &&
      !std::filesystem::is_regular_file(std::filesystem::path(folder) / c.model.file, error)) {
    return Broken(places, {{"model", "file"}},
                  absl::StrCat("model.file '", c.model.file, "' is not an existing file"));
  }
  return absl::OkStatus();
}

absl::Status CheckData(const Config& c, ConfigUse use, const ConfigPlaces& places,
                       const std::string& folder) {
  const absl::StatusOr<std::vector<DataSource>> sources = SourcesOf(c.data);
  if (!sources.ok()) return Broken(places, {{"data", "sources"}}, sources.status().message());
  if (!c.data.path.empty() && !c.data.sources.empty()) {
    return Broken(places, {{"data", "sources"}, {"data", "path"}},
                  "[data] sources is in place of path; leave one of them out");
  }
  RETURN_IF_ERROR(Checked(places, FaultOfData(c.data)));
  DataConfig placed = c.data;
  PlaceData(folder, &placed);
  const bool bytes = c.data.tokenizer == kByteTokenizer;
  const bool ids = c.data.kind == "bin" || c.data.kind == "npy";
  // A local run has the text at hand, and its worker counts the tokens.
  const bool counted = use == ConfigUse::kLocal && !bytes && !ids;
  const bool known = IsForeign(c.model.kind);  // to its worker
  if (!known && use != ConfigUse::kAny && use != ConfigUse::kPeer && c.model.vocabulary == 0 &&
      (!bytes || ids) && !counted && PreparedVocabulary(placed) == 0) {
    return Broken(
        places, {{"model", "vocabulary"}, {"data", bytes ? "kind" : "tokenizer"}},
        absl::StrCat("[model] vocabulary is missing: with [data] ", bytes ? "kind" : "tokenizer",
                     " '", bytes ? c.data.kind : c.data.tokenizer,
                     "' it must say how many tokens there are, unless the data is a "
                     "folder of `atoll data prepare`"));
  }
  if (!ReadsData(c, use) || (use != ConfigUse::kLocal && use != ConfigUse::kPeer)) {
    return absl::OkStatus();
  }
  const auto check = [&](const std::string& path, const char* key) {
    std::error_code error;
    if (std::filesystem::exists(std::filesystem::path(folder) / path, error)) {
      return absl::OkStatus();
    }
    return Broken(places, {{"data", key}},
                  absl::StrCat("data.", key, " '", path, "' does not exist",
                               path[0] == '~' || absl::StrContains(path, '$')
                                   ? "; a config does not expand '~' and '$', so write the path out"
                                   : ""));
  };
  if (use == ConfigUse::kPeer) {
    const std::string dir = (std::filesystem::path(folder) / c.peer.dir).string();
    const absl::Status apart = CheckDataApart(placed, dir);
    if (!apart.ok()) return Broken(places, {{"peer", "dir"}}, apart.message());
  }
  if (use == ConfigUse::kLocal && c.data.sources.empty() && HasPeerPlace(c.data.path)) {
    const absl::Status there = CheckPeerPaths(c.data, c.run.peers, folder);
    return there.ok() ? there : Broken(places, {{"data", "path"}}, there.message());
  }
  for (const DataSource& source : *sources) {
    RETURN_IF_ERROR(check(source.path, c.data.sources.empty() ? "path" : "sources"));
  }
  if (!IsTokenizerFile(c.data.tokenizer) || KeepsRunFile(c, use, folder, kTokenizerRole)) {
    return absl::OkStatus();
  }
  return check(c.data.tokenizer, "tokenizer");
}

// Checks the parameters with which a worker begins, or to which its adapters belong.
absl::Status CheckModelFiles(const Config& c, ConfigUse use, const ConfigPlaces& places,
                             const std::string& folder) {
  if (!RunsWorker(c, use)) return absl::OkStatus();
  const std::pair<const char*, const std::string&> files[] = {{"initial", c.model.initial},
                                                              {"base", c.model.base}};
  for (const auto& [key, path] : files) {
    std::error_code error;
    if (path.empty()) continue;
    if (std::filesystem::is_regular_file(std::filesystem::path(folder) / path, error)) continue;
    return Broken(places, {{"model", key}},
                  absl::StrCat("model.", key, " '", path,
                               "' is not an existing file; `atoll import` makes one"));
  }
  return absl::OkStatus();
}

// Checks the keys that belong to other kinds.
absl::Status CheckKind(const ConfigModel& m, const ConfigPlaces& places) {
  const bool rich = m.kind == "gpt2" || m.kind == "llama";
  const bool ours = m.kind != kStubKind && !IsForeign(m.kind);
  const struct {
    const char* key;
    bool said;
    bool has;
  } keys[] = {
      {"hidden", m.hidden != 0, rich},
      {"kv_heads", m.kv_heads != 0, m.kind == "llama"},
      {"tied", !m.tied, rich},
      {"rope_theta", m.rope_theta != 0, m.kind == "llama"},
      {"norm_epsilon", m.norm_epsilon != 0, rich},
      {"vocabulary", m.vocabulary != 0, ours},
      {"initial", !m.initial.empty(), ours},
      {"lora_rank", m.lora_rank != 0, ours || m.kind == kHuggingFaceKind},
  };
  for (const auto& one : keys) {
    if (!one.said || one.has) continue;
    return Broken(places, {{"model", one.key}, {"model", "kind"}},
                  absl::StrCat("[model] ", one.key, " is not for kind '", m.kind, "'; leave it out",
                               m.kind == "gpt" ? ", or take kind 'gpt2' or 'llama'" : ""));
  }
  return absl::OkStatus();
}

absl::Status CheckAdapters(const ConfigModel& m, ConfigUse use, const ConfigPlaces& places) {
  if (m.kind == kHuggingFaceKind) return absl::OkStatus();  // FaultOfHub
  if (m.lora_rank == 0) {
    if (m.base.empty() && m.base_digest.empty() && m.lora_targets.empty() && m.lora_alpha == 0) {
      return absl::OkStatus();
    }
    // A peer names its base, and its coordinator tells it the rest.
    if (use == ConfigUse::kPeer || use == ConfigUse::kAny) return absl::OkStatus();
    return Broken(places,
                  {{"model", "base"},
                   {"model", "base_digest"},
                   {"model", "lora_targets"},
                   {"model", "lora_alpha"}},
                  "[model] base, base_digest, lora_targets and lora_alpha are for adapters; set "
                  "lora_rank too");
  }
  const std::vector<std::string> known = AdapterTargets(m);
  for (const std::string& target : SplitNames(m.lora_targets)) {
    if (absl::c_linear_search(known, target)) continue;
    return Broken(places, {{"model", "lora_targets"}},
                  absl::StrCat("[model] lora_targets: a model of kind '", m.kind, "' has no '",
                               target, "'; it has ", absl::StrJoin(known, ", ")));
  }
  if (m.base_digest.empty()) {
    return Broken(places, {{"model", "base_digest"}, {"model", "lora_rank"}},
                  "[model] base_digest is missing: adapters need one base, known by its SHA-256, "
                  "which `atoll import` prints");
  }
  if (m.base.empty() && use == ConfigUse::kLocal) {
    return Broken(places, {{"model", "base"}, {"model", "lora_rank"}},
                  "[model] base is missing: adapters need the model beneath them");
  }
  if (!m.initial.empty()) {
    return Broken(places, {{"model", "initial"}, {"model", "lora_rank"}},
                  "[model] initial must be empty with adapters, which begin as nothing; the model "
                  "beneath them is [model] base");
  }
  return absl::OkStatus();
}

absl::Status CheckModel(const Config& c, ConfigUse use, const ConfigPlaces& places) {
  const ConfigModel& m = c.model;
  RETURN_IF_ERROR(CheckKind(m, places));
  if (m.width % m.heads != 0) {
    return Broken(places, {{"model", "heads"}, {"model", "width"}},
                  absl::StrCat("[model] heads must divide width, and ", m.heads,
                               " does not divide ", m.width));
  }
  if (m.kv_heads != 0 && m.heads % m.kv_heads != 0) {
    return Broken(places, {{"model", "kv_heads"}, {"model", "heads"}},
                  absl::StrCat("[model] kv_heads must divide heads, and ", m.kv_heads,
                               " does not divide ", m.heads));
  }
  const DecoderFault fault = m.kind == "llama" ? FaultOfDecoder(DecoderOf(m), m.layers)
                                               : FaultOfNoDecoder(m.decoder, m.kind);
  if (!fault.what.empty()) {
    return Broken(places, {{"model", fault.key}}, absl::StrCat("[model] ", fault.what));
  }
  if (m.kind == "llama" && m.decoder.head_width == 0 && m.width / m.heads % 2 != 0) {
    return Broken(places, {{"model", "heads"}, {"model", "width"}},
                  absl::StrCat("[model] width / heads must be even with kind 'llama', whose "
                               "positions turn pairs of values, not ",
                               m.width / m.heads));
  }
  if (m.rope_theta != 0 && m.rope_theta < 1) {
    return Broken(places, {{"model", "rope_theta"}},
                  absl::StrCat("[model] rope_theta must be 0 or at least 1, not ", m.rope_theta));
  }
  return CheckAdapters(m, use, places);
}

// A peer's own config does not have the run's batch; its worker checks again.
absl::Status CheckDevices(const Config& c, ConfigUse use, const ConfigPlaces& places) {
  if (use == ConfigUse::kLocal && c.worker.sharding != "none" && !CanBeSharded(c.model.kind)) {
    return Broken(places, {{"worker", "sharding"}, {"model", "kind"}},
                  absl::StrCat("[worker] sharding must be 'none' with kind '", c.model.kind,
                               "': only models of kind 'huggingface' are divided among devices"));
  }
  if (use == ConfigUse::kLocal && c.worker.device == kMetal && c.worker.program.empty() &&
      !CanTakeMetal(c.model.kind)) {
    return Broken(places, {{"worker", "device"}, {"model", "kind"}},
                  absl::StrCat("[worker] device must not be 'mps' with kind '", c.model.kind,
                               "': only workers in Python train on Apple's GPU, those of kinds "
                               "'huggingface' and 'external'; take 'auto' or 'cpu'"));
  }
  const auto devices = 1 + absl::c_count(c.worker.device, ',');
  if (use != ConfigUse::kLocal || static_cast<uint64_t>(devices) <= c.inner.batch) {
    return absl::OkStatus();
  }
  return Broken(places, {{"worker", "device"}, {"inner", "batch"}},
                absl::StrCat("[worker] device names ", devices, " devices, and [inner] batch is ",
                             c.inner.batch, "; each device needs one sequence at least"));
}

// How the inner steps are computed and at what rate.
absl::Status CheckInner(const Config& c, const ConfigPlaces& places) {
  if (c.inner.batch % c.inner.accumulation != 0) {
    return Broken(places, {{"inner", "accumulation"}, {"inner", "batch"}},
                  absl::StrCat("[inner] accumulation must divide batch (", c.inner.batch, "), and ",
                               c.inner.accumulation, " does not"));
  }
  if (c.inner.cooldown_steps == 0) return absl::OkStatus();
  const uint64_t end = MakeRunSpec(c).inner().decay_steps();
  if (c.inner.cooldown_steps + c.inner.warmup_steps <= end) return absl::OkStatus();
  return Broken(
      places, {{"inner", "cooldown_steps"}, {"inner", "warmup_steps"}},
      absl::StrCat("[inner] cooldown_steps must fit between warmup_steps (", c.inner.warmup_steps,
                   ") and the schedule's end (", end, "), not ", c.inner.cooldown_steps));
}

absl::Status CheckTraining(const Config& c, const ConfigPlaces& places) {
  // A quorum of half the peers or fewer is allowed: one coordinator decides every commit, so a
  // small quorum costs averaging and can never split the run.
  if (c.run.quorum > c.run.peers) {
    return Broken(
        places, {{"run", "quorum"}, {"run", "peers"}},
        absl::StrCat("[run] quorum must be at most peers (", c.run.peers, "), not ", c.run.quorum));
  }
  if ((c.inner.pace == "time") != (c.inner.time > absl::ZeroDuration())) {
    return Broken(places, {{"inner", "time"}, {"inner", "pace"}},
                  absl::StrCat("[inner] time must be above 0s with pace 'time' and 0s with any "
                               "other, not ",
                               absl::FormatDuration(c.inner.time), " with '", c.inner.pace, "'"));
  }
  if (c.inner.min_learning_rate > c.inner.learning_rate) {
    return Broken(places, {{"inner", "min_learning_rate"}, {"inner", "learning_rate"}},
                  absl::StrCat("[inner] min_learning_rate must be at most learning_rate (",
                               c.inner.learning_rate, "), not ", c.inner.min_learning_rate));
  }
  if (c.inner.decay_steps != 0 && c.inner.warmup_steps >= c.inner.decay_steps) {
    return Broken(places, {{"inner", "warmup_steps"}, {"inner", "decay_steps"}},
                  absl::StrCat("[inner] warmup_steps must be below decay_steps (",
                               c.inner.decay_steps, "), not ", c.inner.warmup_steps));
  }
  if (c.outer.rule == "average" && c.outer.momentum != 0) {
    return Broken(
        places, {{"outer", "momentum"}, {"outer", "rule"}},
        absl::StrCat("[outer] momentum must be 0 with rule 'average', which has no momentum, not ",
                     c.outer.momentum));
  }
  return absl::OkStatus();
}

// Checks the address that a peer hands out, which every other peer, on any machine, dials.
absl::Status CheckHandedOut(const Config& c, ConfigUse use, const ConfigPlaces& places) {
  if (c.peer.advertise == kDialsOutOnly) return absl::OkStatus();
  const bool listened = c.peer.advertise.empty();
  const std::string& address = listened ? c.peer.listen : c.peer.advertise;
  if (listened && IsWildcard(address)) {
    return Broken(places, {{"peer", "listen"}, {"peer", "advertise"}},
                  absl::StrCat("[peer] listen '", address,
                               "' says where this peer listens, and not where others dial it: set "
                               "[peer] advertise to a HOST:PORT that they reach, or to 'none' "
                               "where nobody can dial in"));
  }
  if (use != ConfigUse::kPeer || IsLoopback(c.coordinator.address) || !IsLoopback(address)) {
    return absl::OkStatus();
  }
  return Broken(
      places, {{"peer", listened ? "listen" : "advertise"}, {"coordinator", "address"}},
      absl::StrCat("[peer] ", listened ? "listen" : "advertise", " '", address,
                   "' can be dialled from this machine alone, and the coordinator is at '",
                   c.coordinator.address,
                   "': set [peer] listen to '0.0.0.0:PORT' and [peer] advertise to a HOST:PORT "
                   "that others reach, or advertise to 'none' where nobody can dial in"));
}

absl::Status CheckDialled(const Config& c, ConfigUse use, const ConfigPlaces& places) {
  const struct {
    const char* section;
    const char* key;
    const std::string& address;
    const char* instead;
  } dialled[] = {{"coordinator", "address", c.coordinator.address, "[coordinator] listen"},
                 {"coordinator", "aggregator_address", c.coordinator.aggregator_address,
                  "[coordinator] listen"},
                 {"peer", "advertise", c.peer.advertise, "[peer] listen"}};
  for (const auto& one : dialled) {
    if (one.address.empty() || one.address == kDialsOutOnly || !IsWildcard(one.address)) continue;
    return Broken(places, {{one.section, one.key}},
                  absl::StrCat("[", one.section, "] ", one.key, " '", one.address,
                               "' is every address of a machine, and nobody can dial it: set it "
                               "to a HOST:PORT that others reach; what is listened on is ",
                               one.instead));
  }
  return CheckHandedOut(c, use, places);
}

absl::Status CheckAddresses(const Config& c, ConfigUse use, const ConfigPlaces& places) {
  if (c.peer.role == kAggregatorRoleName && c.peer.advertise == kDialsOutOnly) {
    return Broken(
        places, {{"peer", "advertise"}, {"peer", "role"}},
        "[peer] advertise must not be 'none' with role 'aggregator', which is there to be "
        "dialled");
  }
  if (!c.network.plaintext) return CheckDialled(c, use, places);
  const struct {
    const char* section;
    const char* key;
    const std::string& address;
  } addresses[] = {{"coordinator", "address", c.coordinator.address},
                   {"coordinator", "listen", c.coordinator.listen},
                   {"coordinator", "aggregator_address", c.coordinator.aggregator_address},
                   {"peer", "listen", c.peer.listen},
                   {"peer", "advertise", c.peer.advertise}};
  for (const auto& one : addresses) {
    if (one.address.empty() || one.address == kDialsOutOnly || IsLoopback(one.address)) continue;
    return Broken(places, {{one.section, one.key}},
                  absl::StrCat("[", one.section, "] ", one.key, " '", one.address,
                               "' is beyond this machine, where [network] plaintext = true would "
                               "let anybody in; leave it out"));
  }
  return CheckDialled(c, use, places);
}

// Refuses, before anything is begun, what no message could carry.
absl::Status CheckSizes(const Config& c, const ConfigPlaces& places) {
  if (IsForeign(c.model.kind)) return absl::OkStatus();  // how large it is, its worker says
  SizeTerms terms;
  terms.parameters = TrainedParameters(MakeModelSpec(c.model));
  terms.chunk_elements = c.exchange.chunk_elements;
  terms.peers = c.run.peers;
  if (DividesModel(c)) {
    const ExpertSizes sizes = ExpertSizesOf(MakeModelSpec(c.model), MakeExpertsSpec(c));
    terms.experts = sizes.experts.size();
    if (sizes.known()) terms.exchanged = sizes.Padded(terms.chunk_elements);
  }
  const absl::Status passes = CheckMessageSizes(terms);
  if (passes.ok()) return passes;
  return Broken(places, {{"exchange", "chunk_elements"}, {"model", "layers"}, {"run", "peers"}},
                passes.message());
}

absl::Status CheckRules(const Config& config, const std::vector<ConfigField>& fields, ConfigUse use,
                        const ConfigPlaces& places, const std::string& folder) {
  RETURN_IF_ERROR(CheckNeeded(config, fields, use, places));
  RETURN_IF_ERROR(CheckStub(config, places));
  RETURN_IF_ERROR(CheckModelKind(config, use, places, folder));
  RETURN_IF_ERROR(CheckModel(config, use, places));
  RETURN_IF_ERROR(CheckModelFiles(config, use, places, folder));
  RETURN_IF_ERROR(Checked(places, FaultOfMisplacedKey(config)));
  // Before the quorum and what else a mode needs are looked at for themselves.
  RETURN_IF_ERROR(Checked(places, FaultOfMode(config)));
  RETURN_IF_ERROR(Checked(places, FaultOfExperts(config)));
  RETURN_IF_ERROR(Checked(places, FaultOfSlices(config, use)));
  RETURN_IF_ERROR(CheckTraining(config, places));
  RETURN_IF_ERROR(CheckInner(config, places));
  RETURN_IF_ERROR(CheckDevices(config, use, places));
  RETURN_IF_ERROR(Checked(places, FaultOfExchange(config)));
  RETURN_IF_ERROR(Checked(places, FaultOfPrivacy(config)));
  RETURN_IF_ERROR(CheckAddresses(config, use, places));
  for (const ConfigFault& fault :
       {FaultOfHosted(config, use), FaultOfControl(config), FaultOfSlower(config),
        FaultOfMemory(config), FaultOfHttp(config.http), FaultOfStore(config, use),
        FaultOfFederation(config, use, folder), AutoModeFault(config, use), FaultOfMasks(config)}) {
    RETURN_IF_ERROR(Checked(places, fault));
  }
  return CheckData(config, use, places, folder);
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    const bool absent = !error || error == std::errc::no_such_file_or_directory;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", absent ? "there is no such file" : error.message()));
  }
  if (std::filesystem::is_directory(status)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a folder, not a config file"));
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  std::string text(kLargestFile + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

// Reads one file by the table of fields.
class Loader {
 public:
  Loader(std::string origin, const std::vector<ConfigField>& fields)
      : origin_(std::move(origin)), fields_(fields), places_(absl::StrCat(origin_, ":1")) {}

  absl::Status Read(absl::string_view text) {
    toml::table document;
    try {
      document = toml::parse(std::string_view(text.data(), text.size()), origin_);
    } catch (const toml::parse_error& error) {
      // Some descriptions quote the text, line breaks included.
      std::string reason(error.description());
      std::replace_if(
          reason.begin(), reason.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
      const uint32_t line = error.source().begin.line;
      const std::string wanted = WantedAt(text, line, reason);
      return At(line, wanted.empty() ? reason : wanted);
    }
    for (const auto& [name, node] : document) {
      RETURN_IF_ERROR(ReadSection(std::string(name.str()), node));
    }
    return absl::OkStatus();
  }

  absl::Status Override(const ConfigOverride& change) {
    const ConfigField* field = Find(change.section, change.key);
    CHECK(field != nullptr);  // the caller names a key of the table
    places_.Set(field->section, field->key, change.option);
    const absl::Status status = Assign(field->value, field->Name(), change.value);
    return status.ok() ? status : Annotate(status, change.option);
  }

  const ConfigPlaces& places() const { return places_; }

 private:
  std::string Place(uint32_t line) const { return absl::StrCat(origin_, ":", line); }

  absl::Status At(uint32_t line, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(Place(line), ": ", what));
  }

  // Returns what the key of a line must be if its value is not one that TOML knows ("steps = ten");
  // empty if the line gives no key of Atoll a value.
  std::string WantedAt(absl::string_view text, uint32_t number, const std::string& reason) const {
    const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
    if (number == 0 || number > lines.size()) return "";
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(lines[number - 1], absl::MaxSplits('=', 1));
    const std::string key(absl::StripAsciiWhitespace(parts.first));
    for (size_t i = number - 1; i-- > 0;) {
      absl::string_view heading = absl::StripAsciiWhitespace(lines[i]);
      if (!absl::ConsumePrefix(&heading, "[")) continue;
      const std::string section(absl::StripAsciiWhitespace(heading.substr(0, heading.find(']'))));
      const ConfigField* const field = Find(section, key);
      if (field == nullptr) return "";
      const std::string value = OneLine(absl::StripAsciiWhitespace(parts.second), kMostOfLine);
      const bool quoted = absl::StartsWith(value, "\"") || absl::StartsWith(value, "'");
      const bool bare = !quoted && FormatValue(field->value)[0] == '"';
      return absl::StrCat(field->Name(), " must be ", MustBe(field->value), ", not ",
                          value.empty() ? "empty" : value, quoted ? absl::StrCat(": ", reason) : "",
                          bare && !value.empty() ? " without quotes" : "");
    }
    return "";
  }

  absl::Status ReadSection(const std::string& section, const toml::node& node) {
    const uint32_t line = node.source().begin.line;
    const toml::table* table = node.as_table();
    if (table == nullptr) return At(line, OutsideOfSections(section));
    std::vector<std::string> sections, keys;
    for (const ConfigField& field : fields_) {
      if (sections.empty() || sections.back() != field.section) sections.push_back(field.section);
      if (field.section == section) keys.push_back(field.key);
    }
    if (keys.empty()) {
      return At(line,
                absl::StrCat("unknown section [", section, "]", Suggestion(section, sections)));
    }
    places_.Set(section, "", Place(line));
    for (const auto& [name, value] : *table) {
      const std::string key(name.str());
      // A key of a sub-table has the place of the sub-table; a value has its own line.
      const uint32_t value_line = value.source().begin.line;
      const ConfigField* field = Find(section, key);
      if (const RetiredKey* retired = FindRetiredKey(section, key)) {
        RETURN_IF_ERROR(CheckRetired(*retired, value));
        continue;
      }
      if (field == nullptr) {
        return At(value_line, absl::StrCat("unknown key '", key, "' in [", section, "]",
                                           Suggestion(key, keys)));
      }
      places_.Set(section, key, Place(value_line));
      const absl::Status status = Assign(field->value, field->Name(), RawOf(value));
      if (!status.ok()) return At(value_line, status.message());
    }
    return absl::OkStatus();
  }

  absl::Status CheckRetired(const RetiredKey& key, const toml::node& node) const {
    const RawValue raw = RawOf(node);
    const int64_t* value = std::get_if<int64_t>(&raw);
    if (value != nullptr && *value == key.value) return absl::OkStatus();
    return At(node.source().begin.line,
              absl::StrCat("[", key.section, "] ", key.key, " must be left out: it is always ",
                           key.value, ", since ", key.why));
  }

  // For a value above the first heading, or a section written as a value.
  std::string OutsideOfSections(const std::string& key) const {
    for (const ConfigField& field : fields_) {
      if (field.section == key) return absl::StrCat("'", key, "' must be a section: [", key, "]");
      if (field.key == key) {
        return absl::StrCat("'", key, "' stands outside any section; did you mean it in [",
                            field.section, "]?");
      }
    }
    return absl::StrCat("'", key, "' stands outside any section");
  }

  const ConfigField* Find(const std::string& section, const std::string& key) const {
    for (const ConfigField& field : fields_) {
      if (field.section == section && field.key == key) return &field;
    }
    return nullptr;
  }

  const std::string origin_;
  const std::vector<ConfigField>& fields_;
  ConfigPlaces places_;
};

// Returns true if the value is a path, which may be relative.
bool IsPath(const Text& value) {
  return value.form == TextForm::kPath ||
         (value.form == TextForm::kPathOrUri && !absl::StrContains(*value.at, "://"));
}

}  // namespace

absl::StatusOr<Config> ParseConfig(absl::string_view text, const std::string& origin,
                                   const std::string& folder, ConfigUse use,
                                   const std::vector<ConfigOverride>& overrides) {
  if (text.size() > kLargestFile) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ": is larger than 1 MiB"));
  }
  Config config;
  const std::vector<ConfigField> fields = ConfigFields(config);
  Loader loader(origin, fields);
  RETURN_IF_ERROR(loader.Read(text));
  for (const ConfigOverride& change : overrides) RETURN_IF_ERROR(loader.Override(change));

  UseDefaultsThatFollow(loader.places(), &config);
  RETURN_IF_ERROR(CheckRules(config, fields, use, loader.places(), folder));
  for (const ConfigField& field : fields) {
    const Text* value = std::get_if<Text>(&field.value);
    if (value == nullptr || value->at->empty() || !IsPath(*value)) continue;
    std::filesystem::path path = (std::filesystem::path(folder) / *value->at).lexically_normal();
    if (!path.has_filename() && path.has_relative_path()) path = path.parent_path();  // of "."
    *value->at = path.string();
  }
  std::error_code error;
  const bool there = std::filesystem::exists(config.model.file, error);
  if (!config.model.file.empty() && (there || !KeepsRunFile(config, use, folder, kProgramRole))) {
    ASSIGN_OR_RETURN(config.model.file_digest, DigestOfFile(config.model.file));
  }
  const std::string hub = absl::StrCat(config.model.path, "/", kHubConfig);
  if (!config.model.path.empty() && std::filesystem::is_regular_file(hub, error)) {
    ASSIGN_OR_RETURN(config.model.file_digest, DigestOfFile(hub));
  }
  PlaceData(folder, &config.data);
  // Written into the configs of a local run's processes, of which the coordinator reads no data.
  if (config.model.vocabulary == 0 && config.model.kind != kStubKind &&
      !IsForeign(config.model.kind)) {
    config.model.vocabulary = static_cast<uint32_t>(
        std::min<uint64_t>(PreparedVocabulary(config.data), kLargestVocabulary));
  }
  RETURN_IF_ERROR(CheckSizes(config, loader.places()));
  return config;
}

absl::StatusOr<Config> LoadConfig(const std::string& path, ConfigUse use,
                                  const std::vector<ConfigOverride>& overrides) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  std::error_code error;
  std::filesystem::path file = std::filesystem::absolute(path, error);
  // A link to a config stands for that file: what the file names lies beside the file.
  if (std::filesystem::is_symlink(file, error)) {
    const std::filesystem::path meant = std::filesystem::canonical(file, error);
    if (!error) file = meant;
  }
  return ParseConfig(text, path, file.parent_path().string(), use, overrides);
}

std::string MakeRunId(const std::string& path, absl::Time now) {
  std::string id;
  for (const char c : std::filesystem::path(path).stem().string()) {
    const auto byte = static_cast<unsigned char>(c);
    if (id.size() == kLongestStem) break;
    if (absl::ascii_isalnum(byte)) {
      id.push_back(absl::ascii_tolower(byte));
    } else if (!id.empty() && id.back() != '-') {
      id.push_back('-');
    }
  }
  if (id.empty()) id = "run";
  if (id.back() == '-') id.pop_back();
  return absl::StrCat(id, "-", absl::FormatTime("%Y%m%d-%H%M%S", now, absl::UTCTimeZone()));
}

}  // namespace atolld
