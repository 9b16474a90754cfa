#include "daemon/peer/coordinator_check.h"

#include <limits>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "membership/history/header.h"
#include "membership/history/signature.h"

namespace atolld {
namespace {

// As [membership] failure_timeout may be configured.
constexpr absl::Duration kShortestTimeout = absl::Milliseconds(100);
constexpr absl::Duration kLongestTimeout = absl::Hours(1);

// Far above what any model takes on any line that is of use.
constexpr absl::Duration kLongestExchange = absl::Hours(24 * 30);

// As [inner] steps may be configured, and as many as a pace may make of them.
constexpr uint32_t kMostSteps = 1000000;

absl::Status CheckSameRun(const HeldHistory& held, const v1::RunSpec& spec) {
  for (const v1::RunSpec* const known :
       {held.spec, held.genesis == nullptr ? nullptr : &held.genesis->spec()}) {
    if (known == nullptr) continue;
    if (spec.run_id() != known->run_id()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "it leads run ", spec.run_id(), ", this peer takes part in ", known->run_id()));
    }
    if (spec.history_key() != known->history_key()) {
      return absl::FailedPreconditionError(absl::StrCat("it names another history key for run ",
                                                        spec.run_id(),
                                                        " than the one that this peer knows"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNewest(const HeldHistory& held, const v1::Welcome& welcome) {
  const v1::EntryHeader& header = welcome.header();
  if (header.version() != welcome.version() || !welcome.has_genesis()) {
    return absl::InvalidArgumentError(
        absl::StrCat("it says version ", welcome.version(),
                     " and does not give that version's header and the run's version 0"));
  }
  RETURN_IF_ERROR(CheckHeaderAlone(welcome.genesis(), header));
  if (held.genesis == nullptr || header.version() != held.version) return absl::OkStatus();
  const Digest told = HeaderDigest(header);
  if (told == held.header_digest || Planted(PlantedBug::kHeaderChainNotChecked))
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the history is forked: its version ",
                                                    held.version, " has header ", ToHex(told),
                                                    ", here it is ", ToHex(held.header_digest)));
}

absl::Status CheckTrain(const v1::RunSpec& spec, const v1::Train& train) {
  if (train.version() == 0 || train.version() > spec.rounds()) {
    return absl::InvalidArgumentError(absl::StrCat("it asks to train for version ", train.version(),
                                                   " of a run of ", spec.rounds()));
  }
  const std::string context = absl::StrCat("round ", train.version(), ": it ");
  if (train.steps() == 0 || train.steps() > kMostSteps) {
    return absl::InvalidArgumentError(absl::StrCat(context, "asks for ", train.steps(), " steps"));
  }
  const uint64_t needed = uint64_t{train.steps()} * spec.inner().batch();
  const auto unfit = [&](absl::string_view most, uint64_t samples) {
    return absl::InvalidArgumentError(absl::StrCat(context, "gives ", most, samples,
                                                   " samples for ", train.steps(), " steps of ",
                                                   spec.inner().batch()));
  };
  uint64_t samples = 0;
  for (const v1::SampleRange& range : train.samples()) {
    if (range.count() > std::numeric_limits<uint64_t>::max() - range.first()) {
      return absl::InvalidArgumentError(
          absl::StrCat(context, "gives samples beyond the last sample"));
    }
    if (range.count() > needed - samples) return unfit("more than ", needed);
    samples += range.count();
  }
  return samples == needed ? absl::OkStatus() : unfit("", samples);
}

absl::Status CheckEvaluate(const v1::RunSpec& spec, const v1::Evaluate& evaluate) {
  if (evaluate.version() > spec.rounds()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it asks to evaluate version ", evaluate.version(), " of a run of ", spec.rounds()));
  }
  if (evaluate.share() < evaluate.shares()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("it asks to evaluate share ", evaluate.share(),
                                                 " of ", evaluate.shares(), " of version ",
                                                 evaluate.version()));
}

absl::Status CheckAudit(const v1::Audit& audit) {
  const absl::Duration deadline =
      absl::Milliseconds(static_cast<double>(audit.deadline_milliseconds()));
  if (deadline > absl::ZeroDuration() && deadline <= kLongestExchange) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("round ", audit.version(), ": it gives the audit ",
                                                 absl::FormatDuration(deadline)));
}

}  // namespace

absl::Status CheckWelcome(const HeldHistory& held, const v1::Welcome& welcome) {
  RETURN_IF_ERROR(CheckSameRun(held, welcome.spec()));
  if (welcome.epoch() < held.epoch) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it is in epoch ", welcome.epoch(), ", and epoch ", held.epoch, " was there already"));
  }
  const absl::Duration timeout =
      absl::Milliseconds(static_cast<double>(welcome.failure_timeout_milliseconds()));
  if (welcome.failure_timeout_milliseconds() != 0 &&
      (timeout < kShortestTimeout || timeout > kLongestTimeout)) {
    return absl::InvalidArgumentError(absl::StrCat("its failure_timeout is ",
                                                   absl::FormatDuration(timeout),
                                                   ", which is not between 100ms and 1h"));
  }
  if (welcome.version() > welcome.spec().rounds()) {
    return absl::InvalidArgumentError(absl::StrCat("it says version ", welcome.version(),
                                                   " of a run of ", welcome.spec().rounds()));
  }
  if (welcome.has_genesis()) {
    RETURN_IF_ERROR(Annotate(CheckGenesis(welcome.genesis()), "its version 0"));
    HeldHistory said = held;
    said.spec = &welcome.spec();
    RETURN_IF_ERROR(CheckSameRun(said, welcome.genesis().spec()));
    if (held.genesis != nullptr &&
        GenesisDigest(*held.genesis) != GenesisDigest(welcome.genesis())) {
      return absl::FailedPreconditionError(absl::StrCat(
          "its run ", welcome.spec().run_id(), " has another version 0 than the one that is here"));
    }
  }
  if (welcome.version() > 0) RETURN_IF_ERROR(CheckNewest(held, welcome));
  if (welcome.has_seal()) return CheckSealTold(welcome.genesis(), welcome.seal());
  return absl::OkStatus();
}

absl::Status CheckSealTold(const v1::Genesis& genesis, const v1::Seal& seal) {
  const v1::RunSpec& spec = genesis.spec();
  if (seal.run_id() != spec.run_id()) {
    return absl::FailedPreconditionError(absl::StrCat("its seal is of run ", seal.run_id()));
  }
  if (seal.version() > spec.rounds()) {
    return absl::InvalidArgumentError(
        absl::StrCat("its seal is of version ", seal.version(), " of a run of ", spec.rounds()));
  }
  return CheckSigned(spec, seal);
}

absl::Status CheckPlanTold(const v1::RunSpec& spec, uint64_t epoch, const v1::Roster& roster,
                           const v1::Plan& plan) {
  const std::string context = absl::StrCat("round ", plan.version(), ": its plan ");
  if (plan.version() == 0 || plan.version() > spec.rounds()) {
    return absl::InvalidArgumentError(
        absl::StrCat(context, "is for no round of a run of ", spec.rounds()));
  }
  if (plan.epoch() != epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat(context, "is of epoch ", plan.epoch(), ", this is epoch ", epoch));
  }
  const absl::Duration deadline =
      absl::Milliseconds(static_cast<double>(plan.deadline_milliseconds()));
  if (deadline <= absl::ZeroDuration() || deadline > kLongestExchange) {
    return absl::InvalidArgumentError(
        absl::StrCat(context, "gives the exchange ", absl::FormatDuration(deadline)));
  }
  std::set<absl::string_view> known;
  for (const v1::Member& member : roster.members()) known.insert(member.peer());
  const std::set<absl::string_view> lost(plan.lost().begin(), plan.lost().end());
  for (const v1::PlanMember& member : plan.contributors()) {
    if (known.count(member.peer()) != 0 || lost.count(member.peer()) != 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(context, "names contributor ", member.peer(), ", who is not on the roster"));
  }
  for (const v1::Shard& shard : plan.shards()) {
    if (shard.chunks() == 0 || known.count(shard.reducer()) != 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(context, "names reducer ", shard.reducer(), ", who is not on the roster"));
  }
  return absl::OkStatus();
}

absl::Status CheckOrderTold(const v1::RunSpec& spec, const v1::CoordinatorMessage& message) {
  if (message.has_train()) return CheckTrain(spec, message.train());
  if (message.has_evaluate()) return CheckEvaluate(spec, message.evaluate());
  if (message.has_audit()) return CheckAudit(message.audit());
  return absl::OkStatus();
}

}  // namespace atolld
