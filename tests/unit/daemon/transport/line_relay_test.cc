// Would break: bytes go round a volunteer's cap, one busy connection shuts the Session out, or a
// connection that was there before the cap goes on without it.
#include "daemon/transport/line_relay.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "daemon/env/posix_executor.h"
#include "daemon/transport/grpc_transport.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/transport/transport_contract.h"

namespace atolld {
namespace {

constexpr absl::Duration kRelayLimit = absl::Seconds(60);
constexpr uint64_t kCap = 1250000;            // 10 Mbit/s
constexpr size_t kMessage = size_t{1} << 20;  // as a snapshot's block: most of a second's worth
constexpr char kBulk[] = "/atolld.v1.Exchange/Exchange";
constexpr char kControl[] = "/atolld.v1.Membership/Session";

GrpcTransport::Options Plain() {
  GrpcTransport::Options options;
  options.failure_timeout = absl::Seconds(10);
  return options;
}

// A machine whose line has caps, and another one.
class LineRelayTest : public ::testing::Test {
 protected:
  LineRelayTest() : near_(executor_, Plain()), far_(executor_, Plain()) {
    near_listens_ = Serve(near_);
    far_listens_ = Serve(far_);
  }
  ~LineRelayTest() override {
    near_listens_.reset();
    far_listens_.reset();
    accepted_.clear();
  }

  std::unique_ptr<Listener> Serve(GrpcTransport& transport) {
    auto listener =
        transport.Listen("127.0.0.1:0", [this](const std::string&, std::unique_ptr<Call> call) {
          Endpoint& end = *accepted_.emplace_back(std::make_unique<Endpoint>());
          end.Take(std::move(call));
          end.Start(/*reads=*/true);
        });
    CHECK_OK(listener.status());
    return *std::move(listener);
  }

  // Dials, and waits until the other end has the call.
  std::unique_ptr<Endpoint> Dial(GrpcTransport& from, const std::string& address,
                                 const std::string& method) {
    const size_t before = accepted_.size();
    auto end = std::make_unique<Endpoint>();
    end->Take(from.Dial(address, method, absl::Minutes(1)));
    end->Start(/*reads=*/true);
    end->call().Write(MakeFrame("hello"));
    CHECK(executor_.RunUntil(
        [&] { return accepted_.size() > before && !accepted_.back()->frames.empty(); },
        kRelayLimit));
    return end;
  }

  static size_t BytesOf(const Endpoint& end) {
    size_t bytes = 0;
    for (const Frame& frame : end.frames) bytes += frame.payload.size();
    return bytes;
  }

  // So many messages; how long they take.
  absl::Duration Send(Endpoint& from, const Endpoint& to, int messages) {
    const absl::Time begin = executor_.Now();
    const size_t before = to.frames.size();
    for (int i = 0; i < messages; ++i) from.call().Write(MakeFrame("bulk", kMessage));
    CHECK(executor_.RunUntil(
        [&] { return to.frames.size() == before + static_cast<size_t>(messages); }, kRelayLimit));
    return executor_.Now() - begin;
  }

  PosixExecutor executor_{PosixExecutor::Options()};
  GrpcTransport near_, far_;
  std::vector<std::unique_ptr<Endpoint>> accepted_;
  std::unique_ptr<Listener> near_listens_, far_listens_;
};

// A cap is of what the network sees, and messages are less. No faster than the cap, whatever the
// machine does: ahead of it is what two pauses have saved, the bucket's and that of bytes which the
// kernel has taken in and nobody has looked at. Slower is a busy machine's right, within reason.
void ExpectCapped(absl::Duration took, int messages) {
  const absl::Duration capped = absl::Seconds(static_cast<double>(messages) * kMessage / kCap);
  EXPECT_GE(took, capped - 2 * CapBucket::kSaved);
  EXPECT_LE(took, 4 * capped + absl::Seconds(2));
}

// What takes far less than the cap would make of it.
constexpr int kMany = 8;  // messages: most of seven seconds under the cap
void ExpectUncapped(absl::Duration took) {
  EXPECT_LE(took, absl::Seconds(0.7 * kMany * kMessage / kCap));
}

TEST_F(LineRelayTest, WhatIsSentAndWhatIsTakenInKeepTheirCaps) {
  CHECK_OK(near_.SetCaps(kCap, kCap));
  const auto dialled = Dial(near_, far_listens_->address(), kBulk);
  Endpoint& answering = *accepted_.back();
  ExpectCapped(Send(*dialled, answering, 2), 2);
  ExpectCapped(Send(answering, *dialled, 2), 2);
  const LineBytes used = near_.line_bytes();
  for (const uint64_t bytes : {used.sent, used.received}) {
    EXPECT_GE(bytes, 2 * kMessage);
    EXPECT_LE(bytes, 2 * kMessage * 11 / 10);
  }
}

TEST_F(LineRelayTest, ACallThatWasAcceptedIsCappedAndKnowsWhoCalled) {
  CHECK_OK(near_.SetCaps(kCap, kCap));
  const auto dialled = Dial(far_, near_listens_->address(), kBulk);
  Endpoint& accepted = *accepted_.back();
  EXPECT_EQ(accepted.call().remote().substr(0, 10), "127.0.0.1:");
  ExpectCapped(Send(accepted, *dialled, 1), 1);
  ExpectCapped(Send(*dialled, accepted, 1), 1);
}

TEST_F(LineRelayTest, TheSessionWaitsForNoBulk) {
  CHECK_OK(near_.SetCaps(kCap, kCap));
  const auto session = Dial(near_, far_listens_->address(), kControl);
  Endpoint& coordinator = *accepted_.back();
  const auto bulk = Dial(near_, far_listens_->address(), kBulk);
  const auto more = Dial(near_, far_listens_->address(), kBulk);
  for (int i = 0; i < 8; ++i) bulk->call().Write(MakeFrame("bulk", kMessage));
  for (int i = 0; i < 8; ++i) more->call().Write(MakeFrame("bulk", kMessage));
  absl::Duration quickest = absl::InfiniteDuration();
  for (int i = 0; i < 5; ++i) {
    const absl::Time begin = executor_.Now();
    const size_t before = coordinator.frames.size();
    session->call().Write(MakeFrame("vote", 1000));
    ASSERT_TRUE(
        executor_.RunUntil([&] { return coordinator.frames.size() > before; }, absl::Seconds(5)))
        << "vote " << i;
    quickest = std::min(quickest, executor_.Now() - begin);
  }
  EXPECT_LE(quickest, absl::Milliseconds(250));
  EXPECT_GT(bulk->call().unsent_bytes() + more->call().unsent_bytes(), 0u) << "or nothing waited";
  CHECK_OK(near_.SetCaps(0, 0));  // and the rest is soon gone
}

TEST_F(LineRelayTest, AFirstCapEndsWhatWentPastItAndALaterOneHoldsAtOnce) {
  const auto to = Dial(near_, far_listens_->address(), kBulk);
  const auto session = Dial(near_, far_listens_->address(), kControl);
  Endpoint& coordinator = *accepted_.back();
  const auto from = Dial(far_, near_listens_->address(), kBulk);
  CHECK_OK(near_.SetCaps(0, 0));
  executor_.RunUntil([] { return false; }, absl::Milliseconds(50));
  EXPECT_FALSE(to->closed || from->closed);
  CHECK_OK(near_.SetCaps(100 * kCap, 0));
  ASSERT_TRUE(executor_.RunUntil([&] { return to->closed && from->closed; }, kRelayLimit));
  EXPECT_TRUE(absl::IsUnavailable(to->status)) << to->status;
  EXPECT_TRUE(absl::IsUnavailable(from->status)) << from->status;
  EXPECT_FALSE(session->closed || coordinator.closed) << "the Session goes on";
  const auto again = Dial(near_, far_listens_->address(), kBulk);
  Endpoint& accepted = *accepted_.back();
  ExpectUncapped(Send(*again, accepted, kMany));
  CHECK_OK(near_.SetCaps(kCap, 0));
  ExpectCapped(Send(*again, accepted, 1), 1);
  ExpectUncapped(Send(accepted, *again, kMany));  // no cap that way
  CHECK_OK(near_.SetCaps(0, 0));
  ExpectUncapped(Send(*again, accepted, kMany));
  EXPECT_FALSE(again->closed);
}

TEST_F(LineRelayTest, AnAddressWhereNobodyListensIsUnavailable) {
  CHECK_OK(near_.SetCaps(kCap, kCap));
  const std::string address = far_listens_->address();
  far_listens_.reset();
  Endpoint end;
  end.Take(near_.Dial(address, kBulk, absl::Seconds(20)));
  end.Start(/*reads=*/true);
  ASSERT_TRUE(executor_.RunUntil([&] { return end.closed; }, kRelayLimit));
  EXPECT_TRUE(absl::IsUnavailable(end.status)) << end.status;
  EXPECT_NE(end.status.message().find("refused"), std::string::npos) << end.status;
}

}  // namespace
}  // namespace atolld
