// PlantedBug: deliberate mistakes, one line each, that the simulation must find.
//
// They exist in a build of their own alone (targets named *_planted, for tests): everywhere else
// Planted() is a constant false and the mistake is not in the binary. A test switches one on and
// shows that some seed violates an invariant; a mistake that no seed finds is a hole in the
// simulation. One thread.
#pragma once

namespace atolld {

enum class PlantedBug {
  kNone,
  kVoteBeforeFsync,          // the payload of a vote may be lost with the voter
  kAnnounceBeforeDurable,    // a header is said before the store has it
  kEpochResetAtRestart,      // the coordinator begins again with epoch 1
  kAttemptNotChecked,        // a chunk of an older attempt is taken
  kResidualChangedAtSend,    // instead of at the commit
  kSumInArrivalOrder,        // instead of roster order
  kContributorCountedTwice,  // a chunk that is sent again after a retry is added again
  kLeaseReturnedEarly,       // a dead contributor's samples, before the commit tells
  kJoinerSkipsBuffer,        // the last buffer of the outer rule is left as it was
  kStragglerNotRebased,      // its base stays when a commit passes
  kPartialsOverlap,          // a relay's partial mean is taken beside a member's own chunk
  kQuorumOffByOne,           // one voter less is enough
  kHeaderChainNotChecked,    // any header of the next version is a successor
  kDeadlineFromWallClock,    // instead of the monotonic clock
  kMeansRoundedAsUpdates,    // to nearest where the codec of updates has nothing else
  kScaleNotApplied,          // an update that is too long counts at its full length
  kCentreForgotten,          // centred clipping goes on from zeros
  kSignatureNotChecked,      // whoever can send a header can write the history
  kAuditorsTooKind,          // whatever they recompute, they call right
  kAccuserBelieved,          // one account is enough to evict
  kAccusedReducerDropped,    // one account is enough to take a reducer's part from it
  kThinEntryTaken,           // of fewer contributors than the quorum
  kAddressTaken,             // whoever names another's address has it
  kEpochBelieved,            // whatever a Hello says, an exchange is given up for it
  kVersionBelieved,          // whatever a Hello says, its history is waited for
  kLossOfAnybody,            // whoever answers for a share is believed, also without a number
  kEvaluationWaitedFor,      // whoever was given a share is waited for as long as it is here
  kRosterChangeLost,         // every fourth delta of the roster names nobody
  kMaskedWeightsIgnored,     // a sum of masked updates is divided by their number
  kFragmentStepsAll,         // momentum of the other fragments decays too
  kAgeNotWeighed,            // an old update counts as much as a new one
  kAheadSpendsBoth,          // an entry spends the samples of the training ahead as well
  kGuessKeepsStale,          // a guess counts a peer's own part of the newest mean twice
  kNoFence,                  // a former leader's writes to etcd have effect
  kStaleLease,               // a leader goes on though its lease is over by its own clock
};

#ifdef ATOLL_PLANTED_BUGS
// Which one is on. Set before the code that it spoils runs.
inline PlantedBug& ActivePlantedBug() {
  static PlantedBug active = PlantedBug::kNone;
  return active;
}
inline bool Planted(PlantedBug bug) { return ActivePlantedBug() == bug; }
#else
constexpr bool Planted(PlantedBug) { return false; }
#endif

}  // namespace atolld
