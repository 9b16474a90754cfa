// Would break: whoever can send a header, or write to a disk, could write the run's history.
#include "membership/history/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/state_digest.h"
#include "daemon/replica/state/verify.h"
#include "membership/history/header.h"
#include "tests/unit/daemon/replica/transfer/transfer_fixture.h"

namespace atolld {
namespace {

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
