#include "daemon/transport/channels.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/identity/certificate.h"
#include "daemon/transport/grpc_values.h"

namespace atolld {
namespace {

// A peer that redials after a short break must not be held up by gRPC.
constexpr int kFirstBackoffMilliseconds = 100;
constexpr int kLongestBackoffMilliseconds = 1000;

// A name whose address has changed (a container that was started again) is looked up again this
// soon.
constexpr int kLookupMilliseconds = 1000;

// Addresses with open channels; beyond, those without a call are closed. A roster is far smaller.
constexpr size_t kMaxAddresses = 1024;

int ClampMilliseconds(absl::Duration duration) {
  return static_cast<int>(
      absl::ToInt64Milliseconds(std::clamp(duration, absl::Milliseconds(50), absl::Hours(1))));
}

}  // namespace

// gRPC's own lines go to standard error in a form of their own and repeat what the statuses say.
// Whoever looks for a fault in gRPC sets GRPC_VERBOSITY.
void QuietGrpcLog() {
  if (std::getenv("GRPC_VERBOSITY") != nullptr) return;
  gpr_set_log_verbosity(static_cast<gpr_log_severity>(GPR_LOG_SEVERITY_ERROR + 1));
}

int KeepaliveTimeMilliseconds(absl::Duration failure_timeout) {
  return ClampMilliseconds(failure_timeout / 2);
}

int KeepaliveTimeoutMilliseconds(absl::Duration failure_timeout) {
  return ClampMilliseconds(failure_timeout);
}

std::string TargetOf(const std::string& address) {
  return absl::StartsWith(address, "unix:") ? address : absl::StrCat("dns:///", address);
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
  // Despite its name also the time that one attempt to connect gets.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, ClampMilliseconds(failure_timeout));
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kLookupMilliseconds);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Nobody compresses here, and a stranger's compressed message may be a bomb.
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

ChannelCache::ChannelCache(std::optional<TlsCredentials> tls, grpc::ChannelArguments arguments,
                           int lanes, Route route)
    : tls_(std::move(tls)),
      arguments_(std::move(arguments)),
      lanes_(lanes),
      route_(std::move(route)) {}

std::shared_ptr<grpc::Channel> ChannelCache::Get(const std::string& address, const Server& server) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (addresses_.size() >= kMaxAddresses && addresses_.count(address) == 0) DropIdleLocked();
  Lanes& lanes = addresses_[address][server];
  lanes.channels.resize(static_cast<size_t>(lanes_));
  std::shared_ptr<grpc::Channel>& channel = lanes.channels[lanes.next++ % lanes.channels.size()];
  if (channel == nullptr) {
    const auto credentials = !tls_                 ? nullptr
                             : server.peer.empty() ? tls_->channel
                                                   : tls_->channel_to(server.peer);
    channel =
        MakeChannel(address, server.role, credentials, arguments_, route_(address, server.role));
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
