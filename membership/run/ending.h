// How a run is judged and ends: the evaluation of one version (Evaluation), and the evaluations and
// the seal of a run (Ending).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/run/ledger.h"
#include "membership/run/members.h"
#include "membership/run/run_output.h"
#include "membership/run/training.h"

namespace atolld {

// Evaluation: the validation loss of one version, computed in shares by several trainers.
//
// A share that nobody holds (its peer died, or nobody has it yet) is given to somebody else; the
// loss counts once every share is in. Pure.
class Evaluation {
 public:
  Evaluation(uint64_t version, uint32_t shares, double elapsed_seconds);

  uint64_t version() const { return version_; }
  bool complete() const;

  std::optional<uint32_t> FirstFree() const;  // a share that is neither in nor given to anybody
  v1::Evaluate Give(uint32_t share, const std::string& peer);
  size_t Open(const std::string& peer) const;  // shares given to it that are not in
  void TakeBack(const std::string& peer);      // what it was given and has not answered
  // Stale and repeated answers do nothing. A loss that is not finite counts: a run that diverged
  // must show it.
  void OnEvaluated(const v1::Evaluated& evaluated);

  v1::EvaluationRecord Record() const;  // complete()

 private:
  struct Share {
    std::string peer;
    bool in = false;
    double loss_sum = 0;
    uint64_t tokens = 0;
  };
  uint64_t version_;
  double elapsed_seconds_;
  std::vector<Share> shares_;
};

// What a run's losses are in: "nats a byte" only where its tokens are bytes, else "nats a token";
// empty: what the run's own model gives.
std::string LossUnit(const v1::RunSpec& spec);

// Version 0, the `last` one, and every `every_rounds` between.
bool EvaluationDue(const v1::RunSpec& spec, uint64_t version, uint64_t last);

// Ending: when versions are evaluated, and how a run that has reached its last version is sealed
// and left.
//
//   last version --evaluated, and all digests of its state are in--> sealed --> finished
//
// The seal is recorded and told once; whoever lacks the last state is waited for after it. Called
// at each event (Evaluate, Advance, AdvanceSealed), it does what can be done by now and says in
// `reason` what it waits for. Pure; one thread.
class Ending {
 public:
  // `settings` outlives it. `sealed`: the run was, before this process.
  Ending(const RunSettings& settings, bool sealed, absl::Time now);

  // Gives shares of the newest version's evaluation to trainers, where one is due. `last`: the
  // version that will be sealed.
  void Evaluate(absl::Time now, uint64_t last, const Ledger& ledger, const Members& members,
                const Round& round, RunOutput* out);
  void OnEvaluated(const v1::Evaluated& evaluated, Ledger* ledger, RunOutput* out);
  void TakeBack(const std::string& peer);  // what it was to evaluate
  bool evaluating() const { return evaluation_.has_value(); }
  bool evaluating(uint64_t version) const {
    return evaluation_ && evaluation_->version() == version;
  }

  // The ledger is at its last version.
  void Advance(absl::Time now, Ledger* ledger, Members* members, const Round& round, RunOutput* out,
               std::string* reason);
  // The run is sealed.
  void AdvanceSealed(absl::Time now, const v1::Seal& seal, const Members& members, RunOutput* out,
                     std::string* reason);
  // A longer history was adopted, up to this version.
  void OnHistoryAdopted(uint64_t version);

  absl::Time sealed_at() const { return sealed_at_; }  // InfiniteFuture: it is not

 private:
  void Seal(absl::Time now, Ledger* ledger, Members* members, RunOutput* out);

  const RunSettings& settings_;
  std::optional<Evaluation> evaluation_;
  absl::Time last_reached_ = absl::InfiniteFuture();  // the last version, in this epoch
  absl::Time sealed_at_ = absl::InfiniteFuture();
  bool seen_since_seal_ = false;  // somebody was connected
  bool finished_ = false;
};

}  // namespace atolld
