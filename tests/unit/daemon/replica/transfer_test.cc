#include "daemon/replica/transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "atoll/v1/replica.pb.h"
#include "daemon/replica/layout.h"
#include "daemon/replica/snapshot.h"
#include "daemon/status_macros.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/replica/test_run.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// Passes a donor's frames on, changed as a test likes; no value: the frame is swallowed.
using Tamper = std::function<std::optional<Frame>(Frame)>;

class TamperCall final : public Call {
 public:
  TamperCall(std::unique_ptr<Call> inner, Tamper tamper)
      : inner_(std::move(inner)), tamper_(std::move(tamper)) {}
  void Start(Events events) override { inner_->Start(std::move(events)); }
  void Read() override { inner_->Read(); }
  void Write(Frame frame) override {
    if (std::optional<Frame> changed = tamper_(std::move(frame)))
      inner_->Write(*std::move(changed));
  }
  size_t unsent_bytes() const override { return inner_->unsent_bytes(); }
  void Finish(absl::Status status) override { inner_->Finish(std::move(status)); }
  uint64_t sent_bytes() const override { return inner_->sent_bytes(); }
  std::string remote() const override { return inner_->remote(); }

 private:
  const std::unique_ptr<Call> inner_;
  const Tamper tamper_;
};

// A process that gives from "/r" and listens at "NAME:1".
struct DonorProcess {
  DonorProcess(Env env, const std::string& name, Tamper tamper) : donor(env, "/r", "test-run") {
    auto listening = env.transport.Listen(
        name + ":1", [this, tamper](const std::string& method, std::unique_ptr<Call> call) {
          if (tamper != nullptr) call = std::make_unique<TamperCall>(std::move(call), tamper);
          ++calls;
          donor.Accept(method, std::move(call));
        });
    CHECK_OK(listening.status());
    listener = *std::move(listening);
  }
  Donor donor;
  int calls = 0;
  std::unique_ptr<Listener> listener;
};

class TransferTest : public ::testing::Test {
 protected:
  TransferTest() { world_.AddProcess("joiner"); }

  // A donor at `version`, with snapshots as the policy makes them.
  void AddDonor(const std::string& name, uint64_t version, RetentionPolicy policy = {100, 1},
                Tamper tamper = nullptr) {
    SimProcess& process = world_.AddProcess(name);
    OwnedReplica replica = *CreateReplica(process.env().files, "/r", run_);
    for (uint64_t v = 1; v <= version; ++v) {
      run_.CommitTo(*replica, v);
      CHECK_OK(Replica::AdvanceSnapshots(process.env().files, "/r", policy, v));
    }
    digest_ = replica->StateDigest();
    donors_.push_back(std::make_unique<DonorProcess>(process.env(), name, tamper));
  }

  Env joiner() { return world_.process("joiner").env(); }

  FetchSource Source(std::vector<std::string> names) {
    for (std::string& name : names) name += ":1";
    return {"test-run", std::move(names), absl::Seconds(5)};
  }

  // A replica of the same run at version 0, on the joiner's disk.
  OwnedReplica JoinerReplica() { return *CreateReplica(joiner().files, "/r", run_); }

  // Fetches and commits entries up to `last`.
  absl::Status FetchEntries(Replica& replica, uint64_t last, std::vector<std::string> names) {
    std::optional<absl::Status> result;
    EntryFetch fetch(joiner(), Source(std::move(names)), replica.version() + 1, last,
                     {[&](Entry entry, Task next) {
                        CHECK_OK(replica.Commit(entry.header, &entry.payload, {}));
                        next();
                      },
                      [&](absl::Status status) { result = status; }});
    CHECK(world_.RunUntil([&] { return result.has_value(); }, absl::Minutes(10)));
    return *result;
  }

  v1::Genesis Genesis() {
    SimDisk disk;
    SimFiles files(disk);
    return (*CreateReplica(files, "/r", run_))->genesis();
  }

  absl::Status FetchSnapshot(std::vector<std::string> names) {
    std::optional<absl::Status> result;
    SnapshotFetch fetch(
        joiner(), Source(std::move(names)), "/r", Genesis(),
        [&](absl::Status status) { result = status; },
        [&](uint64_t bytes, uint64_t total) {
          EXPECT_GE(bytes, progress_);
          EXPECT_LE(bytes, total);
          progress_ = bytes;
        });
    CHECK(world_.RunUntil([&] { return result.has_value(); }, absl::Minutes(10)));
    return *result;
  }

  void UseLargeState() {
    run_.elements = 1500000;  // six blocks a buffer
    run_.chunk_elements = 65536;
  }

  TestRun run_;
  SimWorld world_{7};
  std::vector<std::unique_ptr<DonorProcess>> donors_;
  Digest digest_;
  uint64_t progress_ = 0;
};

TEST_F(TransferTest, EntriesBringAReplicaToTheDonorsState) {
  // Broken: a peer that slept could not catch up.
  UseLargeState();
  AddDonor("a", 3);
  OwnedReplica replica = JoinerReplica();
  EXPECT_TRUE(FetchEntries(*replica, 3, {"a"}).ok());
  EXPECT_EQ(replica->StateDigest(), digest_);
  EXPECT_EQ(donors_[0]->calls, 1);
  world_.RunFor(absl::Seconds(1));
  EXPECT_EQ(world_.network().open_calls(), 0u);
}

TEST_F(TransferTest, EntriesComeFromTheNextDonorWhenOneLies) {
  // Broken: one bad donor could keep a peer out, or put its own bytes into it.
  int lies = 0;
  const std::vector<Tamper> tampers = {[&](Frame frame) {  // other bytes
                                         ++lies;
                                         std::string bytes(frame.payload.str());
                                         bytes[40] = static_cast<char>(bytes[40] ^ 1);
                                         frame.payload = SharedBytes(bytes);
                                         return frame;
                                       },
                                       [&](Frame frame) {  // another entry
                                         ++lies;
                                         v1::EntryBlock block;
                                         CHECK_OK(Unpack(frame, &block));
                                         block.mutable_header()->set_version(9);
                                         return Pack(block, frame.payload);
                                       },
                                       [&](Frame frame) {  // a length beyond all bounds
                                         ++lies;
                                         v1::EntryBlock block;
                                         CHECK_OK(Unpack(frame, &block));
                                         block.set_total(uint64_t{1} << 60);
                                         return Pack(block, frame.payload);
                                       },
                                       [&](Frame) {  // no message at all
                                         ++lies;
                                         return Frame{"\xff\xff", SharedBytes()};
                                       }};
  std::vector<std::string> names;
  for (const Tamper& tamper : tampers) {
    names.push_back(absl::StrCat("liar", names.size()));
    AddDonor(names.back(), 3, {100, 1}, tamper);
  }
  AddDonor("good", 3);
  names.push_back("good");
  OwnedReplica replica = JoinerReplica();
  EXPECT_TRUE(FetchEntries(*replica, 3, names).ok());
  EXPECT_EQ(replica->StateDigest(), digest_);
  EXPECT_EQ(lies, 4);  // each is believed once, and never asked again
}

TEST_F(TransferTest, EntriesComeFromTheNextDonorWhenOneStallsOrDies) {
  // Broken: a join would hang on one dead donor.
  UseLargeState();
  AddDonor("silent", 3, {100, 1}, [](Frame) { return std::nullopt; });
  AddDonor("dying", 3);
  AddDonor("good", 3);
  world_.network().BreakCallsAfter("dying", "joiner", 2000000);
  OwnedReplica replica = JoinerReplica();
  EXPECT_TRUE(FetchEntries(*replica, 3, {"nobody", "silent", "dying", "good"}).ok());
  EXPECT_EQ(replica->StateDigest(), digest_);
  EXPECT_EQ(donors_[1]->calls, 1);
}

TEST_F(TransferTest, EntriesAreNotFoundWhenEveryDonorHasDroppedThem) {
  // Broken: a peer that slept too long would ask for ever instead of taking a snapshot.
  AddDonor("a", 6, {2, 1});
  AddDonor("b", 6, {3, 1});
  OwnedReplica replica = JoinerReplica();
  EXPECT_TRUE(absl::IsNotFound(FetchEntries(*replica, 6, {"a", "b"})));
  const absl::Status mixed = FetchEntries(*replica, 6, {"a", "nobody"});
  EXPECT_TRUE(absl::IsUnavailable(mixed)) << mixed;
  EXPECT_THAT(std::string(mixed.message()), HasSubstr("nobody"));
}

TEST_F(TransferTest, ADonorOfAnotherRunIsRefused) {
  // Broken: entries of one run could be asked from another's replica.
  AddDonor("a", 1);
  OwnedReplica replica = JoinerReplica();
  FetchSource source = Source({"a"});
  source.run_id = "other";
  std::optional<absl::Status> result;
  EntryFetch fetch(joiner(), source, 1, 1,
                   {[](Entry, Task) { FAIL(); }, [&](absl::Status status) { result = status; }});
  ASSERT_TRUE(world_.RunUntil([&] { return result.has_value(); }, absl::Minutes(1)));
  EXPECT_THAT(std::string(result->message()), HasSubstr("asked for run other"));
}

TEST_F(TransferTest, ADestroyedFetchSaysNothingMore) {
  // Broken: a callback would reach an owner that is gone.
  UseLargeState();
  AddDonor("a", 3);
  for (int milliseconds = 0; milliseconds < 30; ++milliseconds) {
    bool gone = false;
    auto entries =
        std::make_unique<EntryFetch>(joiner(), Source({"a"}), 1, 3,
                                     EntryFetch::Events{[&](Entry, Task next) {
                                                          EXPECT_FALSE(gone);
                                                          next();
                                                        },
                                                        [&](absl::Status) { EXPECT_FALSE(gone); }});
    auto snapshot = std::make_unique<SnapshotFetch>(
        joiner(), Source({"a"}), "/s", Genesis(), [&](absl::Status) { EXPECT_FALSE(gone); },
        [&](uint64_t, uint64_t) { EXPECT_FALSE(gone); });
    world_.RunFor(absl::Milliseconds(milliseconds));
    entries = nullptr;
    snapshot = nullptr;
    gone = true;
    world_.RunFor(absl::Seconds(20));
    EXPECT_EQ(world_.network().open_calls(), 0u);
  }
}

TEST_F(TransferTest, ASnapshotAndTheTailMakeAJoinerARepica) {
  // Broken: nobody could join a run.
  UseLargeState();
  AddDonor("a", 5, {2, 1});
  const absl::Status status = FetchSnapshot({"a"});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(progress_, 2 * run_.elements * sizeof(float));
  OwnedReplica replica = *OpenReplica(joiner().files, "/r");
  EXPECT_EQ(replica->version(), 4u);
  EXPECT_EQ(replica->oldest_entry(), 5u);
  EXPECT_TRUE(FetchEntries(*replica, 5, {"a"}).ok());
  EXPECT_EQ(replica->StateDigest(), digest_);
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->StateDigest(), digest_);
}

TEST_F(TransferTest, ASleeperTakesASnapshotOverItsOldLog) {
  // Broken: a peer whose entries nobody holds any more could never come back.
  AddDonor("a", 9, {4, 1});
  {
    OwnedReplica replica = JoinerReplica();
    run_.CommitTo(*replica, 2);
  }
  ASSERT_TRUE(FetchSnapshot({"a"}).ok());
  OwnedReplica replica = *OpenReplica(joiner().files, "/r");
  EXPECT_EQ(replica->version(), 8u);
  EXPECT_TRUE(FetchEntries(*replica, 9, {"a"}).ok());
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->StateDigest(), digest_);
  EXPECT_EQ(ListSnapshots(joiner().files, "/r")->size(), 1u);
}

TEST_F(TransferTest, ASnapshotIsGoneOnWithFromTheNextDonorAndAfterARestart) {
  // Broken: a joiner on a bad line would fetch the same blocks for ever.
  UseLargeState();
  AddDonor("a", 4, {4, 1});
  AddDonor("b", 4, {4, 1});
  const uint64_t total = 2 * run_.elements * sizeof(float);
  world_.network().BreakCallsAfter("a", "joiner", total / 2);
  {
    bool stop = false;
    SnapshotFetch fetch(
        joiner(), Source({"a", "b"}), "/r", Genesis(), [](absl::Status) { FAIL(); },
        [&](uint64_t bytes, uint64_t) { stop = bytes > total * 3 / 4; });
    ASSERT_TRUE(world_.RunUntil([&] { return stop; }, absl::Minutes(1)));
  }
  world_.RunFor(absl::Seconds(1));
  const uint64_t before = world_.network().bytes_sent("b", "joiner");
  world_.Kill("joiner");
  world_.RunFor(absl::Seconds(1));
  world_.Restart("joiner");
  world_.RunFor(absl::Seconds(1));
  ASSERT_TRUE(FetchSnapshot({"b"}).ok());
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->StateDigest(), digest_);
  EXPECT_LE(before, total * 2 / 3);
}

TEST_F(TransferTest, ASnapshotThatALiarBeganIsFinishedByAnother) {
  // Broken: a wrong block would be kept, or end the join.
  UseLargeState();
  int frames = 0;
  AddDonor("liar", 4, {4, 1}, [&](Frame frame) {
    if (++frames == 4) {
      std::string bytes(frame.payload.str());
      bytes[1000] = static_cast<char>(bytes[1000] ^ 4);
      frame.payload = SharedBytes(bytes);
    }
    return frame;
  });
  AddDonor("good", 4, {4, 1});
  ASSERT_TRUE(FetchSnapshot({"liar", "good"}).ok());
  EXPECT_EQ(donors_[0]->calls, 1);
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->StateDigest(), digest_);
}

TEST_F(TransferTest, ASnapshotOfAnotherGenesisOrWithALyingInfoIsRefused) {
  // Broken: a joiner would train another model than the run's.
  AddDonor("liar", 4, {4, 1}, [&](Frame frame) {
    v1::SnapshotBlock block;
    CHECK_OK(Unpack(frame, &block));
    if (block.has_info()) {
      (*block.mutable_info()->mutable_buffers(0)->mutable_leaves(0))[3] ^= 1;
    }
    return Pack(block, frame.payload);
  });
  const absl::Status lied = FetchSnapshot({"liar"});
  EXPECT_TRUE(absl::IsUnavailable(lied)) << lied;
  EXPECT_THAT(std::string(lied.message()), HasSubstr("leaves"));
  run_.rule = "average";
  AddDonor("other", 4, {4, 1});
  run_.rule = "nesterov";
  const absl::Status other = FetchSnapshot({"other"});
  EXPECT_TRUE(absl::IsUnavailable(other));
  EXPECT_THAT(std::string(other.message()), HasSubstr("genesis"));
  EXPECT_TRUE(absl::IsNotFound(OpenReplica(joiner().files, "/r").status()));
}

TEST_F(TransferTest, ANewerSnapshotIsTakenWhenNobodyHoldsTheOneThatWasBegun) {
  // Broken: a joiner that slept in the middle of a download could never finish it.
  UseLargeState();
  AddDonor("old", 2, {2, 1});
  AddDonor("new", 4, {2, 1});
  {
    bool stop = false;
    SnapshotFetch fetch(
        joiner(), Source({"old"}), "/r", Genesis(), [](absl::Status) { FAIL(); },
        [&](uint64_t bytes, uint64_t) { stop = bytes > 3000000; });
    ASSERT_TRUE(world_.RunUntil([&] { return stop; }, absl::Minutes(1)));
  }
  progress_ = 0;
  std::optional<absl::Status> result;
  SnapshotFetch fetch(
      joiner(), Source({"new"}), "/r", Genesis(), [&](absl::Status status) { result = status; },
      nullptr);
  ASSERT_TRUE(world_.RunUntil([&] { return result.has_value(); }, absl::Minutes(1)));
  ASSERT_TRUE(result->ok()) << *result;
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->version(), 4u);
}

TEST_F(TransferTest, ADonorQueuesFewBlocksForASlowReceiver) {
  // Broken: one slow joiner could fill a donor's memory.
  UseLargeState();
  AddDonor("a", 1);
  auto call = joiner().transport.Dial("a:1", kFetchEntriesMethod, absl::InfiniteDuration());
  call->Start({[](Frame) {}, nullptr, [](absl::Status) {}});
  v1::EntriesRequest request;
  request.set_run_id("test-run");
  request.set_version(1);
  call->Write(Pack(request));
  world_.RunFor(absl::Seconds(3));
  // Nothing is read here: what left the donor is the window of the call, no more.
  EXPECT_LE(world_.network().bytes_sent("a", "joiner"), 2u << 20);
}

}  // namespace
}  // namespace atolld
