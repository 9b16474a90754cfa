#include "daemon/cli/peer_ledger.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/figures/status_json.h"
#include "daemon/program/format.h"

namespace atolld {
namespace {

struct LedgerOrder {
  const char* name;
  double (*figure)(const LedgerRow& row);
};

// An account counts everything that a peer ever contributed; without one, the status has what this
// coordinator knows.
uint64_t RoundsOf(const LedgerRow& row) {
  return std::max(row.account.rounds(), row.peer.rounds_contributed());
}
uint64_t TokensOf(const LedgerRow& row) {
  return std::max(row.account.tokens(), row.peer.tokens());
}

// Otherwise it has contributed nothing, or there is no report: a folder whose run has no
// coordinator.
bool HasAccount(const LedgerRow& row) { return row.account.rounds() > 0; }

constexpr LedgerOrder kOrders[] = {
    {"tokens", [](const LedgerRow& row) { return static_cast<double>(TokensOf(row)); }},
    {"rounds", [](const LedgerRow& row) { return static_cast<double>(RoundsOf(row)); }},
    {"share", [](const LedgerRow& row) { return row.account.share(); }},
    {"speed", [](const LedgerRow& row) { return row.peer.progress().tokens_per_second(); }},
    {"trained", [](const LedgerRow& row) { return row.peer.progress().train_seconds(); }},
    {"sent",
     [](const LedgerRow& row) {
       return static_cast<double>(row.peer.progress().exchange_bytes_sent());
     }},
};

}  // namespace

std::vector<std::string> LedgerOrders() {
  std::vector<std::string> names = {"id"};
  for (const LedgerOrder& order : kOrders) names.emplace_back(order.name);
  return names;
}

std::vector<LedgerRow> LedgerOf(const v1::RunStatus& status,
                                const std::vector<v1::Account>& accounts, const std::string& order,
                                bool all) {
  std::map<std::string, LedgerRow> by_peer;
  for (const v1::PeerStatus& peer : status.peers()) by_peer[peer.member().peer()].peer = peer;
  for (const v1::Account& account : accounts) {
    const auto listed = by_peer.find(account.peer());
    if (listed != by_peer.end()) {
      listed->second.account = account;
    } else if (all) {
      LedgerRow& past = by_peer[account.peer()];
      past.account = account;
      past.peer.mutable_member()->set_peer(account.peer());
      past.peer.mutable_member()->set_state("gone");
      past.peer.set_rounds_contributed(account.rounds());
      past.peer.set_tokens(account.tokens());
    }
  }
  for (const std::string& peer : status.never_come()) {
    v1::PeerStatus& absent = by_peer[peer].peer;
    absent.mutable_member()->set_peer(peer);
    absent.mutable_member()->set_state("not come");
    absent.set_why(kNeverCome);
  }
  std::vector<LedgerRow> rows;
  for (auto& [peer, row] : by_peer) rows.push_back(std::move(row));
  for (const LedgerOrder& known : kOrders) {
    if (order != known.name) continue;
    std::stable_sort(rows.begin(), rows.end(), [&](const LedgerRow& a, const LedgerRow& b) {
      return known.figure(a) > known.figure(b);
    });
  }
  return rows;
}

nlohmann::ordered_json LedgerJson(const std::vector<LedgerRow>& rows) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const LedgerRow& row : rows) {
    nlohmann::ordered_json peer = PeerJson(row.peer);
    peer["account"] = nullptr;
    if (HasAccount(row)) {
      peer["account"] = {{"rounds", row.account.rounds()},
                         {"tokens", row.account.tokens()},
                         {"steps", row.account.steps()},
                         {"first_version", row.account.first_version()},
                         {"last_version", row.account.last_version()},
                         {"share", row.account.share()}};
    }
    json.push_back(std::move(peer));
  }
  return json;
}

std::vector<std::string> LedgerText(const std::vector<LedgerRow>& rows) {
  std::vector<std::vector<std::string>> table = {
      {"peer", "role", "state", "phase", "step", "tokens/s", "rounds", "tokens", "share", "trained",
       "sent", "version", "pid", "region", "address", "why"}};
  for (const LedgerRow& row : rows) {
    const v1::PeerStatus& peer = row.peer;
    const v1::PeerProgress& progress = peer.progress();
    table.push_back({peer.member().peer(), peer.role(), peer.member().state(), progress.phase(),
                     StepText(progress), ToldText(peer, "/progress/tokens_per_second"),
                     absl::StrCat(RoundsOf(row)), WithThousands(TokensOf(row)),
                     HasAccount(row) ? FormatPercent(row.account.share()) : "-",
                     ToldText(peer, "/progress/train_seconds"),
                     ToldText(peer, "/progress/exchange_bytes_sent"),
                     absl::StrCat(progress.version()), PidText(peer), peer.member().region(),
                     peer.member().address(), WhyIdle(peer)});
  }
  return AlignColumns(table, "<<<<>>>>>>>>><<<");
}

}  // namespace atolld
