// atoll-wan: the network of the lab in one process: each node's interface ends here.
//
// It reads its configuration on standard input (tests/wan/wan_plan.h), answers "ready" or one line
// with an error, and then passes packets until standard input is closed, so that it does not
// outlive the process that started it. The line "stats" is answered with what every line has
// carried; the last line of the answer is "end". "cut" loses all packets that are sent from then
// on, and "mend" ends that.
#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "tests/wan/fabric.h"
#include "tests/wan/packet.h"
#include "tests/wan/tun_device.h"
#include "tests/wan/wan_plan.h"

namespace atolld {
namespace {

// Frames taken from one device before it is another's turn.
constexpr int kFramesATurn = 32;

// If a packet is later than this, the machine and not the network sets the pace: the stats report
// the share of such packets.
constexpr int64_t kLateNanoseconds = 1'000'000;

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double CpuSeconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

// Reads lines of standard input without ever waiting for one.
class Orders {
 public:
  // The next whole line; false if there is none now.
  bool Next(std::string* line) {
    const size_t end = text_.find('\n');
    if (end == std::string::npos) return false;
    *line = text_.substr(0, end);
    text_.erase(0, end + 1);
    return true;
  }

  // Takes what has come; false at the end of the input.
  bool Fill() {
    char buffer[4096];
    const ssize_t size = read(STDIN_FILENO, buffer, sizeof buffer);
    if (size > 0) text_.append(buffer, static_cast<size_t>(size));
    return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
  }

 private:
  std::string text_;
};

class Wan {
 public:
  explicit Wan(WanPlan* plan) : plan_(*plan), buffer_(kLargestFrame) {}

  absl::Status Open() {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    CHECK(epoll_ >= 0);
    for (const WanPlan::Node& node : plan_.nodes()) {
      absl::StatusOr<TunDevice> device = TunDevice::Open(node.namespace_path, node.device);
      if (!device.ok()) return Annotate(device.status(), node.name);
      Watch(device->fd(), devices_.size());
      devices_.push_back(*std::move(device));
    }
    Watch(STDIN_FILENO, devices_.size());
    return absl::OkStatus();
  }

  // Until standard input ends.
  void Pass(Orders* orders) {
    std::vector<epoll_event> ready(devices_.size() + 1);
    while (true) {
      Deliver();
      const int count = Wait(&ready);
      const int64_t now = Now();
      for (int i = 0; i < count; ++i) {
        const size_t source = ready[static_cast<size_t>(i)].data.u64;
        if (source < devices_.size()) {
          Take(now, source);
        } else if (!Answer(orders)) {
          return;
        }
      }
    }
  }

 private:
  void Watch(int fd, uint64_t source) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = source;
    CHECK(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0);
  }

  void Deliver() {
    const int64_t now = Now();
    const std::optional<int64_t> due = plan_.fabric().next_event();
    if (due.has_value() && *due <= now) {
      const int64_t late = now - *due;
      ++wakes_;
      if (late > kLateNanoseconds) ++late_wakes_;
      latest_ = std::max(latest_, late);
    }
    plan_.fabric().Advance(
        now, [this](size_t node, absl::Span<const uint8_t> frame) { devices_[node].Write(frame); });
  }

  int Wait(std::vector<epoll_event>* ready) {
    const std::optional<int64_t> next = plan_.fabric().next_event();
    timespec wait{};
    if (next.has_value()) {
      wait = absl::ToTimespec(absl::Nanoseconds(std::max<int64_t>(0, *next - Now())));
    }
    const int count = epoll_pwait2(epoll_, ready->data(), static_cast<int>(ready->size()),
                                   next.has_value() ? &wait : nullptr, nullptr);
    CHECK(count >= 0 || errno == EINTR);
    return std::max(count, 0);
  }

  void Take(int64_t now, size_t node) {
    for (int i = 0; i < kFramesATurn; ++i) {
      const size_t size = devices_[node].Read(absl::MakeSpan(buffer_));
      if (size == 0) return;
      plan_.fabric().Send(now, node, absl::MakeConstSpan(buffer_).subspan(0, size));
    }
  }

  bool Answer(Orders* orders) {
    if (!orders->Fill()) return false;
    std::string order;
    while (orders->Next(&order)) {
      if (order == "stats") PrintStats();
      if (order == "cut" || order == "mend") plan_.fabric().Cut(order == "cut");
    }
    return true;
  }

  // line NAME PACKETS BYTES DROPPED LOST LONGEST_WAIT_SECONDS
  void PrintStats() {
    const Fabric& fabric = plan_.fabric();
    std::string text;
    for (const Line& line : fabric.lines()) {
      const LineCounts& counts = line.counts();
      absl::StrAppend(&text, "line ", line.settings().name, " ", counts.packets, " ", counts.bytes,
                      " ", counts.dropped, " ", counts.lost, " ",
                      absl::ToDoubleSeconds(counts.longest_wait), "\n");
    }
    absl::StrAppend(&text, "cpu_seconds ", CpuSeconds(), "\n");
    absl::StrAppend(&text, "wakes ", wakes_, "\nlate_wakes ", late_wakes_, "\n");
    absl::StrAppend(&text, "latest_seconds ", static_cast<double>(latest_) / 1e9, "\n");
    absl::StrAppend(&text, "unroutable ", fabric.unroutable(), "\n");
    absl::StrAppend(&text, "cut_off ", fabric.cut_off(), "\n");
    absl::StrAppend(&text, "most_bytes_under_way ", fabric.most_bytes_under_way(), "\n");
    std::cout << text << "end" << std::endl;
  }

  WanPlan& plan_;
  int epoll_ = -1;
  std::vector<TunDevice> devices_;
  std::vector<uint8_t> buffer_;

  uint64_t wakes_ = 0;  // that had something to deliver
  uint64_t late_wakes_ = 0;
  int64_t latest_ = 0;
};

int Refuse(const absl::Status& status) {
  // The lab skips what a machine cannot do, and fails at what is wrong.
  const bool impossible = absl::IsFailedPrecondition(status);
  std::cout << (impossible ? "impossible: " : "error: ") << status.message() << std::endl;
  return 1;
}

// A network does not wait for its users: it takes precedence over them for the CPU, and wakes at
// the nanosecond asked for. Without the permission it is only less exact.
void ComeFirst() {
  sched_param parameters{};
  parameters.sched_priority = sched_get_priority_min(SCHED_RR) + 1;
  if (sched_setscheduler(0, SCHED_RR, &parameters) != 0) setpriority(PRIO_PROCESS, 0, -20);
  prctl(PR_SET_TIMERSLACK, 1UL);
}

int Main() {
  WanPlan plan;
  Orders orders;
  std::string line;
  while (!plan.complete()) {
    while (!plan.complete() && orders.Next(&line)) {
      const absl::Status read = plan.Read(line);
      if (!read.ok()) return Refuse(Annotate(read, line));
    }
    if (!plan.complete() && !orders.Fill()) {
      return Refuse(absl::InvalidArgumentError("the plan ends before 'go'"));
    }
  }
  ComeFirst();
  Wan wan(&plan);
  const absl::Status opened = wan.Open();
  if (!opened.ok()) return Refuse(opened);
  std::cout << "ready" << std::endl;
  wan.Pass(&orders);
  return 0;
}

}  // namespace
}  // namespace atolld

int main(int argc, char**) {
  if (argc > 1) {
    std::cerr << "atoll-wan takes no arguments: it is started by tests/wan/lab\n";
    return 2;
  }
  return atolld::Main();
}
