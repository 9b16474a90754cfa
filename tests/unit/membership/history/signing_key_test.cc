// Would break: a history that another implementation of Ed25519 refuses, a signature that is taken
// for another message, in another place or from another key, or a replayed run with other bits.
#include "membership/history/signing_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/crypto.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/state_digest.h"
#include "daemon/replica/state/verify.h"
#include "gmock/gmock.h"
#include "membership/history/header.h"
#include "tests/unit/daemon/replica/transfer/transfer_fixture.h"

namespace atolld {
namespace {

SigningKey Seeded(char byte) { return SigningKey::FromSeed(std::string(32, byte)).value(); }

std::string FromHex(const std::string& hex) {
  std::string bytes(hex.size() / 2, '\0');
  size_t length = 0;
  EXPECT_TRUE(OPENSSL_hexstr2buf_ex(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(),
                                    &length, hex.c_str(), /*sep=*/'\0'));
  return bytes;
}

// Keys of RFC 8032, 7.1; the signatures are of the RFC's own Python (section 6), which gives those
// of 7.1 for its messages.
TEST(SigningKeyTest, IsEd25519) {
  const struct {
    const char* seed;
    const char* key;
    const char* domain;
    std::string message;
    const char* signature;
  } vectors[] = {
      {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
       "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "atoll.test", "",
       "b54b352f4286a66b92cf83270438f67bc9e8269a3c4e84b18b1de190d98d8113"
       "6d6698fc2d1ddc05e3f81bb9460942cd6aed16f6c62c89655463fe6985c9fb0a"},
      {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
       "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "atoll.test", "\x72",
       "7169c41d12dacfd8ba87bb1486720fbf41ad2375685447f228cb25dda19725a2"
       "347497d456445a1625afc5d384e6f414d16f65d87a6eefa80fbc3e2e62708408"},
      {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
       "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "", "\xaf\x82",
       "22c12eafd5e62907df8a15d4544e2557f7dc3e4dc9f72871030681574e0624c0"
       "1e69d18a3c98f271c20e7f02da28bcc559eaee0d08cc3e40d30a387cb162390b"},
  };
  for (const auto& vector : vectors) {
    const auto key = SigningKey::FromSeed(FromHex(vector.seed));
    ASSERT_TRUE(key.ok()) << key.status();
    EXPECT_EQ(vector.key, absl::BytesToHexString(key->public_key()));
    const std::string signature = key->Sign(vector.domain, vector.message);
    EXPECT_EQ(vector.signature, absl::BytesToHexString(signature));
    EXPECT_TRUE(VerifySignature(key->public_key(), vector.domain, vector.message, signature));
  }
}

TEST(SigningKeyTest, ASignatureIsForOneMessageOneDomainAndOneKey) {
  const SigningKey key = Seeded('a');
  const std::string signature = key.Sign("atoll.header", "digest");
  ASSERT_TRUE(VerifySignature(key.public_key(), "atoll.header", "digest", signature));
  EXPECT_FALSE(VerifySignature(key.public_key(), "atoll.header", "Digest", signature));
  EXPECT_FALSE(VerifySignature(key.public_key(), "atoll.header", "digest ", signature));
  EXPECT_FALSE(VerifySignature(key.public_key(), "atoll.seal", "digest", signature));
  // What is signed for a domain is no other domain's message either.
  EXPECT_FALSE(VerifySignature(key.public_key(), "atoll.headerd", "igest", signature));
  EXPECT_FALSE(VerifySignature(Seeded('b').public_key(), "atoll.header", "digest", signature));
  for (size_t i = 0; i < kSignatureBytes; ++i) {
    std::string flipped = signature;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    EXPECT_FALSE(VerifySignature(key.public_key(), "atoll.header", "digest", flipped)) << i;
  }
}

TEST(SigningKeyTest, WhatIsNoKeyAndNoSignatureIsRefused) {
  const SigningKey key = Seeded('a');
  const std::string signature = key.Sign("d", "m");
  for (const std::string& bad : {std::string(), signature.substr(1), signature + "x"}) {
    EXPECT_FALSE(VerifySignature(key.public_key(), "d", "m", bad));
  }
  for (const std::string& bad : {std::string(), std::string(31, 'x'), std::string(32, '\xff')}) {
    EXPECT_FALSE(VerifySignature(bad, "d", "m", signature));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(SigningKey::FromSeed("short").status()));
}

TEST(SigningKeyTest, APemHoldsTheKey) {
  const auto key = SigningKey::Generate();
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_NE(SigningKey::Generate()->public_key(), key->public_key());
  const auto pem = key->ToPem();
  ASSERT_TRUE(pem.ok()) << pem.status();
  const auto again = SigningKey::FromPem(*pem);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(key->public_key(), again->public_key());
  EXPECT_EQ(key->Sign("d", "m"), again->Sign("d", "m"));
  EXPECT_TRUE(absl::IsInvalidArgument(SigningKey::FromPem("x").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(SigningKey::FromPem(pem->substr(0, 60)).status()));
}

// Broken: a simulation would take what is wrong for what it has seen to be right. (It is for good:
// ctest gives every test a process of its own; together they only check less often.)
TEST(SigningKeyTest, WhatIsRememberedIsTheWholeOfIt) {
  RememberRightSignatures();
  const SigningKey key = Seeded('a');
  const std::string signature = key.Sign("d", "message");
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(VerifySignature(key.public_key(), "d", "message", signature));
    EXPECT_FALSE(VerifySignature(key.public_key(), "d", "messagf", signature));
    EXPECT_FALSE(VerifySignature(key.public_key(), "e", "message", signature));
    EXPECT_FALSE(VerifySignature(Seeded('b').public_key(), "d", "message", signature));
    EXPECT_FALSE(VerifySignature(key.public_key(), "d", "message", std::string(64, 's')));
  }
}

// -----------------------------------------------------------------------------------------------
// Would break: whoever can send a header, or write to a disk, could write the run's history.

using ::testing::HasSubstr;

std::string Flipped(std::string bytes, size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
  return bytes;
}

// What a forger may put where the signature belongs.
std::vector<std::pair<std::string, std::string>> Forgeries(const v1::EntryHeader& header) {
  const std::string& good = header.signature();
  v1::EntryHeader other = header;
  other.set_version(header.version() + 1);
  return {
      {"", "not signed"},
      {SignHeader(TestKey('f'), header), "not by the history key"},
      {SignHeader(TestKey('k'), other), "not by the history key"},
      {TestKey('k').Sign("atoll.seal", ToBytes(HeaderDigest(header))), "not by the history key"},
      {Flipped(good, 0), "not by the history key"},
      {Flipped(good, 63), "not by the history key"},
      {good.substr(0, 63), "not by the history key"},
      {good + good, "not by the history key"}};
}

class SignatureTest : public TransferTest {
 protected:
  SignatureTest() { run_.history_key = TestKey('k'); }

  // Replaces the log's headers by `headers`, as somebody with access to the disk could.
  void RewriteLog(const std::vector<v1::EntryHeader>& headers) {
    std::string bytes;
    for (const v1::EntryHeader& header : headers) bytes += EncodeRecord(header.SerializeAsString());
    CHECK_OK(WriteFileDurably(files_, HeadersPath("/r"), BytesOf(bytes)));
  }

  void ExpectRefused(const absl::Status& status, const std::string& entry, const std::string& why) {
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(entry));
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }

  SimDisk disk_;
  SimFiles files_{disk_};
};

TEST_F(SignatureTest, AHeaderNeedsTheRunsSignature) {
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  const SharedBytes payload = run_.Payload(1);
  v1::EntryHeader header = run_.NextHeader(*replica, payload);
  const std::string good = header.signature();
  const Digest state = replica->StateDigest();
  for (const auto& [forged, why] : Forgeries(header)) {
    header.set_signature(forged);
    ExpectRefused(replica->Commit(header, &payload, {}), "entry 1", why);
    EXPECT_EQ(replica->version(), 0u);
    EXPECT_EQ(replica->StateDigest(), state);
  }
  // What was signed is what the header says, to the last field.
  header.set_signature(good);
  header.mutable_contributors(2)->set_tokens(1001);
  ExpectRefused(replica->Commit(header, &payload, {}), "entry 1", "not by the history key");
  header.mutable_contributors(2)->set_tokens(1000);
  EXPECT_TRUE(replica->Commit(header, &payload, {}).ok());
}

TEST_F(SignatureTest, ARunWithoutAKeyHasNoSignatures) {
  // Broken: a log of before signatures could not be read, or one header could have two forms.
  run_.history_key.reset();
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  const SharedBytes payload = run_.Payload(1);
  v1::EntryHeader header = run_.NextHeader(*replica, payload);
  v1::EntryHeader with = header;
  with.set_signature(SignHeader(TestKey('k'), with));
  ExpectRefused(replica->Commit(with, &payload, {}), "entry 1", "it is signed, but");
  EXPECT_TRUE(replica->Commit(header, &payload, {}).ok());
  EXPECT_TRUE(replica->WriteSeal(SealOf(*replica)).ok());
}

TEST_F(SignatureTest, TheKeyIsPartOfTheGenesis) {
  // Broken: another key could be put under a history, or something that is no key.
  v1::Genesis genesis = run_.Genesis();
  const Digest digest = GenesisDigest(genesis);
  genesis.mutable_spec()->set_history_key(TestKey('f').public_key());
  EXPECT_NE(GenesisDigest(genesis), digest);
  for (const char* bad : {"short", "0123456789012345678901234567890123456789"}) {
    genesis.mutable_spec()->set_history_key(bad);
    EXPECT_TRUE(absl::IsInvalidArgument(CheckGenesis(genesis)));
  }
}

TEST_F(SignatureTest, ASealNeedsTheRunsSignature) {
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  run_.CommitTo(*replica, 2);
  const v1::Seal good = SealOf(*replica, run_.history_key);
  v1::Seal seal = good;
  for (const std::string& forged :
       {std::string(), SignSeal(TestKey('f'), good), Flipped(good.signature(), 5),
        TestKey('k').Sign("atoll.header", ToBytes(SealDigest(good)))}) {
    seal.set_signature(forged);
    ExpectRefused(replica->WriteSeal(seal), "seal of version 2", "sign");
  }
  EXPECT_FALSE(replica->seal().has_value());
  ASSERT_TRUE(replica->WriteSeal(good).ok());
  EXPECT_TRUE(VerifyLog(files_, "/r")->sealed);
  // On the disk, too.
  seal.set_signature(SignSeal(TestKey('f'), good));
  CHECK_OK(WriteMessageFile(files_, SealPath("/r"), seal));
  const absl::Status audited = VerifyLog(files_, "/r").status();
  EXPECT_TRUE(absl::IsDataLoss(audited));
  EXPECT_THAT(std::string(audited.message()), HasSubstr("seal of version 2: its signature"));
  EXPECT_TRUE(absl::IsDataLoss(OpenReplica(files_, "/r").status()));
}

TEST_F(SignatureTest, EveryFieldOfASealIsSigned) {
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  const v1::Seal good = SealOf(*replica, run_.history_key);
  ASSERT_TRUE(CheckSigned(run_.Genesis().spec(), good).ok());
  v1::Seal seal = good;
  seal.set_run_id("other");
  EXPECT_FALSE(CheckSigned(run_.Genesis().spec(), seal).ok());
  seal = good;
  seal.set_version(1);
  EXPECT_FALSE(CheckSigned(run_.Genesis().spec(), seal).ok());
  seal = good;
  seal.set_state_digest(Flipped(seal.state_digest(), 0));
  EXPECT_FALSE(CheckSigned(run_.Genesis().spec(), seal).ok());
  seal = good;
  seal.set_header_digest(Flipped(seal.header_digest(), 0));
  EXPECT_FALSE(CheckSigned(run_.Genesis().spec(), seal).ok());
}

TEST_F(SignatureTest, AnAuditNamesTheEntryWithoutSignature) {
  // Broken: a log on somebody's disk could be another history than the run's.
  std::vector<v1::EntryHeader> headers;
  {
    OwnedReplica replica = *CreateReplica(files_, "/r", run_);
    run_.CommitTo(*replica, 4);
    for (uint64_t v = 1; v <= 4; ++v) headers.push_back(replica->ReadEntry(v)->header);
  }
  ASSERT_TRUE(VerifyLog(files_, "/r").ok());
  for (size_t i = 0; i < headers.size(); ++i) {
    for (const auto& [forged, why] : Forgeries(headers[i])) {
      std::vector<v1::EntryHeader> changed = headers;
      changed[i].set_signature(forged);
      RewriteLog(changed);
      const absl::Status audited = VerifyLog(files_, "/r").status();
      EXPECT_TRUE(absl::IsDataLoss(audited)) << audited;
      EXPECT_THAT(std::string(audited.message()), HasSubstr(absl::StrCat("entry ", i + 1)));
      EXPECT_THAT(std::string(audited.message()), HasSubstr(why));
      EXPECT_TRUE(absl::IsDataLoss(OpenReplica(files_, "/r").status()));
    }
  }
  RewriteLog(headers);
  EXPECT_TRUE(VerifyLog(files_, "/r").ok());
  EXPECT_TRUE(OpenReplica(files_, "/r").ok());
}

TEST_F(SignatureTest, ASnapshotCarriesASignedHeader) {
  // Broken: a joiner could begin from a state that no history leads to.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  run_.CommitTo(*replica, 3);
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", {3, 1}, 3).ok());
  v1::SnapshotInfo info = (*SnapshotReader::Open(files_, SnapshotPath("/r", 3)))->info();
  ASSERT_TRUE(CheckSnapshotInfo(info).ok());
  for (const auto& [forged, why] : Forgeries(info.header())) {
    info.mutable_header()->set_signature(forged);
    ExpectRefused(CheckSnapshotInfo(info), "entry 3", why);
  }
}

TEST_F(SignatureTest, ADonorThatSpoilsASignatureIsLeft) {
  // Broken: the digest does not cover the signature, so a donor could hand on a header that nobody
  // takes from this replica later.
  AddDonor("liar", 5, {100, 1}, [](Frame frame) {
    v1::EntryBlock block;
    CHECK_OK(Unpack(frame, &block));
    if (block.header().version() == 3) {
      block.mutable_header()->set_signature(Flipped(block.header().signature(), 7));
    }
    return Pack(block, frame.payload);
  });
  AddDonor("good", 5);
  const auto links = FetchChain(1, 4, {"liar", "good"});
  ASSERT_TRUE(links.ok()) << links.status();
  const std::vector<v1::EntryHeader> headers = Headers(1, 4);
  for (size_t i = 0; i < headers.size(); ++i) {
    EXPECT_EQ((*links)[i].header.SerializeAsString(), headers[i].SerializeAsString());
  }
  EXPECT_EQ(donors_[0]->calls, 1);
  EXPECT_EQ(donors_[1]->calls, 1);
  const auto alone = FetchChain(1, 4, {"liar"});
  EXPECT_THAT(std::string(alone.status().message()), HasSubstr("entry 3: its signature"));
}

}  // namespace
}  // namespace atolld
