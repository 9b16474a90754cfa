// Training: keeps a run's round and lease book, which change together. When a peer stops training,
// its samples become free unless a mean may already include them.
//
// With private data nothing is leased. An update belongs to its peer until an entry names the peer
// as a contributor, which means that the update is in that entry. When such a peer reports a
// training or an update, the caller finds out whether an entry has taken it meanwhile.
//
// Law: changed leases (see TakeChanged) are stored in the same RunUpdate as the other effects of
// the event that changed them. Pure. Used by one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/run/leases.h"
#include "membership/run/pace.h"
#include "membership/run/round.h"

namespace atolld {

class Training {
 public:
  Training(const RoundSettings& settings, bool started, uint64_t version,
           const LeaseRecords& leases);

  Round& round() { return round_; }
  const Round& round() const { return round_; }
  const LeaseBook& leases() const { return leases_; }
  // Returns the leases if they have changed since the last call.
  std::optional<LeaseRecords> TakeChanged();

  // Gives the peer its training for the round, which replaces what it did before.
  v1::Train Assign(absl::Time now, const std::string& peer, uint64_t epoch, const PacedSteps& paced,
                   const v1::RunSpec& spec);
  // Gives the peer a training for the next round, in addition to the update that it offers or will
  // offer.
  v1::Train AssignAhead(absl::Time now, const std::string& peer, uint64_t epoch,
                        const PacedSteps& paced, const v1::RunSpec& spec);
  bool trains_ahead() const { return settings_.trains_ahead; }
  // Drops the peer's training ahead, if any; its samples become free.
  void DropAhead(const std::string& peer);
  // Called when the peer offers an update for an earlier entry after that entry was committed. In
  // mode "streaming" the peer drops such an update, so it becomes free.
  void DropLate(const std::string& peer, const v1::Ready& ready);
  void LoseWorker(const std::string& peer);
  // Called when the peer names the samples with which it continues. Returns false, and stops the
  // peer, if they are not the peer's own. With private data the peer names no samples, and
  // `held.trains` is true if it continues.
  bool Resume(const std::string& peer, const HeldTraining& held);
  // Records that the peer stops training. Its samples remain leased to it.
  void Stop(const std::string& peer);
  void TakeBack(const std::string& peer);  // takes back the peer's samples, if any
  void TakeBackIfIdle(const std::string& peer);
  // Discards the peer's update, so that the peer is idle and holds nothing. `refused` is true if
  // the update itself was the reason (Train.refused).
  void Discard(const std::string& peer, bool refused = false);

  // Called when a peer names the samples on which it trains or has trained. Returns false, and
  // changes nothing, if they are not the peer's own.
  bool Adopt(const std::string& peer, absl::Span<const v1::SampleRange> samples);
  // Returns false if the update answers an older Train, because it was sent before the peer had
  // received the newest one.
  bool Answers(const std::string& peer, const v1::Ready& ready) const;
  // Does the same as Adopt for a peer that offers an update. A peer that names no samples must hold
  // some or, with private data, must have been asked for an update that no entry has taken yet;
  // otherwise the function returns false.
  bool MayOffer(const std::string& peer, absl::Span<const v1::SampleRange> samples);
  uint64_t Held(const std::string& peer) const;  // the number of samples that it holds
  // Called when the peer's update is accepted. Sets its samples to those that the peer holds, in
  // the fewest possible ranges; the header will contain them.
  void SetReady(absl::Time now, const std::string& peer, const v1::Ready& ready);

  // Called when the entry is committed. Marks the samples of the contributors that the header names
  // as spent, and returns these contributors in the header's order.
  std::vector<std::string> Settle(const v1::EntryHeader& header, const v1::Plan& plan);

  // Called when version 0 exists and no sample has been granted yet. Sets the first sample to be
  // granted; for a branch this is the one after its parent's last.
  void BeginAt(uint64_t first_sample);

  // Called when a history up to `version` - 1 was adopted, with this lease book. Peers may hold
  // samples that the book does not know. If a peer's samples are spent or, with private data, if
  // the headers name the peer, the peer's update is already in the history.
  void AdoptHistory(LeaseBook leases, uint64_t version, const Roster& roster,
                    const v1::Headers& headers);
  // Called when a peer reports that it holds these samples. If the book was behind, samples that it
  // does not know become free. If the run has granted fresh samples since (`only_recovered` is
  // false), there are no such samples.
  void Reach(absl::Span<const v1::SampleRange> samples, bool only_recovered);

 private:
  v1::Train MakeTrain(uint64_t version, uint64_t epoch, uint32_t steps, const v1::RunSpec& spec,
                      const std::string& peer, const std::string& holder);
  void ResumeAhead(const std::string& peer, const HeldTraining& held);

  const RoundSettings settings_;
  Round round_;
  LeaseBook leases_;
  uint64_t trains_ = 0;   // the number of Trains assigned by this process of the coordinator
  bool changed_ = false;  // true if the leases have changed
  // True if the lease book was behind: peers may hold samples that it does not know.
  bool behind_ = false;
};

}  // namespace atolld
