#include "tests/unit/daemon/transport/transport_contract.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "gmock/gmock.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kContractLimit = absl::Seconds(60);
constexpr char kMethod[] = "/atolld.v1.Exchange/Exchange";
// Served over a Unix-domain socket without certificates alone: no role may call it.
constexpr char kNobodys[] = "/atolld.v1.Worker/Attach";
std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

using ::testing::HasSubstr;

}  // namespace

// A frame's message must be a protobuf message; this is field 1 with a string.
Frame MakeFrame(const std::string& text, size_t payload_bytes) {
  Frame frame;
  frame.message = absl::StrCat("\x0a", std::string(1, static_cast<char>(text.size())), text);
  if (payload_bytes > 0) {
    std::string payload(payload_bytes, '\0');
    for (size_t i = 0; i < payload_bytes; ++i) payload[i] = static_cast<char>(i * 7 + text.size());
    frame.payload = SharedBytes(std::move(payload));
  }
  return frame;
}

bool Same(const Frame& a, const Frame& b) {
  return a.message == b.message && a.payload.Joined().str() == b.payload.Joined().str();
}

void Endpoint::Start(bool reads) {
  reads_ = reads;
  Call::Events events;
  events.takes_parts = takes_parts;
  events.on_frame = [this](Frame frame) {
    CHECK(!inside_ && !closed);
    frames.push_back(std::move(frame));
    if (reads_) Read();
    if (after_frame) after_frame();
  };
  events.on_writable = [this] {
    CHECK(!inside_ && !closed);
    ++writable;
    if (after_writable) after_writable();
  };
  events.on_closed = [this](absl::Status why) {
    CHECK(!inside_ && !closed);
    closed = true;
    status = std::move(why);
    if (after_closed) after_closed();
  };
  inside_ = true;
  call_->Start(std::move(events));
  inside_ = false;
  if (reads_) Read();
}

void Endpoint::Read() {
  inside_ = true;
  call_->Read();
  inside_ = false;
}

TransportContract::TransportContract() : world_(GetParam().make()) {}

void TransportContract::Listen() {
  auto listener = world_->server().Listen(
      world_->listen_address(), [this](const std::string& method, std::unique_ptr<Call> call) {
        methods_.push_back(method);
        accepted_.push_back(std::make_unique<Endpoint>());
        accepted_.back()->Take(std::move(call));
        on_accept_(*accepted_.back());
      });
  ASSERT_TRUE(listener.ok()) << listener.status();
  listener_ = *std::move(listener);
  address_ = listener_->address();
}

std::unique_ptr<Endpoint> TransportContract::Dial(bool reads, absl::Duration deadline) {
  auto end = std::make_unique<Endpoint>();
  end->Take(world_->client().Dial(address_, kMethod, deadline));
  end->Start(reads);
  return end;
}

void TransportContract::Connect(bool client_reads, bool server_reads) {
  on_accept_ = [server_reads](Endpoint& end) { end.Start(server_reads); };
  Listen();
  client_ = Dial(client_reads);
  ASSERT_TRUE(Until([this] { return !accepted_.empty(); }));
}

::testing::AssertionResult TransportContract::Until(const std::function<bool()>& condition) {
  if (world_->RunUntil(condition, kContractLimit)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "did not happen within " << kContractLimit;
}

void TransportContract::RunFor(absl::Duration time) {
  bool over = false;
  world_->executor().RunAfter(time, [&over] { over = true; });
  ASSERT_TRUE(Until([&over] { return over; }));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransportContract);

// A unary call is the least that the command line needs: a question, its answer, a status.
TEST_P(TransportContract, AnswersAQuestion) {
  on_accept_ = [](Endpoint& end) {
    end.after_frame = [&end] {
      end.call().Write(MakeFrame("answer", 10));
      end.call().Finish(absl::OkStatus());
    };
    end.Start(false);
    end.Read();
  };
  Listen();
  client_ = Dial();
  client_->call().Write(MakeFrame("question"));
  client_->call().Finish(absl::OkStatus());
  ASSERT_TRUE(Until([this] { return client_->closed; }));
  EXPECT_TRUE(client_->status.ok()) << client_->status;
  ASSERT_EQ(client_->frames.size(), 1u);
  EXPECT_TRUE(Same(client_->frames[0], MakeFrame("answer", 10)));
  EXPECT_EQ(methods_, std::vector<std::string>{kMethod});
  EXPECT_EQ(client_->call().remote(), address_);
  EXPECT_FALSE(accepted_[0]->call().remote().empty());
  ASSERT_TRUE(Until([this] { return accepted_[0]->closed; }));
  EXPECT_TRUE(accepted_[0]->status.ok()) << accepted_[0]->status;
  ASSERT_EQ(accepted_[0]->frames.size(), 1u);
}

// Whom a peer takes calls from, and whose votes a coordinator counts, rests on who the caller is.
TEST_P(TransportContract, AnAcceptedCallKnowsItsCaller) {
  Connect();
  const std::optional<Identity> expected = world_->client_identity();
  const std::optional<Identity> caller = accepted_[0]->call().identity();
  ASSERT_EQ(caller.has_value(), expected.has_value());
  EXPECT_FALSE(client_->call().identity().has_value());
  if (!expected) return;
  EXPECT_EQ(caller->cluster, expected->cluster);
  EXPECT_EQ(caller->role, expected->role);
  EXPECT_EQ(caller->id, expected->id);
  EXPECT_EQ(caller->serial, expected->serial);
}

// A method that the caller's role may not call must never reach those who serve it; without
// certificates there are no roles.
TEST_P(TransportContract, RefusesWhatARoleMayNotCall) {
  Listen();
  client_ = std::make_unique<Endpoint>();
  client_->Take(world_->client().Dial(address_, kNobodys, absl::InfiniteDuration()));
  client_->Start(true);
  client_->call().Write(MakeFrame("let me in"));
  if (!world_->client_identity()) {
    ASSERT_TRUE(Until([this] { return !accepted_.empty() && !accepted_[0]->frames.empty(); }));
    return;
  }
  ASSERT_TRUE(Until([this] { return client_->closed; }));
  EXPECT_TRUE(absl::IsPermissionDenied(client_->status)) << client_->status;
  RunFor(absl::Milliseconds(200));
  EXPECT_TRUE(methods_.empty());
  // And others' calls, also over that connection, go on.
  const auto allowed = Dial();
  EXPECT_TRUE(Until([this] { return !accepted_.empty(); }));
}

// Chunks that are lost, doubled or out of order would be averaged wrongly.
TEST_P(TransportContract, KeepsOrderBothWays) {
  Connect();
  constexpr size_t kFrames = 1000;
  std::vector<Frame> sent;
  for (size_t i = 0; i < kFrames; ++i) {
    sent.push_back(MakeFrame(absl::StrCat("frame ", i), i % 3 == 0 ? 0 : i * 17));
    client_->call().Write(sent.back());
    accepted_[0]->call().Write(sent.back());
  }
  ASSERT_TRUE(Until(
      [&] { return client_->frames.size() == kFrames && accepted_[0]->frames.size() == kFrames; }));
  for (size_t i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(Same(client_->frames[i], sent[i])) << i;
    ASSERT_TRUE(Same(accepted_[0]->frames[i], sent[i])) << i;
  }
  EXPECT_FALSE(client_->closed);
  ASSERT_TRUE(Until([&] { return client_->call().unsent_bytes() == 0; }));
}

// A slow reader must hold up its writer, not fill somebody's memory; and when it reads again, all
// goes on.
TEST_P(TransportContract, AReaderThatDoesNotReadHoldsUpTheWriter) {
  for (const bool client_writes : {true, false}) {
    accepted_.clear();
    Connect(false, false);
    Endpoint& writer = client_writes ? *client_ : *accepted_[0];
    Endpoint& reader = client_writes ? *accepted_[0] : *client_;
    constexpr size_t kFrames = 1024;
    constexpr size_t kBytes = size_t{64} << 10;
    const Frame frame = MakeFrame("x", kBytes);
    for (size_t i = 0; i < kFrames; ++i) writer.call().Write(frame);
    reader.Read();
    ASSERT_TRUE(Until([&] { return reader.frames.size() == 1; }));
    RunFor(absl::Milliseconds(200));
    EXPECT_EQ(reader.frames.size(), 1u);
    EXPECT_GT(writer.call().unsent_bytes(), kFrames * kBytes / 2);
    EXPECT_EQ(writer.writable, 0);
    reader.after_frame = [&reader] { reader.Read(); };
    reader.Read();
    ASSERT_TRUE(Until([&] { return reader.frames.size() == kFrames && writer.writable > 0; }));
    ASSERT_TRUE(Until([&] { return writer.call().unsent_bytes() == 0; }));
  }
}

// A writer that keeps to its own limit, however small, must be told each time that it may go on.
TEST_P(TransportContract, WritableComesWheneverWritesAreDone) {
  Connect();
  int left = 500;
  const auto fill = [this, &left] {
    while (left > 0 && client_->call().unsent_bytes() < 3000) {
      client_->call().Write(MakeFrame("x", 1000));
      --left;
    }
  };
  client_->after_writable = fill;
  fill();
  ASSERT_TRUE(Until([this] { return accepted_[0]->frames.size() == 500; }));
}

// Snapshot blocks and big chunks travel as one message; the limit is 4 MiB.
TEST_P(TransportContract, CarriesLargePayloadsAndRefusesTooLargeOnes) {
  Connect();
  const Frame large = MakeFrame("large", size_t{3} << 20);
  client_->call().Write(large);
  accepted_[0]->call().Write(large);
  ASSERT_TRUE(Until([&] { return !client_->frames.empty() && !accepted_[0]->frames.empty(); }));
  EXPECT_TRUE(Same(client_->frames[0], large));
  EXPECT_TRUE(Same(accepted_[0]->frames[0], large));
  client_->call().Write(MakeFrame("too large", size_t{5} << 20));
  ASSERT_TRUE(Until([&] { return client_->closed; }));
  EXPECT_EQ(client_->status.code(), absl::StatusCode::kResourceExhausted);
}

// Would break: means would be put together wrongly, or what is kept would hold the network's
// memory.
TEST_P(TransportContract, GivesThePayloadsPartsToWhoeverTakesThem) {
  on_accept_ = [](Endpoint& end) {
    end.takes_parts = true;
    end.Start(true);
  };
  Listen();
  client_ = Dial();
  ASSERT_TRUE(Until([this] { return !accepted_.empty(); }));
  const Frame large = MakeFrame("large", size_t{3} << 20);
  for (Endpoint* end : {client_.get(), accepted_[0].get()}) {
    end->call().Write(large);
    end->call().Write(MakeFrame("nothing but words"));
  }
  const auto both = [](const Endpoint& end) { return end.frames.size() == 2; };
  ASSERT_TRUE(Until([&] { return both(*client_) && both(*accepted_[0]); }));
  for (const Endpoint* end : {client_.get(), accepted_[0].get()}) {
    EXPECT_TRUE(Same(end->frames[0], large));
    EXPECT_TRUE(end->frames[1].payload.empty());
  }
  EXPECT_GT(accepted_[0]->frames[0].payload.parts().size(), 1u);
  EXPECT_EQ(client_->frames[0].payload.parts().size(), 1u);
}

// The bytes a round costs are measured here: they must be those of the messages with their prefix.
TEST_P(TransportContract, CountsWhatItSends) {
  Connect();
  EXPECT_EQ(client_->call().sent_bytes(), 0u);
  client_->call().Write(MakeFrame("abc"));        // 5 + 5
  client_->call().Write(MakeFrame("abc", 1000));  // 5 + 5 + 3 + 1000
  accepted_[0]->call().Write(MakeFrame("abc"));
  ASSERT_TRUE(Until([&] { return accepted_[0]->frames.size() == 2 && !client_->frames.empty(); }));
  EXPECT_EQ(client_->call().sent_bytes(), 10u + 1013u);
  EXPECT_EQ(accepted_[0]->call().sent_bytes(), 10u);
}

// A second coordinator on the same port must be refused, not share its calls.
TEST_P(TransportContract, AnAddressInUseIsRefusedByName) {
  Listen();
  const auto second =
      world_->server().Listen(address_, [](const std::string&, std::unique_ptr<Call>) {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition) << second.status();
  EXPECT_THAT(MessageOf(second.status()), HasSubstr(address_));
}

// Many streams of one peer must not mix.
TEST_P(TransportContract, ManyCallsAtOnceStayApart) {
  on_accept_ = [](Endpoint& end) {
    end.after_frame = [&end] { end.call().Write(end.frames.back()); };
    end.Start(true);
  };
  Listen();
  constexpr size_t kCalls = 40;
  constexpr size_t kFrames = 10;
  std::vector<std::unique_ptr<Endpoint>> clients;
  for (size_t c = 0; c < kCalls; ++c) {
    clients.push_back(Dial());
    for (size_t i = 0; i < kFrames; ++i) {
      clients[c]->call().Write(MakeFrame(absl::StrCat(c, " ", i), c * 100));
    }
  }
  for (size_t c = 0; c < kCalls; ++c) {
    ASSERT_TRUE(Until([&] { return clients[c]->frames.size() == kFrames; }));
    for (size_t i = 0; i < kFrames; ++i) {
      ASSERT_TRUE(Same(clients[c]->frames[i], MakeFrame(absl::StrCat(c, " ", i), c * 100)));
    }
  }
}

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
