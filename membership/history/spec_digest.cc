#include "membership/history/spec_digest.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compression/base/check.h"
#include "compression/base/last_words.h"
#include "membership/history/lineage.h"

namespace atolld {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

enum class When {
  kAlways,
  kIfAnyIsSet,
  kIfTheMessageIs,  // whenever the message that has the fields is present
};

// Fields that are written together.
struct Group {
  const char* word;  // empty with kAlways
  When when;
  const char* message;  // the path of the message that has the fields; empty: of any message
  const char* fields;   // their names, or, without a message, their paths; divided by spaces
};

// What all runs have written, in the order in which it was written first.
constexpr Group kFirst[] = {
    {"", When::kAlways, "",
     "run_id numerics seed rounds model.kind model.layers model.heads model.width model.context "
     "model.vocabulary model.dropout data.kind data.validation_fraction data.digest "
     "inner.optimizer inner.steps inner.batch inner.learning_rate inner.min_learning_rate "
     "inner.warmup_steps inner.decay_steps inner.beta1 inner.beta2 inner.weight_decay "
     "inner.gradient_clip outer.rule outer.learning_rate_bits outer.momentum_bits exchange.codec "
     "exchange.zstd exchange.error_feedback exchange.chunk_elements evaluation.tokens "
     "evaluation.every_rounds"},
    {"tokens", When::kIfAnyIsSet, "data", "tokenizer tokenizer_digest field weights"},
    {"feedback_decay", When::kIfAnyIsSet, "exchange", "feedback_decay_bits"},
    {"stochastic_rounding", When::kIfAnyIsSet, "exchange", "stochastic_rounding"},
    {"model", When::kIfAnyIsSet, "model", "kv_heads hidden untied rope_theta norm_epsilon"},
    {"lora", When::kIfAnyIsSet, "model", "lora_rank lora_alpha lora_targets base_digest"},
    {"base_bits", When::kIfAnyIsSet, "model", "base_bits"},
    {"from_file", When::kIfAnyIsSet, "model", "from_file"},
    {"local", When::kIfAnyIsSet, "model", "local"},
    {"decoder", When::kIfTheMessageIs, "model.decoder",
     "family head_width attention_bias window layer_pattern query_scalar rope_scaling rope_context "
     "local_rope_theta rope_factor rope_low rope_high rope_attention attention_cap logit_cap"},
    {"initial", When::kIfAnyIsSet, "model", "initial_path"},
    {"base", When::kIfAnyIsSet, "model", "base_path"},
    {"upper_codec", When::kIfAnyIsSet, "exchange", "upper_codec upper_zstd"},
    {"schedule", When::kIfAnyIsSet, "inner", "schedule"},
    {"cooldown_steps", When::kIfAnyIsSet, "inner", "cooldown_steps"},
    {"precision", When::kIfAnyIsSet, "inner", "precision"},
    {"accumulation", When::kIfAnyIsSet, "inner", "accumulation"},
    {"checkpointing", When::kIfAnyIsSet, "inner", "checkpointing"},
    {"muon_momentum", When::kIfAnyIsSet, "inner", "muon_momentum"},
    {"proximal", When::kIfAnyIsSet, "inner", "proximal"},
    {"control_variates", When::kIfAnyIsSet, "inner", "control_variates"},
    {"epochs", When::kIfAnyIsSet, "inner", "epochs"},
    {"width", When::kIfAnyIsSet, "data", "width"},
    {"end_of_text", When::kIfAnyIsSet, "data", "end_of_text"},
    {"on_bad_line", When::kIfAnyIsSet, "data", "on_bad_line"},
    {"private", When::kIfAnyIsSet, "data", "private"},
    {"common_validation", When::kIfAnyIsSet, "data", "common_validation"},
    {"chat_template", When::kIfAnyIsSet, "data", "chat_template"},
    {"packing", When::kIfAnyIsSet, "data", "packing"},
    {"loss_on", When::kIfAnyIsSet, "data", "loss_on"},
};

// What is written after the manifest, before a run's lineage and after it.
constexpr Group kBeforeLineage[] = {
    {"stub", When::kIfAnyIsSet, "", "model.parameters inner.step_microseconds"},
    {"model_file", When::kIfAnyIsSet, "model", "file_digest file"},
    {"judgement", When::kIfAnyIsSet, "exchange",
     "aggregation faulty clip_bits clipping_steps audit_share_bits"},
    {"history_key", When::kIfAnyIsSet, "", "history_key"},
    {"files", When::kIfAnyIsSet, "", "files"},
};
constexpr Group kAfterLineage[] = {
    {"outer_beta2", When::kIfAnyIsSet, "outer", "beta2_bits"},
    {"outer_adaptivity", When::kIfAnyIsSet, "outer", "adaptivity_bits"},
    {"federation", When::kIfTheMessageIs, "federation",
     "participation_bits drop_bits weights fairness_bits normalised"},
    {"mode", When::kIfTheMessageIs, "mode",
     "kind fragments overlap_steps merge_bits gap_penalty momentum_clip_bits age_decay_bits "
     "age_cutoff"},
    {"outer_buffer", When::kIfAnyIsSet, "outer", "buffer"},
    {"privacy", When::kIfTheMessageIs, "privacy",
     "clip_bits noise_bits quantile_bits place delta epsilon parties sampling_bits masked "
     "threshold"},
    {"roster", When::kIfAnyIsSet, "privacy", "roster closed"},
    {"slow_codec", When::kIfAnyIsSet, "exchange", "slow_codec"},
};

using Path = std::vector<const FieldDescriptor*>;  // from the spec to a field

std::string TextOf(const Path& path) {
  std::string text;
  for (const FieldDescriptor* const field : path) {
    absl::StrAppend(&text, text.empty() ? "" : ".", field->name());
  }
  return text;
}

// Returns the path of that text. Fails the process if there is none: the tables are wrong then.
Path PathOf(const std::string& text) {
  Path path;
  const Descriptor* type = v1::RunSpec::descriptor();
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(text, '.'))) {
    const FieldDescriptor* const field = type == nullptr ? nullptr : type->FindFieldByName(name);
    CHECK(field != nullptr);
    path.push_back(field);
    type = field->message_type();
  }
  return path;
}

// A group with its names resolved.
struct Fields {
  std::string word;
  When when;
  Path message;  // only with kIfTheMessageIs
  std::vector<Path> paths;
};

Fields Resolved(const Group& group) {
  Fields fields{group.word, group.when, {}, {}};
  const std::string message = group.message;
  if (group.when == When::kIfTheMessageIs) fields.message = PathOf(message);
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(group.fields, ' '))) {
    fields.paths.push_back(PathOf(message.empty() ? name : absl::StrCat(message, ".", name)));
  }
  return fields;
}

// Lists the fields of a message that no group names, each as a group of its own.
void ListOthers(const Descriptor& type, const Path& before, const std::set<std::string>& named,
                std::vector<Fields>* others) {
  for (int i = 0; i < type.field_count(); ++i) {
    Path path = before;
    path.push_back(type.field(i));
    const std::string text = TextOf(path);
    if (text == "parent" || named.count(text) > 0) continue;
    const FieldDescriptor& field = *type.field(i);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_repeated()) {
      ListOthers(*field.message_type(), path, named, others);
    } else {
      others->push_back({text, When::kIfAnyIsSet, {}, {path}});
    }
  }
}

struct Order {
  std::vector<Fields> first, before_lineage, after_lineage;
};

Order MakeOrder() {
  Order order;
  for (const Group& group : kFirst) order.first.push_back(Resolved(group));
  for (const Group& group : kBeforeLineage) order.before_lineage.push_back(Resolved(group));
  for (const Group& group : kAfterLineage) order.after_lineage.push_back(Resolved(group));
  std::set<std::string> named;
  for (const auto* groups : {&order.first, &order.before_lineage, &order.after_lineage}) {
    for (const Fields& group : *groups) {
      for (const Path& path : group.paths) named.insert(TextOf(path));
    }
  }
  ListOthers(*v1::RunSpec::descriptor(), {}, named, &order.after_lineage);
  return order;
}

const Order& TheOrder() {
  static const Order* const order = new Order(MakeOrder());
  return *order;
}

// Returns the message that has the path's last field: the default one if it is absent.
const Message& HolderOf(const v1::RunSpec& spec, const Path& path) {
  const Message* holder = &spec;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    holder = &holder->GetReflection()->GetMessage(*holder, path[i]);
  }
  return *holder;
}

bool IsSet(const v1::RunSpec& spec, const Path& path) {
  const Message& holder = HolderOf(spec, path);
  const FieldDescriptor* const field = path.back();
  const Reflection& access = *holder.GetReflection();
  return field->is_repeated() ? access.FieldSize(holder, field) > 0
                              : access.HasField(holder, field);
}

void AddMessage(const Message& message, DigestBuilder& builder);

void AddSingle(const Message& holder, const FieldDescriptor& field, DigestBuilder& builder) {
  const Reflection& access = *holder.GetReflection();
  std::string scratch;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      builder.U64(access.GetBool(holder, &field) ? 1 : 0);
      return;
    case FieldDescriptor::CPPTYPE_UINT32:
      builder.U64(access.GetUInt32(holder, &field));
      return;
    case FieldDescriptor::CPPTYPE_UINT64:
      builder.U64(access.GetUInt64(holder, &field));
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      builder.U64(absl::bit_cast<uint64_t>(access.GetDouble(holder, &field)));
      return;
    case FieldDescriptor::CPPTYPE_STRING:
      builder.Bytes(access.GetStringReference(holder, &field, &scratch));
      return;
    default:
      DieOfCheck(__FILE__, __LINE__, "a field of a type that no spec has: " + field.full_name());
  }
}

void AddElement(const Message& holder, const FieldDescriptor& field, int i,
                DigestBuilder& builder) {
  const Reflection& access = *holder.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
      builder.U64(absl::bit_cast<uint64_t>(access.GetRepeatedDouble(holder, &field, i)));
      return;
    case FieldDescriptor::CPPTYPE_UINT64:
      builder.U64(access.GetRepeatedUInt64(holder, &field, i));
      return;
    case FieldDescriptor::CPPTYPE_STRING:
      builder.Bytes(access.GetRepeatedString(holder, &field, i));
      return;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      AddMessage(access.GetRepeatedMessage(holder, &field, i), builder);
      return;
    default:
      DieOfCheck(__FILE__, __LINE__, "a field of a type that no spec has: " + field.full_name());
  }
}

void AddField(const Message& holder, const FieldDescriptor& field, DigestBuilder& builder) {
  if (!field.is_repeated()) return AddSingle(holder, field, builder);
  const int count = holder.GetReflection()->FieldSize(holder, &field);
  builder.U64(static_cast<uint64_t>(count));
  for (int i = 0; i < count; ++i) AddElement(holder, field, i, builder);
}

void AddMessage(const Message& message, DigestBuilder& builder) {
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    AddField(message, *message.GetDescriptor()->field(i), builder);
  }
}

bool IsWritten(const v1::RunSpec& spec, const Fields& group) {
  if (group.when == When::kAlways) return true;
  if (group.when == When::kIfTheMessageIs) return IsSet(spec, group.message);
  return std::any_of(group.paths.begin(), group.paths.end(),
                     [&](const Path& path) { return IsSet(spec, path); });
}

void Add(const v1::RunSpec& spec, const std::vector<Fields>& groups, DigestBuilder& builder) {
  for (const Fields& group : groups) {
    if (!IsWritten(spec, group)) continue;
    if (!group.word.empty()) builder.Bytes(group.word);
    const FieldDescriptor& only = *group.paths.front().back();
    const bool is_flag = only.cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
    if (is_flag && group.paths.size() == 1 && group.when == When::kIfAnyIsSet) continue;
    for (const Path& path : group.paths) AddField(HolderOf(spec, path), *path.back(), builder);
  }
}

}  // namespace

void AddSpec(const v1::RunSpec& spec, DigestBuilder& builder) {
  Add(spec, TheOrder().first, builder);
}

void AddRestOfSpec(const v1::RunSpec& spec, DigestBuilder& builder) {
  Add(spec, TheOrder().before_lineage, builder);
  AddLineage(spec, builder);
  Add(spec, TheOrder().after_lineage, builder);
}

}  // namespace atolld
