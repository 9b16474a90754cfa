// Controls how a run is evaluated and how it ends: the evaluation of one version (Evaluation), and
// all evaluations and the seal of a run (Ending).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/run/ledger.h"
#include "membership/run/members.h"
#include "membership/run/own_evaluation.h"
#include "membership/run/run_output.h"
#include "membership/run/training.h"

namespace atolld {

// Evaluation: the validation loss of one version, computed in shares by several trainers.
//
// A share without a holder is given to a peer; a share loses its holder if the holder dies or is
// too late. The loss counts once every share is answered. Only a peer that was given a share may
// answer for it, even late. A loss that is not finite counts only if no peer finds a finite one.
// With private data the peers' own losses are evaluated in addition to the shares, or instead of
// them if there are 0 shares or the shares have no tokens. Pure. Used by one thread.
class Evaluation {
 public:
  Evaluation(absl::Time now, uint64_t version, uint32_t shares, double elapsed_seconds);

  uint64_t version() const { return version_; }
  bool complete() const;
  OwnEvaluation& own() { return own_; }
  // Returns true if nothing was evaluated because no peer has held out data. There is then no loss.
  // Requires complete().
  bool barren() const;
  absl::Time began() const { return began_; }

  // Returns a share that is neither answered nor given to a peer, or nullopt if there is none.
  std::optional<uint32_t> FirstFree() const;
  // Returns true if the peer should not get the share, because it was too late with this or another
  // share, or because its worker ended again and again during this share.
  bool Spent(uint32_t share, const std::string& peer) const;
  // Returns true if the peer found no finite loss for the share. Another peer must then be asked,
  // or the share be closed.
  bool FoundNone(uint32_t share, const std::string& peer) const {
    return shares_[share].found_none.count(peer) > 0;
  }
  size_t FoundNone(uint32_t share) const { return shares_[share].found_none.size(); }
  // Closes a share for which no peer finds a finite loss. The loss of the version is then not
  // finite, which shows that the run has diverged.
  void Close(uint32_t share);
  v1::Evaluate Give(absl::Time now, uint32_t share, const std::string& peer);
  std::map<std::string, size_t> Open() const;  // the number of unanswered shares of each peer
  void TakeBack(const std::string& peer);      // takes back the peer's unanswered shares
  // Does the same, because the peer's worker has ended.
  void LoseWorker(const std::string& peer);
  // Called when the peer reports that it has done `done` of its newest share. A changed value above
  // 0 is a sign of life. The report cannot be checked, so kMostPatience limits its effect.
  void OnProgress(absl::Time now, const std::string& peer, uint64_t done);
  // Takes back the shares of the peers that have shown no sign of life for `patience`, or have held
  // a share for kMostPatience times `patience`. Returns these peers.
  std::set<std::string> TakeOverdue(absl::Time now, absl::Duration patience);
  absl::Time Deadline(absl::Duration patience) const;  // InfiniteFuture if no peer holds a share
  std::set<std::string> Holders() const;               // the peers that hold unanswered shares
  // The last sign of life of any holder, or the time at which the evaluation began.
  absl::Time last_life() const { return last_life_; }
  // Takes an answer, but ignores one that is stale, repeated or was not asked for. Returns how long
  // the answer took if it counts and the time is known.
  std::optional<absl::Duration> OnEvaluated(absl::Time now, const std::string& peer,
                                            const v1::Evaluated& evaluated);

  v1::EvaluationRecord Record() const;  // requires complete()

  static constexpr int kMostPatience = 8;

 private:
  struct Share {
    std::string peer;
    absl::Time given;
    absl::Time life;    // the last sign of progress
    uint64_t done = 0;  // the progress that the holder has reported
    // The peers that were asked, each with how often its worker has ended during this share.
    std::map<std::string, int> asked;
    bool in = false;
    double loss_sum = 0;
    uint64_t tokens = 0;
    std::set<std::string> found_none;
    // The tokens that the last peer without a finite loss has counted.
    uint64_t none_tokens = 0;
  };
  uint64_t version_;
  double elapsed_seconds_;
  absl::Time began_, last_life_;
  OwnEvaluation own_;
  std::vector<Share> shares_;
  // The peers that were too late and have not answered since.
  std::set<std::string> overdue_;
  mutable size_t first_free_ = 0;  // all shares before this one have a holder or an answer
};

// Returns true if the version must be evaluated: version 0, the `last` version, and every multiple
// of `every_rounds` in between.
bool EvaluationDue(const v1::RunSpec& spec, uint64_t version, uint64_t last);

// Ending: decides when versions are evaluated, and how a run that has reached its last version is
// sealed and ended.
//
//   last version --evaluated, and all digests of its state are in--> sealed --> finished
//
// The seal names the state digest that a quorum of the last version's voters report. Only
// contributors that voted for that version count. If they do not agree, they are asked to compute
// their digests again. The run waits for the loss of the last version while a peer may still find
// it. If every connected trainer was too late, or no trainer has begun within the same time, the
// run is sealed without the loss.
//
// The seal is recorded and announced once. Afterwards the run waits for the peers that lack the
// last state, for as long as fetching a whole state may take. At each event Evaluate, Advance or
// AdvanceSealed is called. It does what can be done now and sets `reason` to what is waited for.
// Pure. Used by one thread.
class Ending {
 public:
  // `settings` must outlive this object. `sealed` is true if the run was sealed before this process
  // started.
  Ending(const RunSettings& settings, bool sealed, absl::Time now);

  // Gives shares of the newest version's evaluation to trainers, if one is due. `last` is the
  // version that will be sealed.
  void Evaluate(absl::Time now, uint64_t last, Ledger* ledger, const Members& members,
                const Round& round, RunOutput* out);
  void OnEvaluated(absl::Time now, const std::string& peer, const v1::Evaluated& evaluated,
                   Ledger* ledger, RunOutput* out);
  void OnProgress(absl::Time now, const std::string& peer, uint64_t done) {
    if (evaluation_) evaluation_->OnProgress(now, peer, done);
  }
  void TakeBack(const std::string& peer);  // takes back the peer's unanswered shares
  void LoseWorker(const std::string& peer);
  // The time at which a share of this version becomes overdue, or InfiniteFuture if no peer holds
  // one.
  absl::Time NextDeadline(uint64_t version, const Round& round) const;
  // True if the evaluation of this version was given up, so that it has no loss.
  bool unjudged(uint64_t version) const { return unjudged_ == version; }
  bool evaluating() const { return evaluation_.has_value(); }
  bool evaluating(uint64_t version) const {
    return evaluation_ && evaluation_->version() == version;
  }

  // Called when the ledger is at its last version.
  void Advance(absl::Time now, Ledger* ledger, Members* members, const Round& round, RunOutput* out,
               std::string* reason);
  // Called when the run is sealed.
  void AdvanceSealed(absl::Time now, const Ledger& ledger, Members* members, RunOutput* out,
                     std::string* reason);
  // Called when a longer history was adopted, up to this version.
  void OnHistoryAdopted(uint64_t version);

  absl::Time sealed_at() const { return sealed_at_; }  // InfiniteFuture if the run is not sealed

 private:
  // The holders of the last state, by digest.
  using Holders = std::map<std::string, std::vector<std::string>>;
  void GiveShares(absl::Time now, const std::vector<std::string>& evaluators,
                  const Members& members, const Round& round, RunOutput* out);
  absl::Duration Patience(const Round& round) const;
  size_t FindersNeeded(uint32_t share, const Members& members) const;
  void CloseOld(absl::Time now, const Round& round, bool due, Ledger* ledger, RunOutput* out);
  void AskOwn(absl::Time now, const Members& members, const Round& round, RunOutput* out);
  // Returns true if another peer will hold the version in a moment and must then be asked for its
  // own losses.
  bool OthersCome(absl::Time now, const Members& members, const Round& round) const;
  // Returns true if the last version has its loss, or must be sealed without it.
  bool Judged(absl::Time now, Ledger* ledger, const Members& members, const Round& round,
              RunOutput* out, std::string* reason);
  void Complete(Ledger* ledger, RunOutput* out);
  size_t Quorum(const Ledger& ledger) const;
  size_t VotersNeeded(const Ledger& ledger, const Members& members) const;
  std::string Agreed(const Ledger& ledger, const Holders& voters, size_t needed) const;
  void AskAgain(absl::Time now, uint64_t version, const Holders& voters, const Members& members,
                RunOutput* out);
  std::string WhatIsMissing(const Ledger& ledger, const Holders& voters, size_t needed,
                            const std::vector<std::string>& missing) const;
  void Seal(absl::Time now, const std::string& agreed, const Holders& holders, Ledger* ledger,
            Members* members, RunOutput* out);

  const RunSettings& settings_;
  std::optional<Evaluation> evaluation_;
  RecentTimes share_times_;     // the times of shares, from order to answer
  std::set<std::string> late_;  // the peers that were too late in the last evaluation
  // The latest time at which it seemed possible that a peer finds the last version's loss.
  absl::Time hopeful_ = absl::InfinitePast();
  std::optional<uint64_t> unjudged_;  // the version whose loss was given up
  // True if the log already says that no peer has held out data.
  bool said_barren_ = false;
  // The time at which the last version was reached in this epoch.
  absl::Time last_reached_ = absl::InfiniteFuture();
  // The time at which the peers whose digests differ were last asked again.
  absl::Time asked_again_ = absl::InfinitePast();
  absl::Time sealed_at_ = absl::InfiniteFuture();
  bool seen_since_seal_ = false;  // true if a peer was connected after the seal
  bool finished_ = false;
};

}  // namespace atolld
