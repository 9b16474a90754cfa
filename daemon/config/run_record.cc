#include "daemon/config/run_record.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/check.h"
#include "daemon/config/config_rules.h"
#include "daemon/config/config_table.h"
#include "daemon/config/data_config.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// The value of a key as a field of the spec holds it.
using RecordedValue = std::variant<uint64_t, double, bool, std::string, absl::Duration>;

struct ValueReader {
  RecordedValue operator()(const WholeNumber& number) const {
    return std::visit([](const auto* at) { return static_cast<uint64_t>(*at); }, number.at);
  }
  RecordedValue operator()(const RealNumber& number) const { return *number.at; }
  RecordedValue operator()(const Flag& flag) const { return *flag.at; }
  RecordedValue operator()(const TimeSpan& span) const { return *span.at; }
  RecordedValue operator()(const ByteCount& count) const { return *count.at; }
  RecordedValue operator()(const LineRate& rate) const { return *rate.at; }
  RecordedValue operator()(const Text& text) const { return *text.at; }
};

RecordedValue ValueOf(const ConfigField& field) { return std::visit(ValueReader(), field.value); }

// All keys of a config, with those of one that has nothing but defaults beside them.
class AllKeys {
 public:
  explicit AllKeys(Config config)
      : config_(std::move(config)),
        fields_(ConfigFields(config_)),
        usual_(ConfigFields(defaults_)) {
    for (size_t i = 0; i < fields_.size(); ++i) {
      by_name_[absl::StrCat(fields_[i].section, ".", fields_[i].key)] = i;
    }
  }
  AllKeys(const AllKeys&) = delete;
  AllKeys& operator=(const AllKeys&) = delete;

  size_t size() const { return fields_.size(); }
  const ConfigField& operator[](size_t i) const { return fields_[i]; }
  bool HasDefault(size_t i) const { return ValueOf(fields_[i]) == ValueOf(usual_[i]); }
  const ConfigField& Find(const std::string& name) const { return fields_[by_name_.at(name)]; }

  bool Holds(const KeyCondition& condition) const {
    if (condition.key.empty()) return true;
    const size_t i = by_name_.at(condition.key);
    if (condition.values.empty()) return !HasDefault(i);
    const auto* const text = std::get_if<Text>(&fields_[i].value);
    CHECK(text != nullptr);
    return std::find(condition.values.begin(), condition.values.end(), *text->at) !=
           condition.values.end();
  }

 private:
  Config config_;
  Config defaults_;
  std::vector<ConfigField> fields_;
  std::vector<ConfigField> usual_;
  std::map<std::string, size_t> by_name_;
};

// Converts a value to the integer that the field holds.
uint64_t WholeOf(const RecordedValue& value, const FieldDescriptor& field) {
  if (const auto* const real = std::get_if<double>(&value)) {
    CHECK(absl::EndsWith(field.name(), "_bits"));
    return absl::bit_cast<uint32_t>(static_cast<float>(*real));
  }
  if (const auto* const span = std::get_if<absl::Duration>(&value)) {
    CHECK(absl::EndsWith(field.name(), "_microseconds"));
    return static_cast<uint64_t>(absl::ToInt64Microseconds(*span));
  }
  return std::get<uint64_t>(value);
}

bool IsZero(const RecordedValue& value) {
  return value == RecordedValue(uint64_t{0}) || value == RecordedValue(0.0) ||
         value == RecordedValue(false) || value == RecordedValue(std::string()) ||
         value == RecordedValue(absl::ZeroDuration());
}

void Set(const RecordedValue& value, const FieldDescriptor& field, Message* holder) {
  const Reflection& access = *holder->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return access.SetUInt32(holder, &field, static_cast<uint32_t>(WholeOf(value, field)));
    case FieldDescriptor::CPPTYPE_UINT64:
      return access.SetUInt64(holder, &field, WholeOf(value, field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return access.SetDouble(holder, &field, std::get<double>(value));
    case FieldDescriptor::CPPTYPE_BOOL:
      return access.SetBool(holder, &field, std::get<bool>(value));
    case FieldDescriptor::CPPTYPE_STRING:
      return access.SetString(holder, &field, std::get<std::string>(value));
    default:
      CHECK(false);  // no key has a value of another type
  }
}

// Returns true if the field distinguishes its zero from being unset ("optional" in run.proto).
bool HasPresence(const std::vector<std::string>& names) {
  const google::protobuf::Descriptor* type = v1::RunSpec::descriptor();
  const FieldDescriptor* field = nullptr;
  for (const std::string& name : names) {
    field = type->FindFieldByName(name);
    type = field->message_type();
  }
  return field->has_presence();
}

void SetPath(const RecordedValue& value, const std::string& path, v1::RunSpec* spec) {
  Message* holder = spec;
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  for (size_t i = 0; i < names.size(); ++i) {
    const FieldDescriptor* const field = holder->GetDescriptor()->FindFieldByName(names[i]);
    CHECK(field != nullptr);
    // A zero that says nothing must not bring its message into the spec.
    if (i == 0 && IsZero(value) && !HasPresence(names)) return;
    if (i + 1 == names.size()) return Set(value, *field, holder);
    holder = holder->GetReflection()->MutableMessage(holder, field);
  }
}

// Sets each field that the table of keys names. Leaves a field unset if the value is 0, false or
// empty, unless the field is "optional".
void SetFields(const RunConfig& config, v1::RunSpec* spec) {
  Config whole;
  static_cast<RunConfig&>(whole) = config;
  const AllKeys keys(std::move(whole));
  for (size_t i = 0; i < keys.size(); ++i) {
    const ConfigRecord& record = keys[i].record;
    const RecordedValue value = ValueOf(keys[i]);
    if (record.field.empty() || !keys.Holds(record.when)) continue;
    if (record.unless_default && keys.HasDefault(i)) continue;
    SetPath(value, record.field, spec);
  }
}

std::string ForeignDataKind(const RunConfig& config) {
  if (config.model.kind == kHuggingFaceKind) return config.data.kind;
  return config.model.kind == kExternalKind ? "external" : "arrays";
}

void SetData(const RunConfig& config, v1::DataSpec* data) {
  data->set_kind(config.model.kind == kStubKind ? "none"
                 : IsForeign(config.model.kind) ? ForeignDataKind(config)
                 : IsChat(config.data)          ? "chat"
                                                : config.data.kind);
  if (config.data.tokenizer != kByteTokenizer) {
    data->set_tokenizer(config.data.tokenizer == kCharTokenizer ? kCharTokenizer : "file");
  }
  data->set_common_validation(config.data.is_private && !config.data.validation.empty());
  data->set_width(BytesOfWidth(config.data.width));
  const absl::StatusOr<std::vector<DataSource>> sources = SourcesOf(config.data);
  if (!sources.ok() || sources->size() < 2) return;
  for (const DataSource& source : *sources) data->add_weights(source.weight);
}

void SetSchedule(const RunConfig& config, v1::InnerSpec* inner) {
  // The whole run, unless it is so short that it ends within the warm-up: then the cosine has
  // nothing to do.
  inner->set_decay_steps(
      config.inner.decay_steps != 0
          ? config.inner.decay_steps
          : std::max(config.run.rounds * config.inner.steps, config.inner.warmup_steps + 1));
  if (config.inner.schedule != "wsd") return;
  inner->set_cooldown_steps(config.inner.cooldown_steps != 0
                                ? config.inner.cooldown_steps
                                : std::max<uint64_t>(1, inner->decay_steps() / 5));
}

void SetCodecs(const RunConfig& config, v1::ExchangeSpec* exchange) {
  const std::string& codec = config.exchange.codec;
  exchange->set_codec(std::string(absl::StripSuffix(codec, "+zstd")));
  exchange->set_zstd(absl::EndsWith(codec, "+zstd"));
  // A run whose levels have one codec is the same run however that is said.
  const std::string& upper = config.exchange.upper_codec;
  if (!upper.empty() && upper != codec) {
    exchange->set_upper_codec(std::string(absl::StripSuffix(upper, "+zstd")));
    exchange->set_upper_zstd(absl::EndsWith(upper, "+zstd"));
  }
  exchange->set_slow_codec(std::string(absl::StripSuffix(config.exchange.slow_codec, "+zstd")));
  exchange->set_stochastic_rounding(config.exchange.rounding == "stochastic");
}

// Returns [privacy] roster, or for 0 its default: more than half of the peers that are drawn for a
// round. Masks tolerate fewer than a third of an attempt's parties, so a sixth of all may be
// malicious, whichever parties are asked. With two parties, each would know the other's update.
uint32_t MaskRosterOf(const RunConfig& config) {
  if (config.privacy.roster != 0) return config.privacy.roster;
  return std::max<uint32_t>(3, DrawnPeers(config) / 2 + 1);
}

}  // namespace

uint32_t DrawnPeers(const RunConfig& config) {
  const double wanted = config.federation.participation * config.run.peers;
  return static_cast<uint32_t>(std::ceil(wanted - 1e-6));
}

v1::RunSpec MakeRunSpec(const RunConfig& config) {
  v1::RunSpec spec;
  SetFields(config, &spec);
  spec.set_numerics(kNumerics);
  *spec.mutable_model() = MakeModelSpec(config.model);
  for (const std::string& pattern : SplitNames(config.model.local)) {
    spec.mutable_model()->add_local(pattern);
  }
  if (DividesModel(config)) *spec.mutable_experts() = MakeExpertsSpec(config);
  SetData(config, spec.mutable_data());
  SetSchedule(config, spec.mutable_inner());
  SetCodecs(config, spec.mutable_exchange());
  spec.mutable_evaluation();  // also where both of its keys are 0, as in every record
  if (config.privacy.masked) spec.mutable_privacy()->set_roster(MaskRosterOf(config));
  // "auto" is another kind by the time that a run is made (mode_resolution.h).
  if (config.mode.kind == "auto") spec.clear_mode();
  return spec;
}

ConfigFault FaultOfMisplacedKey(const Config& config) {
  const AllKeys keys(config);
  for (size_t i = 0; i < keys.size(); ++i) {
    const KeyCondition& condition = keys[i].only_with;
    if (keys.HasDefault(i) || keys.Holds(condition)) continue;
    const ConfigField& other = keys.Find(condition.key);
    return {{{keys[i].section, keys[i].key}, {other.section, other.key}},
            absl::StrCat(keys[i].Name(), " is for ",
                         other.section == keys[i].section ? other.key : other.Name(), " '",
                         absl::StrJoin(condition.values, "' or '"), "' alone, not '",
                         std::get<std::string>(ValueOf(other)), "'")};
  }
  return {};
}

}  // namespace atolld
