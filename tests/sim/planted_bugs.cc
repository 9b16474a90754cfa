#include "tests/sim/planted_bugs.h"

#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "compression/base/planted_bug.h"

namespace atolld {
namespace {

struct Name {
  PlantedBug bug;
  const char* text;
  RunsOfBug runs = {};
};

const std::array<Name, 46> kNames = {{
    {PlantedBug::kVoteBeforeFsync, "vote-before-fsync", {"", 25}},
    {PlantedBug::kAnnounceBeforeDurable, "announce-before-durable"},
    {PlantedBug::kEpochResetAtRestart, "epoch-reset-at-restart", {"", 6}},
    {PlantedBug::kAttemptNotChecked, "attempt-not-checked", {"", 14}},
    {PlantedBug::kResidualChangedAtSend, "residual-changed-at-send", {"", 32}},
    {PlantedBug::kSumInArrivalOrder, "sum-in-arrival-order", {"", 5}},
    {PlantedBug::kContributorCountedTwice, "contributor-counted-twice", {"", 18}},
    {PlantedBug::kLeaseReturnedEarly, "lease-returned-early", {"", 18}},
    {PlantedBug::kJoinerSkipsBuffer, "joiner-skips-buffer"},
    {PlantedBug::kStragglerNotRebased, "straggler-not-rebased", {"", 4}},
    {PlantedBug::kPartialsOverlap, "partials-overlap", {"", 320}},
    {PlantedBug::kQuorumOffByOne, "quorum-off-by-one", {"", 25}},
    {PlantedBug::kHeaderChainNotChecked, "header-chain-not-checked", {"", 245}},
    {PlantedBug::kDeadlineFromWallClock, "deadline-from-wall-clock", {"", 84}},
    {PlantedBug::kMeansRoundedAsUpdates, "means-rounded-as-updates", {"", 43}},
    {PlantedBug::kScaleNotApplied, "scale-not-applied", {"", 2}},
    {PlantedBug::kCentreForgotten, "centre-forgotten", {"", 28}},
    {PlantedBug::kSignatureNotChecked, "signature-not-checked", {"", 139}},
    {PlantedBug::kAuditorsTooKind, "auditors-too-kind", {"", 82}},
    {PlantedBug::kAccuserBelieved, "accuser-believed", {"", 49}},
    {PlantedBug::kThinEntryTaken, "thin-entry-taken", {"", 95}},
    {PlantedBug::kAddressTaken, "address-taken", {"", 50}},
    {PlantedBug::kEpochBelieved, "epoch-believed", {"", 114}},
    {PlantedBug::kVersionBelieved, "version-believed", {"", 100}},
    {PlantedBug::kLossOfAnybody, "loss-of-anybody", {"", 27}},
    {PlantedBug::kEvaluationWaitedFor, "evaluation-waited-for", {"", 6}},
    {PlantedBug::kRosterChangeLost, "roster-change-lost"},
    {PlantedBug::kMaskedWeightsIgnored, "masked-weights-ignored", {"", 25}},
    {PlantedBug::kFragmentStepsAll, "fragment-steps-all", {"", 32}},
    {PlantedBug::kAgeNotWeighed, "age-not-weighed", {"", 7}},
    {PlantedBug::kAheadSpendsBoth, "ahead-spends-both", {"", 7}},
    {PlantedBug::kGuessKeepsStale, "guess-keeps-stale", {"", 14}},
    {PlantedBug::kNoFence, "no-fence", {"etcd", 29}},
    {PlantedBug::kStaleLease, "stale-lease", {"etcd", 2}},
    {PlantedBug::kSamePlanAgain, "same-plan-again", {"", 76}},
    {PlantedBug::kPairForgotten, "pair-forgotten", {"", 76}},
    {PlantedBug::kRestNotScaled, "rest-not-scaled", {"", 2}},
    {PlantedBug::kFormerLifeTaken, "former-life-taken", {"", 9}},
    {PlantedBug::kMaskedAgain, "masked-again", {"", 22}},
    {PlantedBug::kShownForgotten, "shown-forgotten", {"", 22}},
    {PlantedBug::kClipBelieved, "clip-believed", {"", 23}},
    {PlantedBug::kRosterOfFew, "roster-of-few", {"", 77}},
    {PlantedBug::kDrawsHide, "draws-hide", {"", 23}},
    {PlantedBug::kForeignExpertTaken, "foreign-expert-taken", {"", 5}},
    {PlantedBug::kStaleOwnerTaken, "stale-owner-taken", {"", 95}},
    {PlantedBug::kUnownedSteps, "unowned-steps", {"", 5}},
}};

}  // namespace

std::string PlantedBugNames() {
  std::string names;
  for (const Name& name : kNames) absl::StrAppend(&names, name.text, "\n");
  return names;
}

RunsOfBug FindRunsOfBug(absl::string_view text) {
  for (const Name& name : kNames) {
    if (text == name.text) return name.runs;
  }
  return {};
}

absl::Status PlantBug(absl::string_view text) {
  std::vector<std::string> known;
  for (const Name& name : kNames) {
    known.emplace_back(name.text);
    if (text != name.text) continue;
#ifdef ATOLL_PLANTED_BUGS
    ActivePlantedBug() = name.bug;
    return absl::OkStatus();
#else
    return absl::FailedPreconditionError(
        absl::StrCat("this build has no deliberate mistakes, not even ", name.text));
#endif
  }
  return absl::InvalidArgumentError(UnknownNameMessage("bug", text, known));
}

}  // namespace atolld
