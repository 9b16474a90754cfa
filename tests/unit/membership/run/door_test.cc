#include "membership/run/door.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// Field 1000, which no message has: some bytes that a later release, or a liar, has put in.
template <typename Message>
void AddUnknown(Message* message, size_t bytes) {
  message->GetReflection()->MutableUnknownFields(message)->AddLengthDelimited(
      1000, std::string(bytes, 'u'));
}

// Would break: a peer's own words fill the coordinator's memory, go out to everybody at each
// change, or move the cursor of whoever looks at the roster.
TEST(Door, WordsBecomeLinesOfBoundedLength) {
  v1::PeerMessage message;
  message.mutable_worker_ready()->set_device("cuda:0\x1b[2J\n" + std::string(1 << 16, 'x'));
  ASSERT_TRUE(TidyAtTheDoor(&message).ok());
  EXPECT_EQ(message.worker_ready().device().size(), kLongestName);
  EXPECT_THAT(message.worker_ready().device(), HasSubstr("cuda:0?[2J xxx"));

  message.Clear();
  message.mutable_heartbeat()->mutable_progress()->set_phase("training\rdone");
  ASSERT_TRUE(TidyAtTheDoor(&message).ok());
  EXPECT_EQ(message.heartbeat().progress().phase(), "training done");

  message.Clear();
  message.mutable_leaving()->set_reason(std::string(4096, 'r'));
  ASSERT_TRUE(TidyAtTheDoor(&message).ok());
  EXPECT_EQ(message.leaving().reason().size(), kLongestWords);

  message.Clear();
  v1::ChunkVerdict* verdict = message.mutable_audit_report()->add_verdicts();
  verdict->set_outcome("right");
  verdict->set_reason("a\tb");
  const std::string plain = message.SerializeAsString();
  ASSERT_TRUE(TidyAtTheDoor(&message).ok());
  EXPECT_EQ(verdict->reason(), "a b");  // of each of a list
  verdict->set_reason("a\tb");
  EXPECT_EQ(message.SerializeAsString(), plain);  // and nothing else has changed
}

// Would break: what nobody understands is kept, rebroadcast, and stands in every header for ever.
TEST(Door, WhatIsNotUnderstoodIsDropped) {
  v1::PeerMessage message;
  v1::Ready* ready = message.mutable_ready();
  ready->set_version(7);
  ready->add_samples()->set_first(3);
  const std::string plain = message.SerializeAsString();
  AddUnknown(&message, 100);
  AddUnknown(ready, 100);
  AddUnknown(ready->mutable_samples(0), 100);
  ASSERT_NE(message.SerializeAsString(), plain);
  ASSERT_TRUE(TidyAtTheDoor(&message).ok());
  EXPECT_EQ(message.SerializeAsString(), plain);
}

// Would break: a header that a later release wrote has another digest when it is adopted.
TEST(Door, CommittedHistoryIsLeftAsItIs) {
  v1::PeerMessage message;
  v1::EntryHeader* header = message.mutable_headers()->add_headers();
  header->set_codec(std::string(300, 'c'));
  header->set_payload_digest(std::string(200, 'd'));
  AddUnknown(header, 100);
  AddUnknown(message.mutable_headers()->mutable_genesis(), 100);
  const std::string before = message.SerializeAsString();
  ASSERT_TRUE(TidyAtTheDoor(&message).ok());
  EXPECT_EQ(message.SerializeAsString(), before);
}

// Would break: five colluders make a header that is larger than a message, and the run ends.
TEST(Door, ADigestIsNoLargerThanADigest) {
  v1::PeerMessage message;
  message.mutable_ready()->set_signature(std::string(kLongestDigest, 's'));
  EXPECT_TRUE(TidyAtTheDoor(&message).ok());
  message.mutable_ready()->set_signature(std::string(kLongestDigest + 1, 's'));
  const absl::Status refused = TidyAtTheDoor(&message);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("Ready.signature has 129 bytes, above 128"));

  message.Clear();  // a bitmap over a thousand contributors, and partial means of them
  v1::ContributorSet* set = message.mutable_vote()->mutable_records()->add_sets();
  set->set_contributors(std::string(125, '\xff'));
  set->add_partials(std::string(125, '\x0f'));
  EXPECT_TRUE(TidyAtTheDoor(&message).ok());
  set->add_partials(std::string(kLongestBitmap + 1, '\x0f'));
  EXPECT_FALSE(TidyAtTheDoor(&message).ok());
}

// Would break: everybody dials a path of their own machine, without certificates.
TEST(Door, AnAddressIsAHostAndAPort) {
  for (const char* good : {"a:1", "127.0.0.1:7070", "peer-1.example.org:65535", "[::1]:7070",
                           "[fe80::1%eth0]:7070", "under_score:80"}) {
    EXPECT_TRUE(IsDialableAddress(good)) << good;
  }
  for (const char* bad : {"",           "a",
                          "a:",         ":1",
                          "a:0",        "a:65536",
                          "a:1x",       "a:-1",
                          "a:123456",   "unix:/tmp/s",
                          "unix:s:1",   "unix:1",
                          "dns:53",     "unix-abstract:a:1",
                          "dns:///a:1", "a b:1",
                          "a\n:1",      "::1:7070",
                          "[]:1",       "[::1:7070",
                          "[::1]7070",  "ipv4:1.2.3.4:5",
                          "http://a:1", "a/b:1",
                          "vsock:1:2"}) {
    EXPECT_FALSE(IsDialableAddress(bad)) << bad;
  }
}

}  // namespace
}  // namespace atolld
