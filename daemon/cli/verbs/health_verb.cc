// `atoll health`: tells an orchestrator if a coordinator or a peer serves.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/verbs/admin_verb.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/transport/health_service.h"

namespace atolld {
namespace {

// Orchestrators give up sooner than people.
constexpr absl::Duration kHealthPatience = absl::Seconds(4);

struct HealthOptions {
  CoordinatorAddress source;
  std::string peer;  // an address; empty: the coordinator is asked
  bool json = false;
};

VerbExit PrintHealth(const HealthOptions& options) {
  CoordinatorAddress source = options.source;
  if (!options.peer.empty()) source.address = options.peer;
  ASSIGN_OR_RETURN(const CoordinatorAccess access, ResolveCoordinator(source));
  const Role role = options.peer.empty() ? Role::kCoordinator : Role::kPeer;
  RETURN_IF_ERROR(CheckHealth(access.address, role, access.identity, kHealthPatience));
  return PrintAnswer(options.json,
                     {{"address", access.address}, {"role", RoleName(role)}, {"serving", true}},
                     {absl::StrCat("the ", RoleName(role), " at ", access.address, " serves")});
}

}  // namespace

void AddHealthVerb(CommandLine& command_line) {
  const auto options = std::make_shared<HealthOptions>();
  const Verb verb = command_line.AddVerb(
      "health",
      "Say whether a coordinator or a peer serves\n"
      "It is asked by gRPC's health protocol, and has four seconds. Exit code 0: it serves.",
      "atoll health --dir build/quickstart", [options] { return PrintHealth(*options); });
  AddCoordinatorOptions(verb, options->source,
                        "The folder of a local run: its coordinator is asked");
  verb.Add("--peer", options->peer,
           "The address of a peer, which is asked in the coordinator's place; --identity is its "
           "own, or another's of the run");
  verb.Flag("--json", options->json, "Print as JSON");
}

}  // namespace atolld
