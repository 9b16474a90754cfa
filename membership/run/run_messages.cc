// What peers say between their Hello and their leaving.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "membership/history/digest.h"
#include "membership/history/manifest.h"
#include "membership/run/admission.h"
#include "membership/run/run.h"
#include "membership/trust/contribution_proof.h"
#include "membership/trust/contribution_weight.h"

namespace atolld {
namespace {}  // namespace

absl::Status Run::CheckChain(uint64_t version, const std::string& digest) const {
  if (Ahead(version)) return MayAdopt(version, digest);
  if (digests_.empty() || digests_[version] != digest) {
    return absl::FailedPreconditionError(
        absl::StrCat("its version ", version,
                     " is of another history than the run's; start it with an empty directory"));
  }
  return absl::OkStatus();
}

absl::Status Run::OnWorkerReady(const std::string& peer, const v1::WorkerReady& worker) {
  if (roster_.Find(peer)->aggregator) {
    return absl::InvalidArgumentError("an aggregator has no worker");
  }
  const absl::Status manifest = CheckManifest(worker.manifest());
  if (!manifest.ok()) return manifest;
  if (worker.data_digest().size() != kDigestBytes) {
    return absl::InvalidArgumentError("the data's digest is not 32 bytes");
  }
  peers_[peer].worker = worker;
  if (genesis_ && !Fits(peer, *genesis_)) return absl::OkStatus();
  TrainingState& trainer = round_.trainer(peer);
  if (!trainer.worker_ready) {
    trainer.worker_ready = true;
    Say(absl::StrCat("peer ", peer, ": its worker is ready", worker.device().empty() ? "" : " on ",
                     worker.device()));
  }
  return absl::OkStatus();
}

// A member whose worker trains something else still holds the replica: it is told nothing to train.
bool Run::Fits(const std::string& peer, const v1::Genesis& genesis) {
  const absl::Status fits = CheckWorker(genesis, *peers_[peer].worker);
  if (fits.ok()) return true;
  LoseWorker(peer);
  Say(absl::StrCat("peer ", peer, " cannot train: ", fits.message()),
      RunOutput::Severity::kWarning);
  return false;
}

void Run::OnWorkerLost(const std::string& peer, const v1::WorkerLost& lost) {
  const std::string why = lost.reason().substr(0, kLongestReason);
  if (lost.bad_update()) judge_.NoteRefused(peer, why);
  if (round_.trainer(peer).worker_ready) {
    Say(absl::StrCat("peer ", peer, ": its worker ",
                     lost.bad_update() ? "was ended: " : "died: ", why),
        RunOutput::Severity::kWarning);
  }
  LoseWorker(peer);
}

void Run::LoseWorker(const std::string& peer) {
  if (genesis_maker_ == peer) genesis_maker_.clear();
  if (evaluation_) evaluation_->TakeBack(peer);
  // A contribution that stands is the daemon's, and outlives the worker; inner steps do not.
  if (round_.LoseWorker(peer) && leases_.holds(peer)) {
    leases_.Return(peer);
    leases_changed_ = true;
  }
}

absl::Status Run::OnInitialState(const std::string& peer, const v1::InitialState& initial) {
  if (genesis_) return absl::OkStatus();  // somebody else's stands; the Welcome has told it
  if (!adoption_
           .empty()) {  // one stands elsewhere; should nobody tell it, this peer is asked again
    genesis_maker_.clear();
    return absl::OkStatus();
  }
  const v1::Genesis& genesis = initial.genesis();
  const std::optional<v1::WorkerReady>& worker = peers_[peer].worker;
  const absl::Status valid = CheckInitialState(spec_, worker ? &*worker : nullptr, genesis);
  if (!valid.ok()) return valid;
  roster_.SetState(peer, 0);
  roster_changed_ = true;
  Say(absl::StrCat("version 0 was made by peer ", peer, ": ", genesis.manifest().elements(),
                   " parameters"));
  AcceptGenesis(genesis);
  SendToAll(Welcome());
  return absl::OkStatus();
}

void Run::AcceptGenesis(const v1::Genesis& genesis) {
  genesis_ = genesis;
  spec_ = genesis.spec();
  digests_.push_back(settings_.genesis_digest(genesis));
  genesis_maker_.clear();
  out_.update.genesis = genesis;
  out_.update.spec = spec_;
  for (const auto& [other, info] : peers_) {
    const RosterMember* member = roster_.Find(other);
    if (!info.worker || member == nullptr || !member->connected() || !member->present()) continue;
    Fits(other, genesis);
  }
}

absl::Status Run::OnSynced(const std::string& peer, const v1::Synced& synced) {
  // It made version 0, which was never recorded here: it is asked for it when its worker is ready.
  if (synced.has_offer()) roster_.SetOffer(peer, synced.offer());
  if (!genesis_ && synced.version() == 0) return absl::OkStatus();
  const absl::Status chain = CheckChain(synced.version(), synced.header_digest());
  if (!chain.ok()) return chain;
  if (Ahead(synced.version())) adoption_.Add(peer, synced.version(), synced.header_digest());
  roster_.SetState(peer, synced.version());
  roster_changed_ = true;
  return absl::OkStatus();
}

void Run::NoteState(const std::string& peer, uint64_t version, const std::string& digest) {
  PeerInfo& info = peers_[peer];
  if (digest.size() != kDigestBytes || (!info.state_digest.empty() && version < info.state_version))
    return;
  info.state_digest = digest;
  info.state_version = version;
}

absl::Status Run::OnReady(absl::Time now, const std::string& peer, const v1::Ready& ready) {
  // For a round that has passed: the peer rebases and says it again for the current one.
  if (!genesis_ || seal_ || ready.version() != round_.version() ||
      ready.base_version() + 1 != ready.version()) {
    return absl::OkStatus();
  }
  if (exchange_ && exchange_->Contributes(peer) && !exchange_->Lost(peer)) return absl::OkStatus();
  if (ready.tokens() == 0 || ready.steps() == 0)
    return absl::InvalidArgumentError("an update of no tokens");
  if (ready.contribution_root().size() != kDigestBytes ||
      ready.state_digest().size() != kDigestBytes) {
    return absl::InvalidArgumentError("a digest of its update is not 32 bytes");
  }
  const std::string& key = peers_[peer].signing_key;
  if (!key.empty() || spec_.exchange().audit_share_bits() != 0) {
    const absl::Status proof =
        CheckContributionProof(spec_.run_id(), ready.version(), PlanMemberOf(peer, "", key, ready));
    if (!proof.ok()) return proof;
  }
  const std::vector<v1::SampleRange> samples(ready.samples().begin(), ready.samples().end());
  if (behind_) ReachSamples(samples);
  const bool adopted = samples.empty() ? leases_.holds(peer) : leases_.Adopt(peer, samples);
  if (!adopted) {
    // It was away, and its samples went to somebody else: they must not count twice.
    Say(absl::StrCat("round ", round_.version(), ": peer ", peer,
                     " trained on samples that are no longer its own; it trains anew"),
        RunOutput::Severity::kWarning);
    round_.trainer(peer).activity = Activity::kIdle;
    leases_.Return(peer);
    leases_changed_ = true;
    return absl::OkStatus();
  }
  uint64_t held = 0;
  for (const v1::SampleRange& range : leases_.Held(peer)) held += range.count();
  const absl::Status claims = CheckClaims(spec_, ready, held);
  if (!claims.ok()) return claims;
  leases_changed_ = leases_changed_ || !samples.empty();
  const absl::Status possible = judge_.Check(ready, genesis_->manifest().elements());
  if (!possible.ok()) {
    DropUpdate(peer, std::string(possible.message()));
    return absl::OkStatus();
  }
  roster_.SetState(peer, ready.base_version());
  NoteState(peer, ready.base_version(), ready.state_digest());
  round_.SetReady(now, peer, ready);
  return absl::OkStatus();
}

absl::Status Run::OnVote(absl::Time now, const std::string& peer, const v1::Vote& vote) {
  if (!exchange_) return absl::OkStatus();
  ExchangeRound::Outcome outcome;
  const absl::Status status = exchange_->OnVote(peer, vote, &outcome);
  if (!status.ok()) return status;
  planner_.NoteVote(*exchange_, peer, vote, now - exchange_began_);
  if (vote.version() == round_.version()) NoteState(peer, vote.version() - 1, vote.state_digest());
  Act(now, outcome);
  return absl::OkStatus();
}

absl::Status Run::OnStateReport(const std::string& peer, const v1::StateReport& report) {
  if (report.state_digest().size() != kDigestBytes) {
    return absl::InvalidArgumentError("the state's digest is not 32 bytes");
  }
  if (!report.expected_digest().empty()) {
    Say(absl::StrCat("peer ", peer, " has drifted: its state of version ", report.version(),
                     " is not the history's; it is repairing itself"),
        RunOutput::Severity::kError);
    return absl::OkStatus();
  }
  if (report.version() > version() || digests_.empty()) return absl::OkStatus();
  NoteState(peer, report.version(), report.state_digest());
  roster_changed_ = roster_changed_ || seal_.has_value();  // it may have been waited for
  return absl::OkStatus();
}

void Run::OnEvaluated(const v1::Evaluated& evaluated) {
  if (!evaluation_) return;
  evaluation_->OnEvaluated(evaluated);
  if (!evaluation_->complete()) return;
  const v1::EvaluationRecord record = evaluation_->Record();
  evaluation_.reset();
  evaluations_.push_back(record);
  out_.update.evaluations.push_back(record);
  Say(absl::StrFormat("version %d: validation loss %.4f nats a token", record.version(),
                      record.loss()),
      RunOutput::Severity::kRecord);
}

}  // namespace atolld
