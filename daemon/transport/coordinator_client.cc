#include "daemon/transport/coordinator_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "atoll/v1/admin.grpc.pb.h"
#include "atoll/v1/membership.grpc.pb.h"
#include "compression/base/status_macros.h"
#include "daemon/transport/channels.h"
#include "daemon/transport/connection_failure.h"
#include "daemon/transport/grpc_values.h"
#include "daemon/transport/server_probe.h"
#include "daemon/transport/tls.h"

namespace atolld {

namespace {

// The time for finding out why a question was not answered. It is short, because the question
// itself has waited already.
constexpr absl::Duration kLookPatience = absl::Seconds(2);

// With several coordinators: the times for one's answer, for another to take over, and between two
// rounds.
constexpr absl::Duration kOneOfSeveral = absl::Seconds(3);
constexpr absl::Duration kTakeover = absl::Seconds(6);
constexpr absl::Duration kBetweenRounds = absl::Milliseconds(200);

std::vector<std::string> AddressesOf(const CoordinatorAccess& access) {
  std::vector<std::string> addresses;
  for (const absl::string_view one : absl::StrSplit(access.address, ',', absl::SkipWhitespace())) {
    addresses.emplace_back(absl::StripAsciiWhitespace(one));
  }
  if (addresses.empty()) addresses.push_back(access.address);
  return addresses;
}

// "no coordinator answers at ADDRESS: connection refused: nothing listens there"
absl::Status NobodyAnswers(const CoordinatorAccess& access, const grpc::Status& status) {
  const std::string line = absl::StrCat("no coordinator answers at ", access.address);
  const ProbedServer server{access.address, Role::kCoordinator, "", std::nullopt};
  const absl::Status why = ProbeServerWith(server, access.identity, kLookPatience);
  if (!why.ok()) return absl::UnavailableError(absl::StrCat(line, ": ", why.message()));
  if (access.identity.empty() && MayBeHandshake(status.error_message())) {
    return absl::UnavailableError(absl::StrCat(
        line, " in plain text: wrong protocol: what listens there wants credentials (--identity)"));
  }
  return absl::UnavailableError(absl::StrCat(line, ": ", status.error_message()));
}

absl::Status NotConnected(const std::string& address, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("no coordinator answers at ", address, ": ", why));
}

grpc::Status Unreachable(const absl::Status& why) {
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, std::string(why.message()));
}

// What the coordinator itself has said.
absl::Status ItsOwnWord(const std::string& address, absl::StatusCode code,
                        absl::string_view message) {
  return absl::Status(code, absl::StrCat("the coordinator at ", address, ": ", message));
}

absl::Status ForPeople(const CoordinatorAccess& access, const grpc::Status& status) {
  const std::string& address = access.address;
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return absl::OkStatus();
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:  // it shut down in between
      return NobodyAnswers(access, status);
    case grpc::StatusCode::DEADLINE_EXCEEDED: {
      const ProbedServer server{address, Role::kCoordinator, "", std::nullopt};
      const absl::Status why = ProbeServerWith(server, access.identity, kLookPatience);
      return absl::DeadlineExceededError(
          absl::StrCat("the coordinator at ", address, " did not answer in time: ",
                       why.ok() ? absl::string_view("timed out: it is there, and busy or stopped")
                                : why.message()));
    }
    case grpc::StatusCode::UNIMPLEMENTED:
      return absl::UnimplementedError(
          absl::StrCat("what answers at ", address, " is not a coordinator of this release"));
    default:
      return ItsOwnWord(address, FromGrpc(status).code(), status.error_message());
  }
}

// Returns true if another coordinator may lead, and answer.
bool MayLeadElsewhere(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::CANCELLED ||
         code == grpc::StatusCode::DEADLINE_EXCEEDED;
}

}  // namespace

// The connections to a run's coordinators.
struct AdminClient::Connection {
  struct Way {
    std::string address;
    std::unique_ptr<v1::Admin::Stub> stub;  // null: not connected
  };

  Connection(CoordinatorAccess to, absl::Duration wait) : access(std::move(to)), patience(wait) {
    QuietGrpcLog();
    if (!access.identity.empty()) tls = MakeTlsCredentials(access.identity).channel;
    arguments = ClientArguments(patience);
    arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxToldBytes));
    for (const std::string& address : AddressesOf(access)) ways.push_back({address, nullptr});
  }

  // Makes the connection first, so that a question has all of the remaining time for its answer.
  grpc::Status Connect(absl::Time end, Way* to) const {
    if (to->stub != nullptr) return grpc::Status::OK;
    const auto channel = ConnectChannel(to->address, Role::kCoordinator, tls, arguments, end);
    if (!channel.ok()) return Unreachable(channel.status());
    to->stub = v1::Admin::NewStub(*channel);
    return grpc::Status::OK;
  }

  // Asks one question and waits for its answer, within the patience for each coordinator.
  template <typename Response, typename Request>
  absl::StatusOr<Response> Ask(const Request& request,
                               grpc::Status (v1::Admin::Stub::*method)(grpc::ClientContext*,
                                                                       const Request&, Response*)) {
    const absl::Duration one = ways.size() == 1 ? patience : std::min(patience, kOneOfSeveral);
    const absl::Time end = absl::Now() + std::min(patience, kTakeover);
    std::vector<std::string> failures(ways.size());
    for (size_t tried = 1;; ++tried) {
      Way& asked = ways[way];
      const absl::Time by = absl::Now() + one;
      const grpc::Status connected = Connect(by, &asked);
      grpc::ClientContext context;
      context.set_deadline(DeadlineIn(by - absl::Now()));
      Response answer;
      const grpc::Status status =
          connected.ok() ? ((*asked.stub).*method)(&context, request, &answer) : connected;
      if (status.ok()) return answer;
      // Another address of the name may answer the next time.
      if (MayLeadElsewhere(status.error_code())) asked.stub.reset();
      if (!connected.ok() && ways.size() == 1) {
        return NotConnected(asked.address, status.error_message());
      }
      if (!MayLeadElsewhere(status.error_code()) || ways.size() == 1) {
        return ForPeople({asked.address, access.identity}, status);
      }
      failures[way] = absl::StrCat(asked.address, ": ", status.error_message());
      if (tried >= ways.size() && absl::Now() >= end) {
        return absl::UnavailableError(
            absl::StrCat("no coordinator that leads answers: ", absl::StrJoin(failures, "; ")));
      }
      way = (way + 1) % ways.size();
      if (tried % ways.size() == 0) absl::SleepFor(kBetweenRounds);
    }
  }

  const CoordinatorAccess access;
  const absl::Duration patience;
  std::shared_ptr<grpc::ChannelCredentials> tls;
  grpc::ChannelArguments arguments;
  std::vector<Way> ways;  // one a coordinator
  size_t way = 0;         // that answered last, or is asked next
  std::mutex mutex;
  bool cancelled = false;                   // guarded by mutex
  grpc::ClientContext* watching = nullptr;  // guarded by mutex: of the WatchRun that goes on
};

AdminClient::AdminClient(CoordinatorAccess access, absl::Duration patience)
    : connection_(std::make_unique<Connection>(std::move(access), patience)) {}
AdminClient::~AdminClient() = default;

absl::StatusOr<v1::RunStatus> AdminClient::ShowRun(uint64_t first_version, uint32_t limit) {
  v1::ShowRunRequest request;
  request.set_first_version(first_version);
  request.set_limit(limit);
  return connection_->Ask(request, &v1::Admin::Stub::ShowRun);
}

absl::StatusOr<v1::RunStatus> AdminClient::PauseRun(const std::string& reason) {
  v1::PauseRunRequest request;
  request.set_reason(reason);
  return connection_->Ask(request, &v1::Admin::Stub::PauseRun);
}

absl::StatusOr<v1::RunStatus> AdminClient::ResumeRun() {
  return connection_->Ask(v1::ResumeRunRequest(), &v1::Admin::Stub::ResumeRun);
}

absl::StatusOr<v1::RunStatus> AdminClient::StopRun(const std::string& reason) {
  v1::StopRunRequest request;
  request.set_reason(reason);
  return connection_->Ask(request, &v1::Admin::Stub::StopRun);
}

absl::StatusOr<v1::PeerStatus> AdminClient::DrainPeer(const std::string& peer,
                                                      const std::string& reason) {
  v1::DrainPeerRequest request;
  request.set_peer(peer);
  request.set_reason(reason);
  return connection_->Ask(request, &v1::Admin::Stub::DrainPeer);
}

absl::StatusOr<v1::PeerStatus> AdminClient::EvictPeer(const std::string& peer,
                                                      const std::string& reason, bool undo) {
  v1::EvictPeerRequest request;
  request.set_peer(peer);
  request.set_reason(reason);
  request.set_undo(undo);
  return connection_->Ask(request, &v1::Admin::Stub::EvictPeer);
}

absl::Status AdminClient::WatchRun(absl::Duration interval,
                                   const std::function<bool(const v1::RunStatus&)>& on_status) {
  // A call with a deadline would end the watch; asking once before it shows whether a coordinator
  // answers.
  ASSIGN_OR_RETURN(const v1::RunStatus first, ShowRun(0, 1));

  v1::WatchRunRequest request;
  request.set_interval_milliseconds(static_cast<uint32_t>(absl::ToInt64Milliseconds(interval)));
  grpc::ClientContext context;
  {
    const std::lock_guard<std::mutex> lock(connection_->mutex);
    if (connection_->cancelled) return absl::CancelledError("the watch was cancelled");
    connection_->watching = &context;
  }
  const auto reader = connection_->ways[connection_->way].stub->WatchRun(&context, request);
  v1::RunStatus status;
  bool wanted = true;
  while (wanted && reader->Read(&status)) wanted = on_status(status);
  if (!wanted) context.TryCancel();
  const grpc::Status end = reader->Finish();
  const std::lock_guard<std::mutex> lock(connection_->mutex);
  connection_->watching = nullptr;
  if (MayLeadElsewhere(end.error_code())) connection_->ways[connection_->way].stub.reset();
  if (!wanted) return absl::OkStatus();
  if (connection_->cancelled) return absl::CancelledError("the watch was cancelled");
  return ForPeople({connection_->ways[connection_->way].address, connection_->access.identity},
                   end);
}

absl::StatusOr<v1::CreateTokenResponse> AdminClient::CreateToken(
    const v1::CreateTokenRequest& request) {
  return connection_->Ask(request, &v1::Admin::Stub::CreateToken);
}

absl::StatusOr<v1::ListTokensResponse> AdminClient::ListTokens() {
  return connection_->Ask(v1::ListTokensRequest(), &v1::Admin::Stub::ListTokens);
}

absl::StatusOr<v1::TokenStatus> AdminClient::RevokeToken(const std::string& serial) {
  v1::RevokeTokenRequest request;
  request.set_serial(serial);
  return connection_->Ask(request, &v1::Admin::Stub::RevokeToken);
}

absl::StatusOr<std::vector<v1::Account>> AdminClient::ListAccounts() {
  std::vector<v1::Account> accounts;
  v1::ListAccountsRequest request;
  do {
    ASSIGN_OR_RETURN(v1::ListAccountsResponse page,
                     connection_->Ask(request, &v1::Admin::Stub::ListAccounts));
    for (v1::Account& one : *page.mutable_accounts()) accounts.push_back(std::move(one));
    request.set_after(page.next());
  } while (!request.after().empty());
  return accounts;
}

absl::StatusOr<v1::Receipt> AdminClient::IssueReceipt(const std::string& peer) {
  v1::IssueReceiptRequest request;
  request.set_peer(peer);
  return connection_->Ask(request, &v1::Admin::Stub::IssueReceipt);
}

absl::StatusOr<std::vector<v1::IdentityStatus>> AdminClient::ListIdentities() {
  std::vector<v1::IdentityStatus> identities;
  v1::ListIdentitiesRequest request;
  do {
    ASSIGN_OR_RETURN(v1::ListIdentitiesResponse page,
                     connection_->Ask(request, &v1::Admin::Stub::ListIdentities));
    for (v1::IdentityStatus& one : *page.mutable_identities()) {
      identities.push_back(std::move(one));
    }
    request.set_after(page.next());
  } while (!request.after().empty());
  return identities;
}

absl::StatusOr<v1::RevokeIdentityResponse> AdminClient::RevokeIdentity(const std::string& identity,
                                                                       const std::string& reason) {
  v1::RevokeIdentityRequest request;
  request.set_identity(identity);
  request.set_reason(reason);
  return connection_->Ask(request, &v1::Admin::Stub::RevokeIdentity);
}

void AdminClient::Cancel() {
  const std::lock_guard<std::mutex> lock(connection_->mutex);
  connection_->cancelled = true;
  if (connection_->watching != nullptr) connection_->watching->TryCancel();
}

absl::StatusOr<v1::ListHeadersResponse> AdminClient::ListHeaders(uint64_t first_version,
                                                                 uint32_t limit) {
  v1::ListHeadersRequest request;
  request.set_first_version(first_version);
  request.set_limit(limit);
  return connection_->Ask(request, &v1::Admin::Stub::ListHeaders);
}

// -----------------------------------------------------------------------------------------------

namespace {

constexpr absl::Duration kOneTry = absl::Seconds(10);
// A waiting user reads within ten seconds what is waited for: this, and the time to find out why.
constexpr absl::Duration kOneConnection = absl::Seconds(5);
constexpr absl::Duration kPause = absl::Milliseconds(500);

bool MayPass(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::DEADLINE_EXCEEDED ||
         code == grpc::StatusCode::RESOURCE_EXHAUSTED || code == grpc::StatusCode::CANCELLED;
}

// Says that no coordinator answers: immediately, and again when the reason changes.
class WaitSayer {
 public:
  WaitSayer(const std::function<void(const std::string&)>& say, absl::Time end)
      : say_(say), end_(end) {}

  void Say(const std::string& why) {
    if (!say_ || why == said_) return;
    said_ = why;
    say_(absl::StrCat(why, "; asking again for ",
                      absl::FormatDuration(absl::Ceil(end_ - absl::Now(), absl::Seconds(1)))));
  }

 private:
  const std::function<void(const std::string&)>& say_;
  const absl::Time end_;
  std::string said_;
};

// Asks one coordinator one question. The connection must be made within kOneConnection.
template <typename Response, typename Request>
grpc::Status AskOnce(const std::string& address, const CoordinatorAccess& access,
                     const Request& request,
                     grpc::Status (v1::Membership::Stub::*method)(grpc::ClientContext*,
                                                                  const Request&, Response*),
                     absl::Duration patience, Response* response) {
  const absl::Time by = absl::Now() + patience;
  const auto channel =
      ConnectChannel(address, Role::kCoordinator, MakeTlsCredentials(access.identity).channel,
                     ClientArguments(kOneTry), std::min(by, absl::Now() + kOneConnection));
  if (!channel.ok()) return Unreachable(channel.status());
  const auto stub = v1::Membership::NewStub(*channel);
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(by - absl::Now()));
  return ((*stub).*method)(&context, request, response);
}

// Asks with the token's credentials until a coordinator answers.
template <typename Response, typename Request>
absl::StatusOr<Response> AskUntilAnswered(
    const CoordinatorAccess& access, const Request& request,
    grpc::Status (v1::Membership::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
    const Waiting& waiting) {
  QuietGrpcLog();
  const std::vector<std::string> addresses = AddressesOf(access);
  const bool several = addresses.size() > 1;
  const absl::Time end = absl::Now() + waiting.patience;
  WaitSayer sayer(waiting.say, end);
  for (size_t tried = 0;; ++tried) {
    const std::string& address = addresses[tried % addresses.size()];
    Response response;
    const grpc::Status status =
        AskOnce(address, access, request, method,
                std::min(several ? kOneOfSeveral : kOneTry, waiting.patience), &response);
    if (status.ok()) return response;
    if (!MayPass(status.error_code())) {
      return ItsOwnWord(address, FromGrpc(status).code(), status.error_message());
    }
    if (tried + 1 < addresses.size()) continue;  // the next may lead
    const ProbedServer server{address, Role::kCoordinator, "", std::nullopt};
    const absl::Status why = ProbeServerWith(server, access.identity, kLookPatience);
    const std::string line =
        absl::StrCat("no coordinator answers at ", address, ": ",
                     why.ok() ? absl::string_view(status.error_message()) : why.message());
    if (absl::IsFailedPrecondition(why)) return absl::FailedPreconditionError(line);
    if (absl::Now() >= end) return absl::UnavailableError(line);
    sayer.Say(line);
    absl::SleepFor(kPause);
  }
}

}  // namespace

absl::StatusOr<v1::EnrolResponse> Enrol(const CoordinatorAccess& access,
                                        const std::string& signing_request,
                                        const Waiting& waiting) {
  v1::EnrolRequest request;
  request.set_signing_request(signing_request);
  return AskUntilAnswered<v1::EnrolResponse>(access, request, &v1::Membership::Stub::Enrol,
                                             waiting);
}

absl::StatusOr<v1::RunDescription> DescribeRun(const CoordinatorAccess& access,
                                               const Waiting& waiting) {
  return AskUntilAnswered<v1::RunDescription>(access, v1::DescribeRequest(),
                                              &v1::Membership::Stub::Describe, waiting);
}

// -----------------------------------------------------------------------------------------------

namespace {

// The limits in membership.proto: bytes of one message, and of one call in each direction.
constexpr uint64_t kMeasureMessage = uint64_t{64} << 10;
constexpr uint64_t kMostMeasured = uint64_t{8} << 20;

// On the slowest line in use, 0.5 Mbit/s, that takes two seconds.
constexpr uint64_t kFirstMeasured = uint64_t{128} << 10;

// A line that was busy for this long has shown its rate.
constexpr absl::Duration kBusyEnough = absl::Milliseconds(500);
constexpr absl::Duration kMeasuring = absl::Seconds(3);
constexpr absl::Duration kOneMeasure = absl::Seconds(6);

struct Measured {
  absl::Duration up, down;  // from the first of the bytes to the last
};

// Returns random bytes, because a device on the way might compress zeros.
std::string Incompressible(uint64_t bytes) {
  std::string text(bytes, '\0');
  uint64_t state = 1;
  for (char& c : text) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>(state >> 56);
  }
  return text;
}

absl::StatusOr<Measured> MeasureOnce(v1::Membership::Stub& stub, uint64_t up, uint64_t down) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(kOneMeasure));
  const auto call = stub.Measure(&context);
  v1::MeasureMessage message;
  message.set_up_bytes(up);
  message.set_down_bytes(down);
  *message.mutable_payload() = Incompressible(std::min(kMeasureMessage, up));
  bool sent = call->Write(message);
  for (uint64_t left = up - message.payload().size(); sent && left > 0;) {
    message.clear_up_bytes();
    message.clear_down_bytes();
    message.mutable_payload()->resize(std::min<uint64_t>(kMeasureMessage, left));
    left -= message.payload().size();
    sent = call->Write(message);
  }
  call->WritesDone();
  Measured measured;
  absl::Time first, last;
  uint64_t got = 0;
  while (call->Read(&message)) {
    if (message.payload().empty()) {
      measured.up = absl::Microseconds(static_cast<double>(message.took_microseconds()));
      continue;
    }
    last = absl::Now();
    if (got == 0) first = last;
    got += message.payload().size();
  }
  const grpc::Status status = call->Finish();
  if (!status.ok()) return FromGrpc(status);
  if (got != down) {
    return absl::InternalError(absl::StrCat("it sent ", got, " bytes, and was asked for ", down));
  }
  measured.down = last - first;
  return measured;
}

// Returns the rate; the clock starts at the first message.
double RateOf(uint64_t bytes, absl::Duration took) {
  return static_cast<double>(bytes - kMeasureMessage) / std::max(absl::ToDoubleSeconds(took), 1e-5);
}

// Returns enough bytes to keep the line busy for long enough, and at most eight times as many as
// before.
uint64_t NextMeasured(uint64_t bytes, double rate, absl::Duration took) {
  if (took >= kBusyEnough) return bytes;
  const double wanted = rate * absl::ToDoubleSeconds(kBusyEnough) * 1.2;
  return std::clamp<uint64_t>(static_cast<uint64_t>(std::min(wanted, 1e12)), bytes,
                              std::min(8 * bytes, kMostMeasured));
}

absl::Status MeasureFailed(const CoordinatorAccess& access, const absl::Status& status) {
  if (absl::IsUnavailable(status)) return NobodyAnswers(access, Unreachable(status));
  if (absl::IsDeadlineExceeded(status)) {
    return absl::DeadlineExceededError(absl::StrCat(
        kFirstMeasured >> 10, " KiB each way did not pass in ", absl::FormatDuration(kOneMeasure)));
  }
  return ItsOwnWord(access.address, status.code(), status.message());
}

// Measures the line to one coordinator.
absl::StatusOr<LineSpeed> MeasureLineTo(const CoordinatorAccess& access, absl::Duration patience) {
  QuietGrpcLog();
  const auto tls = access.identity.empty() ? nullptr : MakeTlsCredentials(access.identity).channel;
  const auto channel = ConnectChannel(access.address, Role::kCoordinator, tls,
                                      ClientArguments(kOneTry), absl::Now() + kOneTry);
  if (!channel.ok()) return NotConnected(access.address, channel.status().message());
  const auto stub = v1::Membership::NewStub(*channel);
  const absl::Time begin = absl::Now();
  uint64_t up = kFirstMeasured, down = kFirstMeasured;
  LineSpeed speed;
  while (true) {
    const absl::StatusOr<Measured> once = MeasureOnce(*stub, up, down);
    const bool known = speed.up > 0;
    if (!once.ok()) {
      if (known) return speed;  // what the last call told
      if (!absl::IsResourceExhausted(once.status()) || absl::Now() >= begin + patience) {
        return MeasureFailed(access, once.status());
      }
      absl::SleepFor(kPause);
      continue;
    }
    speed = {RateOf(up, once->up), RateOf(down, once->down)};
    const bool enough = (once->up >= kBusyEnough || up == kMostMeasured) &&
                        (once->down >= kBusyEnough || down == kMostMeasured);
    if (enough || absl::Now() >= begin + kMeasuring) return speed;
    up = NextMeasured(up, speed.up, once->up);
    down = NextMeasured(down, speed.down, once->down);
  }
}

}  // namespace

absl::StatusOr<LineSpeed> MeasureLine(const CoordinatorAccess& access, absl::Duration patience) {
  absl::StatusOr<LineSpeed> speed;
  for (const std::string& address : AddressesOf(access)) {
    speed = MeasureLineTo({address, access.identity}, patience);
    if (!absl::IsUnavailable(speed.status())) break;  // it leads
  }
  return speed;
}

}  // namespace atolld
