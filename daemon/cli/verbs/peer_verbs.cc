// `atoll peer list|show|drain|evict`: asked of a coordinator.
#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "daemon/cli/verbs/admin_verb.h"
#include "daemon/cli/verbs/verbs.h"

namespace atolld {
namespace {

int ListPeers(const AdminOptions& options) {
  return AskCoordinator<v1::RunStatus>(
      options, [](AdminClient& client) { return client.ShowRun(); }, PeersJson, PeersText);
}

absl::StatusOr<v1::PeerStatus> FindPeer(AdminClient& client, const std::string& name) {
  const absl::StatusOr<v1::RunStatus> run = client.ShowRun();
  if (!run.ok()) return run.status();
  std::vector<std::string> names;
  for (const v1::PeerStatus& peer : run->peers()) {
    if (peer.member().peer() == name) return peer;
    names.push_back(peer.member().peer());
  }
  return absl::NotFoundError(UnknownNameMessage("peer", name, names));
}

int ShowPeer(const AdminOptions& options) {
  return AskCoordinator<v1::PeerStatus>(
      options, [&](AdminClient& client) { return FindPeer(client, options.peer); }, PeerJson,
      PeerText);
}

// What was done, and what follows from it.
std::vector<std::string> PeerOrderText(const std::string& done, const v1::PeerStatus& peer) {
  std::vector<std::string> lines = {absl::StrCat("peer ", peer.member().peer(), " ", done)};
  if (!peer.notice().empty()) lines.push_back(peer.notice());
  return lines;
}

int Drain(const AdminOptions& options) {
  return AskCoordinator<v1::PeerStatus>(
      options, [&](AdminClient& client) { return client.DrainPeer(options.peer, options.reason); },
      PeerJson,
      [](const v1::PeerStatus& peer) {
        return PeerOrderText("finishes its round, then leaves", peer);
      });
}

int Evict(const AdminOptions& options) {
  return AskCoordinator<v1::PeerStatus>(
      options,
      [&](AdminClient& client) {
        return client.EvictPeer(options.peer, options.reason, options.undo);
      },
      PeerJson,
      [&](const v1::PeerStatus& peer) {
        return PeerOrderText(options.undo ? "may come back" : "is out, and refused from now on",
                             peer);
      });
}

}  // namespace

void AddPeerVerbs(CommandLine& command_line) {
  AddAdminVerb(command_line, "peer list", "The peers of a run",
               "atoll peer list --coordinator 127.0.0.1:7070", {}, ListPeers);
  AddAdminVerb(command_line, "peer show", "One peer of a run",
               "atoll peer show peer-2 --coordinator 127.0.0.1:7070", {AdminOption::kPeer},
               ShowPeer);
  AddAdminVerb(command_line, "peer drain",
               "Ask a peer to finish its round, hand over and end; the run goes on without it",
               "atoll peer drain peer-2 --reason 'a new disk'",
               {AdminOption::kPeer, AdminOption::kReason}, Drain);
  AddAdminVerb(command_line, "peer evict",
               "Put a peer out at once and refuse it from then on; its own state stays with it",
               "atoll peer evict peer-2 --reason 'it sends nonsense'",
               {AdminOption::kPeer, AdminOption::kReason, AdminOption::kUndo}, Evict);
}

}  // namespace atolld
