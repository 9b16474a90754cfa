#include "daemon/peer/worker_link.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/words.h"
#include "membership/history/lineage.h"
#include "membership/run/admission.h"

namespace atolld {
namespace {

// Leaves out even the digest of private data, because it would confirm a guess of the data.
v1::WorkerReady ReadyOf(const v1::RunSpec& spec, const v1::WorkerConfigured& worker) {
  v1::WorkerReady ready;
  *ready.mutable_manifest() = worker.manifest();
  if (!spec.data().private_()) ready.set_data_digest(worker.data_digest());
  ready.set_train_tokens(worker.train_tokens());
  ready.set_validation_tokens(worker.validation_tokens());
  ready.set_device(worker.device());
  ready.set_parties(worker.parties());
  ready.set_own_validation_tokens(worker.own_validation_tokens());
  ready.set_lora_rank(worker.lora_rank());
  return ready;
}

}  // namespace

WorkerLink::WorkerLink(Env env, Worker& worker, ReplicaKeeper& keeper, RoundRunner& runner,
                       Events events)
    : env_(env), worker_(worker), keeper_(keeper), runner_(runner), events_(std::move(events)) {}

void WorkerLink::SetBranch(const std::string& path, const v1::SnapshotInfo& head) {
  branch_path_ = path;
  branch_parent_ = head.genesis();
}

void WorkerLink::Follow(const v1::RunSpec& spec, bool genesis_recorded) {
  spec_ = spec;
  genesis_recorded_ = genesis_recorded;
}

void WorkerLink::Hold(const std::string& why) {
  if (lost_.message() == why) return;
  env_.log.Info(absl::StrCat("no worker is started yet: ", why));
  lost_ = absl::UnavailableError(why);
  SendLost(lost_);
}

void WorkerLink::HoldBack(const std::string& why) {
  if (!worker_.trains() || (held_back_ && lost_.message() == why)) return;
  lost_ = absl::CancelledError(why);
  if (!std::exchange(held_back_, true)) {
    if (started_) worker_.Pause();
    configured_.reset();
    making_initial_state_ = false;
    runner_.OnHeldBack();
  }
  SendLost(lost_);
}

void WorkerLink::Allow() {
  if (!std::exchange(held_back_, false)) return;
  lost_ = absl::OkStatus();
  SendLost(lost_);  // an empty reason means that the worker is being started
  if (started_) worker_.Resume();
}

void WorkerLink::Start() {
  started_ = true;
  lost_ = absl::OkStatus();
  Worker::Events events;
  events.on_configured = guard_.Wrap([this](const v1::WorkerConfigured& c) { OnConfigured(c); });
  events.on_message = guard_.Wrap([this](const v1::WorkerMessage& m) { OnMessage(m); });
  events.on_lost = guard_.Wrap([this](absl::Status why) { OnLost(why); });
  worker_.Start(spec_, std::move(events));
}

// Repeats earlier messages, which may not have arrived, with the present information about the run.
void WorkerLink::Repeat() {
  const std::string misfit = configured_ ? MisfitOf(*configured_) : "";
  worker_.Renew(spec_, misfit);
  if (configured_ && misfit.empty()) {
    SendReady();
  } else if (worker_.trains()) {
    SendLost(misfit.empty() ? lost_ : absl::UnavailableError(misfit));
  }
}

// Returns why the worker does not fit the run, or "". Even if it does not fit, the peer remains a
// member: it follows the commits, and the next worker gets the run's spec as it is then known.
std::string WorkerLink::MisfitOf(const v1::WorkerConfigured& worker) const {
  if (genesis_recorded_) {
    return std::string(CheckWorker(keeper_.genesis(), ReadyOf(spec_, worker)).message());
  }
  if (!spec_.has_parent() || !branch_parent_) return "";
  return std::string(CheckSameTensors({branch_parent_->manifest(), "the state of the branch"},
                                      {worker.manifest(), "the config's model"})
                         .message());
}

void WorkerLink::OnConfigured(const v1::WorkerConfigured& configured) {
  const std::string misfit = MisfitOf(configured);
  if (!misfit.empty()) return worker_.Renew(spec_, misfit);
  const absl::Status memory = keeper_.NeedMemory(configured.manifest().elements());
  if (!memory.ok()) return events_.on_broken(memory);
  configured_ = configured;
  lost_ = absl::OkStatus();
  env_.log.Info(absl::StrFormat("worker on %s: %s, %s; math: %s, %.0f GFLOP/s", configured.device(),
                                Counted(configured.manifest().elements(), "parameter"),
                                Counted(configured.train_tokens(), "training token"),
                                configured.math_kernel(), configured.gflops()));
  v1::DaemonMessage message;
  v1::MapMemory* map = message.mutable_map_memory();
  map->set_path(keeper_.memory()->path());
  map->set_elements(keeper_.memory()->elements());
  map->set_theta_offset(keeper_.memory()->theta_offset());
  map->set_update_offset(keeper_.memory()->update_offset());
  if (spec_.inner().control_variates()) {
    map->set_control_offset(keeper_.memory()->control_offset());
  }
  if (spec_.mode().kind() == "eager") map->set_guess_offset(keeper_.memory()->guess_offset());
  worker_.Send(message);
  SendReady();
  runner_.OnWorkerReady();
}

void WorkerLink::OnMessage(const v1::WorkerMessage& message) {
  switch (message.message_case()) {
    case v1::WorkerMessage::kInitialStateWritten:
      return CreateState();
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

void WorkerLink::OnLost(const absl::Status& why) {
  const bool was_configured = configured_.has_value();
  configured_.reset();
  making_initial_state_ = false;
  lost_ = absl::UnavailableError(why.message());
  SendLost(why);
  if (was_configured) runner_.OnWorkerLost();  // otherwise the round was given no worker
}

void WorkerLink::MakeInitialState() {
  if (keeper_.has_state()) {
    if (keeper_.version() == 0) SendInitialState();  // made, but the coordinator never recorded it
    return;
  }
  if (!configured_) return;
  if (spec_.has_parent()) return CreateBranch();
  env_.log.Info("making the initial parameters");
  making_initial_state_ = true;
  v1::DaemonMessage order;
  order.mutable_write_initial_state();
  worker_.Send(order);
}

// Makes version 0 from the parameters that the worker has put into the update slot.
void WorkerLink::CreateState() {
  if (!making_initial_state_ || !configured_) return;
  if (genesis_recorded_) {  // another peer's version 0 was recorded first
    making_initial_state_ = false;
    return;
  }
  keeper_.Create(GenesisHere());
}

// Returns the genesis, with the fields that only this machine knows filled in.
v1::Genesis WorkerLink::GenesisHere() const {
  v1::Genesis genesis;
  *genesis.mutable_spec() = spec_;
  v1::DataSpec* data = genesis.mutable_spec()->mutable_data();
  if (!data->private_()) data->set_digest(configured_->data_digest());
  data->set_tokenizer_digest(configured_->tokenizer_digest());
  events_.list_files(genesis.mutable_spec());
  *genesis.mutable_manifest() = configured_->manifest();
  return genesis;
}

// Makes version 0 from the branch file. In the parent's corpus, the branch continues after the
// samples that the parent has spent.
void WorkerLink::CreateBranch() {
  if (!branch_parent_) return SayCannotMake();
  if (genesis_recorded_) return;  // another peer's was recorded first
  v1::Genesis genesis = GenesisHere();
  v1::Lineage* lineage = genesis.mutable_spec()->mutable_parent();
  const v1::RunSpec& parent = branch_parent_->spec();
  const bool same_corpus = parent.data().digest() == genesis.spec().data().digest();
  lineage->set_next_sample(same_corpus ? parent.parent().next_sample() : 0);
  env_.log.Info(absl::StrCat(
      "making version 0 from ", branch_path_, ": ", LineageText(*lineage),
      spec_.data().private_() ? std::string("; each peer begins its own data anew")
      : same_corpus ? absl::StrCat("; its corpus goes on at sample ", lineage->next_sample())
                    : std::string("; another corpus, from its start")));
  keeper_.CreateFromBranch(std::move(genesis), branch_path_);
}

// Says that this peer cannot make version 0: another peer has the file, and this one fetches
// version 0 from there.
void WorkerLink::SayCannotMake() {
  env_.log.Info(absl::StrCat("version 0 is ", LineageText(spec_.parent()),
                             "; no [run] branch names its file here, so another peer makes it"));
  v1::PeerMessage message;
  message.mutable_initial_state();
  events_.send(message);
}

void WorkerLink::OnOpened() {
  making_initial_state_ = false;
  if (!genesis_recorded_ && keeper_.version() == 0) SendInitialState();
}

void WorkerLink::SendInitialState() {
  v1::PeerMessage message;
  *message.mutable_initial_state()->mutable_genesis() = keeper_.genesis();
  events_.send(message);
}

void WorkerLink::SendReady() {
  v1::PeerMessage message;
  *message.mutable_worker_ready() = ReadyOf(spec_, *configured_);
  events_.send(message);
}

void WorkerLink::SendLost(const absl::Status& why) {
  v1::PeerMessage message;
  message.mutable_worker_lost()->set_reason(std::string(why.message()));
  message.mutable_worker_lost()->set_bad_update(absl::IsDataLoss(why));
  message.mutable_worker_lost()->set_by_owner(absl::IsCancelled(why));
  events_.send(message);
}

}  // namespace atolld
