#include "daemon/transport/enrol_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "atoll/v1/membership.grpc.pb.h"
#include "daemon/transport/channels.h"
#include "daemon/transport/tls.h"
#include "daemon/transport/wire.h"

namespace atolld {
namespace {

constexpr absl::Duration kOneTry = absl::Seconds(10);
constexpr absl::Duration kPause = absl::Milliseconds(500);

bool MayPass(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::DEADLINE_EXCEEDED ||
         code == grpc::StatusCode::RESOURCE_EXHAUSTED || code == grpc::StatusCode::CANCELLED;
}

}  // namespace

absl::StatusOr<v1::EnrolResponse> Enrol(const CoordinatorAccess& access,
                                        const std::string& signing_request,
                                        absl::Duration patience) {
  QuietGrpcLog();
  const auto tls = MakeTlsCredentials(access.identity).channel;
  const auto channel =
      MakeChannel(access.address, Role::kCoordinator, tls, ClientArguments(kOneTry));
  const auto stub = v1::Membership::NewStub(channel);
  v1::EnrolRequest request;
  request.set_signing_request(signing_request);
  const absl::Time end = absl::Now() + patience;
  while (true) {
    grpc::ClientContext context;
    context.set_deadline(DeadlineIn(std::min(kOneTry, patience)));
    context.set_wait_for_ready(true);  // an address that refuses may listen in a moment
    v1::EnrolResponse response;
    const grpc::Status status = stub->Enrol(&context, request, &response);
    if (status.ok()) return response;
    if (!MayPass(status.error_code())) {
      return absl::Status(
          FromGrpc(status).code(),
          absl::StrCat("the coordinator at ", access.address, ": ", status.error_message()));
    }
    if (absl::Now() >= end) {
      return absl::UnavailableError(absl::StrCat("no coordinator answers at ", access.address, " (",
                                                 status.error_message(), ")"));
    }
    absl::SleepFor(kPause);
  }
}

}  // namespace atolld
