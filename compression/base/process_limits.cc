#include "compression/base/process_limits.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace atolld {
namespace {

using Words = std::vector<std::string>;

std::vector<std::string> LinesOf(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

Words WordsOf(absl::string_view line) {
  return absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
}

// Returns the words of the first line; empty if there is no such file.
Words FirstWords(const std::string& path) {
  const std::vector<std::string> lines = LinesOf(path);
  return lines.empty() ? Words{} : WordsOf(lines[0]);
}

// Returns a number. "max", "unlimited", -1 and any other text that is not a number mean no limit.
uint64_t NumberOf(const Words& words, size_t index) {
  uint64_t value = 0;
  return index < words.size() && absl::SimpleAtoi(words[index], &value) ? value : kNoLimit;
}

// Returns the value of "NAME 123" or "NAME: 123 kB" in a file of such lines.
uint64_t Named(const std::vector<std::string>& lines, absl::string_view name) {
  for (const std::string& line : lines) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, name)) continue;
    const Words words = WordsOf(rest);
    const uint64_t value = NumberOf(words, 0);
    return value != kNoLimit && words.size() > 1 && words[1] == "kB" ? value << 10 : value;
  }
  return kNoLimit;
}

// Parses "0-3,8" as {0, 1, 2, 3, 8}.
std::set<uint32_t> NumbersOfList(absl::string_view list) {
  constexpr uint32_t kMost = 1 << 16;  // far above any machine
  std::set<uint32_t> numbers;
  for (const absl::string_view part : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
    const std::pair<std::string, std::string> ends = absl::StrSplit(part, absl::MaxSplits('-', 1));
    uint32_t first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.first, &first)) continue;
    if (!absl::SimpleAtoi(ends.second, &last)) last = first;
    for (uint32_t i = first; i <= last && i < kMost; ++i) numbers.insert(i);
  }
  return numbers;
}

// -----------------------------------------------------------------------------------------------

// The place of the files of one controller of this process's group.
struct ControlGroup {
  std::string mount;     // where the hierarchy is mounted
  std::string relative;  // of the group beneath it: "/a/b", or empty
};

// Reads "\040" as a space: the kernel writes characters so that would break its lines.
std::string Unescaped(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 3 >= text.size()) {
      plain.push_back(text[i]);
      continue;
    }
    plain.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                      (text[i + 3] - '0')));
    i += 3;
  }
  return plain;
}

// Returns `path`, as /proc/self/cgroup gives it, relative to a mount that shows `shown` of the
// hierarchy. A container may see the machine's name of a group, but only its own part of the
// hierarchy.
std::string Beneath(const std::string& path, const std::string& shown) {
  absl::string_view rest = path;
  if (shown != "/" &&
      (!absl::ConsumePrefix(&rest, shown) || (!rest.empty() && !absl::StartsWith(rest, "/")))) {
    return "";
  }
  if (absl::StartsWith(rest, "/..")) return "";  // above what can be seen
  return rest == "/" ? "" : std::string(rest);
}

// Returns the groups by controller; "" is version 2, which has all controllers in one hierarchy.
std::map<std::string, ControlGroup> ControlGroups(const std::string& root) {
  std::map<std::string, std::string> paths;
  for (const std::string& line : LinesOf(absl::StrCat(root, "/proc/self/cgroup"))) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    for (const absl::string_view name : absl::StrSplit(parts[1], ',')) {
      paths[std::string(name)] = parts[2];
    }
  }
  std::map<std::string, ControlGroup> groups;
  for (const std::string& line : LinesOf(absl::StrCat(root, "/proc/self/mountinfo"))) {
    // "31 23 0:28 /shown /mount/point rw ... - cgroup2 source options"
    const std::pair<std::string, std::string> halves =
        absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    const Words before = WordsOf(halves.first), after = WordsOf(halves.second);
    if (before.size() < 5 || after.size() < 3) continue;
    Words names;
    if (after[0] == "cgroup2") names = {""};
    if (after[0] == "cgroup") names = absl::StrSplit(after[2], ',');
    for (const std::string& name : names) {
      const auto path = paths.find(name);
      if (path == paths.end() || groups.count(name) > 0) continue;
      groups[name] = {absl::StrCat(root, Unescaped(before[4])),
                      Beneath(path->second, Unescaped(before[3]))};
    }
  }
  return groups;
}

// Returns the folders of the group and of all groups above it, as far as they are visible. Each has
// the text that a message adds to a file's name, which is empty for the group itself.
std::vector<std::pair<std::string, std::string>> Lineage(const ControlGroup& group) {
  std::vector<std::pair<std::string, std::string>> folders;
  std::string relative = group.relative;
  while (true) {
    const std::string whose =
        folders.empty() ? "" : absl::StrCat(" of ", relative.empty() ? "/" : relative);
    folders.emplace_back(absl::StrCat(group.mount, relative), whose);
    if (relative.empty()) return folders;
    relative.resize(relative.rfind('/') == std::string::npos ? 0 : relative.rfind('/'));
  }
}

// -----------------------------------------------------------------------------------------------

void Tighten(double cores, const std::string& source, CoreLimit* limit) {
  if (cores >= limit->cores) return;
  limit->cores = cores;
  limit->source = source;
}

// Takes one group's share of processor time: `quota` microseconds in each `period`.
void TakeQuota(uint64_t quota, uint64_t period, const std::string& source, CoreLimit* limit) {
  if (quota == kNoLimit || quota == 0 || period == kNoLimit || period == 0) return;
  Tighten(static_cast<double>(quota) / static_cast<double>(period), source, limit);
}

CoreLimit ReadCores(const std::string& root, const std::map<std::string, ControlGroup>& groups) {
  const unsigned counted = std::max(1u, std::thread::hardware_concurrency());
  const Words online = FirstWords(absl::StrCat(root, "/sys/devices/system/cpu/online"));
  const std::set<uint32_t> all = online.empty() ? std::set<uint32_t>{} : NumbersOfList(online[0]);
  CoreLimit limit;
  limit.of_machine = all.empty() ? counted : static_cast<uint32_t>(all.size());
  limit.cores = limit.of_machine;
  for (const std::string& line : LinesOf(absl::StrCat(root, "/proc/self/status"))) {
    absl::string_view list = line;
    if (!absl::ConsumePrefix(&list, "Cpus_allowed_list:")) continue;
    // It names cores that the machine could have, too.
    size_t allowed = 0;
    for (const uint32_t core : NumbersOfList(list)) allowed += all.empty() || all.count(core) > 0;
    if (allowed > 0) Tighten(static_cast<double>(allowed), "CPU affinity", &limit);
  }
  if (const auto group = groups.find(""); group != groups.end()) {
    for (const auto& [folder, whose] : Lineage(group->second)) {
      const Words words = FirstWords(folder + "/cpu.max");  // "200000 100000"
      TakeQuota(NumberOf(words, 0), NumberOf(words, 1), "cgroup cpu.max" + whose, &limit);
    }
  }
  if (const auto group = groups.find("cpu"); group != groups.end()) {
    for (const auto& [folder, whose] : Lineage(group->second)) {
      TakeQuota(NumberOf(FirstWords(folder + "/cpu.cfs_quota_us"), 0),
                NumberOf(FirstWords(folder + "/cpu.cfs_period_us"), 0),
                "cgroup cpu.cfs_quota_us" + whose, &limit);
    }
  }
  return limit;
}

// -----------------------------------------------------------------------------------------------

void TakeBytes(uint64_t bytes, uint64_t used, const std::string& source, MemoryLimit* limit) {
  if (bytes == kNoLimit) return;
  limit->free_bytes = std::min(limit->free_bytes, bytes - std::min(used, bytes));
  if (bytes >= limit->bytes) return;  // as version 1 says that there is no limit
  limit->bytes = bytes;
  limit->source = source;
}

// Returns the memory that a group holds and could not give back at once, which excludes the pages
// of files that were read some time ago.
uint64_t UsedBy(const std::string& folder, const char* usage, const char* inactive) {
  const uint64_t used = NumberOf(FirstWords(absl::StrCat(folder, "/", usage)), 0);
  if (used == kNoLimit) return 0;
  const uint64_t pages = Named(LinesOf(absl::StrCat(folder, "/memory.stat")), inactive);
  return pages == kNoLimit ? used : used - std::min(used, pages);
}

// Returns the soft limit of "Max address space unlimited unlimited bytes", or the hard one.
uint64_t ResourceLimit(const std::vector<std::string>& limits, absl::string_view name, bool hard) {
  for (const std::string& line : limits) {
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, name)) return NumberOf(WordsOf(rest), hard ? 1 : 0);
  }
  return kNoLimit;
}

MemoryLimit ReadMemory(const std::string& root, const std::map<std::string, ControlGroup>& groups,
                       const std::vector<std::string>& limits) {
  const std::vector<std::string> about = LinesOf(absl::StrCat(root, "/proc/meminfo"));
  MemoryLimit limit;
  limit.bytes = Named(about, "MemTotal:");
  limit.free_bytes = Named(about, "MemAvailable:");
  if (limit.free_bytes == kNoLimit) limit.free_bytes = Named(about, "MemFree:");
  if (const auto group = groups.find(""); group != groups.end()) {
    for (const auto& [folder, whose] : Lineage(group->second)) {
      for (const char* file : {"memory.max", "memory.high"}) {
        TakeBytes(NumberOf(FirstWords(absl::StrCat(folder, "/", file)), 0),
                  UsedBy(folder, "memory.current", "inactive_file "),
                  absl::StrCat("cgroup ", file, whose), &limit);
      }
    }
  }
  if (const auto group = groups.find("memory"); group != groups.end()) {
    for (const auto& [folder, whose] : Lineage(group->second)) {
      TakeBytes(NumberOf(FirstWords(folder + "/memory.limit_in_bytes"), 0),
                UsedBy(folder, "memory.usage_in_bytes", "total_inactive_file "),
                "cgroup memory.limit_in_bytes" + whose, &limit);
    }
  }
  TakeBytes(ResourceLimit(limits, "Max address space", false), 0, "RLIMIT_AS", &limit);
  TakeBytes(ResourceLimit(limits, "Max data size", false), 0, "RLIMIT_DATA", &limit);
  if (limit.bytes == kNoLimit) limit.bytes = 0;
  if (limit.free_bytes == kNoLimit) limit.free_bytes = 0;
  return limit;
}

}  // namespace

uint32_t CoreLimit::threads() const {
  return std::max(1u, static_cast<uint32_t>(std::floor(cores + 1e-6)));
}

ProcessLimits ReadProcessLimits(const std::string& root) {
  const std::map<std::string, ControlGroup> groups = ControlGroups(root);
  const std::vector<std::string> limits = LinesOf(absl::StrCat(root, "/proc/self/limits"));
  ProcessLimits read;
  read.cores = ReadCores(root, groups);
  read.memory = ReadMemory(root, groups, limits);
  read.descriptors = ResourceLimit(limits, "Max open files", true);
  read.file_bytes = ResourceLimit(limits, "Max file size", false);
  return read;
}

std::string Describe(const CoreLimit& limit) {
  const std::string machine =
      absl::StrCat(limit.of_machine, limit.of_machine == 1 ? " core" : " cores");
  if (limit.source.empty()) return machine;
  return absl::StrFormat("%.3g of %s: %s", limit.cores, machine, limit.source);
}

// -----------------------------------------------------------------------------------------------

ThreadLimit ReadThreadLimit(const std::string& root) {
  const std::map<std::string, ControlGroup> groups = ControlGroups(root);
  ThreadLimit limit;
  uint64_t least_left = kNoLimit;
  for (const char* controller : {"", "pids"}) {  // version 2, version 1
    const auto group = groups.find(controller);
    if (group == groups.end()) continue;
    for (const auto& [folder, whose] : Lineage(group->second)) {
      const uint64_t most = NumberOf(FirstWords(folder + "/pids.max"), 0);
      if (most == kNoLimit) continue;
      const uint64_t current = NumberOf(FirstWords(folder + "/pids.current"), 0);
      const uint64_t used = current == kNoLimit ? 0 : current;
      const uint64_t left = most - std::min(used, most);
      if (left >= least_left) continue;
      least_left = left;
      limit.most = most;
      limit.used = used;
      limit.source = "cgroup pids.max" + whose;
    }
  }
  const std::vector<std::string> limits = LinesOf(absl::StrCat(root, "/proc/self/limits"));
  limit.of_user = ResourceLimit(limits, "Max processes", false);
  return limit;
}

std::string Describe(const ThreadLimit& limit) {
  std::vector<std::string> parts;
  if (limit.most != kNoLimit) {
    parts.push_back(absl::StrCat(limit.source, " is ", limit.most, ", and ", limit.used,
                                 " are in use (docker: --pids-limit, systemd: TasksMax)"));
  }
  if (limit.of_user != kNoLimit) {
    parts.push_back(
        absl::StrCat("ulimit -u is ", limit.of_user, " for all processes of this user"));
  }
  if (parts.empty()) return "the kernel's threads-max or pid_max is reached";
  return absl::StrJoin(parts, "; ");
}

OomKills ReadOomKills(const std::string& root) {
  const std::map<std::string, ControlGroup> groups = ControlGroups(root);
  for (const auto& [controller, file] : {std::pair<const char*, const char*>{"", "memory.events"},
                                         {"memory", "memory.oom_control"}}) {
    const auto group = groups.find(controller);
    if (group == groups.end()) continue;
    const std::string path = absl::StrCat(group->second.mount, group->second.relative, "/", file);
    const uint64_t count = Named(LinesOf(path), "oom_kill ");
    if (count != kNoLimit) return {count, absl::StrCat("cgroup ", file)};
  }
  // The root group counts nothing of its own.
  const uint64_t count = Named(LinesOf(absl::StrCat(root, "/proc/vmstat")), "oom_kill ");
  if (count == kNoLimit) return {};
  return {count, "/proc/vmstat"};
}

}  // namespace atolld
