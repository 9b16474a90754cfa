#include "membership/run/workers.h"

#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "membership/history/digest.h"
#include "membership/history/header.h"
#include "membership/run/admission.h"

namespace atolld {

absl::Status Workers::OnReady(const std::string& peer, const v1::WorkerReady& worker,
                              RunOutput* out) {
  const Ledger& ledger = run_.ledger;
  Members& members = run_.members;
  if (members.roster().Find(peer)->aggregator) {
    return absl::InvalidArgumentError("an aggregator has no worker");
  }
  const absl::Status manifest = CheckManifest(worker.manifest());
  if (!manifest.ok()) return manifest;
  if (worker.data_digest().size() != kDigestBytes && !ledger.spec().data().private_()) {
    return absl::InvalidArgumentError("the data's digest is not 32 bytes");
  }
  members.info(peer).worker = worker;
  if (ledger.genesis() && !Fits(peer, *ledger.genesis(), out)) return absl::OkStatus();
  members.NoteWorkerTrouble(peer, "");
  TrainingState& trainer = run_.training.round().trainer(peer);
  trainer.lora_rank = worker.lora_rank();
  if (!trainer.worker_ready) {
    trainer.worker_ready = true;
    out->Say(absl::StrCat("peer ", peer, ": its worker is ready",
                          worker.device().empty() ? "" : " on ", worker.device()));
  }
  return absl::OkStatus();
}

// A member whose worker trains something else still holds the replica, but is given nothing to
// train.
bool Workers::Fits(const std::string& peer, const v1::Genesis& genesis, RunOutput* out) {
  const absl::Status fits = CheckWorker(genesis, *run_.members.info(peer).worker);
  if (fits.ok()) return true;
  Lose(peer);
  run_.members.NoteWorkerTrouble(peer, std::string(fits.message()));
  out->Say(absl::StrCat("peer ", peer, " cannot train: ", fits.message()),
           RunOutput::Severity::kWarning);
  return false;
}

void Workers::OnLost(const std::string& peer, const v1::WorkerLost& lost, RunOutput* out) {
  const std::string why = OneLine(lost.reason(), kLongestReason);
  TrainingState& trainer = run_.training.round().trainer(peer);
  if (lost.bad_update()) run_.exchanges.judge().NoteRefused(peer, why);
  run_.members.NoteWorkerLost(peer, lost, trainer.worker_ready, out);
  Lose(peer);
  // It is unknown when the owner will let the worker train again, so no round waits for it.
  if (lost.by_owner()) trainer.worker_lost_in = 0;
}

void Workers::Lose(const std::string& peer) {
  run_.beginning.Forget(peer);
  run_.ending.LoseWorker(peer);
  run_.training.LoseWorker(peer);
}

void Workers::OnGenesis(const v1::Genesis& genesis, RunOutput* out) {
  Members& members = run_.members;
  for (const auto& [peer, info] : members.infos()) {
    const RosterMember* member = members.roster().Find(peer);
    if (!info.worker || member == nullptr || !member->connected() || !member->present()) continue;
    Fits(peer, genesis, out);
  }
}

}  // namespace atolld
