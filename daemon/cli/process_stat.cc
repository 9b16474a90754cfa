#include "daemon/cli/process_stat.h"

#include <dirent.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace atolld {
namespace {

// The inode of the socket whose local and remote ports these are; empty: there is none.
std::string InodeOf(int local_port, int remote_port) {
  const std::string local = absl::StrFormat(":%04X", local_port);
  const std::string remote = absl::StrFormat(":%04X", remote_port);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream stream(table);
    for (std::string line; std::getline(stream, line);) {
      // sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode ...
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (words.size() > 9 && absl::EndsWith(words[1], local) && absl::EndsWith(words[2], remote)) {
        return words[9];
      }
    }
  }
  return "";
}

bool Holds(pid_t pid, const std::string& link) {
  const std::string folder = absl::StrCat("/proc/", pid, "/fd");
  DIR* const open_folder = opendir(folder.c_str());
  if (open_folder == nullptr) return false;
  bool found = false;
  while (const dirent* entry = readdir(open_folder)) {
    char target[64];
    const ssize_t length =
        readlink(absl::StrCat(folder, "/", entry->d_name).c_str(), target, sizeof target);
    found = length > 0 && link == absl::string_view(target, static_cast<size_t>(length));
    if (found) break;
  }
  closedir(open_folder);
  return found;
}

}  // namespace

std::optional<ProcessStat> StatOf(pid_t pid) {
  std::ifstream stream(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  if (pid <= 0 || !std::getline(stream, line)) return std::nullopt;
  // "123 (name) S 1 ...": the name may hold anything, so look behind its last bracket.
  const size_t bracket = line.rfind(')');
  if (bracket == std::string::npos) return std::nullopt;
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::string_view(line).substr(bracket + 1), ' ', absl::SkipEmpty());
  ProcessStat stat;
  if (words.size() < 2 || !absl::SimpleAtoi(words[1], &stat.parent)) return std::nullopt;
  stat.state = words[0][0];
  return stat;
}

std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  DIR* const processes = opendir("/proc");
  if (processes == nullptr) return children;
  while (const dirent* entry = readdir(processes)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid)) continue;
    const std::optional<ProcessStat> stat = StatOf(pid);
    if (stat.has_value() && stat->parent == parent) children.push_back(pid);
  }
  closedir(processes);
  return children;
}

uint64_t ResidentBytes(pid_t pid) {
  std::ifstream stream(absl::StrCat("/proc/", pid, "/statm"));
  uint64_t size = 0;
  uint64_t resident = 0;
  if (!(stream >> size >> resident)) return 0;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

pid_t OwnerOfConnection(const std::vector<pid_t>& candidates, int local_port, int remote_port) {
  const std::string inode = InodeOf(local_port, remote_port);
  if (inode.empty()) return 0;
  const std::string link = absl::StrCat("socket:[", inode, "]");
  for (const pid_t pid : candidates) {
    if (Holds(pid, link)) return pid;
  }
  return 0;
}

}  // namespace atolld
