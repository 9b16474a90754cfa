// ExchangeRound: the exchange of one entry, from its plan to the votes that decide it.
//
// It says who reduces what, changes the plan when a contributor or reducer is lost, counts the
// votes, and tells when the entry is agreed on. Laws: a vote counts only under the revision that it
// names and only if it is the current one; an entry needs equal votes of the quorum of contributors
// (an aggregator's is none of them, but tells that it has the payload), and somebody who has its
// payload, is still there and can be dialled by those who lack it; each of its chunks counts at
// least a quorum of contributors. That a reducer cannot be reached is believed of two who say so,
// or of one whom the coordinator's own dial confirms: nobody gains by one word alone. Who averages
// what is ReductionPlan's. While all votes are equal each takes the same time, however many there
// are. Pure; nothing here waits or sends.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/membership.pb.h"
#include "membership/planning/reduction_plan.h"
#include "membership/trust/audit.h"

namespace atolld {

class ExchangeRound {
 public:
  enum class Verdict {
    kWait,
    kRevised,  // plan() is a new revision: send it
    kAudit,    // it is agreed on and being audited: TakeAuditOrders(), and a new deadline
    kCommit,   // agreement() is what the entry is made of
    kGiveUp,   // the quorum cannot be reached with these contributors: train on, attempt again by
               // all
  };
  struct Outcome {
    Verdict verdict = Verdict::kWait;
    std::vector<std::string> events;  // for people, without the round's number
    std::vector<std::string> errors;  // something that should not happen; names the peers
    // Whose account differs from another's with nothing to decide between them, and why.
    std::map<std::string, std::string> suspects;
    std::map<std::string, std::string> liars;  // to be evicted, with the evidence; lost already
    std::set<std::string> probes;  // who is to be dialled; OnProbed hears what came of it
  };

  // FAILED_PRECONDITION: "no reachable reducer: ...". `may_be_alone`: a single contributor that
  // nobody can dial may commit; others could not fetch what it commits.
  static absl::Status Reducible(absl::Span<const ExchangeContributor> contributors,
                                bool may_be_alone,
                                absl::Span<const ExchangeAggregator> aggregators = {});

  // `contributors` in roster order; Reducible() is OK.
  ExchangeRound(ExchangeTerms terms, std::vector<ExchangeContributor> contributors);

  const v1::Plan& plan() const { return plan_.proto(); }
  // Named in the plan as a contributor, lost or not.
  bool Contributes(const std::string& peer) const { return plan_.Contributes(peer); }
  // Contributes, or is an aggregator that may reduce.
  bool TakesPart(const std::string& peer) const { return plan_.TakesPart(peer); }
  // Who carries the plan out and votes: contributors, and aggregators that reduce, not lost.
  std::vector<std::string> Voters() const { return plan_.Voters(); }
  bool Votes(const std::string& peer) const;
  bool Lost(const std::string& peer) const { return plan_.Lost(peer); }
  const std::set<std::string>& unreachable() const { return plan_.unreachable(); }
  // Who said that it cannot reach whom, with nobody to confirm it: accuser and accused.
  std::vector<std::pair<std::string, std::string>> Unconfirmed() const;
  // Whose shards came to fewer contributors than the quorum.
  const std::set<std::string>& thin() const { return thin_; }

  // Stale or senseless ones do nothing.
  void OnShardsHeld(const std::string& peer, const v1::ShardsHeld& held);

  // INVALID_ARGUMENT: a vote that no honest peer sends; it does not count. Stale ones are OK and do
  // nothing.
  absl::Status OnVote(const std::string& peer, const v1::Vote& vote, Outcome* outcome);
  // They died, left, or came back without their contribution.
  Outcome OnLost(absl::Span<const std::string> peers);
  // A peer that names itself lacks a mean of a shard that it is to hold: that shard goes elsewhere,
  // and the peer stays a reducer. If it holds none, its report is senseless and does nothing.
  // Of one whom nobody else accuses the shards go to a third peer, and the reporter takes none of
  // them; where there is no third, or the reporter accuses many, the exchange does without the
  // reporter, if the quorum does.
  Outcome OnUnreachable(const std::string& reporter, const v1::ReducerUnreachable& report);
  // The coordinator has dialled it: in vain, or not.
  Outcome OnProbed(const std::string& peer, bool answered);
  // A reducer's word against a contributor's: the bytes that would decide are not kept.
  Outcome OnRefused(const std::string& reporter, const v1::UpdateRefused& refused);
  // It has come to a sum with masks under the current revision: it holds every shard of it.
  void OnSummed(const std::string& peer);
  // The current revision's deadline has passed without what these came to.
  Outcome OnSumsMissing(absl::Span<const std::string> peers);
  // Every shard is to be averaged anew, elsewhere.
  Outcome RedoAll();
  Outcome OnAuditReport(const std::string& peer, const v1::AuditReport& report);
  // After the commit: reducers that it proves to be liars, with the evidence.
  std::map<std::string, std::string> OnLateReport(const std::string& peer,
                                                  const v1::AuditReport& report);
  // The current revision's deadline has passed, or the audit's.
  Outcome OnDeadline();

  std::map<std::string, v1::Audit> TakeAuditOrders();
  std::optional<v1::Audit> AuditOrderOf(const std::string& peer) const;  // not answered yet
  absl::Duration AuditPatience() const;                // how long an audit is waited for
  const std::string& nonce() const { return nonce_; }  // of the last revision; empty: no audit

  const v1::Vote& agreement() const { return agreement_; }  // after kCommit: one of the equal votes
  const std::vector<std::string>& voters() const { return agreed_; }
  // All that were cast for the current revision, also those that did not count.
  const std::map<std::string, v1::Vote>& votes() const { return votes_; }

  // Of the current votes those that name a state which is not known to be the right one, and the
  // right one's digest, "" where no state has more than half of the votes: then nobody's is known.
  std::map<std::string, std::string> Doubted() const;

 private:
  // Equal votes: of one payload, of the same contributors, and of one state.
  struct Side {
    std::set<std::string> peers;
    size_t contributors = 0;  // of them
  };
  using Key = std::string;                                   // what the votes of one payload share
  using Sides = std::map<std::string, std::map<Key, Side>>;  // by the state's digest

  absl::Status CheckVote(const std::string& peer, const v1::Vote& vote) const;
  static Key KeyOf(const v1::Vote& vote);
  std::string StateDigest() const;
  void Count(const std::string& peer, const v1::Vote& vote);
  bool MayDecide() const;
  void NameOddOnes(const std::string& state, Outcome* outcome);
  bool Fetchable(const v1::Vote& agreed) const;
  size_t Contributing(const std::vector<std::string>& peers) const;
  void DrawNonce();
  void BeginAudit(Outcome* outcome);
  void SettleAudit(Outcome* outcome);
  bool Redo(const AuditJudge::Result& result, Outcome* outcome);
  void Decide(bool deadline_passed, Outcome* outcome);
  void Agree(std::vector<std::string> peers, Outcome* outcome);
  void OnConflict(const std::string& sides, Outcome* outcome);
  std::set<std::string> ThinServers(const v1::Vote& vote) const;
  void OnThin(const std::set<std::string>& servers, Outcome* outcome);
  void OnLongRecords(Outcome* outcome);
  void Shun();
  size_t AccusedBy(const std::string& reporter) const;
  void MoveUnreachable(const std::string& reducer, Outcome* outcome);
  void DoWithout(const std::string& reporter, const std::string& reducer, Outcome* outcome);
  bool RedoBySome();

  void Revise(Outcome* outcome);
  void Lose(absl::Span<const std::string> peers, Outcome* outcome);

  const ExchangeTerms terms_;
  ReductionPlan plan_;
  std::map<std::string, v1::Vote> votes_;                  // of the current revision
  Sides sides_;                                            // and what they are for
  std::set<std::pair<std::string, std::string>> refused_;  // by whom, whose update
  std::set<std::string> odd_;                              // voters already named for another state
  std::map<std::string, std::set<std::string>> accusers_;  // of reducers: who cannot reach them
  std::set<std::string> thin_;       // reduced or relayed what counted too few
  std::set<std::string> took_over_;  // what they could not reach, since nobody else could
  int thin_results_ = 0;             // that were voted for
  bool long_records_ = false;        // were voted for
  int conflicts_ = 0;                // revisions in which two payloads were voted for
  // Who averages alone, to find out under whom all come to the same.
  std::vector<std::string> group_;               // now; empty: everybody does
  std::deque<std::vector<std::string>> groups_;  // and next
  std::vector<std::string> reducers_;            // all of them, before
  std::string nonce_;
  std::unique_ptr<AuditJudge> audit_;  // of agreement_
  bool extended_ = false;              // ... its deadline, since somebody disagreed
  std::set<std::string> barred_;       // from auditing
  v1::Vote agreement_;
  std::vector<std::string> agreed_;
};

}  // namespace atolld
