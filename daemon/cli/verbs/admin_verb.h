// The common parts of the verbs that ask a coordinator: their options, the way to find the
// coordinator (by its address, or by the folder of a local run), the call, and the output of the
// answer or the error.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/output.h"
#include "daemon/program/command_line.h"
#include "daemon/transport/coordinator_client.h"

namespace atolld {

struct CoordinatorAddress {
  std::string address = "127.0.0.1:7070";
  std::string dir;       // the folder of a local run; if empty, `address` is used
  std::string identity;  // the folder of the administrator's credentials, used with `address`
  bool plaintext = false;
};

// Adds the options --coordinator and --dir, which exclude each other, and --identity and
// --plaintext, which are used with --coordinator.
void AddCoordinatorOptions(const Verb& verb, CoordinatorAddress& address,
                           const std::string& dir_meaning);

// Returns the coordinator to dial and the credentials to use. Fails with NOT_FOUND if the folder
// holds no local run, with INVALID_ARGUMENT if neither an identity nor plaintext is given, or with
// the error of credentials that cannot be loaded.
absl::StatusOr<CoordinatorAccess> ResolveCoordinator(const CoordinatorAddress& address);

// -----------------------------------------------------------------------------------------------

struct AdminOptions {
  CoordinatorAddress source;
  bool json = false;
  std::string peer;            // for verbs that take AdminOption::kPeer
  std::string reason;          // for verbs that take kReason
  bool undo = false;           // for verbs that take kUndo
  uint64_t from = 0;           // for kRounds and kFormat: the first version; 0 if not given
  uint32_t limit = 0;          // for kRounds: the most rounds to show; 0 if not given
  std::string format = "csv";  // for kFormat: or "jsonl", "prometheus"
  std::string sort = "id";     // for kLedger: one of LedgerOrders()
  bool all = false;            // for kLedger: see LedgerOf
  std::string results;         // for kResults: a folder; if empty, no results are written
};

// The groups of options that a verb may take besides --coordinator, --dir and --json.
enum class AdminOption { kPeer, kReason, kUndo, kRounds, kFormat, kLedger, kResults };

void AddAdminVerb(CommandLine& command_line, const std::string& path, const std::string& summary,
                  const std::string& example, const std::set<AdminOption>& takes,
                  VerbExit (*action)(const AdminOptions&));

// Connects to the coordinator, calls `ask`, and prints the answer as JSON or as text.
template <typename Answer>
VerbExit AskCoordinator(const AdminOptions& options,
                        const std::function<absl::StatusOr<Answer>(AdminClient&)>& ask,
                        const std::function<nlohmann::ordered_json(const Answer&)>& json,
                        const std::function<std::vector<std::string>(const Answer&)>& text) {
  ASSIGN_OR_RETURN(const CoordinatorAccess access, ResolveCoordinator(options.source));
  AdminClient client(access);
  ASSIGN_OR_RETURN(const Answer answer, ask(client));
  if (options.json) {
    PrintJson(json(answer));
  } else {
    PrintLines(text(answer));
  }
  return kDone;
}

}  // namespace atolld
