// Receipts, and what each peer has given.
#include "membership/history/receipt.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

const SigningKey& ReceiptKey() {
  static const SigningKey* const key = new SigningKey(*SigningKey::FromSeed(std::string(32, 'k')));
  return *key;
}

v1::Receipt GoodReceipt() {
  v1::Receipt receipt;
  receipt.set_run_id("r1");
  v1::Account& account = *receipt.mutable_account();
  account.set_peer("peer-1");
  account.set_rounds(3);
  account.set_tokens(57600);
  account.set_steps(75);
  account.set_first_version(2);
  account.set_last_version(5);
  account.set_share(0.25);
  receipt.set_version(5);
  receipt.set_header_digest(std::string(32, 'h'));
  receipt.set_issued_unix_seconds(1800000000);
  receipt.set_history_key(ReceiptKey().public_key());
  receipt.set_signature(SignReceipt(ReceiptKey(), receipt));
  return receipt;
}

// Would break: receipts of an earlier release, or of a program of somebody's own, which follow the
// layout of docs/protocol.md. Made with Python's hashlib from that page.
TEST(Receipt, HasTheLayoutThatIsWrittenDown) {
  EXPECT_EQ(ToHex(ReceiptDigest(GoodReceipt())),
            "e041f1222d734d0f1507ecb2b5a988fbe88d1367088ef869b2c6a9c8bd8d4ab8");
}

// Would break: a peer raises its tokens, or another puts its own name there.
TEST(Receipt, NothingInItCanBeChanged) {
  EXPECT_EQ(CheckReceipt(GoodReceipt(), ""), absl::OkStatus());
  EXPECT_EQ(CheckReceipt(GoodReceipt(), ReceiptKey().public_key()), absl::OkStatus());
  const std::vector<std::function<void(v1::Receipt*)>> changes = {
      [](v1::Receipt* r) { r->set_run_id("r2"); },
      [](v1::Receipt* r) { r->mutable_account()->set_peer("peer-2"); },
      [](v1::Receipt* r) { r->mutable_account()->set_rounds(4); },
      [](v1::Receipt* r) { r->mutable_account()->set_tokens(57601); },
      [](v1::Receipt* r) { r->mutable_account()->set_steps(76); },
      [](v1::Receipt* r) { r->mutable_account()->set_first_version(1); },
      [](v1::Receipt* r) { r->mutable_account()->set_last_version(6); },
      [](v1::Receipt* r) { r->mutable_account()->set_share(0.2500001); },
      [](v1::Receipt* r) { r->set_version(6); },
      [](v1::Receipt* r) { (*r->mutable_header_digest())[31] ^= 1; },
      [](v1::Receipt* r) { r->set_issued_unix_seconds(1800000001); },
      [](v1::Receipt* r) { (*r->mutable_signature())[0] ^= 1; },
      [](v1::Receipt* r) {
        r->set_history_key(SigningKey::FromSeed(std::string(32, 'o'))->public_key());
      },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    v1::Receipt changed = GoodReceipt();
    changes[i](&changed);
    EXPECT_EQ(CheckReceipt(changed, "").code(), absl::StatusCode::kPermissionDenied) << i;
  }
}

// Would break: anybody writes a receipt and signs it with a key of his own.
TEST(Receipt, AnothersKeyIsNotTheRuns) {
  const SigningKey own = *SigningKey::FromSeed(std::string(32, 'o'));
  v1::Receipt forged = GoodReceipt();
  forged.set_history_key(own.public_key());
  forged.set_signature(SignReceipt(own, forged));
  EXPECT_EQ(CheckReceipt(forged, ""), absl::OkStatus());  // by the key that it names, and no more
  const absl::Status status = CheckReceipt(forged, ReceiptKey().public_key());
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), HasSubstr(absl::BytesToHexString(own.public_key())));
}

// Would break: a signature over a header or a seal is shown as one over a receipt, or a broken file
// is called a forgery.
TEST(Receipt, AnotherDomainOrABrokenOneIsNone) {
  v1::Receipt other = GoodReceipt();
  other.set_signature(ReceiptKey().Sign("atoll.seal", ToBytes(ReceiptDigest(other))));
  EXPECT_EQ(CheckReceipt(other, "").code(), absl::StatusCode::kPermissionDenied);
  for (int i = 0; i < 4; ++i) {
    v1::Receipt broken = GoodReceipt();
    if (i == 0) broken.mutable_signature()->pop_back();
    if (i == 1) broken.mutable_header_digest()->pop_back();
    if (i == 2) broken.clear_history_key();
    if (i == 3) broken.mutable_account()->clear_peer();
    EXPECT_EQ(CheckReceipt(broken, "").code(), absl::StatusCode::kInvalidArgument) << i;
  }
}

// Would break: shares that do not add up to one, or weigh by tokens where the mean does not.
TEST(Receipt, AccountsAddUpWeightsOfMeans) {
  HistorySummary summary;
  const auto header = [](uint64_t version, const std::vector<std::pair<std::string, float>>& of) {
    v1::EntryHeader made;
    made.set_version(version);
    for (const auto& [peer, weight] : of) {
      v1::Contributor* one = made.add_contributors();
      one->set_peer(peer);
      one->set_weight_bits(absl::bit_cast<uint32_t>(weight));
      one->set_tokens(100);
      one->set_steps(10);
    }
    return made;
  };
  summary.Add(header(1, {{"a", 3}, {"b", 1}}), std::string(32, '1'));
  summary.Add(header(2, {{"b", 5}}), std::string(32, '2'));
  summary.Add(header(5, {{"a", 1}, {"b", 1}}), std::string(32, '5'));  // two are in a gap
  EXPECT_EQ(summary.headers(), 3u);
  const v1::Account a = AccountOf(summary.contributors().at("a"), 3);
  const v1::Account b = AccountOf(summary.contributors().at("b"), 3);
  EXPECT_DOUBLE_EQ(a.share(), 1.25 / 3);
  EXPECT_DOUBLE_EQ(a.share() + b.share(), 1);
  EXPECT_EQ(a.rounds(), 2u);
  EXPECT_EQ(a.steps(), 20u);
  EXPECT_EQ(a.first_version(), 1u);
  EXPECT_EQ(a.last_version(), 5u);
  EXPECT_EQ(b.tokens(), 300u);
}

}  // namespace
}  // namespace atolld
