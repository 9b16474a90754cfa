// How a run is judged and ends: the evaluation of one version (Evaluation), and the evaluations and
// the seal of a run (Ending).
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
// A share that nobody holds (its peer died, let its time pass, or nobody has it yet) is given to
// somebody else; the loss counts once every share is in. Only whoever was given a share answers for
// it, late or not, and only with a finite loss: one that is not counts where nobody finds another.
// With private data everybody's own losses come beside the shares, or in place of them (0 shares).
// Pure.
class Evaluation {
 public:
  Evaluation(absl::Time now, uint64_t version, uint32_t shares, double elapsed_seconds);

  uint64_t version() const { return version_; }
  bool complete() const;
  OwnEvaluation& own() { return own_; }
  // Without shares, and nobody has held data out: there is nothing to tell.
  bool barren() const { return shares_.empty() && own_.losses() == 0; }
  absl::Time began() const { return began_; }

  std::optional<uint32_t> FirstFree() const;  // a share that is neither in nor given to anybody
  // It would be given the share in vain: it let its time pass, with this one or another, or its
  // worker ended over it again and again.
  bool Spent(uint32_t share, const std::string& peer) const;
  // Has found no finite loss for it: somebody else is to be asked, or the share to be closed.
  bool FoundNone(uint32_t share, const std::string& peer) const {
    return shares_[share].found_none.count(peer) > 0;
  }
  size_t FoundNone(uint32_t share) const { return shares_[share].found_none.size(); }
  void Close(uint32_t share);  // nobody finds a finite loss: the run has diverged, and shows it
  v1::Evaluate Give(absl::Time now, uint32_t share, const std::string& peer);
  std::map<std::string, size_t> Open() const;  // shares given that are not in, by peer
  void TakeBack(const std::string& peer);      // what it was given and has not answered
  void LoseWorker(const std::string& peer);    // the same, since its worker has ended
  // So much of the newest share it says to have done. More than before is a sign of life; what it
  // tells is bounded by kMostPatience, since nobody can check it.
  void OnProgress(absl::Time now, const std::string& peer, uint64_t done);
  // Takes back the shares of those that have shown no sign of life for `patience`, or have had
  // kMostPatience times that, and returns who they are.
  std::set<std::string> TakeOverdue(absl::Time now, absl::Duration patience);
  absl::Time Deadline(absl::Duration patience) const;  // InfiniteFuture: nobody holds a share
  std::set<std::string> Holders() const;               // of shares that are not in
  absl::Time last_life() const { return last_life_; }  // of all of them, or the beginning
  // Stale, repeated and unasked answers do nothing. Returns how long one took that counts, if that
  // is known.
  std::optional<absl::Duration> OnEvaluated(absl::Time now, const std::string& peer,
                                            const v1::Evaluated& evaluated);

  v1::EvaluationRecord Record() const;  // complete()

  static constexpr int kMostPatience = 8;

 private:
  struct Share {
    std::string peer;
    absl::Time given;
    absl::Time life;                   // the last sign that it comes nearer
    uint64_t done = 0;                 // as its holder says
    std::map<std::string, int> asked;  // and the times that their workers have ended over it
    bool in = false;
    double loss_sum = 0;
    uint64_t tokens = 0;
    std::set<std::string> found_none;
    uint64_t none_tokens = 0;  // of the last of them
  };
  uint64_t version_;
  double elapsed_seconds_;
  absl::Time began_, last_life_;
  OwnEvaluation own_;
  std::vector<Share> shares_;
  std::set<std::string> overdue_;  // have let their time pass, and have not answered since
  mutable size_t first_free_ = 0;  // none before it is free
};

// What a run's losses are in: "nats a byte" only where its tokens are bytes, else "nats a token";
// empty: what the run's own model gives.
std::string LossUnit(const v1::RunSpec& spec);

// "; on the own data of 8 parties: mean 2.1000, 10th percentile 1.9000, 90th 2.4000"; empty: none
// of them has told a loss.
std::string OwnLossText(const v1::EvaluationRecord& record);

// Version 0, the `last` one, and every `every_rounds` between.
bool EvaluationDue(const v1::RunSpec& spec, uint64_t version, uint64_t last);

// Ending: when versions are evaluated, and how a run that has reached its last version is sealed
// and left.
//
//   last version --evaluated, and all digests of its state are in--> sealed --> finished
//
// What is sealed is the digest that a quorum of the last version's contributors hold, who voted for
// it: nobody else's counts. Where they do not agree they are asked to look again. The loss of the
// last version is waited for while somebody may still find it: where every trainer that is here has
// let its time pass, or nobody has begun for as long, the run is sealed without it.
//
// The seal is recorded and told once; whoever lacks the last state is waited for after it, as long
// as it may take to fetch a whole state. Called
// at each event (Evaluate, Advance, AdvanceSealed), it does what can be done by now and says in
// `reason` what it waits for. Pure; one thread.
class Ending {
 public:
  // `settings` outlives it. `sealed`: the run was, before this process.
  Ending(const RunSettings& settings, bool sealed, absl::Time now);

  // Gives shares of the newest version's evaluation to trainers, where one is due. `last`: the
  // version that will be sealed.
  void Evaluate(absl::Time now, uint64_t last, Ledger* ledger, const Members& members,
                const Round& round, RunOutput* out);
  void OnEvaluated(absl::Time now, const std::string& peer, const v1::Evaluated& evaluated,
                   Ledger* ledger, RunOutput* out);
  void OnProgress(absl::Time now, const std::string& peer, uint64_t done) {
    if (evaluation_) evaluation_->OnProgress(now, peer, done);
  }
  void TakeBack(const std::string& peer);  // what it was to evaluate
  void LoseWorker(const std::string& peer);
  // When a share of this version that somebody holds is overdue. InfiniteFuture: nobody holds one.
  absl::Time NextDeadline(uint64_t version, const Round& round) const;
  bool unjudged(uint64_t version) const { return unjudged_ == version; }  // its loss was given up
  bool evaluating() const { return evaluation_.has_value(); }
  bool evaluating(uint64_t version) const {
    return evaluation_ && evaluation_->version() == version;
  }

  // The ledger is at its last version.
  void Advance(absl::Time now, Ledger* ledger, Members* members, const Round& round, RunOutput* out,
               std::string* reason);
  // The run is sealed.
  void AdvanceSealed(absl::Time now, const Ledger& ledger, Members* members, RunOutput* out,
                     std::string* reason);
  // A longer history was adopted, up to this version.
  void OnHistoryAdopted(uint64_t version);

  absl::Time sealed_at() const { return sealed_at_; }  // InfiniteFuture: it is not

 private:
  using Holders = std::map<std::string, std::vector<std::string>>;  // of the last state, by digest
  void GiveShares(absl::Time now, const std::vector<std::string>& evaluators,
                  const Members& members, const Round& round, RunOutput* out);
  absl::Duration Patience(const Round& round) const;
  size_t FindersNeeded(uint32_t share, const Members& members) const;
  void CloseOld(absl::Time now, const Round& round, bool due, Ledger* ledger, RunOutput* out);
  void AskOwn(absl::Time now, const Members& members, const Round& round, RunOutput* out);
  // Somebody will hold the version in a moment, and is to be asked for its own losses.
  bool OthersCome(absl::Time now, const Members& members, const Round& round) const;
  // Whether the last version has its loss by now, or is to be sealed without it.
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
  RecentTimes share_times_;                    // of an evaluation, from its order to its answer
  std::set<std::string> late_;                 // let their time pass in the last evaluation
  absl::Time hopeful_ = absl::InfinitePast();  // somebody might have found the last loss by then
  std::optional<uint64_t> unjudged_;           // the version whose loss was given up
  absl::Time last_reached_ = absl::InfiniteFuture();  // the last version, in this epoch
  absl::Time asked_again_ = absl::InfinitePast();     // those whose digests differ
  absl::Time sealed_at_ = absl::InfiniteFuture();
  bool seen_since_seal_ = false;  // somebody was connected
  bool finished_ = false;
};

}  // namespace atolld
