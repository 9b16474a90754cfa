#include "daemon/coordinator/stored_run.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "compression/base/check.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "membership/history/header.h"
#include "membership/history/run_codecs.h"
#include "membership/history/signature.h"
#include "optimizer/aggregation_kernels.h"
#include "optimizer/outer_rule.h"

namespace atolld {
namespace {

// "modified: rounds: 40 -> 80", or empty.
std::string Differences(const v1::RunSpec& stored, v1::RunSpec wanted) {
  // The data is known by its digest only once a worker has read it.
  wanted.mutable_data()->set_digest(stored.data().digest());
  wanted.mutable_data()->set_tokenizer_digest(stored.data().tokenizer_digest());
  wanted.set_history_key(stored.history_key());
  google::protobuf::util::MessageDifferencer differencer;
  std::string text;
  differencer.ReportDifferencesToString(&text);
  if (differencer.Compare(stored, wanted)) return "";
  return absl::StrReplaceAll(absl::StripSuffix(text, "\n"), {{"\n", "; "}});
}

}  // namespace

absl::StatusOr<std::optional<SigningKey>> KeyOfHistory(const StoredRun& stored,
                                                       const HistoryKeySource& source) {
  const bool fresh = !stored.spec.has_value();
  if (fresh ? source == nullptr : stored.spec->history_key().empty()) return std::nullopt;
  if (source == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the history of run ", stored.spec->run_id(), " is signed; no key is given"));
  }
  ASSIGN_OR_RETURN(SigningKey key, source(fresh));
  if (!fresh && key.public_key() != stored.spec->history_key()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the history of run ", stored.spec->run_id(), " is signed with key ",
        absl::BytesToHexString(stored.spec->history_key()), "; the one that is here is ",
        absl::BytesToHexString(key.public_key()), ": put the run's own back"));
  }
  return std::optional<SigningKey>(std::move(key));
}

absl::StatusOr<v1::RunSpec> SpecToRun(const Config& config, const StoredRun& stored,
                                      absl::Time wall_time, const std::optional<SigningKey>& key) {
  Config named = config;
  if (named.run.id.empty()) {
    named.run.id = stored.spec
                       ? stored.spec->run_id()
                       : absl::FormatTime("run-%Y%m%d-%H%M%S", wall_time, absl::UTCTimeZone());
  }
  if (!IsValidId(named.run.id)) {
    return absl::InvalidArgumentError("the run's id must be 1-64 characters of a-z, 0-9 and '-'");
  }
  v1::RunSpec wanted = MakeRunSpec(named);
  if (!stored.spec) {
    if (key) wanted.set_history_key(key->public_key());
    return wanted;
  }
  if (stored.spec->run_id() != wanted.run_id()) {
    return absl::FailedPreconditionError(absl::StrCat("it holds run ", stored.spec->run_id(),
                                                      ", the config names ", wanted.run_id(),
                                                      "; give the new run its own folder"));
  }
  const std::string differences = Differences(*stored.spec, wanted);
  if (differences.empty()) return *stored.spec;
  return absl::FailedPreconditionError(absl::StrCat(
      "run ", wanted.run_id(),
      " was made with other settings, and a run's settings never change: ", differences));
}

absl::Status CheckStoredRun(const StoredRun& stored) {
  if (!stored.genesis) {
    if (stored.headers.empty()) return absl::OkStatus();
    return absl::DataLossError("there are headers, but no version 0");
  }
  Digest previous = GenesisDigest(*stored.genesis);
  for (size_t i = 0; i < stored.headers.size(); ++i) {
    const absl::Status valid = CheckHeader(*stored.genesis, i, previous, stored.headers[i]);
    if (!valid.ok()) return absl::DataLossError(valid.message());
    previous = HeaderDigest(stored.headers[i]);
  }
  if (!stored.seal) return absl::OkStatus();
  if (stored.seal->version() != stored.headers.size() ||
      stored.seal->header_digest() != ToBytes(previous)) {
    return absl::DataLossError("the seal does not close the chain of headers");
  }
  const absl::Status vouched = CheckSigned(stored.genesis->spec(), *stored.seal);
  if (!vouched.ok()) return absl::DataLossError(vouched.message());
  return absl::OkStatus();
}

absl::StatusOr<RunSettings> MakeRunSettings(const Config& config, const v1::RunSpec& spec,
                                            const std::optional<SigningKey>& key) {
  ASSIGN_OR_RETURN(const OuterRule* const rule, FindOuterRule(spec.outer().rule()));
  ASSIGN_OR_RETURN(const LevelCodecs codecs, CodecsOf(spec.exchange()));
  ASSIGN_OR_RETURN(const AggregationRule aggregation, RuleOf(spec.exchange()));
  if (spec.exchange().chunk_elements() == 0)
    return absl::InvalidArgumentError("chunks of no values");
  ASSIGN_OR_RETURN(const OuterScalars scalars,
                   rule->Scalars(absl::bit_cast<float>(spec.outer().learning_rate_bits()),
                                 absl::bit_cast<float>(spec.outer().momentum_bits())));
  RunSettings settings;
  v1::EntryHeader carrier;
  SetScalars(scalars, &carrier);
  settings.scalars.assign(carrier.scalars().begin(), carrier.scalars().end());
  settings.round.peers = std::max<uint32_t>(1, config.run.peers);
  settings.round.quorum = config.run.quorum == 0 ? settings.round.peers / 2 + 1 : config.run.quorum;
  // With fewer the rule could not bear the liars that it is made for.
  settings.round.quorum = std::max<uint32_t>(
      settings.round.quorum, static_cast<uint32_t>(aggregation.LeastContributors()));
  settings.failure_timeout = config.membership.failure_timeout;
  settings.weight_cap = static_cast<float>(config.membership.weight_cap);
  settings.pace.kind = config.inner.pace == "time"   ? PaceSettings::Kind::kTime
                       : config.inner.pace == "auto" ? PaceSettings::Kind::kAuto
                                                     : PaceSettings::Kind::kFixed;
  settings.pace.time = config.inner.time;
  settings.plan = config.exchange.plan == "regions" ? PlanKind::kRegions
                  : config.exchange.plan == "flat"  ? PlanKind::kFlat
                                                    : PlanKind::kAuto;
  const bool mean = aggregation.settings().rule == "mean";
  // A relay's mean of several updates could not be judged.
  if (!mean) settings.plan = PlanKind::kFlat;
  settings.judge.clip = absl::bit_cast<float>(spec.exchange().clip_bits());
  settings.judge.from_centre = aggregation.has_centre();
  settings.judge.least = aggregation.LeastContributors();
  if (!mean) settings.judge.most = kMostContributors;
  settings.judge.offenders = {config.membership.offences, config.membership.offence_rounds,
                              config.membership.outsized};
  settings.encoded_size = [codecs, chunk = spec.exchange().chunk_elements()](uint64_t values) {
    return EncodedSizeOf(values, chunk, codecs);
  };
  settings.header_digest = [](const v1::EntryHeader& header) {
    return ToBytes(HeaderDigest(header));
  };
  settings.genesis_digest = [](const v1::Genesis& genesis) {
    return ToBytes(GenesisDigest(genesis));
  };
  settings.check_header = [](const v1::Genesis& genesis, uint64_t version,
                             const std::string& previous,
                             const v1::EntryHeader& header) -> absl::Status {
    ASSIGN_OR_RETURN(const Digest digest, DigestFromBytes(previous));
    return CheckHeader(genesis, version, digest, header);
  };
  if (spec.history_key().empty()) return settings;
  CHECK(key && key->public_key() == spec.history_key());
  settings.sign_header = [key = *key](const v1::EntryHeader& header) {
    return SignHeader(key, header);
  };
  settings.sign_seal = [key = *key](const v1::Seal& seal) { return SignSeal(key, seal); };
  return settings;
}

}  // namespace atolld
