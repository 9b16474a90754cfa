#include "worker/base/inbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace atolld {
namespace {

Event Train(uint64_t version) {
  Event event;
  event.message.mutable_train()->set_version(version);
  return event;
}

// Broken: the worker would act on messages in another order than the daemon sent them.
TEST(InboxTest, KeepsTheOrderAcrossThreads) {
  Inbox inbox;
  EXPECT_FALSE(inbox.TryTake().has_value());
  std::thread reader([&] {
    for (uint64_t i = 0; i < 100; ++i) inbox.Push(Train(i));
  });
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(inbox.Take().message.train().version(), i);
  reader.join();
  EXPECT_FALSE(inbox.TryTake().has_value());
}

// Broken: a stop that waits behind an evaluation would wait until it is done.
TEST(InboxTest, EndingIsSeenBeforeItIsTaken) {
  for (const int what : {0, 1, 2}) {
    Inbox inbox;
    inbox.Push(Train(1));
    EXPECT_FALSE(inbox.Ending());
    Event event;
    if (what == 0) event.message.mutable_stop();
    if (what == 1) event.kind = Event::Kind::kClosed;
    if (what == 2) event.kind = Event::Kind::kTerminated;
    inbox.Push(event);
    EXPECT_TRUE(inbox.Ending());
    EXPECT_EQ(inbox.Take().message.train().version(), 1u);
  }
}

}  // namespace
}  // namespace atolld
