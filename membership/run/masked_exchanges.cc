#include "membership/run/masked_exchanges.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "membership/history/digest.h"
#include "membership/trust/contribution.h"

namespace atolld {
namespace {

// Two know each other's update from the sum and their own.
constexpr size_t kFewestParties = 3;

}  // namespace

MaskedExchanges::MaskedExchanges(const v1::RunSpec& spec, absl::Duration failure_timeout)
    : on_(spec.privacy().masked()),
      run_id_(spec.run_id()),
      threshold_(spec.privacy().threshold()),
      failure_timeout_(failure_timeout),
      sums_(run_id_, std::max<uint32_t>(kFewestParties, threshold_), failure_timeout) {}

absl::Time MaskedExchanges::Deadline() const {
  return sums_.under_way() ? sums_.deadline() : not_before_;
}

absl::Status MaskedExchanges::MayBegin(absl::Time now, size_t ready, size_t quorum) const {
  const size_t needed = std::max({quorum, kFewestParties, size_t{threshold_}});
  if (ready < needed) {
    return absl::FailedPreconditionError(
        absl::StrCat("masks: ", Counted(ready, "update"), ready == 1 ? " is" : " are",
                     " ready, and a masked sum has at least ", needed));
  }
  if (now >= not_before_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "masks: the last attempt was discarded; the next one begins in a moment");
}

MaskedExchanges::News MaskedExchanges::Begin(absl::Time now, uint64_t epoch,
                                             const std::vector<ExchangeContributor>& contributors,
                                             Round* round, const Members& members, RunOutput* out) {
  std::map<std::string, float> weights;
  parties_.clear();
  for (const ExchangeContributor& contributor : contributors) {
    const std::string& peer = contributor.member.peer();
    weights[peer] = absl::bit_cast<float>(contributor.member.weight_bits());
    parties_.insert(peer);
    // Of an attempt before this one.
    round->trainer(peer).ready.clear_contribution_root();
    round->trainer(peer).ready.clear_signature();
  }
  version_ = round->version();
  return Take(now, sums_.Begin(now, version_, epoch, weights), members, out);
}

absl::Status MaskedExchanges::CheckUpdate(const std::string& peer, const v1::MaskedUpdate& update,
                                          const Members& members) const {
  if (update.contribution_root().size() != kDigestBytes) {
    return absl::InvalidArgumentError("the root of its masked update is not 32 bytes");
  }
  const PeerInfo* const info = members.FindInfo(peer);
  return CheckContributionProof(run_id_, version_,
                                {peer, update.contribution_root(),
                                 info == nullptr ? "" : info->signing_key, update.signature()});
}

absl::StatusOr<MaskedExchanges::News> MaskedExchanges::OnMessage(
    absl::Time now, const std::string& peer, const v1::MaskFromParty& message, Round* round,
    const Members& members, RunOutput* out) {
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

MaskedExchanges::News MaskedExchanges::OnSum(absl::Time now, const std::string& peer,
                                             const v1::MaskedSum& sum, ExchangeRound* exchange,
                                             const Members& members, RunOutput* out) {
  const uint32_t revision = exchange->plan().revision();
  if (!exchange->Votes(peer) || sum.revision() != revision) return News::kNone;
  exchange->OnSummed(peer);
  return Take(now, sums_.OnSum(now, peer, sum, revision, exchange->Voters()), members, out);
}

MaskedExchanges::News MaskedExchanges::OnGone(absl::Time now, const std::string& peer,
                                              const Members& members, RunOutput* out) {
  if (parties_.erase(peer) == 0) return News::kNone;
  return Take(now, sums_.OnGone(now, peer), members, out);
}

MaskedExchanges::News MaskedExchanges::OnDeadline(absl::Time now, const Members& members,
                                                  RunOutput* out) {
  return Take(now, sums_.OnDeadline(now), members, out);
}

absl::Status MaskedExchanges::KeepMasked(size_t quorum,
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

MaskedExchanges::News MaskedExchanges::GiveUp(absl::Time now, const std::string& why,
                                              const Members& members, RunOutput* out) {
  return Take(now, sums_.GiveUp(why), members, out);
}

void MaskedExchanges::Resend(const std::string& peer, const Members& members,
                             RunOutput* out) const {
  for (auto& [to, told] : sums_.Resend(peer).sends) {
    v1::CoordinatorMessage message;
    *message.mutable_mask() = told;
    members.SendTo(to, std::move(message), out);
  }
}

void MaskedExchanges::End(const Members& members, RunOutput* out) {
  Take(absl::InfinitePast(), sums_.End(), members, out);
}

MaskedExchanges::News MaskedExchanges::Take(absl::Time now, MaskedSums::Output output,
                                            const Members& members, RunOutput* out) {
  for (auto& [peer, told] : output.sends) {
    v1::CoordinatorMessage message;
    *message.mutable_mask() = std::move(told);
    members.SendTo(peer, std::move(message), out);
  }
  for (const std::string& event : output.events) {
    out->Say(absl::StrCat("round ", version_, ": ", event), RunOutput::Severity::kWarning);
  }
  if (output.news == News::kDiscarded) not_before_ = now + failure_timeout_ / 2;
  if (!sums_.under_way()) parties_.clear();
  return output.news;
}

}  // namespace atolld
