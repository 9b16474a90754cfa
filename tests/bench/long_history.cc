#include "tests/bench/long_history.h"

#include <algorithm>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/bytes.h"
#include "compression/base/check.h"
#include "daemon/config/config_sections.h"
#include "daemon/config/run_record.h"
#include "membership/history/header.h"
#include "membership/history/payload.h"
#include "membership/history/run_codecs.h"
#include "optimizer/outer_rule.h"

namespace atolld {
namespace {

constexpr uint64_t kSamplesEach = 40;
constexpr uint64_t kTokensEach = 20000;
constexpr uint64_t kEvaluatedEvery = 10;

std::string NameOf(int contributor) { return absl::StrCat("volunteer-", contributor + 1); }

std::string MadeUp(absl::string_view what, uint64_t version) {
  return ToBytes(Sha256(BytesOf(absl::StrCat(what, version))));
}

v1::Genesis MakeGenesis(const Config& config, const SigningKey& key) {
  v1::Genesis genesis;
  *genesis.mutable_spec() = MakeRunSpec(config);
  genesis.mutable_spec()->set_history_key(key.public_key());
  genesis.mutable_spec()->mutable_data()->set_digest(MadeUp("data", 0));
  v1::Tensor& tensor = *genesis.mutable_manifest()->add_tensors();
  tensor.set_name("w");
  tensor.add_shape(config.model.parameters);
  genesis.mutable_manifest()->set_elements(config.model.parameters);
  genesis.set_state_digest(MadeUp("state", 0));
  CHECK_OK(CheckGenesis(genesis));
  return genesis;
}

RunSettings MakeSettings(const SigningKey& key) {
  RunSettings settings;
  settings.header_digest = [](const v1::EntryHeader& header) {
    return ToBytes(HeaderDigest(header));
  };
  settings.genesis_digest = [](const v1::Genesis& genesis) {
    return ToBytes(GenesisDigest(genesis));
  };
  settings.check_header = [](const v1::Genesis& genesis, uint64_t version,
                             const std::string& previous, const v1::EntryHeader& header) {
    return CheckHeader(genesis, version, *DigestFromBytes(previous), header);
  };
  settings.sign_checkpoint = [key](const Digest& digest) { return SignCheckpoint(key, digest); };
  return settings;
}

StoredRun Fresh(const v1::Genesis& genesis) {
  StoredRun stored;
  stored.spec = genesis.spec();
  stored.epoch = 1;
  return stored;
}

}  // namespace

LongHistory::LongHistory(const Config& config, int contributors, const SigningKey& key)
    : contributors_(contributors),
      key_(key),
      genesis_(MakeGenesis(config, key)),
      settings_(MakeSettings(key)),
      ledger_(settings_, Fresh(genesis_), absl::UnixEpoch()) {}

RunUpdate LongHistory::Begin() {
  RunUpdate update;
  update.epoch = 1;
  update.started = true;
  ledger_.AcceptGenesis(genesis_, &update);
  for (int i = 0; i < contributors_; ++i) {
    update.members.push_back({NameOf(i), absl::StrCat("192.0.2.", i + 1, ":7071"), "live"});
  }
  return update;
}

v1::EntryHeader LongHistory::MakeHeader() {
  const v1::RunSpec& spec = genesis_.spec();
  const uint64_t version = ledger_.version() + 1;
  v1::EntryHeader header;
  header.set_run_id(spec.run_id());
  header.set_version(version);
  header.set_range_elements(genesis_.manifest().elements());
  header.set_base_version(version - 1);
  header.set_outer_rule(spec.outer().rule());
  header.set_codec(std::string(CodecsOf(spec.exchange())->means.codec->name()));
  header.set_aggregation(spec.exchange().aggregation());
  header.set_faulty(spec.exchange().faulty());
  header.set_chunk_elements(spec.exchange().chunk_elements());
  const OuterRule& rule = **FindOuterRule(spec.outer().rule());
  SetScalars(*rule.Scalars(OuterSettingsOf(spec.outer())), &header);
  for (int i = 0; i < contributors_; ++i) {
    v1::Contributor& contributor = *header.add_contributors();
    contributor.set_peer(NameOf(i));
    contributor.set_weight_bits(absl::bit_cast<uint32_t>(static_cast<float>(kTokensEach)));
    contributor.set_steps(spec.inner().steps());
    contributor.set_tokens(kTokensEach);
    for (const v1::SampleRange& range : leases_.Grant(NameOf(i), kSamplesEach)) {
      *contributor.add_samples() = range;
    }
  }
  const uint32_t chunks = ChunkGrid(header.range_elements(), header.chunk_elements()).chunks();
  const uint32_t shards = std::min<uint32_t>(chunks, static_cast<uint32_t>(contributors_));
  std::string all(static_cast<size_t>(contributors_ + 7) / 8, '\xff');
  if (contributors_ % 8 != 0) all.back() = static_cast<char>((1 << contributors_ % 8) - 1);
  header.mutable_records()->add_sets()->set_contributors(all);
  for (uint32_t i = 0; i < shards; ++i) {
    v1::ShardRecord& shard = *header.mutable_records()->add_shards();
    shard.set_first_chunk(chunks * i / shards);
    shard.set_chunks(chunks * (i + 1) / shards - shard.first_chunk());
    shard.set_reducer(NameOf(static_cast<int>(i)));
    shard.add_runs()->set_chunks(shard.chunks());  // of the one set
  }
  header.set_payload_digest(MadeUp("payload", version));
  header.set_previous_state_digest(MadeUp("state", version - 1));
  header.set_previous_header_digest(ledger_.digest());
  header.set_signature(SignHeader(key_, header));
  return header;
}

v1::RoundRecord LongHistory::RecordOf(const v1::EntryHeader& header) const {
  const auto version = static_cast<double>(header.version());
  v1::RoundRecord record;
  record.set_version(header.version());
  record.set_train_loss(2 + 2 / (1 + version / 1000));
  record.set_tokens(kTokensEach * static_cast<uint64_t>(contributors_));
  record.set_contributors(static_cast<uint32_t>(contributors_));
  record.set_elapsed_seconds(20 * version);
  record.set_train_seconds(18);
  record.set_exchange_seconds(2);
  record.set_revisions(1);
  record.set_predicted_seconds(1.9);
  record.set_plan("weighted");
  record.set_squared_gradient(0.5);
  record.set_gradient_noise(1e6);
  record.set_noise_scale(2e6);
  return record;
}

RunUpdate LongHistory::Next(uint64_t rounds) {
  RunUpdate update;
  for (uint64_t i = 0; i < rounds; ++i) {
    const v1::EntryHeader header = MakeHeader();
    if (i == 0) CHECK_OK(ledger_.CheckCommit(header));
    ledger_.Commit(header, RecordOf(header), &update);
    for (const v1::Contributor& one : header.contributors()) leases_.Spend(one.peer());
    if (header.version() % kEvaluatedEvery != 0) continue;
    v1::EvaluationRecord evaluation;
    evaluation.set_version(header.version());
    evaluation.set_loss(RecordOf(header).train_loss() + 0.1);
    evaluation.set_tokens(100000);
    evaluation.set_elapsed_seconds(RecordOf(header).elapsed_seconds());
    ledger_.AddEvaluation(evaluation, &update);
  }
  update.leases = leases_.Save();
  return update;
}

}  // namespace atolld
