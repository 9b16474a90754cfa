// The digests of the chain: our own layout of every field, whatever protobuf does.
#include <algorithm>
#include <cstdint>

#include "absl/base/casts.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

// The fields of each message in the order of run.proto; a message that is absent counts as one of
// defaults.
void Add(const v1::ModelSpec& model, DigestBuilder& builder) {
  builder.Bytes(model.kind()).U64(model.layers()).U64(model.heads()).U64(model.width());
  builder.U64(model.context())
      .U64(model.vocabulary())
      .U64(absl::bit_cast<uint64_t>(model.dropout()));
}

// What came with kinds beside the first, with models from files, and with adapters.
void AddYounger(const v1::ModelSpec& model, DigestBuilder& builder) {
  if (model.hidden() != 0 || model.kv_heads() != 0 || model.untied() || model.rope_theta() != 0 ||
      model.norm_epsilon() != 0) {
    builder.Bytes("model").U64(model.kv_heads()).U64(model.hidden()).U64(model.untied() ? 1 : 0);
    builder.U64(absl::bit_cast<uint64_t>(model.rope_theta()));
    builder.U64(absl::bit_cast<uint64_t>(model.norm_epsilon()));
  }
  if (model.lora_rank() != 0 || model.lora_alpha() != 0 || !model.lora_targets().empty() ||
      !model.base_digest().empty()) {
    builder.Bytes("lora").U64(model.lora_rank());
    builder.U64(absl::bit_cast<uint64_t>(model.lora_alpha()));
    builder.U64(static_cast<uint64_t>(model.lora_targets_size()));
    for (const std::string& target : model.lora_targets()) builder.Bytes(target);
    builder.Bytes(model.base_digest());
  }
  if (model.from_file()) builder.Bytes("from_file");
  // Paths of one machine, which no run has.
  if (!model.initial_path().empty()) builder.Bytes("initial").Bytes(model.initial_path());
  if (!model.base_path().empty()) builder.Bytes("base").Bytes(model.base_path());
}

void Add(const v1::DataSpec& data, DigestBuilder& builder) {
  builder.Bytes(data.kind())
      .U64(absl::bit_cast<uint64_t>(data.validation_fraction()))
      .Bytes(data.digest());
}

void Add(const v1::InnerSpec& inner, DigestBuilder& builder) {
  builder.Bytes(inner.optimizer()).U64(inner.steps()).U64(inner.batch());
  builder.U64(absl::bit_cast<uint64_t>(inner.learning_rate()))
      .U64(absl::bit_cast<uint64_t>(inner.min_learning_rate()));
  builder.U64(inner.warmup_steps()).U64(inner.decay_steps());
  builder.U64(absl::bit_cast<uint64_t>(inner.beta1())).U64(absl::bit_cast<uint64_t>(inner.beta2()));
  builder.U64(absl::bit_cast<uint64_t>(inner.weight_decay()))
      .U64(absl::bit_cast<uint64_t>(inner.gradient_clip()));
}

// Younger fields: data without them has the digest that it had.
void AddTokens(const v1::DataSpec& data, DigestBuilder& builder) {
  if (data.tokenizer().empty() && data.tokenizer_digest().empty() && data.field().empty() &&
      data.weights().empty()) {
    return;
  }
  builder.Bytes("tokens").Bytes(data.tokenizer()).Bytes(data.tokenizer_digest());
  builder.Bytes(data.field()).U64(static_cast<uint64_t>(data.weights_size()));
  for (const double weight : data.weights()) builder.U64(absl::bit_cast<uint64_t>(weight));
}

// Each only where it says something: a run without it has the digest that it had.
void AddYounger(const v1::InnerSpec& inner, DigestBuilder& builder) {
  if (!inner.schedule().empty()) builder.Bytes("schedule").Bytes(inner.schedule());
  if (inner.cooldown_steps() != 0) builder.Bytes("cooldown_steps").U64(inner.cooldown_steps());
  if (!inner.precision().empty()) builder.Bytes("precision").Bytes(inner.precision());
  if (inner.accumulation() != 0) builder.Bytes("accumulation").U64(inner.accumulation());
  if (inner.checkpointing()) builder.Bytes("checkpointing");
  if (inner.muon_momentum() != 0) {
    builder.Bytes("muon_momentum").U64(absl::bit_cast<uint64_t>(inner.muon_momentum()));
  }
}

void Add(const v1::RunSpec& spec, DigestBuilder& builder) {
  builder.Bytes(spec.run_id()).U64(spec.numerics()).U64(spec.seed()).U64(spec.rounds());
  Add(spec.model(), builder);
  Add(spec.data(), builder);
  Add(spec.inner(), builder);
  builder.Bytes(spec.outer().rule());
  builder.U64(spec.outer().learning_rate_bits()).U64(spec.outer().momentum_bits());
  builder.Bytes(spec.exchange().codec()).U64(spec.exchange().zstd() ? 1 : 0);
  builder.U64(spec.exchange().error_feedback() ? 1 : 0).U64(spec.exchange().chunk_elements());
  builder.U64(spec.evaluation().tokens()).U64(spec.evaluation().every_rounds());
  // Younger fields: a run without them has the digest that it had.
  AddTokens(spec.data(), builder);
  if (spec.exchange().feedback_decay_bits() != 0) {
    builder.Bytes("feedback_decay").U64(spec.exchange().feedback_decay_bits());
  }
  if (spec.exchange().stochastic_rounding()) builder.Bytes("stochastic_rounding");
  AddYounger(spec.model(), builder);
  if (!spec.exchange().upper_codec().empty() || spec.exchange().upper_zstd()) {
    builder.Bytes("upper_codec").Bytes(spec.exchange().upper_codec());
    builder.U64(spec.exchange().upper_zstd() ? 1 : 0);
  }
  AddYounger(spec.inner(), builder);
}

void AddSamples(const v1::EntryHeader& header, DigestBuilder& builder) {
  const bool any = std::any_of(header.contributors().begin(), header.contributors().end(),
                               [](const v1::Contributor& one) { return one.samples_size() > 0; });
  if (!any) return;
  builder.Bytes("samples");
  for (const v1::Contributor& contributor : header.contributors()) {
    builder.U64(static_cast<uint64_t>(contributor.samples_size()));
    for (const v1::SampleRange& range : contributor.samples()) {
      builder.U64(range.first()).U64(range.count());
    }
  }
}

template <typename Record>
void AddPartialsOf(const Record& record, DigestBuilder& builder) {
  builder.U64(static_cast<uint64_t>(record.partials_size()));
  for (const std::string& partial : record.partials()) builder.Bytes(partial);
}

void AddPartials(const v1::EntryHeader& header, DigestBuilder& builder) {
  bool any = false;
  for (const v1::ShardRecord& shard : header.shards()) {
    any = any || shard.partials_size() > 0;
    for (const v1::ChunkRecord& exception : shard.exceptions()) {
      any = any || exception.partials_size() > 0;
    }
  }
  if (!any) return;
  builder.Bytes("partials");
  for (const v1::ShardRecord& shard : header.shards()) {
    AddPartialsOf(shard, builder);
    for (const v1::ChunkRecord& exception : shard.exceptions()) AddPartialsOf(exception, builder);
  }
}

// How its updates became one, and what was audited.
void AddJudgement(const v1::EntryHeader& header, DigestBuilder& builder) {
  const bool scaled = std::any_of(header.contributors().begin(), header.contributors().end(),
                                  [](const v1::Contributor& one) { return one.scale_bits() != 0; });
  if (!scaled && header.aggregation().empty() && header.faulty() == 0 &&
      header.clipping_steps() == 0 && header.audit_nonce().empty()) {
    return;
  }
  builder.Bytes("judgement").Bytes(header.aggregation()).U64(header.faulty());
  builder.U64(header.clipping_steps()).Bytes(header.audit_nonce());
  for (const v1::Contributor& contributor : header.contributors()) {
    builder.U64(contributor.scale_bits());
  }
}

void AddJudgement(const v1::ExchangeSpec& exchange, DigestBuilder& builder) {
  if (exchange.aggregation().empty() && exchange.faulty() == 0 && exchange.clip_bits() == 0 &&
      exchange.clipping_steps() == 0 && exchange.audit_share_bits() == 0) {
    return;
  }
  builder.Bytes("judgement").Bytes(exchange.aggregation()).U64(exchange.faulty());
  builder.U64(exchange.clip_bits()).U64(exchange.clipping_steps());
  builder.U64(exchange.audit_share_bits());
}

}  // namespace

Digest HeaderDigest(const v1::EntryHeader& header) {
  DigestBuilder builder("atoll.header.1");
  builder.Bytes(header.run_id()).U64(header.version());
  builder.U64(header.range_offset()).U64(header.range_elements());
  builder.U64(header.base_version()).U64(header.apply_step());
  builder.U64(static_cast<uint64_t>(header.contributors_size()));
  for (const v1::Contributor& contributor : header.contributors()) {
    builder.Bytes(contributor.peer()).U64(contributor.weight_bits());
    builder.U64(contributor.steps()).U64(contributor.tokens());
  }
  builder.U64(static_cast<uint64_t>(header.shards_size()));
  for (const v1::ShardRecord& shard : header.shards()) {
    builder.U64(shard.first_chunk()).U64(shard.chunks());
    builder.Bytes(shard.reducer()).Bytes(shard.contributors());
    builder.U64(static_cast<uint64_t>(shard.exceptions_size()));
    for (const v1::ChunkRecord& exception : shard.exceptions()) {
      builder.U64(exception.chunk()).Bytes(exception.contributors());
    }
  }
  builder.U64(static_cast<uint64_t>(header.scalars_size()));
  for (const v1::Scalar& scalar : header.scalars()) {
    builder.Bytes(scalar.name()).U64(scalar.bits());
  }
  builder.Bytes(header.outer_rule()).Bytes(header.codec()).U64(header.chunk_elements());
  builder.Bytes(header.payload_digest()).Bytes(header.previous_state_digest());
  builder.Bytes(header.previous_header_digest());
  AddSamples(header, builder);
  AddPartials(header, builder);
  AddJudgement(header, builder);
  return builder.Finish();
}

Digest GenesisDigest(const v1::Genesis& genesis) {
  DigestBuilder builder("atoll.genesis.1");
  Add(genesis.spec(), builder);
  builder.U64(static_cast<uint64_t>(genesis.manifest().tensors_size()));
  for (const v1::Tensor& tensor : genesis.manifest().tensors()) {
    builder.Bytes(tensor.name()).U64(static_cast<uint64_t>(tensor.shape_size()));
    for (const uint64_t size : tensor.shape()) builder.U64(size);
    builder.U64(tensor.offset());
  }
  builder.U64(genesis.manifest().elements());
  builder.Bytes(genesis.state_digest());
  const v1::RunSpec& spec = genesis.spec();
  if (spec.model().parameters() != 0 || spec.inner().step_microseconds() != 0) {
    builder.Bytes("stub").U64(spec.model().parameters()).U64(spec.inner().step_microseconds());
  }
  if (!spec.model().file_digest().empty() || !spec.model().file().empty()) {
    builder.Bytes("model_file").Bytes(spec.model().file_digest()).Bytes(spec.model().file());
  }
  AddJudgement(spec.exchange(), builder);
  if (!spec.history_key().empty()) builder.Bytes("history_key").Bytes(spec.history_key());
  return builder.Finish();
}

}  // namespace atolld
