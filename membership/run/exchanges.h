// The exchanges of a run: how each is planned (ExchangePlanner), and the one under way with what
// led to it and what follows from it (Exchanges).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/planning/link_estimates.h"
#include "membership/planning/link_status.h"
#include "membership/planning/plan_choice.h"
#include "membership/planning/reduction_plan.h"
#include "membership/planning/slow_lines.h"
#include "membership/run/exchange_round.h"
#include "membership/run/gradient_noise.h"
#include "membership/run/leases.h"
#include "membership/run/ledger.h"
#include "membership/run/members.h"
#include "membership/run/pace.h"
#include "membership/run/roster.h"
#include "membership/run/run_output.h"
#include "membership/run/training.h"
#include "membership/trust/contribution.h"
#include "membership/trust/update_judge.h"

namespace atolld {

// ExchangePlanner: how each exchange of a run is planned, and what is learned from those that are
// over.
//
// It keeps the estimates of the network and the choice that was made last. Only an exchange that
// went by its first plan, and that all its contributors have seen whole, teaches anything. Pure;
// one thread.
class ExchangePlanner {
 public:
  explicit ExchangePlanner(PlanKind kind) : choice_(kind) {}

  // Fills in the contributors' bandwidths and whether regions average first; nothing where
  // aggregators reduce for them. They are members of the roster; `size` is what the codecs make of
  // the vector, at most. Returns what has changed and why, mostly nothing.
  std::string Plan(const Roster& roster, const EncodedSize& size, ExchangeTerms* terms,
                   std::vector<ExchangeContributor>* contributors);
  const ChosenPlan& chosen() const { return chosen_; }  // of the last Plan
  // Whose line is slow, as the last Plan knew the lines, and what has changed with it.
  const SlowLines& slow_lines() const { return slow_lines_; }
  std::vector<SlowLines::Change> TakeSlowChanges() { return std::exchange(slow_changes_, {}); }

  // A vote has come so long after the exchange's plan was made.
  void NoteVote(const ExchangeRound& exchange, const std::string& peer, const v1::Vote& vote,
                absl::Duration since_plan);
  // The exchange that was planned last is decided.
  void NoteEnd(const Roster& roster, const ExchangeRound& exchange, absl::Duration time);
  void Forget(const std::string& peer) { estimates_.Forget(peer); }

  const LinkEstimates& estimates() const { return estimates_; }
  // Between regions: what the newest plan counted on, and what the newest exchange has carried.
  const std::vector<v1::LinkStatus>& links() const { return links_; }

 private:
  LinkEstimates estimates_;
  std::vector<v1::LinkStatus> counted_on_, links_;
  SlowLines slow_lines_;
  std::vector<SlowLines::Change> slow_changes_;
  PlanChoice choice_;
  ChosenPlan chosen_;
  double vector_bytes_ = 0;  // in the larger of its forms
  uint32_t chunks_ = 1;
};

// Exchanges: the attempt at an entry that is under way, the one that was committed last, and what
// the run has learned from all of them: times, lines, whose updates were refused, the noise scale.
//
// Every attempt is carried out in this order:
//
//   Choose, Begin --> votes and reports go to current(); SendPlans or NoteAudit after each of its
//   verdicts that asks for it, then SendAudits --> Decide, then NoteCommit; or GiveUp
//
// Decide takes the attempt out, so that nothing can change a decided one; only evidence about it is
// still taken (last()). A header that Decide made and that is not valid is followed by GiveUp.
// What the verdicts make of others' state is the caller's. Pure; one thread.
class Exchanges {
 public:
  // Updates that may make an exchange now, with their scales, and of whom they are too long for any
  // scale: nothing can be made of these.
  struct Candidates {
    std::vector<ExchangeContributor> contributors;  // fewer than the quorum: it cannot begin yet
    std::vector<std::string> outsized;
  };

  // `settings` outlives it. `ledger` and `judged` are as they were loaded.
  Exchanges(const RunSettings& settings, const Ledger& ledger, const JudgeRecord& judged);

  // The attempt under way; nullptr: none.
  ExchangeRound* current() { return current_.get(); }
  const ExchangeRound* current() const { return current_.get(); }
  ExchangeRound* last() { return last_.get(); }  // that was committed; nullptr: none
  bool under_way() const { return current_ != nullptr; }
  absl::Time deadline() const { return deadline_; }  // of the attempt's plan, or of its audit
  UpdateJudge& judge() { return judge_; }
  const UpdateJudge& judge() const { return judge_; }
  const LinkEstimates& estimates() const { return planner_.estimates(); }
  void Show(const std::string& peer, v1::PeerStatus* status) const;  // its lines and its updates
  void Show(v1::RunStatus* status) const;  // the links between regions, and the noise
  // In which codec the peer is to send what it trains now.
  void TellCodec(const v1::RunSpec& spec, const std::string& peer, v1::Train* train) const;

  // FAILED_PRECONDITION: nobody can reduce for these, and why. Updates with masks only contributors
  // reduce.
  absl::Status Reducible(absl::Time now, const std::vector<ExchangeContributor>& contributors,
                         const Round& round, const Ledger& ledger, Members* members) const;
  Candidates Choose(absl::Time now, const v1::RunSpec& spec, const Round& round, Members* members);
  // With these, enough for the quorum; sends the plan. FAILED_PRECONDITION: as Reducible.
  absl::Status Begin(absl::Time now, std::vector<ExchangeContributor> contributors,
                     const Round& round, const Ledger& ledger, Members* members, RunOutput* out);
  // current()->plan() is another than it was: all that vote are sent it.
  void SendPlans(absl::Time now, const Members& members, RunOutput* out);
  void Postpone(absl::Time now);   // its deadline: only from now on votes can come
  void NoteAudit(absl::Time now);  // it is agreed on and audited, or audited anew
  void SendAudits(const Members& members, RunOutput* out);  // to who has not been told yet
  // A peer came back: it is told again what it was to do in current(), if anything.
  void Resend(const std::string& peer, const Members& members, RunOutput* out);
  void NoteVote(absl::Time now, const std::string& peer, const v1::Vote& vote);

  // Of what was agreed on; unsigned. `leases` are those before it, `run_parties` Members::Parties.
  v1::EntryHeader Decide(const Ledger& ledger, const LeaseBook& leases, uint64_t run_parties);
  // The header that Decide made is committed: what the round came to.
  v1::RoundRecord NoteCommit(absl::Time now, const v1::EntryHeader& header, const Ledger& ledger,
                             Members* members, RunOutput* out);
  // An update of this contributor to the attempt under way cannot be averaged, as is known by now.
  void NoteRefused(const std::string& peer);
  // As UpdateJudge::Check; and INVALID_ARGUMENT: it was refused in an attempt at this entry.
  absl::Status CheckReady(const std::string& peer, const v1::Ready& ready, uint64_t elements) const;
  // Of an attempt that is still under way, those are told whose replicas may have drifted: without
  // them there would be no next header from which they could see it. Returns who had contributed.
  std::vector<std::string> GiveUp(absl::Time now, uint64_t committed, Members* members,
                                  RunOutput* out);
  void Forget(const std::string& peer);

 private:
  v1::RoundRecord RecordRound(absl::Time now, const v1::EntryHeader& header,
                              const Ledger& ledger) const;
  void SendPlan(const std::string& peer, const Members& members, RunOutput* out);
  void SendAudit(const std::string& peer, const v1::Audit& order, const Members& members,
                 RunOutput* out);
  void SendWhole(const std::string& peer, const Members& members, RunOutput* out);
  void SendDoubts(uint64_t committed, const Members& members, RunOutput* out) const;
  void NoteReach(uint64_t version, const ExchangeRound& exchange, Members* members);

  const RunSettings& settings_;
  std::unique_ptr<ExchangeRound> current_, last_;
  // In a run with masks who votes takes them off, and has to know all that are in the sum.
  const bool brief_plans_;
  RunOutput::Message whole_;        // current_->plan() as it is told; null: to nobody yet
  std::optional<BriefPlans> told_;  // of current_->plan(), once it was sent
  std::map<std::string, v1::Ready> contributions_;  // to current_, and to last_ until NoteCommit
  absl::Time began_, agreed_at_ = absl::InfiniteFuture(), deadline_ = agreed_at_;
  RecentTimes times_;
  uint64_t given_up_ = 0;  // attempts since the last commit
  // Who said, alone, that it cannot reach whom: accuser, accused, and the last version that counts.
  std::map<std::string, std::map<std::string, uint64_t>> accused_;
  std::map<std::string, std::string> refused_;  // roots of updates that cannot be averaged
  ExchangePlanner planner_;
  UpdateJudge judge_;
  GradientNoise noise_;
};

}  // namespace atolld
