#include "membership/run/masked_attempts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "membership/history/digest.h"
#include "membership/masking/masked_terms.h"
#include "membership/trust/contribution.h"

namespace atolld {
MaskedAttempts::MaskedAttempts(const v1::RunSpec& spec, absl::Duration failure_timeout,
                               UpdateJudge* judge)
    : on_(spec.privacy().masked()),
      run_id_(spec.run_id()),
      failure_timeout_(failure_timeout),
      judge_(judge),
      sums_(run_id_, RosterRuleOf(spec.privacy()), failure_timeout) {}

absl::Time MaskedAttempts::Deadline() const {
  return sums_.under_way() ? sums_.deadline() : not_before_;
}

absl::Status MaskedAttempts::MayBegin(absl::Time now, size_t ready, size_t needed) const {
  if (ready < needed) {
    return absl::FailedPreconditionError(
        absl::StrCat("masks: ", Counted(ready, "update"), ready == 1 ? " is" : " are",
                     " ready, and a masked sum has at least ", needed));
  }
  if (opened_ >= kMostSumsOfAVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "masks: ", opened_, " sums of version ", version_, " may have been unmasked, and no entry ",
        "came of any: no other is made, since each tells of the same data. The log says why they ",
        "failed; stop the run, or mend that and start the coordinator again"));
  }
  if (now >= not_before_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "masks: the last attempt was discarded; the next one begins in a moment");
}

std::set<std::string> MaskedAttempts::LeftOut(const std::vector<ExchangeContributor>& contributors,
                                              size_t needed) const {
  for (const bool sure_alone : {false, true}) {
    std::set<std::string> out;
    for (const ShareSuspect& suspect : suspects_) {
      if (suspect.sure || !sure_alone) out.insert(suspect.peer);
    }
    const auto left = std::count_if(contributors.begin(), contributors.end(), [&](const auto& one) {
      return out.count(one.member.peer()) == 0;
    });
    if (static_cast<size_t>(left) >= needed) return out;
  }
  return {};
}

MaskedAttempts::News MaskedAttempts::Begin(absl::Time now, uint64_t epoch,
                                           const std::vector<ExchangeContributor>& contributors,
                                           Round* round, const Members& members, RunOutput* out) {
  if (version_ != round->version()) {
    suspects_.clear();
    opened_ = 0;
  }
  version_ = round->version();
  const std::set<std::string> left_out = LeftOut(contributors, round->fewest());
  std::map<std::string, float> weights;
  parties_.clear();
  for (const ExchangeContributor& contributor : contributors) {
    const std::string& peer = contributor.member.peer();
    // These belong to an earlier attempt.
    round->trainer(peer).ready.clear_contribution_root();
    round->trainer(peer).ready.clear_signature();
    if (left_out.count(peer) != 0) continue;
    weights[peer] = absl::bit_cast<float>(contributor.member.weight_bits());
    parties_.insert(peer);
  }
  if (!left_out.empty()) {
    out->Say(absl::StrCat("round ", version_, ": the next masked sum is made without ",
                          absl::StrJoin(left_out, ", "), ", for the shares of the last one"));
  }
  return Take(now, sums_.Begin(now, version_, epoch, weights), members, out);
}

absl::Status MaskedAttempts::CheckUpdate(const std::string& peer, const v1::MaskedUpdate& update,
                                         const Members& members) const {
  if (update.contribution_root().size() != kDigestBytes) {
    return absl::InvalidArgumentError("the root of its masked update is not 32 bytes");
  }
  const PeerInfo* const info = members.FindInfo(peer);
  return CheckContributionProof(run_id_, version_,
                                {peer, update.contribution_root(),
                                 info == nullptr ? "" : info->signing_key, update.signature()});
}

absl::StatusOr<MaskedAttempts::News> MaskedAttempts::OnMessage(absl::Time now,
                                                               const std::string& peer,
                                                               const v1::MaskFromParty& message,
                                                               Round* round, const Members& members,
                                                               RunOutput* out) {
  if (!Holds(peer)) return News::kNone;
  if (message.has_keys()) {
    const PeerInfo* const info = members.FindInfo(peer);
    if (info == nullptr || info->signing_key != message.keys().signing_key()) {
      return absl::InvalidArgumentError(
          "its mask keys are signed by another key than the one that its Hello names");
    }
  }
  if (message.has_masked() && sums_.AwaitsUpdate(peer, message.masked())) {
    RETURN_IF_ERROR(CheckUpdate(peer, message.masked(), members));
    v1::Ready& ready = round->trainer(peer).ready;
    ready.set_contribution_root(message.masked().contribution_root());
    ready.set_signature(message.masked().signature());
  }
  return Take(now, sums_.OnMessage(now, peer, message), members, out);
}

MaskedAttempts::News MaskedAttempts::OnSum(absl::Time now, const std::string& peer,
                                           const v1::MaskedSum& sum, Ballot* exchange,
                                           const Members& members, RunOutput* out) {
  const uint32_t revision = exchange->plan().revision();
  if (!exchange->Votes(peer) || sum.revision() != revision) return News::kNone;
  exchange->OnSummed(peer);
  const bool masked = !sums_.frozen() && !sums_.unmasked();
  MaskedSums::Output output = sums_.OnSum(now, peer, sum, revision, exchange->Voters());
  if (masked && (sums_.frozen() || sums_.unmasked())) ++opened_;
  return Take(now, std::move(output), members, out);
}

MaskedAttempts::News MaskedAttempts::OnGone(absl::Time now, const std::string& peer,
                                            const Members& members, RunOutput* out) {
  if (parties_.erase(peer) == 0) return News::kNone;
  return Take(now, sums_.OnGone(now, peer), members, out);
}

MaskedAttempts::News MaskedAttempts::OnDeadline(absl::Time now, const Members& members,
                                                RunOutput* out) {
  return Take(now, sums_.OnDeadline(now), members, out);
}

absl::Status MaskedAttempts::KeepMasked(size_t quorum,
                                        std::vector<ExchangeContributor>* contributors) const {
  const std::vector<std::string>& masked = sums_.masked();
  contributors->erase(std::remove_if(contributors->begin(), contributors->end(),
                                     [&](const ExchangeContributor& one) {
                                       return !std::binary_search(masked.begin(), masked.end(),
                                                                  one.member.peer());
                                     }),
                      contributors->end());
  const size_t needed = std::max<size_t>(quorum, sums_.threshold());
  if (contributors->size() >= needed) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(Counted(contributors->size(), "party"),
                                                    " with a masked update can be reached, and ",
                                                    needed, " are needed"));
}

MaskedAttempts::News MaskedAttempts::GiveUp(absl::Time now, const std::string& why,
                                            const Members& members, RunOutput* out) {
  return Take(now, sums_.GiveUp(why), members, out);
}

void MaskedAttempts::Resend(const std::string& peer, const Members& members, RunOutput* out) const {
  for (auto& [to, told] : sums_.Resend(peer).sends) {
    v1::CoordinatorMessage message;
    *message.mutable_mask() = told;
    members.SendTo(to, std::move(message), out);
  }
}

void MaskedAttempts::End(const Members& members, RunOutput* out) {
  Take(absl::InfinitePast(), sums_.End(), members, out);
}

MaskedAttempts::News MaskedAttempts::Take(absl::Time now, MaskedSums::Output output,
                                          const Members& members, RunOutput* out) {
  for (auto& [peer, told] : output.sends) {
    v1::CoordinatorMessage message;
    *message.mutable_mask() = std::move(told);
    members.SendTo(peer, std::move(message), out);
  }
  for (const std::string& event : output.events) {
    out->Say(absl::StrCat("round ", version_, ": ", event), RunOutput::Severity::kWarning);
  }
  for (ShareSuspect& suspect : output.suspects) {
    if (suspect.sure) judge_->NoteRefused(suspect.peer, suspect.why);
    if (output.news == News::kDiscarded) suspects_.push_back(std::move(suspect));
  }
  if (output.news == News::kDiscarded) not_before_ = now + failure_timeout_ / 2;
  if (!sums_.under_way()) parties_.clear();
  return output.news;
}

}  // namespace atolld
