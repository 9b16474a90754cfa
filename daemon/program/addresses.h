// Checks whether other machines can dial the addresses that a config hands out, and chooses the
// addresses on which the processes of a local run listen.
//
// A coordinator's address goes into every token, and a peer's into every roster. An address such as
// 127.0.0.1, which leads each machine back to itself, would be wrong and yet cause no error. The
// functions block while a name is looked up. They may be called from any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "daemon/config/config.h"

namespace atolld {

// Returns what is wrong with handing out this address to other machines, as the end of a sentence:
// "can be dialled from this machine alone". Returns an empty text if nothing is wrong. A name is
// looked up.
std::string WhyNotForOthers(const std::string& address);

// Returns a line, which names the key to set, for each address that the config hands out in this
// use and that others may not be able to dial. The config must be valid. Returns no lines if all
// addresses are on loopback, since such a run is meant to stay on this machine.
std::vector<std::string> AddressWarnings(const Config& config, ConfigUse use);

// -----------------------------------------------------------------------------------------------

// The options --listen and --port of `atoll local`.
struct LocalAddressOptions {
  std::string listen;  // HOST:PORT; if empty, the config's address is used
  // Replaces the config's port; 0 means the config's, or a free port of loopback.
  int port = 0;
};

// Returns true if the config gives an address of the coordinator other than the default.
bool NamesCoordinator(const Config& config);

// Writes the options into [coordinator] address and listen. Opens no socket. Fails with
// INVALID_ARGUMENT if others could not dial the address; the message says what to give.
absl::Status TakeLocalAddresses(const LocalAddressOptions& options, Config* config);

// Sets the peers' addresses for a new run whose config names the coordinator's address. If others
// can dial the coordinator, the peers listen on the same host; if that host does not belong to this
// machine, they only dial out. Addresses in [peer] are not changed. Fails with FAILED_PRECONDITION
// if the coordinator cannot listen on its address.
absl::Status OpenLocalAddresses(Config* config);

// Returns the address at which processes of the coordinator's own machine dial it.
std::string DialledHere(const Config::Coordinator& coordinator);

// Returns the addresses of the local peer of this number, counted from 1. If the config names a
// port, each peer gets a different one.
Config::Peer LocalPeerAddresses(const Config::Peer& run, int number);

}  // namespace atolld
