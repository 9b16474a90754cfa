#include "daemon/atolld/peer_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compression/base/process_limits.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr absl::Duration kBetweenSocketLooks = absl::Seconds(2);

}  // namespace

uint32_t ThreadsOf(double per_cent, uint32_t otherwise) {
  if (per_cent <= 0) return otherwise;
  const double threads = ReadProcessLimits().cores.cores * per_cent / 100;
  return std::max<uint32_t>(1, static_cast<uint32_t>(threads));
}

PeerMachine::PeerMachine(Env env, const Config& config, uint32_t pid, Peer& peer, Parts parts)
    : env_(env),
      dir_(config.peer.dir),
      id_(config.peer.id),
      repeated_(env.executor, env.log),
      threads_(config.worker.threads),
      availability_(config.availability),
      peer_(peer),
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

absl::Status PeerMachine::Load() {
  RETURN_IF_ERROR(control_.Load());
  return availability_.trace.empty() ? absl::OkStatus() : FollowTrace();
}

absl::Status PeerMachine::FollowTrace() {
  ASSIGN_OR_RETURN(Availability trace, LoadAvailability(env_.files, availability_.trace));
  const absl::Time began = availability_.start == 0
                               ? absl::InfinitePast()
                               : absl::FromUnixSeconds(static_cast<int64_t>(availability_.start));
  if (VirtualParties* const parties = peer_.parties()) {  // which come and go by themselves
    const auto times = std::make_shared<const Availability>(std::move(trace));
    parties->SetThere([times, began = control_.BeginTrace(began), speed = availability_.speed,
                       &clock = env_.executor](uint32_t party) {
      return times->There(times->LineOfNumber(party),
                          speed * absl::ToDoubleSeconds(clock.WallTime() - began));
    });
    return absl::OkStatus();
  }
  size_t line = 0;
  if (availability_.party.empty()) {
    line = trace.LineOfNumber(NumberOfPeer(id_));
  } else {
    const absl::StatusOr<size_t> named = trace.LineOf(availability_.party);
    if (!named.ok()) return Annotate(named.status(), "[availability] party");
    line = *named;
  }
  control_.Follow(TraceFollower(std::move(trace), line, availability_.speed), began);
  return absl::OkStatus();
}

absl::Status PeerMachine::Listen() {
  listener_.reset();
  socket_.reset();
  ASSIGN_OR_RETURN(socket_, WorkerSocket::Make(dir_, kMachineSocket));
  absl::StatusOr<std::unique_ptr<Listener>> listener = env_.transport.Listen(
      socket_->address(),
      guard_.Wrap([this](const std::string& method, std::unique_ptr<Call> call) {
        control_.Accept(method, std::move(call));
      }));
  if (!listener.ok()) return Annotate(listener.status(), "the owner's socket");
  listener_ = *std::move(listener);
  return absl::OkStatus();
}

// A cleaner of temporary files may remove the socket.
void PeerMachine::WatchSocket() {
  env_.executor.RunAfter(kBetweenSocketLooks, guard_.Wrap([this] {
    WatchSocket();
    if (listener_ != nullptr &&
        env_.files.Exists(std::string(absl::StripPrefix(socket_->address(), "unix:")))) {
      return;
    }
    const absl::Status made = Listen();
    repeated_.Write(Log::Level::kWarning, "socket",
                    made.ok()
                        ? absl::StrCat("the socket of `atoll status` was gone and was made again: ",
                                       socket_->address())
                        : std::string(made.message()));
  }));
}

absl::Status PeerMachine::Start() {
  RETURN_IF_ERROR(Listen());
  WatchSocket();
  control_.Start();
  return absl::OkStatus();
}

}  // namespace atolld
