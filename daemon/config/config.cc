#include "daemon/config/config.h"

#include <algorithm>
#include <filesystem>

#include "absl/base/casts.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/config/config_fields.h"
#include "daemon/config/config_foreign.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

// Keeps made ids within a run id's 64 characters, with the time behind.
constexpr size_t kLongestStem = 40;

uint32_t FloatBits(double value) { return absl::bit_cast<uint32_t>(static_cast<float>(value)); }

void SetData(const Config& config, v1::DataSpec* data) {
  data->set_kind(config.model.kind == kStubKind ? "none"
                 : IsForeign(config.model.kind) ? ForeignDataKind(config.model.kind)
                                                : config.data.kind);
  data->set_validation_fraction(config.data.validation_fraction);
  if (config.data.tokenizer != kByteTokenizer) {
    data->set_tokenizer(config.data.tokenizer == kCharTokenizer ? kCharTokenizer : "file");
  }
  data->set_field(config.data.field);
  const absl::StatusOr<std::vector<DataSource>> sources = SourcesOf(config.data);
  if (!sources.ok() || sources->size() < 2) return;
  for (const DataSource& source : *sources) data->add_weights(source.weight);
}

// What is as it always was stays unset, so that such a run keeps its digest.
void SetYoungerFields(const InnerConfig& config, v1::InnerSpec* inner) {
  if (config.schedule != "cosine") inner->set_schedule(config.schedule);
  if (config.schedule == "wsd") {
    inner->set_cooldown_steps(config.cooldown_steps != 0
                                  ? config.cooldown_steps
                                  : std::max<uint64_t>(1, inner->decay_steps() / 5));
  }
  if (config.precision != "fp32") inner->set_precision(config.precision);
  if (config.accumulation != 1) inner->set_accumulation(config.accumulation);
  inner->set_checkpointing(config.checkpointing);
  if (config.optimizer == "muon") inner->set_muon_momentum(config.muon_momentum);
}

}  // namespace

double DefaultOutsized(const Config& config) {
  const bool varied =
      config.exchange.error_feedback || absl::StripSuffix(config.exchange.codec, "+zstd") == "topk";
  return varied ? 0 : Config().membership.outsized;
}

std::string FormatConfig(const Config& config) {
  Config copy = config;
  std::string out;
  std::string section;
  for (const ConfigField& field : ConfigFields(copy)) {
    if (field.section == "model" && !TakesModelKey(config.model.kind, field.key)) continue;
    if (field.section != section) {
      absl::StrAppend(&out, section.empty() ? "" : "\n", "[", field.section, "]\n");
      section = field.section;
    }
    absl::StrAppend(&out, field.key, " = ", FormatValue(field), "  # ", field.meaning, "\n");
  }
  return out;
}

std::string WorkerProgramOf(const std::string& model_kind) {
  return model_kind == kStubKind ? "atoll-stub-worker" : "atoll-worker";
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

atolld::v1::RunSpec MakeRunSpec(const Config& config) {
  atolld::v1::RunSpec spec;
  spec.set_run_id(config.run.id);
  spec.set_numerics(kNumerics);
  spec.set_seed(config.run.seed);
  spec.set_rounds(config.run.rounds);

  *spec.mutable_model() = MakeModelSpec(config.model);

  SetData(config, spec.mutable_data());

  v1::InnerSpec* inner = spec.mutable_inner();
  inner->set_optimizer(config.inner.optimizer);
  inner->set_steps(config.inner.steps);
  inner->set_batch(config.inner.batch);
  inner->set_learning_rate(config.inner.learning_rate);
  inner->set_min_learning_rate(config.inner.min_learning_rate);
  inner->set_warmup_steps(config.inner.warmup_steps);
  // The whole run, unless it is so short that it ends within the warm-up: then the cosine has
  // nothing to do.
  inner->set_decay_steps(
      config.inner.decay_steps != 0
          ? config.inner.decay_steps
          : std::max(config.run.rounds * config.inner.steps, config.inner.warmup_steps + 1));
  inner->set_beta1(config.inner.beta1);
  inner->set_beta2(config.inner.beta2);
  inner->set_weight_decay(config.inner.weight_decay);
  inner->set_gradient_clip(config.inner.gradient_clip);
  inner->set_step_microseconds(
      static_cast<uint64_t>(absl::ToInt64Microseconds(config.inner.step_time)));
  SetYoungerFields(config.inner, inner);

  spec.mutable_outer()->set_rule(config.outer.rule);
  spec.mutable_outer()->set_learning_rate_bits(FloatBits(config.outer.learning_rate));
  spec.mutable_outer()->set_momentum_bits(FloatBits(config.outer.momentum));

  v1::ExchangeSpec* exchange = spec.mutable_exchange();
  exchange->set_codec(std::string(absl::StripSuffix(config.exchange.codec, "+zstd")));
  exchange->set_zstd(absl::EndsWith(config.exchange.codec, "+zstd"));
  // A run whose levels have one codec is the same run however that is said.
  const std::string& upper = config.exchange.upper_codec;
  if (!upper.empty() && upper != config.exchange.codec) {
    exchange->set_upper_codec(std::string(absl::StripSuffix(upper, "+zstd")));
    exchange->set_upper_zstd(absl::EndsWith(upper, "+zstd"));
  }
  exchange->set_error_feedback(config.exchange.error_feedback);
  exchange->set_chunk_elements(config.exchange.chunk_elements);
  // Without feedback nothing decays, and a decay of 1 is what a run without the field has.
  if (config.exchange.error_feedback && config.exchange.feedback_decay != 1) {
    exchange->set_feedback_decay_bits(FloatBits(config.exchange.feedback_decay));
  }
  if (config.exchange.aggregation != "mean") {
    exchange->set_aggregation(config.exchange.aggregation);
    exchange->set_faulty(config.exchange.faulty);
  }
  if (config.exchange.clip != 0) exchange->set_clip_bits(FloatBits(config.exchange.clip));
  if (config.exchange.audit_share != 0) {
    exchange->set_audit_share_bits(FloatBits(config.exchange.audit_share));
  }
  exchange->set_stochastic_rounding(config.exchange.rounding == "stochastic");

  spec.mutable_evaluation()->set_tokens(config.evaluation.tokens);
  spec.mutable_evaluation()->set_every_rounds(config.evaluation.every_rounds);
  return spec;
}

}  // namespace atolld
