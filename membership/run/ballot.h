// Ballot: runs the exchange of one entry, from its plan to the votes that decide it.
//
// It assigns reducers, changes the plan when a contributor or reducer is lost, counts the votes,
// and reports when the entry is agreed on. Laws: a vote counts only if it names the current
// revision of the plan. An entry needs equal votes from a quorum of contributors; an aggregator's
// vote does not count towards the quorum, but shows that the aggregator has the payload. The entry
// also needs a peer that has its payload, is still connected, and can be dialled by the peers that
// lack it. Each of its chunks must include the updates of at least a quorum of contributors, or of
// all owners of its expert if these are fewer. A
// reducer counts as unreachable if two peers report it, or if one reports it and the coordinator's
// own dial confirms it, so a single false report gains nothing. ReductionPlan decides which peer
// averages what. While all votes are equal, the time to handle a vote does not depend on their
// number. The class has more than forty methods because each message and each event of an exchange
// has one, and each condition of its end has one. It has more than twenty members because votes,
// accusations, groups and the audit decide together how the exchange continues. Pure: it neither
// waits nor sends. Used by one thread.
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

class Ballot {
 public:
  enum class Verdict {
    kWait,
    kRevised,  // plan() is a new revision, which must be sent
    // The entry is agreed on and is audited: call TakeAuditOrders() and set a new deadline.
    kAudit,
    kCommit,  // the entry is made from agreement()
    // The quorum cannot be reached with these contributors; all of them train on, and another
    // attempt is made later.
    kGiveUp,
  };
  struct Outcome {
    Verdict verdict = Verdict::kWait;
    std::vector<std::string> events;  // messages for people, without the round's number
    std::vector<std::string> errors;  // conditions that should not occur, with the peers' names
    // The peers whose votes or reports contradict others when nothing shows which are right, with
    // the reason.
    std::map<std::string, std::string> suspects;
    // The peers to evict, with the evidence. The plan already counts them as lost.
    std::map<std::string, std::string> liars;
    // The peers to dial; the results are passed to OnProbed.
    std::set<std::string> probes;
  };

  // Fails with FAILED_PRECONDITION ("no reachable reducer: ...") if no peer can reduce. If
  // `may_be_alone` is true, a single contributor that no peer can dial may commit, although others
  // could not fetch the entry.
  static absl::Status Reducible(absl::Span<const ExchangeContributor> contributors,
                                bool may_be_alone,
                                absl::Span<const ExchangeAggregator> aggregators = {});

  // `contributors` is in roster order, and Reducible() must be OK.
  Ballot(ExchangeTerms terms, std::vector<ExchangeContributor> contributors);

  const v1::Plan& plan() const { return plan_.proto(); }
  // Returns true if the plan names the peer as a contributor, lost or not.
  bool Contributes(const std::string& peer) const { return plan_.Contributes(peer); }
  // Returns true if the peer contributes, or is an aggregator that may reduce.
  bool TakesPart(const std::string& peer) const { return plan_.TakesPart(peer); }
  // The peers that carry out the plan and vote: the contributors and the reducing aggregators that
  // are not lost.
  std::vector<std::string> Voters() const { return plan_.Voters(); }
  bool Votes(const std::string& peer) const;
  bool Lost(const std::string& peer) const { return plan_.Lost(peer); }
  const std::set<std::string>& unreachable() const { return plan_.unreachable(); }
  // The peers that average no more shards in this exchange, because a mean of theirs was in doubt.
  const std::set<std::string>& distrusted() const { return distrusted_; }
  // The unconfirmed reports that a peer cannot reach another, as pairs of accuser and accused.
  std::vector<std::pair<std::string, std::string>> Unconfirmed() const;
  // The accusers of each accused peer, from all reports that a peer cannot reach another, including
  // reports from before the exchange.
  const std::map<std::string, std::set<std::string>>& accusers() const { return accusers_; }
  // True if the exchange was given up because its deadline passed without the votes of a quorum.
  bool silent() const { return silent_; }
  // The peers that averaged or relayed chunks with fewer contributors than the quorum.
  const std::set<std::string>& thin() const { return thin_; }

  // Called when the peer reports which shards it holds completely. Ignores stale or invalid
  // messages.
  void OnShardsHeld(const std::string& peer, const v1::ShardsHeld& held);

  // Takes a vote. Fails with INVALID_ARGUMENT, and does not count the vote, if no honest peer would
  // send it. Ignores a stale vote and returns OK.
  absl::Status OnVote(const std::string& peer, const v1::Vote& vote, Outcome* outcome);
  // Called when the peers died, left, or came back without their contribution.
  Outcome OnLost(absl::Span<const std::string> peers);
  // Handles a report that a reducer cannot be reached. If the reporter names itself, it lacks a
  // mean of a shard that it should hold. That shard goes to another peer and the reporter stays a
  // reducer; if the reporter holds no shard, the report is ignored. If only the reporter accuses
  // the reducer, the reducer's shards go to third peers, never to the reporter. If there is no
  // third peer, or the reporter accuses many, the exchange continues without the reporter, provided
  // that the quorum remains.
  Outcome OnUnreachable(const std::string& reporter, const v1::ReducerUnreachable& report);
  // Called when two peers, one of which may be the coordinator, have found that they cannot dial
  // this peer. If the peer is needed and no peer can take over, the attempt is given up, and the
  // next one is planned around it.
  Outcome OnFoundUnreachable(const std::string& peer);
  // Called when the coordinator has dialled the peer, with or without an answer.
  Outcome OnProbed(const std::string& peer, bool answered);
  // Handles a reducer's claim against a contributor. The bytes that would decide it are not kept.
  Outcome OnRefused(const std::string& reporter, const v1::UpdateRefused& refused);
  // Called when it is known that the update of this contributor cannot be averaged.
  void NoteUseless(const std::string& contributor) { useless_.insert(contributor); }
  // Called when the peer has computed a masked sum under the current revision, which means that it
  // holds every shard of it.
  void OnSummed(const std::string& peer);
  // Called when the current revision's deadline has passed without the sums of these peers.
  Outcome OnSumsMissing(absl::Span<const std::string> peers);
  // Makes every shard be averaged again, each by another reducer.
  Outcome RedoAll();
  Outcome OnAuditReport(const std::string& peer, const v1::AuditReport& report);
  // Takes a report after the commit. Returns the reducers that it proves to be liars, with the
  // evidence.
  std::map<std::string, std::string> OnLateReport(const std::string& peer,
                                                  const v1::AuditReport& report);
  // Called when the deadline of the current revision or of the audit has passed.
  Outcome OnDeadline();

  std::map<std::string, v1::Audit> TakeAuditOrders();
  // Returns the audit order that the peer has not answered yet, or nullopt if there is none.
  std::optional<v1::Audit> AuditOrderOf(const std::string& peer) const;
  absl::Duration AuditPatience() const;  // how long to wait for an audit
  // The nonce of the last revision; empty without an audit.
  const std::string& nonce() const { return nonce_; }

  // After kCommit, one of the equal votes that decided.
  const v1::Vote& agreement() const { return agreement_; }
  const std::vector<std::string>& voters() const { return agreed_; }
  // All votes that were cast for the current revision, including those that did not count.
  const std::map<std::string, v1::Vote>& votes() const { return votes_; }

  // Returns the peers whose current votes name another state than the right one, each with the
  // right state's digest. The right state is the one that was known before or, if none was, the one
  // that more than half of the votes name. If there is none, all voters are returned with the
  // digest "".
  std::map<std::string, std::string> Doubted() const;

 private:
  // A set of equal votes: they agree on the payload, the contributors and the state.
  struct Side {
    std::set<std::string> peers;
    size_t contributors = 0;  // the number of contributors among `peers`
  };
  using Key = std::string;  // the part of a vote that is the same in all votes for one payload
  using Sides = std::map<std::string, std::map<Key, Side>>;  // grouped by the state's digest

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
  bool HasParts() const { return terms_.grid.chunks() > 0; }
  size_t FewestOf(uint32_t part) const;
  std::set<std::string> ThinServers(const v1::Vote& vote) const;
  void OnThin(const std::set<std::string>& servers, Outcome* outcome);
  void OnLongRecords(Outcome* outcome);
  void Shun();
  size_t AccusedBy(const std::string& reporter) const;
  void TakeDoubts();
  void Distrust(const std::string& peer);
  void MoveUnreachable(const std::string& reducer, Outcome* outcome);
  void DoWithout(const std::string& reporter, const std::string& reducer, Outcome* outcome);
  bool RedoBySome();

  void Revise(Outcome* outcome);
  void Lose(absl::Span<const std::string> peers, Outcome* outcome);

  const ExchangeTerms terms_;
  ReductionPlan plan_;
  std::map<std::string, v1::Vote> votes_;  // the votes for the current revision
  Sides sides_;                            // the votes in votes_, grouped
  // The refused updates, as pairs of reporter and contributor.
  std::set<std::pair<std::string, std::string>> refused_;
  // The voters that were already reported because they voted for another state.
  std::set<std::string> odd_;
  // The peers that cannot reach each reducer.
  std::map<std::string, std::set<std::string>> accusers_;
  std::set<std::string> distrusted_;
  // The peers that reduced or relayed chunks with too few contributors.
  std::set<std::string> thin_;
  std::set<std::string> useless_;  // the contributors whose updates cannot be averaged
  // The peers that took over the shards of a reducer that they had reported, because no other
  // could.
  std::set<std::string> took_over_;
  int thin_results_ = 0;       // how often votes agreed on a result with too few contributors
  bool long_records_ = false;  // true if votes agreed on records that are too long
  bool silent_ = false;
  int conflicts_ = 0;  // the number of revisions in which votes named different payloads
  // After conflicts, small groups of reducers average alone in turn, to find out with which of them
  // all votes agree.
  std::vector<std::string> group_;               // the current group; empty if all reducers average
  std::deque<std::vector<std::string>> groups_;  // the groups to try next
  std::vector<std::string> reducers_;            // all reducers before groups were formed
  std::string nonce_;
  std::unique_ptr<AuditJudge> audit_;  // the audit of agreement_; null if there is none
  // True if the audit's deadline was extended because an auditor disagreed.
  bool extended_ = false;
  std::set<std::string> barred_;  // the peers that may not audit
  v1::Vote agreement_;
  std::vector<std::string> agreed_;
};

}  // namespace atolld
