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
};

constexpr std::array<Name, 33> kNames = {{
    {PlantedBug::kVoteBeforeFsync, "vote-before-fsync"},
    {PlantedBug::kAnnounceBeforeDurable, "announce-before-durable"},
    {PlantedBug::kEpochResetAtRestart, "epoch-reset-at-restart"},
    {PlantedBug::kAttemptNotChecked, "attempt-not-checked"},
    {PlantedBug::kResidualChangedAtSend, "residual-changed-at-send"},
    {PlantedBug::kSumInArrivalOrder, "sum-in-arrival-order"},
    {PlantedBug::kContributorCountedTwice, "contributor-counted-twice"},
    {PlantedBug::kLeaseReturnedEarly, "lease-returned-early"},
    {PlantedBug::kJoinerSkipsBuffer, "joiner-skips-buffer"},
    {PlantedBug::kStragglerNotRebased, "straggler-not-rebased"},
    {PlantedBug::kPartialsOverlap, "partials-overlap"},
    {PlantedBug::kQuorumOffByOne, "quorum-off-by-one"},
    {PlantedBug::kHeaderChainNotChecked, "header-chain-not-checked"},
    {PlantedBug::kDeadlineFromWallClock, "deadline-from-wall-clock"},
    {PlantedBug::kMeansRoundedAsUpdates, "means-rounded-as-updates"},
    {PlantedBug::kScaleNotApplied, "scale-not-applied"},
    {PlantedBug::kCentreForgotten, "centre-forgotten"},
    {PlantedBug::kSignatureNotChecked, "signature-not-checked"},
    {PlantedBug::kAuditorsTooKind, "auditors-too-kind"},
    {PlantedBug::kAccuserBelieved, "accuser-believed"},
    {PlantedBug::kAccusedReducerDropped, "accused-reducer-dropped"},
    {PlantedBug::kThinEntryTaken, "thin-entry-taken"},
    {PlantedBug::kAddressTaken, "address-taken"},
    {PlantedBug::kEpochBelieved, "epoch-believed"},
    {PlantedBug::kVersionBelieved, "version-believed"},
    {PlantedBug::kLossOfAnybody, "loss-of-anybody"},
    {PlantedBug::kEvaluationWaitedFor, "evaluation-waited-for"},
    {PlantedBug::kRosterChangeLost, "roster-change-lost"},
    {PlantedBug::kMaskedWeightsIgnored, "masked-weights-ignored"},
    {PlantedBug::kFragmentStepsAll, "fragment-steps-all"},
    {PlantedBug::kAgeNotWeighed, "age-not-weighed"},
    {PlantedBug::kAheadSpendsBoth, "ahead-spends-both"},
    {PlantedBug::kGuessKeepsStale, "guess-keeps-stale"},
}};

}  // namespace

std::string PlantedBugNames() {
  std::string names;
  for (const Name& name : kNames) absl::StrAppend(&names, name.text, "\n");
  return names;
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
