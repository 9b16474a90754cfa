#include "daemon/transport/health_service.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/transport/channels.h"
#include "daemon/transport/grpc_values.h"
#include "daemon/transport/server_probe.h"
#include "daemon/transport/tls.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace atolld {
namespace {

namespace health = grpc::health::v1;

constexpr absl::string_view kHealthMethods = "/grpc.health.v1.Health/";
constexpr absl::string_view kWatchHealth = "/grpc.health.v1.Health/Watch";

constexpr size_t kMostAsking = 64;  // one orchestrator a process asks, and perhaps a person

}  // namespace

bool HealthService::Serves(absl::string_view method) {
  return absl::StartsWith(method, kHealthMethods);
}

void HealthService::Accept(const std::string& method, std::unique_ptr<Call> call) {
  const bool full = asking_.size() >= kMostAsking;
  const uint64_t id = ++next_;
  Asking& asking = asking_[id];
  asking.call = std::move(call);
  asking.watches = method == kWatchHealth;
  Call::Events events;
  events.on_frame = guard_.Wrap([this, id](const Frame& frame) { OnQuestion(id, frame); });
  events.on_closed = guard_.Wrap([this, id](const absl::Status&) { asking_.erase(id); });
  asking.call->Start(std::move(events));
  if (full) return asking.call->Finish(absl::ResourceExhaustedError("too many ask at once"));
  asking.call->Read();
}

void HealthService::OnQuestion(uint64_t id, const Frame& frame) {
  const auto found = asking_.find(id);
  if (found == asking_.end()) return;
  Asking& asking = found->second;
  health::HealthCheckRequest request;
  const absl::Status read = Unpack(frame, &request);
  if (!read.ok()) return asking.call->Finish(read);
  const bool known = request.service().empty();
  if (!known && !asking.watches) {
    return asking.call->Finish(absl::NotFoundError(
        "only the server as a whole has a health here: ask without a service's name"));
  }
  health::HealthCheckResponse answer;
  answer.set_status(known ? health::HealthCheckResponse::SERVING
                          : health::HealthCheckResponse::SERVICE_UNKNOWN);
  asking.call->Write(Pack(answer));
  // A watcher hears of the end by the end of the call: until then nothing changes.
  if (!asking.watches) asking.call->Finish(absl::OkStatus());
}

Transport::Acceptor WithHealth(Transport::Acceptor acceptor) {
  return [service = std::make_shared<HealthService>(), acceptor = std::move(acceptor)](
             const std::string& method, std::unique_ptr<Call> call) {
    if (HealthService::Serves(method)) {
      service->Accept(method, std::move(call));
    } else {
      acceptor(method, std::move(call));
    }
  };
}

absl::Status CheckHealth(const std::string& address, Role role, const std::string& identity,
                         absl::Duration patience) {
  QuietGrpcLog();
  const auto tls = identity.empty() ? nullptr : MakeTlsCredentials(identity).channel;
  const absl::Time by = absl::Now() + patience;
  const auto channel = ConnectChannel(address, role, tls, ClientArguments(patience), by);
  if (!channel.ok()) {
    return absl::UnavailableError(
        absl::StrCat("nobody answers at ", address, ": ", channel.status().message()));
  }
  const auto stub = health::Health::NewStub(*channel);
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(by - absl::Now()));
  health::HealthCheckResponse answer;
  const grpc::Status status = stub->Check(&context, health::HealthCheckRequest(), &answer);
  if (status.ok()) {
    if (answer.status() == health::HealthCheckResponse::SERVING) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(address, " answers, and does not serve"));
  }
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    const absl::Status why = ProbeServerWith({address, role, "", std::nullopt}, identity, patience);
    return absl::UnavailableError(absl::StrCat("nobody answers at ", address, ": ",
                                               why.ok() ? status.error_message() : why.message()));
  }
  return FromGrpc(status);
}

}  // namespace atolld
