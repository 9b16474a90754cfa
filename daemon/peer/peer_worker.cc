// Peer, the worker: what it says and what it is told.
#include "absl/strings/str_format.h"
#include "compression/base/status_macros.h"
#include "daemon/peer/peer.h"
#include "membership/run/admission.h"

namespace atolld {
namespace {

v1::WorkerReady ReadyOf(const v1::WorkerConfigured& worker) {
  v1::WorkerReady ready;
  *ready.mutable_manifest() = worker.manifest();
  ready.set_data_digest(worker.data_digest());
  ready.set_train_tokens(worker.train_tokens());
  ready.set_validation_tokens(worker.validation_tokens());
  ready.set_device(worker.device());
  return ready;
}

}  // namespace

// A worker that trains something else is no reason to lose the member: it follows the commits, and
// the next worker is told the run as it is known by now.
std::string Peer::MisfitOf(const v1::WorkerConfigured& worker) const {
  if (!genesis_recorded_) return "";
  return std::string(CheckWorker(keeper_.genesis(), ReadyOf(worker)).message());
}

void Peer::OnWorkerConfigured(const v1::WorkerConfigured& configured) {
  const std::string misfit = MisfitOf(configured);
  if (!misfit.empty()) return trainer_.Renew(*spec_, misfit);
  const absl::Status memory = keeper_.NeedMemory(configured.manifest().elements());
  if (!memory.ok()) return Finish(memory, std::string(memory.message()));
  worker_ = configured;
  env_.log.Info(
      absl::StrFormat("worker on %s: %d parameters, %d training tokens; math: %s, %.0f GFLOP/s",
                      configured.device(), configured.manifest().elements(),
                      configured.train_tokens(), configured.math_kernel(), configured.gflops()));
  v1::DaemonMessage message;
  v1::MapMemory* map = message.mutable_map_memory();
  map->set_path(keeper_.memory()->path());
  map->set_elements(keeper_.memory()->elements());
  map->set_theta_offset(keeper_.memory()->theta_offset());
  map->set_update_offset(keeper_.memory()->update_offset());
  trainer_.Send(message);
  SendWorkerReady();
  runner_.OnWorkerReady();
}

void Peer::SendWorkerReady() {
  v1::PeerMessage message;
  *message.mutable_worker_ready() = ReadyOf(*worker_);
  link_.Send(message);
}

// After a Welcome: what was said before may not have got through, and the run may be known better.
void Peer::TellOfWorker() {
  const std::string misfit = worker_ ? MisfitOf(*worker_) : "";
  trainer_.Renew(*spec_, misfit);
  if (worker_ && misfit.empty()) {
    SendWorkerReady();
  } else if (trainer_.trains()) {
    SendWorkerLost(absl::UnavailableError(misfit.empty() ? "it is being started" : misfit));
  }
}

void Peer::OnWorkerMessage(const v1::WorkerMessage& message) {
  switch (message.message_case()) {
    case v1::WorkerMessage::kInitialStateWritten: {
      if (!making_initial_state_ || !worker_) return;
      v1::Genesis genesis;
      *genesis.mutable_spec() = *spec_;
      v1::DataSpec* data = genesis.mutable_spec()->mutable_data();
      data->set_digest(worker_->data_digest());
      data->set_tokenizer_digest(worker_->tokenizer_digest());
      *genesis.mutable_manifest() = worker_->manifest();
      return keeper_.Create(std::move(genesis));
    }
    case v1::WorkerMessage::kBoundary:
      return runner_.OnBoundary(message.boundary());
    case v1::WorkerMessage::kProgress:
      return runner_.OnProgress(message.progress());
    case v1::WorkerMessage::kEvaluated:
      return runner_.OnEvaluated(message.evaluated());
    default:
      return;
  }
}

void Peer::OnWorkerLost(const absl::Status& why) {
  worker_.reset();
  making_initial_state_ = false;
  SendWorkerLost(why);
  runner_.OnWorkerLost();
}

void Peer::SendWorkerLost(const absl::Status& why) {
  v1::PeerMessage message;
  message.mutable_worker_lost()->set_reason(std::string(why.message()));
  message.mutable_worker_lost()->set_bad_update(absl::IsDataLoss(why));
  link_.Send(message);
}

}  // namespace atolld
