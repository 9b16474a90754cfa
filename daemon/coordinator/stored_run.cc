#include "daemon/coordinator/stored_run.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "daemon/replica/header.h"
#include "daemon/replica/run_codecs.h"
#include "daemon/status_macros.h"
#include "membership/admission.h"
#include "optimizer/outer_rule.h"

namespace atolld {
namespace {

float FloatOf(uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// "modified: rounds: 40 -> 80", or empty.
std::string Differences(const v1::RunSpec& stored, v1::RunSpec wanted) {
  // The data is known by its digest only once a worker has read it.
  wanted.mutable_data()->set_digest(stored.data().digest());
  google::protobuf::util::MessageDifferencer differencer;
  std::string text;
  differencer.ReportDifferencesToString(&text);
  if (differencer.Compare(stored, wanted)) return "";
  return absl::StrReplaceAll(absl::StripSuffix(text, "\n"), {{"\n", "; "}});
}

}  // namespace

absl::StatusOr<v1::RunSpec> SpecToRun(const Config& config, const StoredRun& stored,
                                      absl::Time wall_time) {
  Config named = config;
  if (named.run.id.empty()) {
    named.run.id = stored.spec
                       ? stored.spec->run_id()
                       : absl::FormatTime("run-%Y%m%d-%H%M%S", wall_time, absl::UTCTimeZone());
  }
  if (!ValidName(named.run.id)) {
    return absl::InvalidArgumentError("the run's id must be 1-64 characters of a-z, 0-9 and '-'");
  }
  const v1::RunSpec wanted = MakeRunSpec(named);
  if (!stored.spec) return wanted;
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
  if (stored.seal && (stored.seal->version() != stored.headers.size() ||
                      stored.seal->header_digest() != ToBytes(previous))) {
    return absl::DataLossError("the seal does not close the chain of headers");
  }
  return absl::OkStatus();
}

absl::StatusOr<RunSettings> MakeRunSettings(const Config& config, const v1::RunSpec& spec) {
  ASSIGN_OR_RETURN(const OuterRule* const rule, FindOuterRule(spec.outer().rule()));
  ASSIGN_OR_RETURN(const LevelCodecs codecs, CodecsOf(spec.exchange()));
  if (spec.exchange().chunk_elements() == 0)
    return absl::InvalidArgumentError("chunks of no values");
  ASSIGN_OR_RETURN(const OuterScalars scalars,
                   rule->Scalars(FloatOf(spec.outer().learning_rate_bits()),
                                 FloatOf(spec.outer().momentum_bits())));
  RunSettings settings;
  v1::EntryHeader carrier;
  SetScalars(scalars, &carrier);
  settings.scalars.assign(carrier.scalars().begin(), carrier.scalars().end());
  settings.round.peers = std::max<uint32_t>(1, config.run.peers);
  settings.round.quorum = config.run.quorum == 0 ? settings.round.peers / 2 + 1 : config.run.quorum;
  settings.failure_timeout = config.membership.failure_timeout;
  settings.pace.kind = config.inner.pace == "time"   ? PaceSettings::Kind::kTime
                       : config.inner.pace == "auto" ? PaceSettings::Kind::kAuto
                                                     : PaceSettings::Kind::kFixed;
  settings.pace.time = config.inner.time;
  settings.plan = config.exchange.plan == "regions" ? PlanKind::kRegions
                  : config.exchange.plan == "flat"  ? PlanKind::kFlat
                                                    : PlanKind::kAuto;
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
  return settings;
}

}  // namespace atolld
