// How calls end: half-close, status, cancellation, broken links, deadlines, destruction.
#include <utility>

#include "compression/base/status_macros.h"
#include "gmock/gmock.h"
#include "tests/unit/daemon/transport/transport_contract.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

}  // namespace

// A half-closed stream is how a peer says that it has sent all; the server may still answer.
TEST_P(TransportContract, HalfCloseEndsTheServersReadingAlone) {
  Connect();
  Endpoint& server = *accepted_[0];
  server.after_closed = [&server] {
    server.call().Write(MakeFrame("last"));
    server.call().Finish(absl::AbortedError("enough"));
    server.Drop();
  };
  for (int i = 0; i < 3; ++i) client_->call().Write(MakeFrame("x", 100000));
  client_->call().Finish(absl::OkStatus());
  ASSERT_TRUE(Until([&] { return client_->closed; }));
  EXPECT_TRUE(server.status.ok()) << server.status;
  EXPECT_EQ(server.frames.size(), 3u);
  ASSERT_EQ(client_->frames.size(), 1u);
  EXPECT_TRUE(Same(client_->frames[0], MakeFrame("last")));
  EXPECT_EQ(client_->status.code(), absl::StatusCode::kAborted);
}

// A server that lets a half-closed call go has nothing to complain about: the client must see
// success.
TEST_P(TransportContract, LettingAHalfClosedCallGoIsSuccess) {
  Connect();
  Endpoint& server = *accepted_[0];
  server.after_closed = [&server] { server.Drop(); };
  client_->call().Finish(absl::OkStatus());
  ASSERT_TRUE(Until([&] { return client_->closed; }));
  EXPECT_TRUE(client_->status.ok()) << client_->status;
}

// Refusals carry their reason to the other side.
TEST_P(TransportContract, TheClientGetsTheServersStatus) {
  Connect();
  accepted_[0]->call().Finish(absl::FailedPreconditionError("round 7 is over"));
  ASSERT_TRUE(Until([this] { return client_->closed && accepted_[0]->closed; }));
  EXPECT_EQ(client_->status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(client_->status), HasSubstr("round 7 is over"));
}

// All that was sent before the status is read first; and a client that reads nothing still learns
// the end.
TEST_P(TransportContract, TheStatusComesAfterTheFrames) {
  Connect(false, true);
  for (int i = 0; i < 5; ++i) accepted_[0]->call().Write(MakeFrame("x", 50000));
  accepted_[0]->call().Finish(absl::AbortedError("done"));
  RunFor(absl::Milliseconds(50));
  EXPECT_FALSE(client_->closed);
  client_->after_frame = [this] { client_->Read(); };
  client_->Read();
  ASSERT_TRUE(Until([this] { return client_->closed; }));
  EXPECT_EQ(client_->frames.size(), 5u);
  EXPECT_EQ(client_->status.code(), absl::StatusCode::kAborted);

  accepted_.clear();
  Connect(false, true);
  accepted_[0]->call().Finish(absl::AbortedError("done"));
  ASSERT_TRUE(Until([this] { return client_->closed; }));
  EXPECT_EQ(client_->status.code(), absl::StatusCode::kAborted);
}

// A peer that gives up frees the server at once, whether the server is reading or not.
TEST_P(TransportContract, TheServerSeesACancelledCall) {
  for (const bool server_reads : {true, false}) {
    accepted_.clear();
    Connect(true, server_reads);
    client_->Drop();
    ASSERT_TRUE(Until([this] { return accepted_[0]->closed; }));
    EXPECT_FALSE(accepted_[0]->status.ok());
    RunFor(absl::Milliseconds(30));
    EXPECT_FALSE(client_->closed) << "no callback after destruction";
  }
}

// The death of a peer is seen as a broken stream at once: this is what makes it suspect.
TEST_P(TransportContract, ADestroyedListenerBreaksItsCalls) {
  for (const bool busy : {false, true}) {
    accepted_.clear();
    Connect(true, false);
    if (busy) {
      for (int i = 0; i < 300; ++i) client_->call().Write(MakeFrame("x", 100000));
      for (int i = 0; i < 300; ++i) accepted_[0]->call().Write(MakeFrame("x", 100000));
    }
    listener_.reset();
    ASSERT_TRUE(Until([this] { return client_->closed && accepted_[0]->closed; }));
    EXPECT_EQ(client_->status.code(), absl::StatusCode::kUnavailable) << client_->status;
    EXPECT_FALSE(accepted_[0]->status.ok());
  }
}

// An evicted peer's stream is cut by dropping the call.
TEST_P(TransportContract, ADroppedServerCallIsUnavailable) {
  Connect();
  accepted_[0]->Drop();
  ASSERT_TRUE(Until([this] { return client_->closed; }));
  EXPECT_EQ(client_->status.code(), absl::StatusCode::kUnavailable) << client_->status;
}

// "Dead at once if a redial is refused" needs a refusal that comes soon and names the address.
TEST_P(TransportContract, ADeadAddressIsUnavailableSoon) {
  address_ = world_->dead_address();
  for (const bool reads : {true, false}) {
    client_ = Dial(reads);
    client_->call().Write(MakeFrame("x"));
    ASSERT_TRUE(world_->RunUntil([this] { return client_->closed; }, absl::Seconds(5)));
    EXPECT_EQ(client_->status.code(), absl::StatusCode::kUnavailable) << client_->status;
    EXPECT_THAT(MessageOf(client_->status), HasSubstr(address_));
  }
}

// After its coordinator is back a peer's next dial must succeed, not wait out a back-off of the
// library.
TEST_P(TransportContract, ARedialAfterARestartSucceedsAtOnce) {
  Connect();
  const std::string address = address_;
  listener_.reset();
  ASSERT_TRUE(Until([this] { return client_->closed; }));
  client_ = Dial();
  ASSERT_TRUE(Until([this] { return client_->closed; }));
  EXPECT_EQ(client_->status.code(), absl::StatusCode::kUnavailable);
  accepted_.clear();
  auto again =
      world_->server().Listen(address, [this](const std::string&, std::unique_ptr<Call> call) {
        accepted_.push_back(std::make_unique<Endpoint>());
        accepted_.back()->Take(std::move(call));
        accepted_.back()->Start(true);
      });
  ASSERT_TRUE(again.ok()) << again.status();
  client_ = Dial();
  ASSERT_TRUE(Until([this] { return client_->closed || !accepted_.empty(); }));
  EXPECT_FALSE(client_->closed) << client_->status;
}

// A call that nobody answers must end by its deadline on both sides.
TEST_P(TransportContract, TheDeadlineEndsACall) {
  on_accept_ = [](Endpoint& end) { end.Start(true); };
  Listen();
  client_ = Dial(true, absl::Milliseconds(100));
  ASSERT_TRUE(Until([this] { return client_->closed; }));
  EXPECT_EQ(client_->status.code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(Until([this] { return accepted_.empty() || accepted_[0]->closed; }));
}

// State machines drop a call from inside its own callback all the time.
TEST_P(TransportContract, ACallMayBeDestroyedInsideItsOwnCallbacks) {
  Connect();
  client_->call().Write(MakeFrame("x"));
  Endpoint& server = *accepted_[0];
  server.after_frame = [&server] { server.Drop(); };
  client_->after_closed = [this] { client_->Drop(); };
  ASSERT_TRUE(Until([&] { return !server.has_call() && !client_->has_call(); }));
  RunFor(absl::Milliseconds(30));
  EXPECT_FALSE(server.closed);

  accepted_.clear();
  Connect();
  client_->after_writable = [this] { client_->Drop(); };
  client_->call().Write(MakeFrame("x", 1000));
  ASSERT_TRUE(Until([&] { return accepted_[0]->closed; }));
  EXPECT_FALSE(client_->closed);
}

// What is destroyed before anything happened must leave nothing behind.
TEST_P(TransportContract, CallsMayBeDestroyedAtOnce) {
  on_accept_ = [](Endpoint& end) { end.Drop(); };
  Listen();
  world_->client().Dial(address_, "/a/b", absl::InfiniteDuration()).reset();
  client_ = Dial();
  client_->Drop();
  client_ = Dial();
  ASSERT_TRUE(Until([this] { return client_->closed; }));
  EXPECT_EQ(client_->status.code(), absl::StatusCode::kUnavailable) << client_->status;
}

// A call may break at any moment of a write; a call that never ends would hold up the end of the
// whole process.
TEST_P(TransportContract, CallsThatBreakDuringWritesEnd) {
  for (int i = 0; i < 100; ++i) {
    accepted_.clear();
    Connect(i % 2 == 0, i % 3 == 0);
    for (int k = 0; k < 3; ++k) {
      client_->call().Write(MakeFrame("x", 1000));
      accepted_[0]->call().Write(MakeFrame("x", i % 5 == 0 ? 300000 : 1000));
    }
    if (i % 7 < 3) {
      ASSERT_TRUE(Until([this] { return accepted_[0]->call().unsent_bytes() < 400000; }));
    }
    if (i % 4 < 2) client_->Drop();
    if (i % 4 > 0) accepted_[0]->Drop();
    listener_.reset();
  }
}

}  // namespace atolld
