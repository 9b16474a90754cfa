// The ledger's table, and receipts as files.
#include "daemon/cli/peer_ledger.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/cli/receipt_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "membership/history/receipt.h"
#include "tests/unit/daemon/figures/run_statuses.h"

namespace atolld {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Account GivenBy(const std::string& peer, uint64_t rounds, uint64_t tokens, double share) {
  v1::Account account;
  account.set_peer(peer);
  account.set_rounds(rounds);
  account.set_tokens(tokens);
  account.set_share(share);
  account.set_last_version(rounds);
  return account;
}

std::vector<std::string> NamesOf(const std::vector<LedgerRow>& rows) {
  std::vector<std::string> names;
  for (const LedgerRow& row : rows) names.push_back(row.peer.member().peer());
  return names;
}

v1::RunStatus ThreePeers() {
  v1::RunStatus status = StatusAt(1, 3, 30);
  AddPeer(&status, "a", 500, 9, 1)->mutable_progress()->set_tokens_per_second(10);
  AddPeer(&status, "b", 900, 7, 2)->mutable_progress()->set_tokens_per_second(30);
  v1::PeerStatus* idle = AddPeer(&status, "c", 0, 0, 0);
  idle->mutable_progress()->set_held_back("on battery");
  idle->set_why("its worker does not train: it was paused");
  return status;
}

const std::vector<v1::Account> kGiven = {GivenBy("a", 5, 5000, 0.5), GivenBy("b", 2, 3000, 0.2),
                                         GivenBy("gone-one", 3, 4000, 0.3)};

// Would break: `atoll peer list --sort`, or who has left is listed where nobody asked for it.
TEST(PeerLedger, IsSortedByWhatWasGiven) {
  const v1::RunStatus run = ThreePeers();
  EXPECT_THAT(NamesOf(LedgerOf(run, kGiven, "id", false)), ElementsAre("a", "b", "c"));
  EXPECT_THAT(NamesOf(LedgerOf(run, kGiven, "id", true)), ElementsAre("a", "b", "c", "gone-one"));
  v1::RunStatus lacking = run;
  lacking.add_never_come("never");
  const std::vector<LedgerRow> rows = LedgerOf(lacking, kGiven, "id", false);
  EXPECT_THAT(NamesOf(rows), ElementsAre("a", "b", "c", "never"));
  EXPECT_EQ(rows.back().peer.member().state(), "not come");
  EXPECT_THAT(LedgerText(rows), Contains(HasSubstr(kNeverCome)));
  EXPECT_THAT(NamesOf(LedgerOf(run, kGiven, "tokens", true)),
              ElementsAre("a", "gone-one", "b", "c"));
  EXPECT_THAT(NamesOf(LedgerOf(run, kGiven, "rounds", true)),
              ElementsAre("a", "gone-one", "b", "c"));
  EXPECT_THAT(NamesOf(LedgerOf(run, kGiven, "share", false)), ElementsAre("a", "b", "c"));
  EXPECT_THAT(NamesOf(LedgerOf(run, kGiven, "speed", false)), ElementsAre("b", "a", "c"));
  EXPECT_THAT(NamesOf(LedgerOf(run, kGiven, "trained", false)), ElementsAre("a", "b", "c"));
  EXPECT_THAT(NamesOf(LedgerOf(run, kGiven, "sent", false)), ElementsAre("b", "a", "c"));
  EXPECT_EQ(LedgerOrders().size(), 7u);
}

// Would break: what a peer gave before the coordinator's restart, or why it is idle, is not seen.
TEST(PeerLedger, ShowsWhatWasGivenAndWhyAPeerIsIdle) {
  const std::vector<LedgerRow> rows = LedgerOf(ThreePeers(), kGiven, "id", true);
  const std::vector<std::string> lines = LedgerText(rows);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_THAT(lines[1], HasSubstr("5   5,000  50.0 %"));
  EXPECT_THAT(lines[3], HasSubstr("on battery"));
  EXPECT_THAT(lines[4], HasSubstr("gone"));
  EXPECT_THAT(lines[4], HasSubstr("4,000  30.0 %"));
  const nlohmann::ordered_json json = LedgerJson(rows);
  EXPECT_EQ(json[0]["member"]["peer"], "a");
  EXPECT_EQ(json[0]["account"]["tokens"], 5000);
  EXPECT_EQ(json[2]["progress"]["held_back"], "on battery");
  EXPECT_EQ(json[3]["member"]["state"], "gone");
  EXPECT_EQ(json[3]["account"]["share"], 0.3);
}

// Would break: a receipt that was saved cannot be checked any more, or a file that says more, or
// less, than a receipt passes for one.
TEST(ReceiptFile, IsReadAsItWasWritten) {
  const SigningKey key = *SigningKey::FromSeed(std::string(32, 'k'));
  v1::Receipt receipt;
  receipt.set_run_id("r1");
  *receipt.mutable_account() = GivenBy("a", 5, 5000, 1.0 / 3);
  receipt.set_version(7);
  receipt.set_header_digest(std::string(32, '\xfe'));
  receipt.set_issued_unix_seconds(1800000000);
  receipt.set_history_key(key.public_key());
  receipt.set_signature(SignReceipt(key, receipt));
  const nlohmann::ordered_json json = ReceiptJson(receipt);
  const absl::StatusOr<v1::Receipt> read = ParseReceipt(json.dump(2));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), receipt.SerializeAsString());
  EXPECT_EQ(CheckReceipt(*read, key.public_key()), absl::OkStatus());
  EXPECT_THAT(ReceiptText(receipt)[7], HasSubstr("2027-01-15 08:00:00 UTC"));

  for (const auto& [name, value] : json.items()) {
    nlohmann::ordered_json without = json;
    without.erase(name);
    EXPECT_THAT(ParseReceipt(without.dump()).status().message(),
                HasSubstr("\"" + name + "\" is missing"));
    nlohmann::ordered_json wrong = json;
    wrong[name] = nullptr;
    EXPECT_THAT(ParseReceipt(wrong.dump()).status().message(),
                HasSubstr("\"" + name + "\" is not"));
  }
  nlohmann::ordered_json more = json;
  more["bonus"] = 1;
  EXPECT_THAT(ParseReceipt(more.dump()).status().message(),
              HasSubstr("it has the unknown key \"bonus\""));
  more = json;
  more["signature"] = "not hex";
  EXPECT_THAT(ParseReceipt(more.dump()).status().message(), HasSubstr("not hexadecimal"));
  more["signature"] = 5;
  more["tokens"] = -5;
  EXPECT_THAT(ParseReceipt(more.dump()).status().message(), HasSubstr("\"tokens\" is not a whole"));
  for (const char* text : {"", "[]", "nonsense", "{"}) {
    EXPECT_THAT(ParseReceipt(text).status().message(), HasSubstr("not a JSON object"));
  }
}

}  // namespace
}  // namespace atolld
