// Would break: a history that anybody can forge, one that nobody can go on with although its key is
// there, or one that somebody goes on with who has not got the key.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "membership/history/header.h"
#include "membership/history/signature.h"
#include "tests/unit/daemon/coordinator/coordinator_world.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

SigningKey KeyOf(char byte) { return *SigningKey::FromSeed(std::string(32, byte)); }

TEST(HistoryKey, EveryHeaderAndTheSealAreSigned) {
  CoordinatorWorld w(2);
  w.AddCoordinator();
  for (const char* peer : {"a", "b"}) w.AddPeer(peer);
  ASSERT_TRUE(w.RunToVersion(2));
  w.world.Kill("coordinator");
  w.world.Restart("coordinator");
  ASSERT_TRUE(w.world.RunUntil([&] { return w.sealed; }, absl::Minutes(2))) << w.world.LogText();
  const StoredRun& run = w.disk->run;
  EXPECT_EQ(run.genesis->spec().history_key(), w.key.public_key());
  ASSERT_EQ(run.headers.size(), 5u);
  for (const v1::EntryHeader& header : run.headers) {
    EXPECT_EQ(header.signature().size(), kSignatureBytes);
    EXPECT_TRUE(CheckSigned(*run.spec, header).ok());
  }
  EXPECT_EQ(run.seal->signature().size(), kSignatureBytes);
  EXPECT_TRUE(CheckSigned(*run.spec, *run.seal).ok());
}

absl::Status Start(CoordinatorWorld& w, HistoryKeySource source) {
  static int processes = 0;
  SimProcess& process = w.world.AddProcess("starter" + std::to_string(++processes));
  Coordinator coordinator(process.env(), w.config, std::make_unique<MemoryStore>(w.disk), nullptr,
                          std::move(source));
  return coordinator.Start();
}

TEST(HistoryKey, NobodyGoesOnWithoutTheRunsKey) {
  CoordinatorWorld w(1);
  ASSERT_TRUE(Start(w, w.history_key).ok());
  ASSERT_TRUE(Start(w, w.history_key).ok());
  const absl::Status other = Start(w, [](bool) { return KeyOf('x'); });
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  EXPECT_THAT(std::string(other.message()), HasSubstr("put the run's own back"));
  std::vector<bool> asked;
  const absl::Status lost = Start(w, [&](bool make) -> absl::StatusOr<SigningKey> {
    asked.push_back(make);
    return absl::FailedPreconditionError("its key is not at /dir");
  });
  EXPECT_EQ(asked, std::vector<bool>{false});  // a new one would be of no use
  EXPECT_THAT(std::string(lost.message()), HasSubstr("its key is not at /dir"));
  EXPECT_TRUE(absl::IsFailedPrecondition(Start(w, nullptr)));
  EXPECT_EQ(w.disk->run.epoch, 2u);  // whoever was refused has changed nothing
  EXPECT_TRUE(Start(w, w.history_key).ok());
}

TEST(HistoryKey, ARunThatBeganUnsignedStaysSo) {
  CoordinatorWorld w(1);
  ASSERT_TRUE(Start(w, nullptr).ok());
  EXPECT_TRUE(w.disk->run.spec->history_key().empty());
  ASSERT_TRUE(Start(w, w.history_key).ok());
  EXPECT_TRUE(w.disk->run.spec->history_key().empty());
}

TEST(HistoryKey, AStoreWithAForgedHeaderOrSealIsNotRead) {
  CoordinatorWorld w(1);
  w.AddCoordinator();
  w.AddPeer("a");
  ASSERT_TRUE(w.world.RunUntil([&] { return w.sealed; }, absl::Minutes(2)));
  w.world.Kill("coordinator");
  const StoredRun good = w.disk->run;
  w.disk->run.headers[2].set_signature(SignHeader(KeyOf('x'), good.headers[2]));
  const absl::Status header = Start(w, w.history_key);
  EXPECT_TRUE(absl::IsDataLoss(header));
  EXPECT_THAT(std::string(header.message()), HasSubstr("entry 3: its signature is not by"));
  w.disk->run = good;
  w.disk->run.seal->clear_signature();
  const absl::Status seal = Start(w, w.history_key);
  EXPECT_TRUE(absl::IsDataLoss(seal));
  EXPECT_THAT(std::string(seal.message()), HasSubstr("seal of version 5: it is not signed"));
  w.disk->run = good;
  EXPECT_TRUE(Start(w, w.history_key).ok());
}

// The peers' longest history is a lie, as is a second one that is told as far as it is true.
TEST(HistoryKey, ALostStoreAdoptsTheLongestSignedHistory) {
  CoordinatorWorld w(3, 2, 8);
  w.AddCoordinator();
  for (const char* peer : {"a", "b", "c"}) w.AddPeer(peer);
  ASSERT_TRUE(w.RunToVersion(3));
  const auto told = [&] {
    return w.peer("a").headers.size() >= 3 && w.peer("b").headers.size() >= 3;
  };
  ASSERT_TRUE(w.world.RunUntil(told, absl::Seconds(30)));
  w.world.Kill("coordinator");
  const std::vector<v1::EntryHeader> true_headers = w.disk->run.headers;
  w.peer("b").Forge(KeyOf('x'));
  w.peer("b").Forge(KeyOf('x'));
  w.disk->run = StoredRun();
  w.world.Restart("coordinator");
  ASSERT_TRUE(w.world.RunUntil([&] { return w.sealed; }, absl::Minutes(3))) << w.world.LogText();
  const StoredRun& run = w.disk->run;
  ASSERT_EQ(run.headers.size(), 8u);
  for (size_t i = 0; i < true_headers.size(); ++i) {
    EXPECT_EQ(HeaderDigest(run.headers[i]), HeaderDigest(true_headers[i])) << i;
  }
  for (const v1::EntryHeader& header : run.headers)
    EXPECT_TRUE(CheckSigned(*run.spec, header).ok());
  EXPECT_EQ(w.world.LogCount("peer b is asked for the headers from 3 to 5"), 1u);
  EXPECT_GE(w.world.LogCount("peer b was refused: the history that it tells is not the run's: "
                             "entry 4: its signature is not by the history key"),
            1u);
}

}  // namespace
}  // namespace atolld
