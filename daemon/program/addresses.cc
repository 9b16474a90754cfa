#include "daemon/program/addresses.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/status_macros.h"
#include "daemon/env/network.h"
#include "daemon/transport/sockets.h"

namespace atolld {
namespace {

std::string HostPart(const std::string& address) { return address.substr(0, address.rfind(':')); }

std::string PortPart(const std::string& address) { return address.substr(address.rfind(':') + 1); }

int PortNumber(const std::string& address) {
  int port = 0;
  return absl::SimpleAtoi(PortPart(address), &port) ? port : 0;
}

// Returns addresses with this machine's own hosts, such as "192.0.2.7:7070", as examples of what to
// give.
std::string Candidates(const std::string& port) {
  const std::vector<std::string> hosts = OwnHosts();
  if (hosts.empty()) return "HOST:" + port;
  return absl::StrJoin(hosts, " or ", [&](std::string* out, const std::string& host) {
    absl::StrAppend(out, host, ":", port);
  });
}

// A name is assumed to lead somewhere, and a loopback address to be intended.
bool LeadsBack(const std::string& address) {
  return !IsLoopback(address) && ReachOf(address) == AddressReach::kThisMachine;
}

}  // namespace

std::string WhyNotForOthers(const std::string& address) {
  switch (ReachOf(address)) {
    case AddressReach::kWildcard:
      return "is every address of a machine, and nobody can dial it";
    case AddressReach::kThisMachine:
      return IsLoopback(address) ? "can be dialled from this machine alone"
                                 : "leads back to this machine (its name is loopback's here), and "
                                   "can be dialled from it alone";
    case AddressReach::kBeyond:
    case AddressReach::kUnknown:
      return "";
  }
  return "";
}

namespace {

void WarnOfCoordinator(const Config::Coordinator& coordinator, std::vector<std::string>* out) {
  const bool open = !coordinator.listen.empty() && !IsLoopback(coordinator.listen);
  const bool loopback = IsLoopback(coordinator.address);
  if (open ? !WhyNotForOthers(coordinator.address).empty() : LeadsBack(coordinator.address)) {
    out->push_back(absl::StrCat(
        "[coordinator] address '", coordinator.address, "' ", WhyNotForOthers(coordinator.address),
        "; tokens hand it out, so set it to a HOST:PORT that other machines reach (",
        Candidates(PortPart(coordinator.address)), ")"));
  }
  if (!coordinator.aggregator_address.empty() && (open || !loopback)) {
    const std::string why = WhyNotForOthers(coordinator.aggregator_address);
    if (!why.empty()) {
      out->push_back(absl::StrCat("[coordinator] aggregator_address '",
                                  coordinator.aggregator_address, "' ", why,
                                  "; set it to a HOST:PORT that other machines reach"));
    }
  }
}

void WarnOfPeer(const Config::Peer& peer, std::vector<std::string>* out) {
  const std::string& handed_out = peer.advertise.empty() ? peer.listen : peer.advertise;
  if (handed_out == kDialsOutOnly || !LeadsBack(handed_out)) return;
  out->push_back(absl::StrCat(
      "[peer] ", peer.advertise.empty() ? "listen" : "advertise", " '", handed_out, "' ",
      WhyNotForOthers(handed_out),
      "; set [peer] advertise to a HOST:PORT that other machines reach, or to 'none'"));
}

}  // namespace

std::vector<std::string> AddressWarnings(const Config& config, ConfigUse use) {
  std::vector<std::string> warnings;
  if (use != ConfigUse::kPeer) WarnOfCoordinator(config.coordinator, &warnings);
  if (use != ConfigUse::kCoordinator) WarnOfPeer(config.peer, &warnings);
  return warnings;
}

// -----------------------------------------------------------------------------------------------

bool NamesCoordinator(const Config& config) {
  return config.coordinator.address != Config::Coordinator().address ||
         !config.coordinator.listen.empty();
}

absl::Status TakeLocalAddresses(const LocalAddressOptions& options, Config* config) {
  Config::Coordinator& coordinator = config->coordinator;
  const Config::Coordinator defaults;
  const bool by_option = !options.listen.empty();
  if (!by_option && !NamesCoordinator(*config)) return absl::OkStatus();
  const std::string what = by_option ? "--listen" : "[coordinator] listen";
  const std::string listen = by_option ? options.listen : coordinator.listen;
  if (!listen.empty() && !absl::StartsWith(listen, "unix:")) {
    if (listen.rfind(':') == std::string::npos || PortNumber(listen) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " '", listen, "': give HOST:PORT, with a port that is not 0"));
    }
    const bool named = coordinator.address != defaults.address;
    if (!named && IsWildcard(listen)) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " '", listen,
                       "' says where the coordinator listens, and not where others dial it: ",
                       by_option ? "give --listen " : "set [coordinator] address to ",
                       Candidates(PortPart(listen)),
                       by_option ? ", or set [coordinator] address in the config" : ""));
    }
    coordinator.listen = named && listen != coordinator.address ? listen : "";
    if (!named) coordinator.address = listen;
  }
  if (options.port != 0 && !absl::StartsWith(coordinator.address, "unix:")) {
    coordinator.address = absl::StrCat(HostPart(coordinator.address), ":", options.port);
    if (!coordinator.listen.empty()) {
      coordinator.listen = absl::StrCat(HostPart(coordinator.listen), ":", options.port);
    }
  }
  if (LeadsBack(coordinator.address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the coordinator's address '", coordinator.address, "' ",
                     WhyNotForOthers(coordinator.address), ": give --listen ",
                     Candidates(PortPart(coordinator.address))));
  }
  return absl::OkStatus();
}

absl::Status OpenLocalAddresses(Config* config) {
  const Config::Coordinator& coordinator = config->coordinator;
  if (absl::StartsWith(coordinator.address, "unix:")) return absl::OkStatus();
  const absl::Status listens =
      ListenTcp(coordinator.listen.empty() ? coordinator.address : coordinator.listen).status();
  if (!listens.ok()) {
    return Annotate(
        absl::FailedPreconditionError(listens.message()),
        coordinator.listen.empty() ? "[coordinator] listen (or --listen)" : "[coordinator] listen");
  }
  const Config::Peer defaults;
  const bool named =
      config->peer.listen != defaults.listen || config->peer.advertise != defaults.advertise;
  if (named || IsLoopback(coordinator.address)) return absl::OkStatus();
  const std::string beside = absl::StrCat(HostPart(coordinator.address), ":0");
  if (ListenTcp(beside).ok()) {
    config->peer.listen = beside;
  } else {
    config->peer.advertise = kDialsOutOnly;
  }
  return absl::OkStatus();
}

std::string DialledHere(const Config::Coordinator& coordinator) {
  if (coordinator.listen.empty()) return coordinator.address;
  if (!IsWildcard(coordinator.listen)) return coordinator.listen;
  return absl::StrCat("127.0.0.1:", PortPart(coordinator.listen));
}

Config::Peer LocalPeerAddresses(const Config::Peer& run, int number) {
  Config::Peer peer;
  const auto own = [number](const std::string& address) {
    const int port = PortNumber(address);
    if (port == 0 || absl::StartsWith(address, "unix:")) return address;
    return absl::StrCat(HostPart(address), ":", port + number - 1);
  };
  peer.listen = own(run.listen);
  peer.advertise = run.advertise == kDialsOutOnly ? run.advertise : own(run.advertise);
  return peer;
}

}  // namespace atolld
