// Addresses that are handed out to others: whether those could dial them, and where the processes
// of a local run listen.
//
// A coordinator's address goes into every token, a peer's into every roster; one that leads each
// machine back to itself is wrong in silence. Blocking where a name is looked up.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "daemon/config/config.h"

namespace atolld {

// What is wrong with handing out this address to other machines, in words that go on from it:
// "can be dialled from this machine alone"; empty: nothing. A name is looked up.
std::string WhyNotForOthers(const std::string& address);

// What a config that is valid hands out in this use and others may not be able to dial, with what
// to set; a line each. A run that is all on loopback is meant to be, and gives none.
std::vector<std::string> AddressWarnings(const Config& config, ConfigUse use);

// -----------------------------------------------------------------------------------------------

// `atoll local --listen`, and --port.
struct LocalAddressOptions {
  std::string listen;  // HOST:PORT; empty: as the config says
  int port = 0;        // instead of the config's; 0: as it says, or a free one of loopback
};

// Whether the config says where its coordinator is; the default is nowhere in particular.
bool NamesCoordinator(const Config& config);

// Puts the options into [coordinator] address and listen. Nothing is listened on. INVALID_ARGUMENT:
// others could not dial it, with what to give.
absl::Status TakeLocalAddresses(const LocalAddressOptions& options, Config* config);

// For a new run whose coordinator is named, after it: where others can dial the coordinator, its
// peers listen at its host too; at a host that is not this machine's they dial out only, unless
// [peer] says otherwise. FAILED_PRECONDITION: the coordinator cannot listen there.
absl::Status OpenLocalAddresses(Config* config);

// What the processes of its own machine dial a coordinator by.
std::string DialledHere(const Config::Coordinator& coordinator);

// Of the local peer of this number, from 1: its own ports where the config names one.
Config::Peer LocalPeerAddresses(const Config::Peer& run, int number);

}  // namespace atolld
