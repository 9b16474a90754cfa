#include "daemon/transport/grpc_transport.h"

#include <grpc/grpc.h>
#include <grpcpp/channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/env/env.h"
#include "daemon/env/network.h"
#include "daemon/env/wake_event.h"
#include "daemon/transport/address_book.h"
#include "daemon/transport/channels.h"
#include "daemon/transport/grpc_call.h"
#include "daemon/transport/grpc_values.h"
#include "daemon/transport/health_service.h"
#include "daemon/transport/line_relay.h"
#include "daemon/transport/server_probe.h"
#include "daemon/transport/sockets.h"
#include "daemon/transport/tls.h"
#include "membership/trust/identity.h"

namespace atolld {
namespace {

// When no descriptor is left, connections stay with the kernel for this long before the next look.
constexpr int kFullMilliseconds = 100;

size_t MostDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 512;
  return static_cast<size_t>(limit.rlim_cur / 4 * 3);
}

bool IsFull(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// FrontDoor: the listening sockets of a gRPC server, and the thread that accepts on them.
//
// gRPC's own acceptor closes for good when the process has no descriptor left, so a client that can
// open connections could shut out all others until a restart. Law: no number of connections makes
// this one stop, and connections leave descriptors for the process's own files and dials.
class FrontDoor {
 public:
  using Taker = grpc::experimental::ExternalConnectionAcceptor;

  // Listens, but does not accept yet. Fails as Transport::Listen.
  static absl::StatusOr<std::unique_ptr<FrontDoor>> Open(const std::string& address,
                                                         std::shared_ptr<CappedLine> line);

  // Accepts from now on, for as long as this lives. `taker` is of a server that has started; it may
  // stop before.
  void Start(std::unique_ptr<Taker> taker);
  ~FrontDoor();

  int port() const { return listeners_.port; }

 private:
  FrontDoor(TcpListeners listeners, Socket stop, size_t most, std::shared_ptr<CappedLine> line);
  void Run();
  bool AcceptAll(int listener);

  const TcpListeners listeners_;
  const Socket stop_;  // readable: the thread ends
  // A connection is hung up on at once where its descriptor has this number or a higher one: the
  // kernel gives out the lowest, so that at least as many are open. Three quarters of what the
  // system lets this process have.
  const size_t most_;
  const std::shared_ptr<CappedLine> line_;
  std::unique_ptr<Taker> taker_;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<FrontDoor>> FrontDoor::Open(const std::string& address,
                                                           std::shared_ptr<CappedLine> line) {
  ASSIGN_OR_RETURN(TcpListeners listeners, ListenTcp(address));
  ASSIGN_OR_RETURN(Descriptor stop, MakeWakeEvent());
  return std::unique_ptr<FrontDoor>(
      new FrontDoor(std::move(listeners), std::move(stop), MostDescriptors(), std::move(line)));
}

FrontDoor::FrontDoor(TcpListeners listeners, Socket stop, size_t most,
                     std::shared_ptr<CappedLine> line)
    : listeners_(std::move(listeners)),
      stop_(std::move(stop)),
      most_(most),
      line_(std::move(line)) {}

void FrontDoor::Start(std::unique_ptr<Taker> taker) {
  taker_ = std::move(taker);
  thread_ = std::thread([this] { Run(); });
}

FrontDoor::~FrontDoor() {
  if (!thread_.joinable()) return;
  SetWakeEvent(stop_);
  thread_.join();
}

void FrontDoor::Run() {
  std::vector<pollfd> all = {{stop_.get(), POLLIN, 0}};
  for (const Socket& socket : listeners_.sockets) all.push_back({socket.get(), POLLIN, 0});
  bool full = false;
  while (true) {
    // While it is full only the end is waited for.
    const size_t watched = full ? 1 : all.size();
    if (poll(all.data(), watched, full ? kFullMilliseconds : -1) < 0 && errno != EINTR) return;
    if (all[0].revents != 0) return;
    full = false;
    for (const Socket& socket : listeners_.sockets) full = !AcceptAll(socket.get()) || full;
  }
}

// Returns false if no descriptor is left.
bool FrontDoor::AcceptAll(int listener) {
  while (true) {
    Socket accepted(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (accepted.get() < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return !IsFull(errno);
    }
    if (static_cast<size_t>(accepted.get()) >= most_) continue;  // hangs up
    const int on = 1;
    setsockopt(accepted.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    absl::StatusOr<Socket> served = line_->Accepted(std::move(accepted));
    if (!served.ok()) continue;  // no descriptor is left: hangs up
    Taker::NewConnectionParameters connection;
    connection.listener_fd = listener;
    connection.fd = served->Release();
    taker_->HandleNewConnection(&connection);
  }
}

// -----------------------------------------------------------------------------------------------

// The time to find out why a handshake failed; the other end has just answered.
constexpr absl::Duration kLook = absl::Seconds(2);

// The streams that one connection may have open: an exchange needs one for each pair of peers, a
// joiner a few.
constexpr int kMaxStreams = 256;

// A client that connects and does not shake hands holds a descriptor for this long.
constexpr int kHandshakeMilliseconds = 10000;

// Ends a call that is not permitted; nothing of it is read.
class RefusingReactor final : public grpc::ServerGenericBidiReactor {
 public:
  explicit RefusingReactor(const absl::Status& why) { Finish(ToGrpc(why)); }
  void OnDone() override { delete this; }
};

// The listening side: a gRPC server that takes any method and hands its calls to the acceptor.
class GrpcListener final : public Listener {
 public:
  struct Options {
    absl::Duration failure_timeout;
    std::shared_ptr<grpc::ServerCredentials> tls;  // null: plain text
    const grpc::ResourceQuota* quota = nullptr;
    std::shared_ptr<CappedLine> line;
  };

  // Errors as Transport::Listen.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(Executor& executor, const Options& options,
                                                        const std::string& address,
                                                        Transport::Acceptor acceptor);
  ~GrpcListener() override;

  std::string address() const override { return address_; }

 private:
  class Service;
  explicit GrpcListener(std::unique_ptr<Service> service);

  const std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<FrontDoor> door_;  // none: a Unix-domain socket, which gRPC listens on itself
  std::string address_;
};

class GrpcListener::Service final : public grpc::CallbackGenericService {
 public:
  Service(Executor& executor, bool certificates, std::shared_ptr<CappedLine> line,
          Transport::Acceptor acceptor)
      : executor_(executor),
        certificates_(certificates),
        live_(std::make_shared<LiveCalls>(executor_, std::move(line))),
        acceptor_(std::make_shared<Transport::Acceptor>(std::move(acceptor))) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    std::optional<Identity> identity;
    if (certificates_) {
      const absl::StatusOr<Identity> caller = reader_.Read(*context->auth_context());
      const absl::Status allowed =
          caller.ok() ? CheckAccess(*caller, context->method()) : caller.status();
      if (!allowed.ok()) return new RefusingReactor(allowed);
      identity = *caller;
    }
    auto* const reactor =
        TakeServerCall(executor_, live_, context, std::move(identity),
                       [acceptor = std::weak_ptr<Transport::Acceptor>(acceptor_)](
                           const std::string& method, std::unique_ptr<Call> call) {
                         if (const auto accept = acceptor.lock())
                           (*accept)(method, std::move(call));
                       });
    return reactor != nullptr ? reactor : CallbackGenericService::CreateReactor(context);
  }

  // Loop thread: no call is handed over afterwards.
  void Close() {
    acceptor_.reset();
    live_->Close(absl::UnavailableError("the server is shutting down"));
  }
  void WaitUntilEmpty() { live_->WaitUntilEmpty(); }

 private:
  Executor& executor_;
  const bool certificates_;  // every caller has shown one
  IdentityReader reader_;
  const std::shared_ptr<LiveCalls> live_;
  std::shared_ptr<Transport::Acceptor> acceptor_;
};

absl::StatusOr<std::unique_ptr<Listener>> GrpcListener::Open(Executor& executor,
                                                             const Options& options,
                                                             const std::string& address,
                                                             Transport::Acceptor acceptor) {
  // gRPC would take a Unix socket away from a server that listens on it.
  RETURN_IF_ERROR(CheckListenAddress(address));
  const bool unix_socket = absl::StartsWith(address, "unix:");
  const bool certificates = options.tls != nullptr && !unix_socket;
  std::unique_ptr<GrpcListener> listener(new GrpcListener(std::make_unique<Service>(
      executor, certificates, unix_socket ? nullptr : options.line, std::move(acceptor))));

  grpc::ServerBuilder builder;
  const auto credentials = certificates ? options.tls : grpc::InsecureServerCredentials();
  std::unique_ptr<FrontDoor::Taker> taker;
  if (unix_socket) {
    builder.AddListeningPort(address, credentials);
  } else {
    ASSIGN_OR_RETURN(listener->door_, FrontDoor::Open(address, options.line));
    taker = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  }
  builder.RegisterCallbackGenericService(listener->service_.get());
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  builder.SetMaxSendMessageSize(static_cast<int>(kMaxToldBytes));
  builder.SetResourceQuota(*options.quota);
  for (int algorithm = GRPC_COMPRESS_NONE + 1; algorithm < GRPC_COMPRESS_ALGORITHMS_COUNT;
       ++algorithm) {
    builder.SetCompressionAlgorithmSupportStatus(static_cast<grpc_compression_algorithm>(algorithm),
                                                 false);
  }
  const auto argument = [&builder](const char* name, int value) {
    builder.AddChannelArgument(name, value);
  };
  argument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  argument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds);
  argument(GRPC_ARG_KEEPALIVE_TIME_MS, KeepaliveTimeMilliseconds(options.failure_timeout));
  argument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KeepaliveTimeoutMilliseconds(options.failure_timeout));
  argument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  argument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);  // clients probe as often as their own setting says
  listener->server_ = builder.BuildAndStart();
  listener->address_ = address;
  if (unix_socket) {
    if (listener->server_ == nullptr) return WhyNotBound(address);
    RETURN_IF_ERROR(MakeSocketPrivate(address));
    return listener;
  }
  if (listener->server_ == nullptr) return absl::UnknownError("gRPC cannot serve " + address);
  listener->door_->Start(std::move(taker));
  listener->address_ =
      absl::StrCat(address.substr(0, address.rfind(':')), ":", listener->door_->port());
  return listener;
}

GrpcListener::GrpcListener(std::unique_ptr<Service> service) : service_(std::move(service)) {}

GrpcListener::~GrpcListener() {
  door_.reset();
  service_->Close();
  if (server_ == nullptr) return;
  server_->Shutdown(gpr_inf_past(GPR_CLOCK_MONOTONIC));
  service_->WaitUntilEmpty();
}

// The bytes on the network for each byte of a message: TLS and HTTP/2 add a third of a per cent,
// and each 1448 bytes travel with 66 of Ethernet, IP and TCP. One packet of 66 bytes answers two
// packets.
constexpr double kOnTheWire = 1.05;
constexpr double kAnswered = 0.023;

// An address on which nothing listens: with caps no connection bypasses them.
constexpr char kNowhere[] = "unix-abstract:atoll-line-nowhere";

std::string RouteTo(CappedLine& line, const std::string& address, const std::string& numbers,
                    Role server) {
  if (absl::StartsWith(address, "unix:")) return "";
  absl::StatusOr<std::string> target =
      line.TargetOf(address, numbers, server == Role::kCoordinator);
  return target.ok() ? *std::move(target) : kNowhere;
}

}  // namespace

// -----------------------------------------------------------------------------------------------

GrpcTransport::GrpcTransport(Executor& executor, Options options)
    : executor_(executor),
      options_(std::move(options)),
      line_(std::make_shared<CappedLine>()),
      quota_(std::make_unique<grpc::ResourceQuota>("atoll")),
      channels_([this] {
        quota_->Resize(options_.memory_bytes);
        grpc::ChannelArguments arguments = ClientArguments(options_.failure_timeout);
        arguments.SetResourceQuota(*quota_);
        return std::make_shared<ChannelCache>(
            options_.tls, std::move(arguments), options_.lanes,
            [line = line_](const std::string& address, const std::string& numbers, Role server) {
              return RouteTo(*line, address, numbers, server);
            });
      }()),
      addresses_(std::make_shared<AddressBook>(options_.failure_timeout)),
      looks_(std::make_shared<Looks>()),
      dialled_(std::make_shared<LiveCalls>(executor_, line_)),
      dialled_coordinator_(std::make_shared<LiveCalls>(executor_, line_)),
      dialled_here_(std::make_shared<LiveCalls>(executor_, nullptr)) {
  CHECK(options_.lanes >= 1);
  QuietGrpcLog();
}

GrpcTransport::~GrpcTransport() {
  for (const auto& calls : {dialled_, dialled_coordinator_, dialled_here_}) {
    calls->Close(absl::UnavailableError("the transport was closed"));
  }
  addresses_->Close();
  for (const auto& calls : {dialled_, dialled_coordinator_, dialled_here_}) calls->WaitUntilEmpty();
}

absl::Status GrpcTransport::SetCaps(uint64_t up_cap, uint64_t down_cap) {
  ASSIGN_OR_RETURN(const bool first, line_->SetCaps(up_cap, down_cap));
  if (!first) return absl::OkStatus();
  channels_->DropAll();
  dialled_->Break(absl::UnavailableError("this machine's line has caps now; dialling again"));
  return absl::OkStatus();
}

LineBytes GrpcTransport::line_bytes() const {
  const auto sent = static_cast<double>(line_->count().sent);
  const auto received = static_cast<double>(line_->count().received);
  return {static_cast<uint64_t>(sent * kOnTheWire + received * kAnswered),
          static_cast<uint64_t>(received * kOnTheWire + sent * kAnswered)};
}

absl::StatusOr<std::unique_ptr<Listener>> GrpcTransport::Listen(const std::string& address,
                                                                Acceptor acceptor) {
  GrpcListener::Options options;
  options.failure_timeout = options_.failure_timeout;
  if (options_.tls) options.tls = options_.tls->server;
  options.quota = quota_.get();
  options.line = line_;
  return GrpcListener::Open(executor_, options, address, WithHealth(std::move(acceptor)));
}

std::unique_ptr<Call> GrpcTransport::Dial(const std::string& address, const std::string& method,
                                          absl::Duration deadline) {
  const PeerAddress to = ParsePeerAddress(address);
  Dialled dialled;
  const bool here = absl::StartsWith(to.address, "unix:");
  const bool leads = ServedBy(method) == Role::kCoordinator;
  dialled.relayed = !here && line_->relays();
  const ChannelCache::Server server{ServedBy(method), to.peer};
  const auto chosen = std::make_shared<std::string>();  // of several addresses
  dialled.connect = [channels = channels_, addresses = addresses_, at = to.address, server, chosen,
                     relayed = dialled.relayed](Dialled::Connected connected) {
    if (auto open = channels->Find(at, server)) return connected(std::move(open));
    if (relayed) return connected(channels->Get(at, "", server));  // the relay finds it
    addresses->Find(at, [=](const absl::StatusOr<std::string>& numbers) {
      if (!numbers.ok()) return connected(numbers.status());
      *chosen = *numbers;
      connected(channels->Get(at, *numbers, server));
    });
  };
  dialled.address = to.address;
  dialled.method = method;
  dialled.deadline = deadline;
  dialled.on_unavailable = [channels = channels_, addresses = addresses_, at = to.address, chosen](
                               const std::shared_ptr<grpc::Channel>& channel, bool heard) {
    if (!heard && !chosen->empty() && *chosen != at) addresses->Blame(at, *chosen);
    if (channel != nullptr) channels->Drop(at, channel);
  };
  dialled.probe = [server = ProbedServer{to.address, ServedBy(method), to.peer, std::nullopt},
                   folder = options_.tls ? options_.tls->folder : "", chosen, looks = looks_] {
    ProbedServer looked = server;
    if (!chosen->empty()) looked.address = *chosen;
    return looks->Take(looked.address, [&] { return ProbeServerWith(looked, folder, kLook); });
  };
  return MakeClientCall(executor_,
                        here    ? dialled_here_
                        : leads ? dialled_coordinator_
                                : dialled_,
                        std::move(dialled));
}

void GrpcTransport::RefuseKeys(const std::set<std::string>& keys) {
  if (!options_.tls) return;
  options_.tls->refused->Set(keys);
  channels_->DropPeers();  // one may be open to whoever has such a key
}

}  // namespace atolld
