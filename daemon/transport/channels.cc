#include "daemon/transport/channels.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "compression/base/status_macros.h"
#include "daemon/identity/certificate.h"
#include "daemon/transport/connection_failure.h"
#include "daemon/transport/grpc_values.h"
#include "daemon/transport/sockets.h"

namespace atolld {
namespace {

// A peer that redials after a short break must not be held up by gRPC.
constexpr int kFirstBackoffMilliseconds = 100;
constexpr int kLongestBackoffMilliseconds = 1000;

// A name whose address has changed (a container that was started again) is looked up again after
// this time.
constexpr int kLookupMilliseconds = 1000;

// The part of failure_timeout that one connection may take.
constexpr double kConnectionPart = 0.75;

// The most addresses with open channels; beyond it, those without a call are closed. A roster is
// far smaller.
constexpr size_t kMaxAddresses = 1024;

// The time to find out whether the address at which a handshake stalled can be connected to.
constexpr absl::Duration kReachLook = absl::Seconds(1);

int ClampMilliseconds(absl::Duration duration) {
  return static_cast<int>(
      absl::ToInt64Milliseconds(std::clamp(duration, absl::Milliseconds(50), absl::Hours(1))));
}

// A thread of gRPC does not wait for a reader: what standard error does not take immediately is
// left out.
void WriteGrpcLine(gpr_log_func_args* args) {
  pollfd error = {STDERR_FILENO, POLLOUT, 0};
  if (poll(&error, 1, 0) <= 0) return;
  const std::string line = absl::StrCat(gpr_log_severity_string(args->severity), " ", args->file,
                                        ":", args->line, "] ", args->message, "\n");
  (void)!write(STDERR_FILENO, line.data(), std::min<size_t>(line.size(), PIPE_BUF));
}

}  // namespace

// gRPC's own lines go to standard error in a form of their own and repeat what the statuses say. To
// look for a fault in gRPC, set GRPC_VERBOSITY.
void QuietGrpcLog() {
  if (std::getenv("GRPC_VERBOSITY") != nullptr) return gpr_set_log_function(WriteGrpcLine);
  gpr_set_log_verbosity(static_cast<gpr_log_severity>(GPR_LOG_SEVERITY_ERROR + 1));
}

int KeepaliveTimeMilliseconds(absl::Duration failure_timeout) {
  return ClampMilliseconds(failure_timeout / 2);
}

int KeepaliveTimeoutMilliseconds(absl::Duration failure_timeout) {
  return ClampMilliseconds(failure_timeout);
}

std::string TargetOf(const std::string& address) {
  if (absl::StartsWith(address, "unix:")) return address;
  // A URI; of a link's own addresses ("[fe80::1%eth0]:7070") the interface is named.
  return absl::StrCat("dns:///", absl::StrReplaceAll(address, {{"%", "%25"}}));
}

grpc::ChannelArguments ClientArguments(absl::Duration failure_timeout) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  arguments.SetMaxSendMessageSize(static_cast<int>(kMaxMessageBytes));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, KeepaliveTimeMilliseconds(failure_timeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KeepaliveTimeoutMilliseconds(failure_timeout));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA,
                   0);  // no limit: a quiet stream is probed too
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstBackoffMilliseconds);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestBackoffMilliseconds);
  // Despite its name this is also the time for one attempt to connect. A caller that waits for an
  // answer for failure_timeout learns before that why there is no connection.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   ClampMilliseconds(failure_timeout * kConnectionPart));
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kLookupMilliseconds);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Atoll does not compress messages, and a stranger's compressed message may be a bomb.
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE);
  return arguments;
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, Role server,
                                           const std::shared_ptr<grpc::ChannelCredentials>& tls,
                                           grpc::ChannelArguments arguments,
                                           const std::string& target) {
  const std::string to = target.empty() ? TargetOf(address) : target;
  if (tls == nullptr || absl::StartsWith(address, "unix:")) {
    return grpc::CreateCustomChannel(to, grpc::InsecureChannelCredentials(), arguments);
  }
  arguments.SetSslTargetNameOverride(ServerName(server));
  return grpc::CreateCustomChannel(to, tls, arguments);
}

namespace {

// Waits until the connection is made or has failed. Returns false if the time is over.
bool AwaitConnection(grpc::Channel& channel, absl::Time end) {
  while (true) {
    const grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY || state == GRPC_CHANNEL_TRANSIENT_FAILURE) return true;
    const absl::Duration left = end - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    channel.WaitForStateChange(state, DeadlineIn(left));
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectChannel(
    const std::string& address, Role server, const std::shared_ptr<grpc::ChannelCredentials>& tls,
    const grpc::ChannelArguments& arguments, absl::Time end) {
  if (absl::StartsWith(address, "unix:")) return MakeChannel(address, server, tls, arguments);
  ASSIGN_OR_RETURN(std::vector<std::string> left, FindAddresses(address, end));
  const absl::Time begun = absl::Now();
  std::shared_ptr<grpc::Channel> failed;
  while (!left.empty()) {
    std::string numbers = left[0];
    if (left.size() > 1) {
      const absl::StatusOr<TcpConnection> made = ConnectToFirst(left, end);
      if (!made.ok() && failed == nullptr) return made.status();
      if (!made.ok()) break;
      numbers = made->address;
    }
    auto channel = MakeChannel(address, server, tls, arguments, TargetOf(numbers));
    const absl::Time now = absl::Now();
    if (AwaitConnection(*channel, now + (end - now) / static_cast<int64_t>(left.size()))) {
      if (channel->GetState(false) == GRPC_CHANNEL_READY || left.size() == 1) return channel;
      failed = std::move(channel);
    }
    left.erase(std::find(left.begin(), left.end(), numbers));
  }
  if (failed != nullptr) return failed;
  const absl::Status looked = ProbeConnect(address, kReachLook).status();
  const absl::Duration waited = absl::Now() - begun;
  if (looked.ok()) return ConnectionStalled(waited);
  return absl::StartsWith(looked.message(), "timed out") ? ConnectionTimedOut(waited) : looked;
}

ChannelCache::ChannelCache(std::optional<TlsCredentials> tls, grpc::ChannelArguments arguments,
                           int lanes, Route route)
    : tls_(std::move(tls)),
      arguments_(std::move(arguments)),
      lanes_(lanes),
      route_(std::move(route)) {}

std::shared_ptr<grpc::Channel> ChannelCache::Find(const std::string& address,
                                                  const Server& server) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto servers = addresses_.find(address);
  if (servers == addresses_.end()) return nullptr;
  const auto found = servers->second.find(server);
  if (found == servers->second.end() || found->second.channels.empty()) return nullptr;
  Lanes& lanes = found->second;
  const std::shared_ptr<grpc::Channel>& open = lanes.channels[lanes.next % lanes.channels.size()];
  if (open != nullptr) ++lanes.next;
  return open;
}

std::shared_ptr<grpc::Channel> ChannelCache::Get(const std::string& address,
                                                 const std::string& numbers, const Server& server) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (addresses_.size() >= kMaxAddresses && addresses_.count(address) == 0) DropIdleLocked();
  Lanes& lanes = addresses_[address][server];
  lanes.channels.resize(static_cast<size_t>(lanes_));
  std::shared_ptr<grpc::Channel>& channel = lanes.channels[lanes.next++ % lanes.channels.size()];
  if (channel == nullptr) {
    const auto credentials = !tls_                 ? nullptr
                             : server.peer.empty() ? tls_->channel
                                                   : tls_->channel_to(server.peer);
    channel = MakeChannel(address, server.role, credentials, arguments_,
                          route_(address, numbers, server.role));
  }
  return channel;
}

void ChannelCache::DropPeers() {
  std::vector<std::shared_ptr<grpc::Channel>> dropped;  // destroyed without the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [address, servers] : addresses_) {
    for (auto& [server, lanes] : servers) {
      if (server.peer.empty()) continue;
      for (std::shared_ptr<grpc::Channel>& lane : lanes.channels) {
        dropped.push_back(std::exchange(lane, nullptr));
      }
    }
  }
}

void ChannelCache::DropAll() {
  std::map<std::string, std::map<Server, Lanes>> dropped;  // destroyed without the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  dropped.swap(addresses_);
}

void ChannelCache::Drop(const std::string& address, const std::weak_ptr<grpc::Channel>& channel) {
  const std::shared_ptr<grpc::Channel> dropped = channel.lock();  // destroyed without the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = addresses_.find(address);
  if (found == addresses_.end() || dropped == nullptr) return;
  for (auto& [server, lanes] : found->second) {
    for (std::shared_ptr<grpc::Channel>& lane : lanes.channels) {
      if (lane == dropped) lane = nullptr;
    }
  }
}

void ChannelCache::DropIdleLocked() {
  const auto idle = [](const auto& entry) {
    const auto& channels = entry.second.channels;
    return std::all_of(channels.begin(), channels.end(),
                       [](const auto& lane) { return lane.use_count() <= 1; });
  };
  for (auto it = addresses_.begin(); it != addresses_.end();) {
    const bool unused = std::all_of(it->second.begin(), it->second.end(), idle);
    it = unused ? addresses_.erase(it) : std::next(it);
  }
}

}  // namespace atolld
