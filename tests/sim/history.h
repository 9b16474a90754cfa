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

  // Events of a trainer: it has made the initial parameters, it has taken `theta` for a Train, it
  // hands over an update, or its process has begun a new life.
  void OnInitial(absl::Span<const float> initial);
  // Tells the history that the peer that makes version 0 may keep it to itself. Until the first
  // entry, another version 0 may then replace it.
  void ExpectAnotherGenesis() { may_begin_anew_ = true; }
  bool may_begin_anew() const { return may_begin_anew_; }
  void OnTrain(const std::string& peer, uint64_t version, absl::Span<const float> theta);
  // Called when the trainer has taken a guess of the state that the entry on its way will make.
  void OnGuess(const std::string& peer, uint64_t version, absl::Span<const float> guess);
  void OnUpdate(const std::string& peer, absl::Span<const float> update,
                absl::Span<const float> base);
  // Called when the peer was told that its last update was refused, which removes its residual.
  void OnRefused(const std::string& peer) { trainers_[peer].residuals = {{}}; }
  void OnLife(const std::string& peer);
  // Called when the peer says that it no longer holds an update. It has then dropped every update
  // that it does not know to be settled, and its residual.
  void OnUpdateGone(const std::string& peer);
  // Called when the peer fetches a snapshot or is given one. The snapshot may take the peer past
  // the entries that would have settled its residual.
  void OnSnapshot(const std::string& peer);
  // Tells the history that peers keep so few bytes that they may drop the newest entry's mean once
  // a snapshot contains it.
  void ExpectDroppedMeans() { means_go_ = true; }
  // Called if the peer's disk fails now and then, so the peer may not be able to read what it
  // holds.
  void OnDiskErrors(const std::string& peer) { trainers_[peer].unreadable = true; }
  // Called if the peer's disk returns wrong bytes, so that the peer may show a wrong state until it
  // detects this.
  void Distrust(const std::string& peer) { trainers_[peer].distrusted = true; }
  // Called when a bit of the peer's theta has flipped. If the state had been hashed already, the
  // peer detects this at the latest when the second header from now comes. From then on its state
  // must be right.
  void OnMemoryFlip(const std::string& peer);
  uint64_t flipped_until() const { return flipped_until_; }  // The maximum over all peers.
  uint64_t flipped_until(const std::string& peer) { return trainers_[peer].flipped_until; }

  // Messages on the Sessions.
  void OnReady(const std::string& peer, const v1::Ready& ready);
  void OnMasked(const std::string& peer, const v1::MaskedUpdate& masked);
  // Called when a party reveals shares that remove the masks from a sum of these contributors. From
  // the first such message on, each contributor's update counts as shown. Two attempts may never
  // both show an update of the same party, not even updates of different trainings, because the
  // difference of the two sums would reveal the other parties' part.
  void OnOpened(const v1::UnmaskShares& opened);
  void OnStateDigest(const std::string& peer, uint64_t version, const std::string& digest);
  void OnSynced(const std::string& peer, uint64_t version, const std::string& header_digest);
  void OnGenesis(const v1::Genesis& genesis);
  void OnPlan(const v1::Plan& plan);
  void OnAnnounced(const v1::EntryHeader& header);
  void OnSeal(const v1::Seal& seal);

  uint64_t version() const { return digests_.empty() ? 0 : digests_.size() - 1; }
  bool Finite() const;  // Returns true if all values of the newest state are finite.
  // Called if the peer changes means that it has averaged, as HostileTransport does. An entry may
  // then contain its lie.
  void OnLiar(const std::string& peer) { liars_.insert(peer); }
  uint64_t lies() const { return lies_; }  // The number of entries that contain a lie.
  // guesses() counts the guesses that equalled the oracle's bit for bit; refreshed_guesses() counts
  // those among them in which the peer replaced a stale part of its own update by a fresh one.
  uint64_t guesses() const { return guesses_; }
  uint64_t refreshed_guesses() const { return refreshed_guesses_; }
  // The number of updates in entries that were encoded with the codec for slow lines.
  uint64_t slow_updates() const { return slow_updates_; }
  // Called with a header that a peer holds. Its signature must prove that it belongs to the run.
  void OnHeld(const std::string& peer, const v1::EntryHeader& header);
  // Returns the digest of the state at `version`; empty if none was announced.
  std::string StateDigest(uint64_t version) const;

 private:
  struct Contribution {
    std::string peer;
    // The values that were encoded, restricted to those that the entry covers. With error feedback
    // there is one vector, update + residual, for each residual that the trainer may have;
    // `residuals` has these residuals over all values (empty if there is none).
    std::vector<std::vector<float>> values;
    std::vector<std::vector<float>> residuals;
    Oracle::Chunks chunks;
    v1::Ready ready;        // the newest Ready that described it
    uint64_t included = 0;  // the version that includes it; 0 if none does yet
    uint64_t life = 0;      // the peer's life in which it was last offered
    // The fields below are used if the update is masked. It then has values, but no chunks.
    uint64_t first_sample = 0;
    uint64_t training = 0;  // the number of the peer's training
    int weight_exponent = 0;
    bool first_range = false;
  };
  struct Worker {
    std::vector<float> update;  // the newest update
    // The residuals that the peer's disk may hold according to the committed headers; an empty
    // vector means no residual. There are several if one value is so much larger than all others
    // that each of these residuals leads to the same encoded bytes.
    std::vector<std::vector<float>> settled = {{}};
    std::vector<std::vector<float>> residuals = {{}};  // those that the peer's process may hold
    bool fresh = true;  // true if the process has not yet shown with which residual it began
    uint64_t synced = 0;
    bool distrusted = false;
    uint64_t flipped_until = 0;  // Versions up to this one may be wrong at this peer.
    uint64_t train_version = 0;  // The version of the newest training.
    uint64_t trainings = 0;
    uint64_t lives = 0;
    // The fields below are for mode "eager".
    Oracle::Chunks held;                      // what the peer's newest Ready offers
    std::map<uint64_t, Oracle::Given> given;  // what the peer gave to the newest entries, by
                                              // version
    uint64_t given_unsure = 0;  // the peer may have forgotten what it gave to entries up to this
                                // one
    bool unreadable = false;    // true if the peer may lack an entry's mean
    // The guess of its newest training; empty if the training began from theta.
    std::vector<float> guess;
    uint64_t guessed_from = 0;  // the version of the state from which the guess was made
    Contribution offered;       // with masked updates: the peer's update as its newest Ready
                                // described it
  };

  bool Known(const v1::EntryHeader& header);
  // Consists of peer, fragment and root, because the updates of two fragments may have the same
  // bytes.
  using Key = std::tuple<std::string, size_t, std::string>;
  Key KeyOf(uint64_t version, const std::string& peer, const std::string& root) const;
  std::vector<Contribution*> Contributions(const v1::EntryHeader& header);
  void OnPlainReady(const std::string& peer, const v1::Ready& ready);
  std::string PayloadOf(const v1::EntryHeader& header, const std::vector<Contribution*>& made);
  void CheckWhole(const v1::EntryHeader& header, size_t contributors);
  void CheckBase(const v1::EntryHeader& header, const std::vector<Contribution*>& made);
  void CheckSpent(const v1::EntryHeader& header, int position, const v1::Ready& ready);
  // Pipelined returns true if peers train for an entry before the previous one has arrived.
  // MissesEntries returns true if, in addition, they never merge the previous one into their
  // parameters.
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
  v1::EntryHeader newest_;                    // has version 0 if there is no header yet
  std::vector<float> initial_;                // The parameters of the run's version 0.
  std::vector<std::vector<float>> initials_;  // The parameters of every version 0 that was made.
  bool may_begin_anew_ = false;
  std::unique_ptr<Oracle> oracle_;
  std::vector<std::string> digests_;         // The digests of the states, by version.
  std::vector<std::string> header_digests_;  // By version; version 0 has that of the genesis.
  // The signatures of the headers, by version; version 0 has "".
  std::vector<std::string> signatures_;
  std::map<uint64_t, std::vector<float>> thetas_;  // The states of the newest versions.
  std::map<uint64_t, Oracle> formers_;             // the oracles of the same versions, if peers
                                                   // guess
  bool means_go_ = false;
  uint64_t guesses_ = 0;
  uint64_t refreshed_guesses_ = 0;
  uint64_t slow_updates_ = 0;
  std::map<std::string, Worker> trainers_;
  uint64_t flipped_until_ = 0;
  std::set<std::string> liars_;
  uint64_t lies_ = 0;
  std::map<Key, Contribution> contributions_;
  // With masked updates: the version of the entry that took each training, by peer and training
  // number.
  std::map<std::pair<std::string, uint64_t>, uint64_t> taken_;
  // With masked updates: the values of each update, by attempt and peer, and the attempt that
  // showed them.
  std::map<std::pair<uint64_t, std::string>, std::string> masked_;
  std::map<std::pair<std::string, std::string>, uint64_t> shown_;
  std::map<uint64_t, v1::Plan> plans_;  // The newest plan of each version.
  std::map<uint64_t, uint64_t> spent_;  // Disjoint ranges of samples, from first to end.
};

}  // namespace atolld
