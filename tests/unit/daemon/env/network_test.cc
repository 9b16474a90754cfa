#include "daemon/env/network.h"

#include <random>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"
#include "atoll/v1/exchange.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/replica.pb.h"
#include "atoll/v1/worker.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

std::string Payload(const Frame& frame) { return std::string(frame.payload.Joined().str()); }

absl::StatusOr<Frame> Parse(const std::string& wire) { return ParseFrame(SharedBytes(wire)); }

std::string Wire(const Frame& frame) {
  std::string wire = FrameHead(frame);
  for (const SharedBytes& part : frame.payload.parts()) {
    wire.append(part.str().data(), part.size());
  }
  return wire;
}

Frame SampleFrame(size_t payload_bytes) {
  v1::ToReducer message;
  message.mutable_chunk()->set_attempt(3);
  message.mutable_chunk()->set_chunk(70000);
  std::string payload(payload_bytes, '\0');
  for (size_t i = 0; i < payload_bytes; ++i) payload[i] = static_cast<char>(i * 31 + 7);
  return Pack(message, SharedBytes(std::move(payload)));
}

// Would break: "127.example.org" lets plain text out of this machine, or a wildcard in another
// spelling is handed out as an address.
TEST(Address, SaysWhoCanDialIt) {
  for (const char* text : {"127.0.0.1:1", "127.1:1", "localhost:1", "[::1]:1", "unix:/a",
                           "[::ffff:127.0.0.1]:1", "[0:0:0:0:0:0:0:1]:1"}) {
    EXPECT_TRUE(IsLoopback(text)) << text;
    EXPECT_FALSE(IsWildcard(text)) << text;
  }
  for (const char* text :
       {"0.0.0.0:1", "0:1", "[::]:1", "[0::0]:1", "*:1", ":1", "[::ffff:0.0.0.0]:1"}) {
    EXPECT_TRUE(IsWildcard(text)) << text;
    EXPECT_FALSE(IsLoopback(text)) << text;
  }
  for (const char* text : {"127.example.org:1", "10.0.0.1:1", "localhost.example:1", "[fe80::1]:1",
                           "coordinator:1", "1270.0.0.1:1"}) {
    EXPECT_FALSE(IsLoopback(text)) << text;
    EXPECT_FALSE(IsWildcard(text)) << text;
  }
}

// Would break: what many are told would be held once for each of them, or be another message on the
// wire than what one is told.
TEST(Frame, ASharedOneIsTheSameOnTheWireAndHeldOnce) {
  v1::PeerMessage message;
  message.mutable_leaving()->set_reason(std::string(300, 'r'));
  const Frame own = Pack(message);
  const Frame shared = PackShared(message);
  const Frame copy = shared;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(Wire(copy), Wire(own));
  EXPECT_EQ(FrameBytes(copy), FrameBytes(own));
  EXPECT_EQ(copy.bytes().data(), shared.bytes().data());
  v1::PeerMessage back;
  ASSERT_TRUE(Unpack(copy, &back).ok());
  EXPECT_EQ(back.leaving().reason(), message.leaving().reason());
}

// A worker in another language must read our frames as plain protobuf, and we its messages.
TEST(Frame, IsTheProtobufWireFormat) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{127}, size_t{128}, size_t{300000}}) {
    const Frame frame = SampleFrame(size);
    const std::string wire = Wire(frame);
    EXPECT_EQ(wire.size(), FrameBytes(frame));
    v1::ToReducer whole;
    ASSERT_TRUE(whole.ParseFromString(wire));
    EXPECT_EQ(whole.chunk().chunk(), 70000u);
    EXPECT_EQ(whole.payload(), Payload(frame));

    const auto back = Parse(whole.SerializeAsString());
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->message, frame.message);
    EXPECT_EQ(Payload(*back), Payload(frame));
  }
}

// What else stands in the bulk field's number is taken out of the message by whoever receives it,
// and is lost: a report once was, in silence.
TEST(Frame, NoMessageOfAServiceUsesTheBulkFieldForAnythingElse) {
  int messages = 0;
  for (const google::protobuf::FileDescriptor* file :
       {v1::RunStatus::descriptor()->file(), v1::ToReducer::descriptor()->file(),
        v1::PeerMessage::descriptor()->file(), v1::EntriesRequest::descriptor()->file(),
        v1::DaemonMessage::descriptor()->file()}) {
    ASSERT_GT(file->service_count(), 0) << file->name();
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const google::protobuf::MethodDescriptor* method = file->service(s)->method(m);
        for (const auto* message : {method->input_type(), method->output_type()}) {
          ++messages;
          const auto* field = message->FindFieldByNumber(kPayloadField);
          EXPECT_TRUE(field == nullptr || field->name() == "payload") << message->full_name();
        }
      }
    }
  }
  EXPECT_GT(messages, 40);
}

// gRPC cuts messages where it likes; no cut may change what is read.
TEST(Frame, AnyCutIntoPiecesReadsTheSame) {
  const std::string wire = Wire(SampleFrame(500));
  const Frame expected = *Parse(wire);
  std::minstd_rand random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> parts;
    for (size_t at = 0; at < wire.size();) {
      const size_t size = random() % (round % 2 == 0 ? 3 : 200);
      parts.push_back(wire.substr(at, size));
      at += parts.back().size();
    }
    ByteParts pieces;
    for (const std::string& part : parts) pieces.Append(SharedBytes(part));
    const auto frame = ParseFrame(pieces);
    ASSERT_TRUE(frame.ok()) << frame.status();
    EXPECT_EQ(frame->message, expected.message);
    EXPECT_EQ(Payload(*frame), Payload(expected));
  }
}

// Other implementations may order fields otherwise; protobuf says that the last of two wins.
TEST(Frame, ThePayloadMayStandAnywhereAndTheLastWins) {
  v1::EntryBlock first;
  first.set_offset(5);
  v1::EntryBlock last;
  last.set_total(9);
  const std::string old_payload = Wire({"", SharedBytes(std::string("old"))});
  const std::string new_payload = Wire({"", SharedBytes(std::string("newer"))});
  const std::string wire =
      old_payload + first.SerializeAsString() + new_payload + last.SerializeAsString();
  const auto frame = Parse(wire);
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ(Payload(*frame), "newer");
  v1::EntryBlock block;
  ASSERT_TRUE(Unpack(*frame, &block).ok());
  EXPECT_EQ(block.offset(), 5u);
  EXPECT_EQ(block.total(), 9u);
  EXPECT_TRUE(Parse(wire + std::string("\x7a\x00", 2))->payload.empty());
}

// A message that ends too early must never be taken for a shorter whole one of another meaning.
TEST(Frame, EveryTruncationIsAnErrorOrEndsAtAField) {
  const Frame frame = SampleFrame(40);
  const std::string wire = Wire(frame);
  for (size_t size = 0; size < wire.size(); ++size) {
    const auto cut = Parse(wire.substr(0, size));
    const bool at_field = size == 0 || size == frame.message.size();
    const auto code = at_field ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument;
    EXPECT_EQ(cut.status().code(), code) << size;
  }
}

// Lengths from a stranger must not overflow, allocate or be read past the end.
TEST(Frame, RefusesBadBytes) {
  const std::string max(9, '\xff');
  const std::vector<std::string> bad = {
      std::string("\x7a") + max + "\x01",      // length 2^64-1
      std::string("\x7a") + max + "\x02",      // past 64 bits
      std::string("\x7a") + max + "\xff\x01",  // eleven bytes
      std::string("\x7a\x05") + "abcd",        // one byte short
      std::string("\x78\x01", 2),              // field 15 as a number
      std::string("\x00\x01", 2),              // field 0
      std::string("\x0b", 1),                  // a group begins
      std::string("\x0c", 1),                  // a group ends
      std::string("\x0e", 1),                  // wire type 6
      std::string("\x0d\x01\x02\x03", 4),      // fixed32 cut
      std::string("\x09\x01\x02\x03", 4),      // fixed64 cut
      max + "\x01",                            // a tag past 32 bits
      std::string("\x80", 1),                  // a tag cut
  };
  for (const std::string& wire : bad) {
    const auto frame = Parse(wire);
    EXPECT_EQ(frame.status().code(), absl::StatusCode::kInvalidArgument)
        << testing::PrintToString(wire);
    EXPECT_THAT(std::string(frame.status().message()), HasSubstr("at byte"));
  }
}

// Any bytes at all: no crash, and what is read is never more than what came.
TEST(Frame, IsTotalOnRandomBytes) {
  std::minstd_rand random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string wire(random() % 40, '\0');
    for (char& c : wire) c = static_cast<char>(random() % 4 == 0 ? 0x7a : random());
    const auto frame = Parse(wire);
    if (!frame.ok()) continue;
    EXPECT_LE(frame->message.size() + frame->payload.size(), wire.size());
  }
}

}  // namespace
}  // namespace atolld
