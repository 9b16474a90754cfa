// History: the committed entries of a simulated run, checked by the oracle as they are announced.
//
// It records what trainers hand over and what peers and the coordinator say on their Sessions, and
// compares this with an independent recomputation: the bytes that a peer contributes (with its
// residual), the mean of every entry, the state after it, and the samples behind it. Each mismatch
// is reported once, with the number of the invariant (see invariants.h) that it violates.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/worker.pb.h"
#include "tests/sim/oracle.h"

namespace atolld {

// Reports a violation: the invariant's number, and what happened.
using Violate = std::function<void(int invariant, const std::string& what)>;

class History {
 public:
  explicit History(Violate violate) : violate_(std::move(violate)) {}

  // Events of a trainer: it made the initial parameters, `peer` took `theta` for a Train, it hands
  // over an update, or a process began.
  void OnInitial(absl::Span<const float> initial);
  // The peer that makes version 0 may keep it to itself; another version 0 may replace it until the
  // first entry.
  void ExpectAnotherGenesis() { may_begin_anew_ = true; }
  bool may_begin_anew() const { return may_begin_anew_; }
  void OnTrain(const std::string& peer, uint64_t version, absl::Span<const float> theta);
  // The trainer took a guess of the state that the entry on its way will make.
  void OnGuess(const std::string& peer, uint64_t version, absl::Span<const float> guess);
  void OnUpdate(const std::string& peer, absl::Span<const float> update,
                absl::Span<const float> base);
  // The peer was told that its last update was refused, which removes its residual.
  void OnRefused(const std::string& peer) { trainers_[peer].residuals = {{}}; }
  void OnLife(const std::string& peer);
  // The peer says that it no longer holds an update. It has dropped what it does not know to be
  // settled, and its residual with it.
  void OnUpdateGone(const std::string& peer);
  // A snapshot that the peer fetches or is given may lead it past the entries that would have
  // settled its residual.
  void OnSnapshot(const std::string& peer);
  // Peers keep so little that the newest entry's mean may be dropped when a snapshot contains it.
  void ExpectDroppedMeans() { means_go_ = true; }
  // The peer's disk fails now and then, so the peer may not be able to read what it holds.
  void OnDiskErrors(const std::string& peer) { trainers_[peer].unreadable = true; }
  // The peer's disk returns wrong bytes, so the peer may show another state until it detects that.
  void Distrust(const std::string& peer) { trainers_[peer].distrusted = true; }
  // A bit of the peer's theta has flipped. The peer detects this by the next header but one at the
  // latest, if the state had been hashed already; all must be right from then on.
  void OnMemoryFlip(const std::string& peer);
  uint64_t flipped_until() const { return flipped_until_; }  // The maximum over all peers.
  uint64_t flipped_until(const std::string& peer) { return trainers_[peer].flipped_until; }

  // Messages on the Sessions.
  void OnReady(const std::string& peer, const v1::Ready& ready);
  void OnMasked(const std::string& peer, const v1::MaskedUpdate& masked);
  // A party reveals what takes the masks off a sum of these contributors; from the first such
  // message on, the update of each counts as shown. No two attempts may show the update of the same
  // party, whichever training gave it: the difference of the sums would be that of the other
  // parties alone.
  void OnOpened(const v1::UnmaskShares& opened);
  void OnStateDigest(const std::string& peer, uint64_t version, const std::string& digest);
  void OnSynced(const std::string& peer, uint64_t version, const std::string& header_digest);
  void OnGenesis(const v1::Genesis& genesis);
  void OnPlan(const v1::Plan& plan);
  void OnAnnounced(const v1::EntryHeader& header);
  void OnSeal(const v1::Seal& seal);

  uint64_t version() const { return digests_.empty() ? 0 : digests_.size() - 1; }
  bool Finite() const;  // Returns true if all values of the newest state are finite.
  // The peer changes means that it has averaged, as HostileTransport does; an entry may contain its
  // lie.
  void OnLiar(const std::string& peer) { liars_.insert(peer); }
  uint64_t lies() const { return lies_; }  // The number of entries that contain a lie.
  // guesses() counts the guesses that equalled the oracle's bit for bit; refreshed_guesses() counts
  // those of them in which a stale part of the peer's own was replaced by a fresh one.
  uint64_t guesses() const { return guesses_; }
  uint64_t refreshed_guesses() const { return refreshed_guesses_; }
  // The number of updates in entries that were in the codec of slow lines.
  uint64_t slow_updates() const { return slow_updates_; }
  // A header as a peer holds it: its signature proves that it belongs to the run.
  void OnHeld(const std::string& peer, const v1::EntryHeader& header);
  // Returns the digest of the state at `version`; empty if none was announced.
  std::string StateDigest(uint64_t version) const;

 private:
  struct Contribution {
    std::string peer;
    // The values as encoded, of what its entry covers. With error feedback these are update +
    // residual, for each possible residual of the trainer; `residuals` has that residual over all
    // values (empty if there is none).
    std::vector<std::vector<float>> values;
    std::vector<std::vector<float>> residuals;
    Oracle::Chunks chunks;
    v1::Ready ready;        // The newest.
    uint64_t included = 0;  // The version that includes it; 0 means not yet.
    uint64_t life = 0;      // The life of its peer in which it was last offered.
    // Used if it is masked; it then has values, but no chunks.
    uint64_t first_sample = 0;
    uint64_t training = 0;  // The number of the training of its peer.
    int weight_exponent = 0;
    bool first_range = false;
  };
  struct Worker {
    std::vector<float> update;  // The newest.
    // The residuals that its disk may hold according to the committed headers; empty if there is
    // none. There are several if one value dwarfs all others, so that each residual gave the bytes
    // that were handed over.
    std::vector<std::vector<float>> settled = {{}};
    std::vector<std::vector<float>> residuals = {{}};  // Those of them that its process may hold.
    bool fresh = true;  // Its process has not shown yet with which residual it began.
    uint64_t synced = 0;
    bool distrusted = false;
    uint64_t flipped_until = 0;  // Versions up to this one may be wrong at this peer.
    uint64_t train_version = 0;  // The version of the newest training.
    uint64_t trainings = 0;
    uint64_t lives = 0;
    // For mode "eager":
    Oracle::Chunks held;                      // What its newest Ready offers.
    std::map<uint64_t, Oracle::Given> given;  // What it gave to the newest entries, by version.
    uint64_t given_unsure = 0;  // It may have forgotten what it gave to entries up to this one.
    bool unreadable = false;    // It may lack an entry's mean.
    // The guess of its newest training; empty if the training began from theta.
    std::vector<float> guess;
    uint64_t guessed_from = 0;  // The state from which the guess was made.
    Contribution offered;       // With masked updates: its update as its newest Ready described it.
  };

  bool Known(const v1::EntryHeader& header);
  // By peer, fragment and root, because the updates of two fragments may have the same bytes.
  using Key = std::tuple<std::string, size_t, std::string>;
  Key KeyOf(uint64_t version, const std::string& peer, const std::string& root) const;
  std::vector<Contribution*> Contributions(const v1::EntryHeader& header);
  void OnPlainReady(const std::string& peer, const v1::Ready& ready);
  std::string PayloadOf(const v1::EntryHeader& header, const std::vector<Contribution*>& made);
  void CheckWhole(const v1::EntryHeader& header, size_t contributors);
  void CheckBase(const v1::EntryHeader& header, const std::vector<Contribution*>& made);
  void CheckSpent(const v1::EntryHeader& header, int position, const v1::Ready& ready);
  // Pipelined: peers train for an entry before the previous one has arrived. MissesEntries: they
  // also never take the previous one in.
  bool Pipelined() const { return MissesEntries() || spec_.mode().kind() == "streaming"; }
  bool MissesEntries() const { return spec_.mode().kind() == "delayed" || Guesses(); }
  bool Guesses() const { return spec_.mode().kind() == "eager"; }
  bool GuessFits(Worker& trainer, const Oracle& former, absl::Span<const float> guess);
  void KeepGiven(const v1::EntryHeader& header, int position, const Contribution& made);
  void ForgetsGiven(Worker& trainer) { trainer.given_unsure = version(); }
  uint32_t CappedWeightBits(uint64_t version, const v1::Ready& ready);
  void CheckContributor(const v1::EntryHeader& header, int position, const Contribution& made);
  void CheckLengths(const std::string& peer, const v1::Ready& ready, const Contribution& made);
  void CheckScales(const v1::EntryHeader& header, const std::vector<Contribution*>& made);
  void SpendSamples(const v1::EntryHeader& header, const v1::Ready& ready);
  bool Lied(const v1::EntryHeader& header, std::string* payload);
  void Settle(const v1::EntryHeader& header, const std::vector<Contribution*>& made);
  void PushState();
  void AddSame(Contribution made, Contribution* known);

  const Violate violate_;
  v1::RunSpec spec_;
  v1::EntryHeader newest_;                    // Has no version if there is no header yet.
  std::vector<float> initial_;                // The parameters of the run's version 0.
  std::vector<std::vector<float>> initials_;  // The parameters of every version 0 that was made.
  bool may_begin_anew_ = false;
  std::unique_ptr<Oracle> oracle_;
  std::vector<std::string> digests_;         // The digests of the states, by version.
  std::vector<std::string> header_digests_;  // By version; version 0 has that of the genesis.
  // The signatures of the headers, by version; version 0 has "".
  std::vector<std::string> signatures_;
  std::map<uint64_t, std::vector<float>> thetas_;  // The states of the newest versions.
  std::map<uint64_t, Oracle> formers_;             // Likewise, if peers guess.
  bool means_go_ = false;
  uint64_t guesses_ = 0;
  uint64_t refreshed_guesses_ = 0;
  uint64_t slow_updates_ = 0;
  std::map<std::string, Worker> trainers_;
  uint64_t flipped_until_ = 0;
  std::set<std::string> liars_;
  uint64_t lies_ = 0;
  std::map<Key, Contribution> contributions_;
  // With masked updates: the entry that took each training, by peer and number of the training.
  std::map<std::pair<std::string, uint64_t>, uint64_t> taken_;
  // With masked updates: the values of each update, by attempt and peer, and the attempt that
  // showed them.
  std::map<std::pair<uint64_t, std::string>, std::string> masked_;
  std::map<std::pair<std::string, std::string>, uint64_t> shown_;
  std::map<uint64_t, v1::Plan> plans_;  // The newest plan of each version.
  std::map<uint64_t, uint64_t> spent_;  // Disjoint ranges of samples, from first to end.
};

}  // namespace atolld
