// PlantedBug: deliberate mistakes in the code, of one line each, that the simulation must find.
//
// They exist only in a separate build for tests (targets named *_planted). In all other builds
// Planted() is the constant false, and the mistake is not in the binary. A test switches a mistake
// on and shows that some seed then violates an invariant; if no seed does, the simulation has a
// gap. The comment of each value says what the code does wrong. Used by one thread.
#pragma once

namespace atolld {

enum class PlantedBug {
  kNone,
  kVoteBeforeFsync,          // the payload of a vote may be lost with the voter
  kAnnounceBeforeDurable,    // a header is announced before the store has it
  kEpochResetAtRestart,      // the coordinator begins again with epoch 1
  kAttemptNotChecked,        // a chunk of an older attempt is taken
  kResidualChangedAtSend,    // the residual changes at the send, not at the commit
  kSumInArrivalOrder,        // chunks are summed in the order of arrival, not of the roster
  kContributorCountedTwice,  // a chunk that is sent again after a retry is added again
  kLeaseReturnedEarly,       // a dead contributor's samples return before the commit
  kJoinerSkipsBuffer,        // a joiner does not load the last buffer of the outer rule
  kStragglerNotRebased,      // a straggler keeps its base when a commit passes
  kPartialsOverlap,          // a relay's partial mean and a member's own chunk are both added
  kQuorumOffByOne,           // one voter less than the quorum is enough
  kHeaderChainNotChecked,    // any header of the next version is accepted as a successor
  kDeadlineFromWallClock,    // a deadline uses the wall clock, not the monotonic clock
  // Means are rounded to nearest if the codec of updates always does so.
  kMeansRoundedAsUpdates,
  kScaleNotApplied,       // an update that is too long counts with its full length
  kCentreForgotten,       // centred clipping always begins at zeros, not at the last mean
  kSignatureNotChecked,   // a header is taken without checking its signature
  kAuditorsTooKind,       // auditors report every result as right
  kAccuserBelieved,       // one accusation is enough to evict a peer
  kThinEntryTaken,        // an entry with fewer contributors than the quorum is accepted
  kAddressTaken,          // a peer gets an address by naming it, even another peer's
  kEpochBelieved,         // an exchange is given up for any epoch that a Hello names
  kVersionBelieved,       // the run waits for the history of any version that a Hello names
  kLossOfAnybody,         // any peer's answer for a share counts, even if it has no loss
  kEvaluationWaitedFor,   // the run waits for a peer with a share as long as it is present
  kRosterChangeLost,      // every fourth delta of the roster is empty
  kMaskedWeightsIgnored,  // a sum of masked updates is divided by their number
  kFragmentStepsAll,      // the momentum of the other fragments also decays
  kAgeNotWeighed,         // an old update counts as much as a new one
  kAheadSpendsBoth,       // an entry also spends the samples of the training ahead
  kGuessKeepsStale,       // a guess counts a peer's own part of the newest mean twice
  kNoFence,               // a former leader's writes to etcd take effect
  kStaleLease,            // a leader continues although its lease has expired by its own clock
  kSamePlanAgain,         // an exchange is planned as if every pair of peers were connected
  kPairForgotten,         // the run forgets at once which peers cannot reach each other
  kRestNotScaled,         // the part that an update's scale cuts off stays in the residual
  kFormerLifeTaken,       // a Hello of an ended process ends the session of the current one
  kMaskedAgain,           // an update that may be in an unmasked sum is masked again
  kShownForgotten,      // an update that replaces one that was unmasked is trained on the same data
  kClipBelieved,        // a round is counted with any clip that the peer names
  kRosterOfFew,         // masks are shared among three parties even if the run requires more
  kDrawsHide,           // the privacy that a round spends is reduced by the share of parties drawn
  kForeignExpertTaken,  // a chunk counts although its sender does not own the chunk's expert
  kStaleOwnerTaken,     // an update counts for experts that its peer no longer owns
  kUnownedSteps,        // an expert to which no owner contributes is stepped by zeros
};

#ifdef ATOLL_PLANTED_BUGS
// The mistake that is switched on. It must be set before the code that it affects runs.
inline PlantedBug& ActivePlantedBug() {
  static PlantedBug active = PlantedBug::kNone;
  return active;
}
inline bool Planted(PlantedBug bug) { return ActivePlantedBug() == bug; }
#else
constexpr bool Planted(PlantedBug) { return false; }
#endif

}  // namespace atolld
