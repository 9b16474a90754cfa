// History: the committed entries of a simulated run, judged by the oracle as they are announced.
//
// It hears what trainers hand over, what peers and coordinator say on their Sessions, and holds it
// against an independent recomputation: the bytes that a peer contributes (with its residual), the
// mean of every entry, the state after it, the samples behind it. Each thing that does not fit is
// told once, with the number of the invariant (see invariants.h) that it breaks.
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

// What a check does with what it found: the invariant's number, and what happened.
using Violate = std::function<void(int invariant, const std::string& what)>;

class History {
 public:
  explicit History(Violate violate) : violate_(std::move(violate)) {}

  // A trainer's side. `peer` took `theta` for a Train; hands over an update; a process began.
  void OnInitial(absl::Span<const float> initial);
  // Whoever makes version 0 may keep it to itself: until the first entry another may take its
  // place.
  void ExpectAnotherGenesis() { may_begin_anew_ = true; }
  bool may_begin_anew() const { return may_begin_anew_; }
  void OnTrain(const std::string& peer, uint64_t version, absl::Span<const float> theta);
  // It took a guess of the state that the entry on its way will make.
  void OnGuess(const std::string& peer, uint64_t version, absl::Span<const float> guess);
  void OnUpdate(const std::string& peer, absl::Span<const float> update,
                absl::Span<const float> base);
  void OnLife(const std::string& peer);
  // It says that it holds no update any more: what it does not know to be settled it has dropped,
  // and its residual with it.
  void OnUpdateGone(const std::string& peer);
  // One it fetches or is given may lead it past the entries that would have settled its residual.
  void OnSnapshot(const std::string& peer);
  // Peers keep so little that the newest entry's mean may go when a snapshot has it.
  void ExpectDroppedMeans() { means_go_ = true; }
  // Its disk fails now and then: it may not be able to read what it holds.
  void OnDiskErrors(const std::string& peer) { trainers_[peer].unreadable = true; }
  // Its disk tells it wrong: it may come up with another state, until it finds out.
  void Distrust(const std::string& peer) { trainers_[peer].distrusted = true; }
  // A bit of its theta is not what it was. The next header but one finds that out at the latest, if
  // the state had been hashed already: from then on all must be right again.
  void OnMemoryFlip(const std::string& peer);
  uint64_t flipped_until() const { return flipped_until_; }  // of all peers
  uint64_t flipped_until(const std::string& peer) { return trainers_[peer].flipped_until; }

  // What was said.
  void OnReady(const std::string& peer, const v1::Ready& ready);
  void OnMasked(const std::string& peer, const v1::MaskedUpdate& masked);
  void OnStateDigest(const std::string& peer, uint64_t version, const std::string& digest);
  void OnSynced(const std::string& peer, uint64_t version, const std::string& header_digest);
  void OnGenesis(const v1::Genesis& genesis);
  void OnPlan(const v1::Plan& plan);
  void OnAnnounced(const v1::EntryHeader& header);
  void OnSeal(const v1::Seal& seal);

  uint64_t version() const { return digests_.empty() ? 0 : digests_.size() - 1; }
  bool Finite() const;  // all values of the newest state are
  // It changes means that it has averaged, as HostileTransport does: an entry may hold its lie.
  void OnLiar(const std::string& peer) { liars_.insert(peer); }
  uint64_t lies() const { return lies_; }  // entries that hold one
  // Guesses that were the oracle's to the bit, and of these the ones in which a stale part of the
  // peer's own gave way to a fresh one.
  uint64_t guesses() const { return guesses_; }
  uint64_t refreshed_guesses() const { return refreshed_guesses_; }
  uint64_t slow_updates() const { return slow_updates_; }  // in entries, in the slow lines' codec
  // A header as somebody holds it: its signature is what makes it one of the run's.
  void OnHeld(const std::string& peer, const v1::EntryHeader& header);
  // Of the state at `version`; empty if nobody has announced it.
  std::string StateDigest(uint64_t version) const;

 private:
  struct Contribution {
    std::string peer;
    // As encoded, of what its entry covers: with error feedback update + residual, for each
    // residual of the trainer; and which that was, of all values (empty: none).
    std::vector<std::vector<float>> values;
    std::vector<std::vector<float>> residuals;
    Oracle::Chunks chunks;
    v1::Ready ready;        // the newest
    uint64_t included = 0;  // in this version; 0: not yet
    uint64_t life = 0;      // of its peer, in which it was offered last
    // Where it is masked it has its values alone, no chunks:
    uint64_t first_sample = 0;
    uint64_t training = 0;  // of its peer, counted
    int weight_exponent = 0;
    bool first_range = false;
  };
  struct Worker {
    std::vector<float> update;  // the newest
    // By the committed headers, which is what its disk may hold; empty: none. Several, where one
    // value dwarfs all others and each gave the bytes that were handed over.
    std::vector<std::vector<float>> settled = {{}};
    std::vector<std::vector<float>> residuals = {{}};  // those of them that its process may hold
    bool fresh = true;  // its process has not shown yet what residual it began with
    uint64_t synced = 0;
    bool distrusted = false;
    uint64_t flipped_until = 0;  // versions up to this one may be wrong there
    uint64_t train_version = 0;  // of the newest training
    uint64_t trainings = 0;
    uint64_t lives = 0;
    // Of mode "eager":
    Oracle::Chunks held;                      // what its newest Ready offers
    std::map<uint64_t, Oracle::Given> given;  // to the newest entries, by version
    uint64_t given_unsure = 0;  // what it gave to entries up to this one it may have forgotten
    bool unreadable = false;    // it may lack an entry's mean
    std::vector<float> guess;   // of its newest training; empty: that begins from theta
    uint64_t guessed_from = 0;  // the state that it was made of
    Contribution offered;       // where updates are masked: as its newest Ready told it
  };

  bool Known(const v1::EntryHeader& header);
  // By peer, fragment and root: a fragment's update may have the bytes of another's.
  using Key = std::tuple<std::string, size_t, std::string>;
  Key KeyOf(uint64_t version, const std::string& peer, const std::string& root) const;
  std::vector<Contribution*> Contributions(const v1::EntryHeader& header);
  void OnPlainReady(const std::string& peer, const v1::Ready& ready);
  std::string PayloadOf(const v1::EntryHeader& header, const std::vector<Contribution*>& made);
  void CheckWhole(const v1::EntryHeader& header, size_t contributors);
  void CheckBase(const v1::EntryHeader& header, const std::vector<Contribution*>& made);
  void CheckSpent(const v1::EntryHeader& header, int position, const v1::Ready& ready);
  // Peers train for an entry before the one before it is there; and of these, never take that in.
  bool Pipelined() const { return MissesEntries() || spec_.mode().kind() == "streaming"; }
  bool MissesEntries() const { return spec_.mode().kind() == "delayed" || Guesses(); }
  bool Guesses() const { return spec_.mode().kind() == "eager"; }
  bool GuessFits(Worker& trainer, const Oracle& former, absl::Span<const float> guess);
  void KeepGiven(const v1::EntryHeader& header, int position, const Contribution& made);
  void ForgetsGiven(Worker& trainer) { trainer.given_unsure = version(); }
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
  v1::EntryHeader newest_;                    // without a version: there is none
  std::vector<float> initial_;                // of the version 0 that is the run's
  std::vector<std::vector<float>> initials_;  // all that were made
  bool may_begin_anew_ = false;
  std::unique_ptr<Oracle> oracle_;
  std::vector<std::string> digests_;               // of the states, by version
  std::vector<std::string> header_digests_;        // by version; of the genesis at 0
  std::vector<std::string> signatures_;            // of the headers, by version; "" at 0
  std::map<uint64_t, std::vector<float>> thetas_;  // of the newest versions
  std::map<uint64_t, Oracle> formers_;             // likewise, where peers guess
  bool means_go_ = false;
  uint64_t guesses_ = 0;
  uint64_t refreshed_guesses_ = 0;
  uint64_t slow_updates_ = 0;
  std::map<std::string, Worker> trainers_;
  uint64_t flipped_until_ = 0;
  std::set<std::string> liars_;
  uint64_t lies_ = 0;
  std::map<Key, Contribution> contributions_;
  // Where updates are masked: trainings that an entry has taken, by peer and number.
  std::map<std::pair<std::string, uint64_t>, uint64_t> taken_;
  std::map<uint64_t, v1::Plan> plans_;  // the newest of each version
  std::map<uint64_t, uint64_t> spent_;  // samples: first -> end, disjoint
};

}  // namespace atolld
