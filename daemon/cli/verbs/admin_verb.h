// What the verbs that ask a coordinator have in common: how it is found (by its address, or by the
// folder of a local run), their options, the question, how the answer and its errors are printed.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/cli/command_line.h"
#include "daemon/cli/status_json.h"
#include "daemon/transport/coordinator_client.h"

namespace atolld {

struct CoordinatorAddress {
  std::string address = "127.0.0.1:7070";
  std::string dir;       // of a local run; empty: `address` holds
  std::string identity;  // folder of the administrator's credentials, with an address
  bool plaintext = false;
};

// --coordinator and --dir, which exclude each other; with the former --identity or --plaintext.
void AddCoordinatorOptions(const Verb& verb, CoordinatorAddress& address,
                           const std::string& dir_meaning);

// Whom to dial, and as whom. NOT_FOUND: the folder holds no local run. INVALID_ARGUMENT: it is not
// said as whom. Else what is wrong with the credentials.
absl::StatusOr<CoordinatorAccess> ResolveCoordinator(const CoordinatorAddress& address);

// -----------------------------------------------------------------------------------------------

struct AdminOptions {
  CoordinatorAddress source;
  bool json = false;
  std::string peer;            // with kPeer
  std::string reason;          // with kReason
  bool undo = false;           // with kUndo
  uint64_t from = 0;           // with kRounds and kFormat: a version; 0: not given
  uint32_t limit = 0;          // with kRounds: how many; 0: not given
  std::string format = "csv";  // with kFormat: or "jsonl", "prometheus"
  std::string sort = "id";     // with kLedger: one of LedgerOrders()
  bool all = false;            // with kLedger
  std::string results;         // with kResults: a folder; empty: none are left
};

// What a verb takes beside --coordinator, --dir and --json.
enum class AdminOption { kPeer, kReason, kUndo, kRounds, kFormat, kLedger, kResults };

void AddAdminVerb(CommandLine& command_line, const std::string& path, const std::string& summary,
                  const std::string& example, const std::set<AdminOption>& takes,
                  int (*action)(const AdminOptions&));

void PrintLines(const std::vector<std::string>& lines);
void PrintJson(const nlohmann::ordered_json& json);

// Asks, and prints the answer as the options want it. The exit code.
template <typename Answer>
int AskCoordinator(const AdminOptions& options,
                   const std::function<absl::StatusOr<Answer>(AdminClient&)>& ask,
                   const std::function<nlohmann::ordered_json(const Answer&)>& json,
                   const std::function<std::vector<std::string>(const Answer&)>& text) {
  const absl::StatusOr<CoordinatorAccess> access = ResolveCoordinator(options.source);
  if (!access.ok()) return Report(access.status());
  AdminClient client(*access);
  const absl::StatusOr<Answer> answer = ask(client);
  if (!answer.ok()) return Report(answer.status());
  if (options.json) {
    PrintJson(json(*answer));
  } else {
    PrintLines(text(*answer));
  }
  return kDone;
}

}  // namespace atolld
