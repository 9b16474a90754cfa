#include "daemon/atolld/peer_machine.h"

#include <algorithm>
#include <utility>

#include "compression/base/process_limits.h"
#include "compression/base/status_macros.h"

namespace atolld {

uint32_t ThreadsOf(double per_cent, uint32_t otherwise) {
  if (per_cent <= 0) return otherwise;
  const double threads = ReadProcessLimits().cores.cores * per_cent / 100;
  return std::max<uint32_t>(1, static_cast<uint32_t>(threads));
}

PeerMachine::PeerMachine(Env env, const Config& config, uint32_t pid, Peer& peer, Parts parts)
    : env_(env),
      dir_(config.peer.dir),
      threads_(config.worker.threads),
      sensors_(env, config.peer.dir, pid),
      control_(env, config.peer.dir, config.machine, sensors_, absl::LocalTimeZone(),
               EventsOf(peer, std::move(parts))) {
  peer.OnContributed(guard_.Wrap([this](uint64_t tokens) { control_.OnContributed(tokens); }));
}

OwnerControl::Events PeerMachine::EventsOf(Peer& peer, Parts parts) {
  OwnerControl::Events events;
  events.on_verdict = [&peer](const MachineVerdict& verdict) {
    peer.Allow(verdict.may_train, verdict.may_exchange,
               verdict.reasons.empty() ? "" : verdict.reasons.front());
  };
  events.finish_round = [this, &peer](bool wanted) {
    if (!wanted) return peer.FinishRound(nullptr);
    peer.FinishRound(guard_.Wrap([this] { control_.OnRoundFinished(); }));
  };
  events.tell = [&peer](v1::MachineStatus* status) { peer.Tell(status); };
  events.bytes_today = std::move(parts.bytes_today);
  events.on_caps = std::move(parts.on_caps);
  events.on_processors = [this, &peer](double per_cent) {
    peer.SetThreads(ThreadsOf(per_cent, threads_));
  };
  return events;
}

absl::Status PeerMachine::Start() {
  ASSIGN_OR_RETURN(socket_, WorkerSocket::Make(dir_, kMachineSocket));
  absl::StatusOr<std::unique_ptr<Listener>> listener = env_.transport.Listen(
      socket_->address(),
      guard_.Wrap([this](const std::string& method, std::unique_ptr<Call> call) {
        control_.Accept(method, std::move(call));
      }));
  if (!listener.ok()) return Annotate(listener.status(), "the owner's socket");
  listener_ = *std::move(listener);
  control_.Start();
  return absl::OkStatus();
}

}  // namespace atolld
