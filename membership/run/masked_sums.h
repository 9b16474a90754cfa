// MaskedSums: the coordinator's control of the masks of a run's rounds. It leads one attempt at a
// time, from the first keys to the secrets that take the masks off.
//
//   Begin --> keys, shares, masked updates --> kMasked: the exchange begins, with masked() -->
//   OnSum of all that carry it out --> kRedo, or the contributors are frozen, sign and reveal -->
//   kUnmasked: all have the secrets and vote for the mean.  At any point: kDiscarded.
//
// Each step waits at most `patience` for the parties that can answer, and continues with those that
// have (see MaskRound). If a sum lacks some chunks of a party, it is redone once from the same
// masked updates, which is safe because nothing has been revealed yet. After kDiscarded the caller
// gives the exchange up, and the next attempt has another number and other keys. Pure. Used by one
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "atoll/v1/masking.pb.h"
#include "membership/masking/mask_round.h"

namespace atolld {

class MaskedSums {
 public:
  enum class News { kNone, kMasked, kRedo, kUnmasked, kDiscarded };
  struct Output {
    std::vector<std::pair<std::string, v1::MaskToParty>> sends;
    std::vector<std::string> events;  // messages for people, without the round's number
    // The parties that may have sent false shares; the events also name them.
    std::vector<ShareSuspect> suspects;
    News news = News::kNone;
  };

  // `rule` is the run's rule for mask rosters. `patience` is how long a step waits for parties that
  // have not answered.
  MaskedSums(std::string run_id, const MaskRosterRule& rule, absl::Duration patience)
      : run_id_(std::move(run_id)), rule_(rule), patience_(patience) {}

  bool under_way() const { return round_ != nullptr; }
  bool masking_done() const { return began_exchange_; }
  // True if the set of contributors is fixed and the masks are still on.
  bool frozen() const;
  // True if the parties have been sent the secrets that take the masks off.
  bool unmasked() const;
  // The deadline of the current step; InfiniteFuture if it has none.
  absl::Time deadline() const { return deadline_; }
  const std::vector<std::string>& masked() const { return masked_; }  // the parties of the exchange
  const v1::MaskAttempt& attempt() const { return attempt_; }
  uint32_t threshold() const { return round_ == nullptr ? 0 : round_->roster().threshold(); }
  bool AwaitsUpdate(const std::string& peer, const v1::MaskedUpdate& update) const;
  // Returns the peers of `voters`, which carry out this revision of the plan, that have not sent
  // their sum.
  std::vector<std::string> WithoutSum(const std::vector<std::string>& voters,
                                      uint32_t revision) const;
  std::string WaitingFor() const;  // returned in words; empty if no party is waited for

  // Begins an attempt with these parties, given with their weights, and discards the current
  // attempt if there is one. No attempt number is used twice, since the coordinator's epoch grows
  // durably at each start. If a party refused to announce keys in an earlier attempt at this
  // version, the new attempt uses MaskedTerms::first_range, for which no party needs the newest
  // mean.
  Output Begin(absl::Time now, uint64_t version, uint64_t epoch,
               const std::map<std::string, float>& weights);
  Output OnMessage(absl::Time now, const std::string& peer, const v1::MaskFromParty& message);
  // Takes the sum of `peer` under the plan's current revision, which `voters` carry out. Once the
  // contributors are fixed, the same sum again is ignored, and a different one discards the
  // attempt.
  Output OnSum(absl::Time now, const std::string& peer, const v1::MaskedSum& sum, uint32_t revision,
               const std::vector<std::string>& voters);
  // Called when the peer died, left, or lost its update. Removes it from the attempt.
  Output OnGone(absl::Time now, const std::string& peer);
  Output OnDeadline(absl::Time now);
  // Called when the exchange of the masked updates is impossible. Discards the attempt.
  Output GiveUp(const std::string& why);
  // Called when the peer came back. Returns the last messages to the peer, in order; an honest peer
  // gives the same answers again.
  Output Resend(const std::string& peer) const;
  // Called when the exchange was given up or committed. Ends the attempt, so that no more secrets
  // are requested.
  Output End();

 private:
  void Send(const std::string& peer, v1::MaskToParty message, Output* out);
  void GoOn(absl::Time now, bool waited, Output* out);
  void EndStep(absl::Time now, Output* out);
  void BeginExchange(Output* out);
  void Discard(const std::string& why, Output* out);
  void Await(absl::Time now, const std::vector<std::string>& peers);
  void Drop(const std::string& peer, const absl::Status& status, Output* out);

  const std::string run_id_;
  const MaskRosterRule rule_;
  const absl::Duration patience_;
  uint64_t epoch_ = 0;
  uint64_t attempts_ = 0;  // the number of attempts in this epoch
  // The version for which a party refused to announce keys; 0 if none.
  uint64_t refused_ = 0;
  v1::MaskAttempt attempt_;
  std::unique_ptr<MaskRound> round_;
  absl::Time deadline_ = absl::InfiniteFuture();
  std::set<std::string> awaited_;    // parties that have not answered this step
  std::vector<std::string> masked_;  // ascending
  std::set<std::string> acknowledged_;
  bool began_exchange_ = false;
  bool redone_ = false;
  uint32_t revision_ = 0;
  std::map<std::string, v1::MaskedSum> sums_;  // the sums under revision_, by peer
  v1::MaskedSum frozen_;                       // the sum that all voters have sent
  std::map<std::string, std::vector<v1::MaskToParty>> said_;
};

}  // namespace atolld
