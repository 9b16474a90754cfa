#include "daemon/env/line_writer.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace atolld {
namespace {

// Some thousand lines: a reader that pauses for a moment loses none.
constexpr size_t kMostWaitingBytes = size_t{1} << 20;

constexpr std::chrono::seconds kLastPatience{1};

uint64_t LinesIn(absl::string_view text) {
  return static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

// Writes all of it, however long that takes. Returns how many lines could not be written because
// the disk is full or the reader is gone.
uint64_t WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {  // as others who share it have set it
      pollfd polled = {fd, POLLOUT, 0};
      poll(&polled, 1, -1);
    } else if (errno != EINTR) {
      return LinesIn(text);
    }
  }
  return 0;
}

}  // namespace

// Shared with the thread, which outlives the writer if a write does not return.
struct LineWriter::State {
  State(int descriptor, bool owns, Tell say)
      : fd(descriptor), owns_fd(owns), tell(std::move(say)) {}
  ~State() {
    if (owns_fd) close(fd);
  }

  void Run();

  const int fd;
  const bool owns_fd;
  const Tell tell;

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  std::string waiting;
  uint64_t dropped = 0;  // lines, after those that wait
  bool ending = false;
  bool ended = false;
  bool abandoned = false;
};

void LineWriter::State::Run() {
  uint64_t failed = 0;  // lines that could not be written
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return !waiting.empty() || ending; });
    if (waiting.empty()) break;
    std::string text = std::exchange(waiting, std::string());
    if (failed > 0) text.insert(0, tell(std::exchange(failed, 0)));
    if (dropped > 0) text += tell(std::exchange(dropped, 0));
    lock.unlock();
    failed = WriteAll(fd, text);
    lock.lock();
    if (abandoned) return;  // and with it what `tell` needs
  }
  ended = true;
  changed.notify_all();
}

LineWriter::LineWriter(int fd, bool owns_fd, Tell tell)
    : state_(std::make_shared<State>(fd, owns_fd, std::move(tell))),
      thread_([state = state_] { state->Run(); }) {}

LineWriter::~LineWriter() {
  bool ended = false;
  {
    std::unique_lock<std::mutex> lock(state_->mutex);
    state_->ending = true;
    state_->changed.notify_all();
    ended = state_->changed.wait_for(lock, kLastPatience, [this] { return state_->ended; });
    state_->abandoned = !ended;
  }
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void LineWriter::Write(absl::string_view text) {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    const bool fits = state_->waiting.size() + text.size() <= kMostWaitingBytes;
    // Once one was dropped, so are those behind it: their place in the log is not lost.
    if ((!fits && !state_->waiting.empty()) || state_->dropped > 0) {
      state_->dropped += LinesIn(text);
      return;
    }
    state_->waiting.append(text.data(), text.size());
  }
  state_->changed.notify_all();
}

}  // namespace atolld
