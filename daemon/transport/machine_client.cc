#include "daemon/transport/machine_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include "absl/strings/str_cat.h"
#include "atoll/v1/machine.grpc.pb.h"
#include "daemon/transport/channels.h"
#include "daemon/transport/grpc_values.h"

namespace atolld {
namespace {

template <typename Request>
absl::StatusOr<v1::MachineStatus> AskMachine(
    const std::string& address, absl::Duration patience, const Request& request,
    grpc::Status (v1::Machine::Stub::*method)(grpc::ClientContext*, const Request&,
                                              v1::MachineStatus*)) {
  QuietGrpcLog();
  const auto channel = MakeChannel(address, Role::kPeer, nullptr, ClientArguments(patience));
  const auto stub = v1::Machine::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(patience));
  v1::MachineStatus answer;
  const grpc::Status status = (*stub.*method)(&context, request, &answer);
  if (status.ok()) return answer;
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::UnavailableError(
        absl::StrCat("no daemon answers at ", address, ": ", status.error_message()));
  }
  return FromGrpc(status);
}

}  // namespace

absl::StatusOr<v1::MachineStatus> MachineClient::Show() const {
  return AskMachine(address_, patience_, v1::ShowMachineRequest(), &v1::Machine::Stub::Show);
}

absl::StatusOr<v1::MachineStatus> MachineClient::Pause(uint64_t seconds) const {
  v1::PauseMachineRequest request;
  request.set_seconds(seconds);
  return AskMachine(address_, patience_, request, &v1::Machine::Stub::Pause);
}

absl::StatusOr<v1::MachineStatus> MachineClient::FinishRound(uint64_t pause_seconds) const {
  v1::FinishRoundRequest request;
  request.set_pause_seconds(pause_seconds);
  return AskMachine(address_, patience_, request, &v1::Machine::Stub::FinishRound);
}

absl::StatusOr<v1::MachineStatus> MachineClient::Resume() const {
  return AskMachine(address_, patience_, v1::ResumeMachineRequest(), &v1::Machine::Stub::Resume);
}

absl::StatusOr<v1::MachineStatus> MachineClient::SetLimits(
    const v1::SetLimitsRequest& request) const {
  return AskMachine(address_, patience_, request, &v1::Machine::Stub::SetLimits);
}

}  // namespace atolld
