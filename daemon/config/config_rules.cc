#include "daemon/config/config_rules.h"

#include <filesystem>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/status_macros.h"
#include "compression/level_codecs.h"
#include "daemon/config/config_foreign.h"
#include "daemon/env/address.h"
#include "optimizer/aggregation_rule.h"

namespace atolld {
namespace {

using KeyName = std::pair<std::string, std::string>;

// The place of the first of these keys that was said at all: what was said is what can be changed.
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

// A stub's worker reads none, a worker of the user's own may not, and an aggregator has no worker.
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
      return Broken(
          places, {{field.section, field.key}},
          absl::StrCat("[", field.section, "] ", field.key, " is missing: ", field.meaning));
    }
  }
  return absl::OkStatus();
}

// What only a stub has, and what a stub lacks.
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

absl::Status CheckData(const Config& c, ConfigUse use, const ConfigPlaces& places,
                       const std::string& folder) {
  const absl::StatusOr<std::vector<DataSource>> sources = SourcesOf(c.data);
  if (!sources.ok()) return Broken(places, {{"data", "sources"}}, sources.status().message());
  if (!c.data.path.empty() && !c.data.sources.empty()) {
    return Broken(places, {{"data", "sources"}, {"data", "path"}},
                  "[data] sources is in place of path; leave one of them out");
  }
  DataConfig placed = c.data;
  PlaceData(folder, &placed);
  const bool bytes = c.data.tokenizer == kByteTokenizer;
  const bool ids = c.data.kind == "bin" || c.data.kind == "npy";
  // A local run has the text at hand, and its worker counts the tokens.
  const bool counted = use == ConfigUse::kLocal && !bytes && !ids;
  if (use != ConfigUse::kAny && use != ConfigUse::kPeer && c.model.vocabulary == 0 &&
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
                  absl::StrCat("data.", key, " '", path, "' does not exist"));
  };
  for (const DataSource& source : *sources) {
    RETURN_IF_ERROR(check(source.path, c.data.sources.empty() ? "path" : "sources"));
  }
  return bytes || c.data.tokenizer == kCharTokenizer ? absl::OkStatus()
                                                     : check(c.data.tokenizer, "tokenizer");
}

// What is of other kinds.
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
      {"lora_rank", m.lora_rank != 0, ours},
  };
  for (const auto& one : keys) {
    if (!one.said || one.has) continue;
    return Broken(places, {{"model", one.key}, {"model", "kind"}},
                  absl::StrCat("[model] ", one.key, " is not of kind '", m.kind, "'; leave it out",
                               m.kind == "gpt" ? ", or take kind 'gpt2' or 'llama'" : ""));
  }
  return absl::OkStatus();
}

absl::Status CheckAdapters(const ConfigModel& m, ConfigUse use, const ConfigPlaces& places) {
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
                  "[model] base, base_digest, lora_targets and lora_alpha are of adapters; set "
                  "lora_rank too");
  }
  const std::vector<std::string> known = AdapterTargets(m.kind);
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
  if (m.kind == "llama" && m.width / m.heads % 2 != 0) {
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

// Of a peer's own config the run's batch is not known; its worker asks again.
absl::Status CheckDevices(const Config& c, ConfigUse use, const ConfigPlaces& places) {
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
  if (c.inner.schedule != "wsd") {
    return Broken(places, {{"inner", "cooldown_steps"}, {"inner", "schedule"}},
                  absl::StrCat("[inner] cooldown_steps is for schedule 'wsd' alone, not '",
                               c.inner.schedule, "'"));
  }
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
        absl::StrCat("[outer] momentum must be 0 with rule 'average', which has none, not ",
                     c.outer.momentum));
  }
  return absl::OkStatus();
}

// What a rule needs of the run.
absl::Status CheckAggregation(const Config& c, const ConfigPlaces& places) {
  const std::string& rule = c.exchange.aggregation;
  AggregationSettings settings;
  settings.rule = rule;
  settings.faulty = c.exchange.faulty;
  const absl::StatusOr<AggregationRule> made = AggregationRule::Make(settings);
  if (!made.ok()) {
    return Broken(places, {{"exchange", "faulty"}, {"exchange", "aggregation"}},
                  absl::StrCat("[exchange] aggregation: ", made.status().message()));
  }
  if (made->has_centre() && c.exchange.clip == 0) {
    return Broken(places, {{"exchange", "clip"}, {"exchange", "aggregation"}},
                  absl::StrCat("[exchange] clip must be above 0 with aggregation '", rule,
                               "', which is the mean without"));
  }
  if (rule != "mean" && c.exchange.plan == "regions") {
    return Broken(places, {{"exchange", "plan"}, {"exchange", "aggregation"}},
                  absl::StrCat("[exchange] plan must be 'flat' or 'auto' with aggregation '", rule,
                               "': what a region has averaged cannot be judged"));
  }
  const size_t least = made->LeastContributors();
  if (c.run.quorum == 0 ? c.run.peers < least : c.run.quorum < least) {
    return Broken(
        places, {{"run", c.run.quorum == 0 ? "peers" : "quorum"}, {"exchange", "aggregation"}},
        absl::StrCat("[run] ", c.run.quorum == 0 ? "peers" : "quorum", " must be at least ", least,
                     " with aggregation '", rule, "' and faulty = ", c.exchange.faulty, ", not ",
                     c.run.quorum == 0 ? c.run.peers : c.run.quorum));
  }
  if (c.membership.outsized > 0 && c.membership.outsized <= 1) {
    return Broken(
        places, {{"membership", "outsized"}},
        absl::StrCat("[membership] outsized must be 0 or above 1, not ", c.membership.outsized));
  }
  if (c.membership.offences > c.membership.offence_rounds) {
    return Broken(places, {{"membership", "offences"}, {"membership", "offence_rounds"}},
                  absl::StrCat("[membership] offences must be at most offence_rounds (",
                               c.membership.offence_rounds, "), not ", c.membership.offences));
  }
  return absl::OkStatus();
}

absl::Status CheckExchange(const Config& c, const ConfigPlaces& places) {
  const absl::StatusOr<LevelCodecs> codecs = ParseLevels(c.exchange.codec, c.exchange.upper_codec);
  if (!codecs.ok()) {
    return Broken(places, {{"exchange", "upper_codec"}, {"exchange", "codec"}},
                  absl::StrCat("[exchange] upper_codec: ", codecs.status().message()));
  }
  RETURN_IF_ERROR(CheckAggregation(c, places));
  if (c.exchange.rounding == "nearest") return absl::OkStatus();
  if (codecs->updates.codec->has_stochastic_rounding()) return absl::OkStatus();
  if (codecs->means.codec->has_stochastic_rounding()) return absl::OkStatus();
  return Broken(places, {{"exchange", "rounding"}, {"exchange", "codec"}},
                absl::StrCat("[exchange] rounding must be 'nearest' with codec '", codecs->name(),
                             "', which has no other, not '", c.exchange.rounding, "'"));
}

absl::Status CheckAddresses(const Config& c, const ConfigPlaces& places) {
  if (c.peer.role == kAggregatorRoleName && c.peer.advertise == kDialsOutOnly) {
    return Broken(
        places, {{"peer", "advertise"}, {"peer", "role"}},
        "[peer] advertise must not be 'none' with role 'aggregator', which is there to be "
        "dialled");
  }
  if (!c.network.plaintext) return absl::OkStatus();
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
  return absl::OkStatus();
}

}  // namespace

void ConfigPlaces::Set(const std::string& section, const std::string& key, std::string place) {
  places_[{section, key}] = std::move(place);
}

bool ConfigPlaces::Has(const std::string& section, const std::string& key) const {
  return places_.count({section, key}) > 0;
}

const std::string& ConfigPlaces::Of(const std::string& section, const std::string& key) const {
  auto found = places_.find({section, key});
  if (found == places_.end()) found = places_.find({section, ""});
  return found == places_.end() ? start_ : found->second;
}

absl::Status CheckConfigRules(const Config& config, const std::vector<ConfigField>& fields,
                              ConfigUse use, const ConfigPlaces& places,
                              const std::string& folder) {
  RETURN_IF_ERROR(CheckNeeded(config, fields, use, places));
  RETURN_IF_ERROR(CheckStub(config, places));
  RETURN_IF_ERROR(CheckModelKind(config, use, places, folder));
  RETURN_IF_ERROR(CheckModel(config, use, places));
  RETURN_IF_ERROR(CheckTraining(config, places));
  RETURN_IF_ERROR(CheckInner(config, places));
  RETURN_IF_ERROR(CheckDevices(config, use, places));
  RETURN_IF_ERROR(CheckExchange(config, places));
  RETURN_IF_ERROR(CheckAddresses(config, places));
  return CheckData(config, use, places, folder);
}

}  // namespace atolld
