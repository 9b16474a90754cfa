// ExchangePlanner: how each exchange of a run is planned, and what is learned from those that are
// over.
//
// It keeps the estimates of the network and the choice that was made last. Only an exchange that
// went by its first plan, and that all its contributors have seen whole, teaches anything. Pure;
// one thread.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "membership/planning/link_estimates.h"
#include "membership/planning/plan_choice.h"
#include "membership/planning/reduction_plan.h"
#include "membership/run/exchange_round.h"
#include "membership/run/roster.h"

namespace atolld {

class ExchangePlanner {
 public:
  explicit ExchangePlanner(PlanKind kind) : choice_(kind) {}

  // Fills in the contributors' bandwidths and whether regions average first; nothing where
  // aggregators reduce for them. They are members of the roster; `size` is what the codecs make of
  // the vector, at most. Returns what has changed and why, mostly nothing.
  std::string Plan(const Roster& roster, const EncodedSize& size, ExchangeTerms* terms,
                   std::vector<ExchangeContributor>* contributors);
  const ChosenPlan& chosen() const { return chosen_; }  // of the last Plan

  // A vote has come so long after the exchange's plan was made.
  void NoteVote(const ExchangeRound& exchange, const std::string& peer, const v1::Vote& vote,
                absl::Duration since_plan);
  // The exchange that was planned last is decided.
  void NoteEnd(const Roster& roster, const ExchangeRound& exchange, absl::Duration time);
  void Forget(const std::string& peer) { estimates_.Forget(peer); }

  const LinkEstimates& estimates() const { return estimates_; }

 private:
  LinkEstimates estimates_;
  PlanChoice choice_;
  ChosenPlan chosen_;
  double vector_bytes_ = 0;  // in the larger of its forms
  uint32_t chunks_ = 1;
};

}  // namespace atolld
