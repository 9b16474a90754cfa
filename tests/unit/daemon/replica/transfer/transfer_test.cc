#include "daemon/replica/transfer/transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "atoll/v1/replica.pb.h"
#include "tests/sim/sim_ends.h"
#include "tests/unit/daemon/replica/transfer/transfer_fixture.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

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
  const std::vector<Tamper> tampers = {[&](Frame frame) {  // other bytes
                                         std::string bytes(frame.payload.Joined().str());
                                         bytes[40] = static_cast<char>(bytes[40] ^ 1);
                                         frame.payload = SharedBytes(bytes);
                                         return frame;
                                       },
                                       [&](Frame frame) {  // another entry
                                         v1::EntryBlock block;
                                         CHECK_OK(Unpack(frame, &block));
                                         block.mutable_header()->set_version(9);
                                         return Pack(block, frame.payload);
                                       },
                                       [&](Frame frame) {  // a length beyond all bounds
                                         v1::EntryBlock block;
                                         CHECK_OK(Unpack(frame, &block));
                                         block.set_total(uint64_t{1} << 60);
                                         return Pack(block, frame.payload);
                                       },
                                       [&](Frame) {  // no message at all
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
  for (size_t i = 0; i < tampers.size(); ++i) EXPECT_EQ(donors_[i]->calls, 1) << names[i];
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
  EXPECT_THAT(failed_, testing::UnorderedElementsAre("nobody:1", "dying:1"));
}

TEST_F(TransferTest, ADonorThatIsSilentIsNamed) {
  // Broken: nobody looks at a line that drops packets, unless an exchange needs it.
  AddDonor("silent", 3, {100, 1}, [](Frame) { return std::nullopt; });
  OwnedReplica replica = JoinerReplica();
  EXPECT_FALSE(FetchEntries(*replica, 3, {"silent"}).ok());
  EXPECT_THAT(failed_, testing::ElementsAre("silent:1"));
}

TEST_F(TransferTest, EntriesAreNotFoundWhenEveryDonorHasDroppedThem) {
  // Broken: a peer that slept too long would ask for ever instead of taking a snapshot.
  AddDonor("a", 6, {2, 1});
  AddDonor("b", 6, {3, 1});
  OwnedReplica replica = JoinerReplica();
  EXPECT_TRUE(absl::IsNotFound(FetchEntries(*replica, 6, {"a", "b"})));
  const absl::Status mixed = FetchEntries(*replica, 6, {"a", "nobody"});
  EXPECT_TRUE(absl::IsAborted(mixed)) << mixed;
  EXPECT_THAT(std::string(mixed.message()), HasSubstr("nobody"));
}

TEST_F(TransferTest, ADonorOfAnotherRunIsRefused) {
  // Broken: entries of one run could be asked from another's replica.
  AddDonor("a", 1);
  OwnedReplica replica = JoinerReplica();
  FetchSource source = Source({"a"});
  source.run_id = "other";
  std::optional<absl::Status> result;
  EntryFetch fetch(joiner(), source, Headers(1, 1),
                   {[](Entry, Task) { FAIL(); }, [&](absl::Status status) { result = status; }});
  ASSERT_TRUE(world_.RunUntil([&] { return result.has_value(); }, absl::Minutes(1)));
  EXPECT_THAT(std::string(result->message()), HasSubstr("asked for run other"));
}

TEST_F(TransferTest, ADestroyedFetchSaysNothingMore) {
  // Broken: a callback would reach an owner that is gone.
  UseLargeState();
  AddDonor("a", 3);
  const std::vector<v1::EntryHeader> headers = Headers(1, 3);
  for (int milliseconds = 0; milliseconds < 30; ++milliseconds) {
    bool gone = false;
    auto entries =
        std::make_unique<EntryFetch>(joiner(), Source({"a"}), headers,
                                     EntryFetch::Events{[&](Entry, Task next) {
                                                          EXPECT_FALSE(gone);
                                                          next();
                                                        },
                                                        [&](absl::Status) { EXPECT_FALSE(gone); }});
    progress_ = 0;
    auto snapshot = std::make_unique<SnapshotFetch>(
        joiner(), Source({"a"}), "/s", Genesis(), std::vector<uint64_t>(),
        SnapshotEvents([&](absl::Status) { EXPECT_FALSE(gone); }));
    auto chain = std::make_unique<ChainFetch>(
        joiner(), Source({"a"}), 1, 3, HeaderDigest(headers[2]),
        [&](const absl::StatusOr<std::vector<ChainLink>>&) { EXPECT_FALSE(gone); });
    world_.RunFor(absl::Milliseconds(milliseconds));
    entries = nullptr;
    snapshot = nullptr;
    chain = nullptr;
    gone = true;
    world_.RunFor(absl::Seconds(20));
    EXPECT_EQ(world_.network().open_calls(), 0u);
  }
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

TEST_F(TransferTest, EntriesComeFromSeveralDonorsInOrder) {
  // Broken: a peer that slept would catch up at one donor's speed, or apply entries out of order.
  UseLargeState();
  for (const char* name : {"a", "b", "c"}) {
    AddDonor(name, 6);
    world_.network().SetLink(name, "joiner", {absl::Milliseconds(20), absl::ZeroDuration(), 4e6});
  }
  OwnedReplica replica = JoinerReplica();
  const absl::Duration began = world_.now();
  EXPECT_TRUE(FetchEntries(*replica, 6, {"a", "b", "c"}).ok());
  EXPECT_EQ(replica->StateDigest(), digest_);
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_GT(world_.network().bytes_sent(name, "joiner"), 1500000u) << name;
  }
  // Six entries of 1.5 MB at 4 MB/s each: 2.3 s from one donor.
  EXPECT_LT(world_.now() - began, absl::Seconds(1.5));
}

TEST_F(TransferTest, AChainIsBelievedOnlyBackFromTheNewestHeader) {
  // Broken: a donor could make a joiner follow another history.
  AddDonor("liar", 5, {100, 1}, [](Frame frame) {
    v1::EntryBlock block;
    CHECK_OK(Unpack(frame, &block));
    if (block.header().version() == 3) block.mutable_header()->set_codec("fp32");
    return Pack(block, frame.payload);
  });
  AddDonor("good", 5);
  const absl::StatusOr<std::vector<ChainLink>> links = FetchChain(1, 5, {"liar", "good"});
  ASSERT_TRUE(links.ok()) << links.status();
  ASSERT_EQ(links->size(), 5u);
  const std::vector<v1::EntryHeader> headers = Headers(1, 5);
  for (size_t i = 0; i < headers.size(); ++i) {
    EXPECT_EQ(HeaderDigest((*links)[i].header), HeaderDigest(headers[i]));
    EXPECT_EQ((*links)[i].payload_bytes, run_.Payload(i + 1).size());
  }
  EXPECT_TRUE(absl::IsUnavailable(FetchChain(1, 5, {"liar"}).status()));
  EXPECT_LT(world_.network().bytes_sent("good", "joiner"), 5000u) << "payloads came with it";
}

TEST_F(TransferTest, ADonorGivesNoMoreThanItsRateAndSaysWhenItIsBusy) {
  // Broken: joiners would slow the donor's own exchange; a crowd of them would fill its memory.
  UseLargeState();
  AddDonor("a", 4, {4, 1}, nullptr, {4 << 20, absl::Seconds(5)});
  AddDonor("b", 4, {4, 1});
  donors_[0]->donor.SetBusy(true);
  const absl::Duration began = world_.now();
  ASSERT_TRUE(FetchSnapshot({"a"}).ok());
  // 11.4 MiB at an eighth of 4 MiB/s.
  EXPECT_GT(world_.now() - began, absl::Seconds(18));
  EXPECT_LT(world_.now() - began, absl::Seconds(30));
  std::vector<std::unique_ptr<Call>> calls;
  int refused = 0;
  for (int i = 0; i < 20; ++i) {
    calls.push_back(joiner().transport.Dial("a:1", kFetchSnapshotMethod, absl::InfiniteDuration()));
    calls.back()->Start({[](Frame) {}, nullptr,
                         [&refused](absl::Status status) {
                           refused += absl::IsResourceExhausted(status) ? 1 : 0;
                         }});
    calls.back()->Read();
  }
  world_.RunFor(absl::Seconds(1));
  EXPECT_EQ(refused, 4);
  progress_ = 0;
  const absl::Status next = FetchSnapshot({"a", "b"});
  EXPECT_TRUE(next.ok()) << "the next donor is tried: " << next;
  world_.RunFor(absl::Seconds(12));
  EXPECT_EQ(world_.network().open_calls(), 0u) << "calls that ask for nothing keep their place";
}

TEST_F(TransferTest, ADonorRefusesBlocksThatItsSnapshotDoesNotHave) {
  // Broken: whoever can dial a donor could crash it, or read memory beyond the snapshot's.
  AddDonor("a", 3);
  v1::SnapshotRequest newest;
  newest.set_run_id("test-run");
  newest.set_newest(true);
  const auto block = [](uint64_t number) {
    v1::SnapshotRequest request;
    request.set_run_id("test-run");
    request.set_want_block(true);
    request.set_block(number);
    return request;
  };
  const auto ask = [&](const std::vector<v1::SnapshotRequest>& requests) {
    auto reader = std::make_unique<Reader>();
    reader->Start(joiner().transport.Dial("a:1", kFetchSnapshotMethod, absl::InfiniteDuration()));
    for (const v1::SnapshotRequest& request : requests) reader->call->Write(Pack(request));
    world_.RunFor(absl::Seconds(1));
    return reader;
  };
  const auto unasked = ask({block(0)});
  ASSERT_EQ(unasked->closed.size(), 1u) << "it has not said which snapshot it wants";
  EXPECT_TRUE(absl::IsFailedPrecondition(unasked->closed[0])) << unasked->closed[0];

  v1::SnapshotBlock answer;
  const auto told = ask({newest});
  ASSERT_EQ(told->frames.size(), 2u) << "the description, and its leaves";
  ASSERT_TRUE(answer.ParseFromString(told->frames[1]));
  const uint64_t blocks = answer.leaves().leaves().size() / 32;
  ASSERT_GT(blocks, 0u);
  EXPECT_EQ(ask({newest, block(blocks - 1)})->frames.size(), 3u) << "the last is there";
  for (const uint64_t number : {blocks, uint64_t{0xffffffff}, ~uint64_t{0}}) {
    const auto asked = ask({newest, block(number)});
    ASSERT_EQ(asked->closed.size(), 1u) << number;
    EXPECT_TRUE(absl::IsInvalidArgument(asked->closed[0])) << number << ": " << asked->closed[0];
  }
  EXPECT_TRUE(FetchSnapshot({"a"}).ok()) << "the donor still gives";
}

}  // namespace
}  // namespace atolld
