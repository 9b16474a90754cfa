// MaskedSums: the masks of a run's rounds, as the coordinator drives them: one attempt at a time,
// from the first keys to the secrets that take the masks off.
//
//   Begin --> keys, shares, masked updates --> kMasked: the exchange begins, of masking() -->
//   OnSum of all that carry it out --> kRedo, or the contributors are frozen, sign and reveal -->
//   kUnmasked: everybody has the secrets and votes for the mean.  At any point: kDiscarded.
//
// Each step waits for all that can answer, for at most `patience`, and goes on with those that
// have, as MaskRound has it. A sum in which somebody's chunks are missing in parts is redone once,
// from the same masked updates: nothing was revealed yet. After a kDiscarded the caller gives the
// exchange up, and the next attempt has another number and other keys. Pure; one thread.
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
    std::vector<std::string> events;  // for people, without the round's number
    News news = News::kNone;
  };

  // `threshold`: the run's. `patience`: how long a step waits for those who have not answered.
  MaskedSums(std::string run_id, uint32_t threshold, absl::Duration patience)
      : run_id_(std::move(run_id)), threshold_(threshold), patience_(patience) {}

  bool under_way() const { return round_ != nullptr; }
  bool masking_done() const { return began_exchange_; }
  bool frozen() const;    // the contributors are, and the masks are still on
  bool unmasked() const;  // the secrets are told
  absl::Time deadline() const { return deadline_; }                   // of the step; infinite: none
  const std::vector<std::string>& masked() const { return masked_; }  // who makes the exchange
  const v1::MaskAttempt& attempt() const { return attempt_; }
  uint32_t threshold() const { return round_ == nullptr ? 0 : round_->roster().threshold(); }
  bool AwaitsUpdate(const std::string& peer, const v1::MaskedUpdate& update) const;
  // Of those who carry out this revision, who has not said what it came to.
  std::vector<std::string> WithoutSum(const std::vector<std::string>& voters,
                                      uint32_t revision) const;
  std::string WaitingFor() const;  // in words; empty: for nobody

  // With these, by peer, and their weights. The coordinator's epoch grows durably at each start, so
  // no number comes twice. After one of this version in which somebody refused to announce keys, it
  // is of the first range, for which nobody needs the newest mean. What was under way is discarded.
  Output Begin(absl::Time now, uint64_t version, uint64_t epoch,
               const std::map<std::string, float>& weights);
  Output OnMessage(absl::Time now, const std::string& peer, const v1::MaskFromParty& message);
  // What `peer` has come to under the plan's current revision, which `voters` carry out. Once the
  // contributors are frozen, the same again says nothing new, and another sum discards the attempt.
  Output OnSum(absl::Time now, const std::string& peer, const v1::MaskedSum& sum, uint32_t revision,
               const std::vector<std::string>& voters);
  // It died or left, or has lost its update: it is not waited for, and is out of the attempt.
  Output OnGone(absl::Time now, const std::string& peer);
  Output OnDeadline(absl::Time now);
  // The exchange of these masks cannot be.
  Output GiveUp(const std::string& why);
  // It came back: what was last said to it, in order; it gives the same answers again.
  Output Resend(const std::string& peer) const;
  // The exchange was given up or committed: no secret of it is asked for any more.
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
  const uint32_t threshold_;
  const absl::Duration patience_;
  uint64_t epoch_ = 0;
  uint64_t attempts_ = 0;  // in this epoch
  uint64_t refused_ = 0;   // version to which somebody announced no keys; 0: none
  v1::MaskAttempt attempt_;
  std::unique_ptr<MaskRound> round_;
  absl::Time deadline_ = absl::InfiniteFuture();
  std::set<std::string> awaited_;    // they have not answered this step
  std::vector<std::string> masked_;  // ascending
  std::set<std::string> acknowledged_;
  bool began_exchange_ = false;
  bool redone_ = false;
  uint32_t revision_ = 0;
  std::map<std::string, v1::MaskedSum> sums_;  // under revision_
  v1::MaskedSum frozen_;                       // what all have come to
  std::map<std::string, std::vector<v1::MaskToParty>> said_;
};

}  // namespace atolld
